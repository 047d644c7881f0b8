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

// commands makes the commands, in the order in which the help lists them.
var commands = []func(*app) *cobra.Command{
	demoCommand, serveCommand, submitCommand, workCommand, statusCommand, listCommand, showCommand, historyCommand, logsCommand, tailCommand, whyCommand,
	deadCommand, rejectedCommand, replayCommand, purgeCommand, stateCommand, schedulesCommand, scheduleCommand,
	cancelCommand, rescheduleCommand, typesCommand, pauseCommand, resumeCommand, circuitCommand, workersCommand, drainCommand, undrainCommand, cutCommand,
	verifyCommand, rebuildCommand, permissionsCommand, benchCommand,
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
// docs/PERFORMANCE.md states. The environment's GOGC wins.
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

// run is the whole program: 0 done, 1 the operation failed, 2 usage.
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
		Short:   "The Streamwright work engine and its command line",
		Long: `The Streamwright work engine and its command line.

Begin with: engine demo; or engine serve, and in other terminals
engine work checksum -- sha256sum, engine tail, engine submit checksum '{"n":1}'.

Exit codes: 0 done, 1 the operation failed, 2 the command line is wrong.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			hint := ""
			if s := cmd.SuggestionsFor(args[0]); len(s) > 0 {
				hint = ": did you mean " + s[0] + "?"
			}
			return console.Usagef("there is no command %q%s", args[0], hint)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SuggestionsMinimumDistance = 2
	cobra.EnableCommandSorting = false
	a.Flags(root)
	for _, make := range commands {
		root.AddCommand(make(a))
	}
	return root
}

func tailCommand(a *app) *cobra.Command { return console.TailCommand(&a.App) }
