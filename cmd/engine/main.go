// Command engine is the Streamwright daemon and the operator's command line.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel/trace"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
)

// app is what every command is made with.
type app struct {
	console.App
	tracing trace.TracerProvider // nil: no traces are asked for
}

// groups are the commands as the help lists them.
var groups = []struct {
	title    string
	commands []func(*app) *cobra.Command
}{
	{"Run the engine", []func(*app) *cobra.Command{demoCommand, serveCommand}},
	{"Submit items and do them", []func(*app) *cobra.Command{submitCommand, batchCommand, workCommand}},
	{"See what happens", []func(*app) *cobra.Command{
		statusCommand, listCommand, showCommand, historyCommand, logsCommand, whyCommand, heldCommand, tailCommand, stateCommand,
	}},
	{"Change items", []func(*app) *cobra.Command{cancelCommand, rescheduleCommand, replayCommand, purgeCommand}},
	{"Look into failures", []func(*app) *cobra.Command{deadCommand, rejectedCommand}},
	{"Set up periodic work", []func(*app) *cobra.Command{schedulesCommand, scheduleCommand}},
	{"Control types and workers", []func(*app) *cobra.Command{
		typesCommand, pauseCommand, resumeCommand, circuitCommand, workersCommand, drainCommand, undrainCommand,
	}},
	{"Keep the engine in order", []func(*app) *cobra.Command{
		verifyCommand, rebuildCommand, cutCommand, clockCommand, salvageCommand, permissionsCommand, benchCommand,
	}},
}

// client connects, and bounds the requests of a command by the flags' timeout.
// The caller calls done when it has made them.
func (a *app) client(ctx context.Context) (c *streamwright.Client, within context.Context, done func(), err error) {
	if c, err = a.Connect(ctx); err != nil {
		return nil, nil, nil, err
	}
	within, cancel := a.Within(ctx)
	return c, within, func() { cancel(); c.Close() }, nil
}

// gcPercent trades memory for time: an engine allocates much and keeps little.
// With it, a backlog of a million items still fits the memory that
// docs/operate/PERFORMANCE.md states. The environment's GOGC wins.
const gcPercent = 200

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt ends the program at once
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the whole program. It returns an exit code: [console.ExitDone] and the like.
func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	a := &app{App: console.App{In: in, Out: out, Err: errs}}
	flush, err := a.trace(ctx)
	if err != nil {
		a.Notef("%v (%s)", err, events.CodeOf(err))
		return console.ExitFailed
	}
	defer flush()
	return a.Run(ctx, rootCommand(a), args)
}

func rootCommand(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:     "engine",
		Version: embedded.Version,
		Short:   "Run the Streamwright work engine, and use it",
		Long: `Run the Streamwright work engine, and use it.

Exit codes: 0 done; 1 the operation failed, or the engine refused it; 2 the command line
is wrong.`,
		Example: `  engine demo
  engine serve
  engine work checksum -- sha256sum
  engine submit checksum '{"n":1}' --wait`,
		Args: console.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SuggestionsMinimumDistance = 2
	cobra.EnableCommandSorting = false
	a.Flags(root)
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, make := range g.commands {
			cmd := make(a)
			cmd.GroupID = g.title
			root.AddCommand(cmd)
		}
	}
	hint(root)
	return root
}

func tailCommand(a *app) *cobra.Command { return console.TailCommand(&a.App, "engine tail") }
