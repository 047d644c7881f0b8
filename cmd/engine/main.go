// Command engine is the Streamwright daemon and the operator's command line.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/cli"
	"github.com/streamwright/streamwright/internal/telemetry"
)

// app is one run of the program.
type app struct {
	console.App
	tracing    trace.TracerProvider // nil without traces
	stdin      io.Reader            // In, for what is read of it until the program is told to end
	completing time.Duration        // how long a shell waits for completions; 0: completionWithin
}

// groups lists the commands as the help does.
var groups = []struct {
	title    string
	commands []func(*app) *cobra.Command
}{
	{"Run the engine", []func(*app) *cobra.Command{demoCommand, serveCommand, edgeCommand, mirrorCommand}},
	{"Submit items and do them", []func(*app) *cobra.Command{submitCommand, batchesCommand, workCommand}},
	{"See what happens", []func(*app) *cobra.Command{
		statusCommand, topCommand, healthCommand, clusterCommand, listCommand, showCommand, waitCommand, watchCommand, historyCommand, logsCommand, outputCommand, whyCommand, heldCommand, tailCommand, auditCommand, approvalsCommand, stateCommand, mcpCommand,
	}},
	{"Change items", []func(*app) *cobra.Command{signalCommand, answerCommand, cancelCommand, rescheduleCommand, replayCommand, purgeCommand}},
	{"Look into failures", []func(*app) *cobra.Command{deadCommand, rejectedCommand}},
	{"Control types, workers, schedules and namespaces", []func(*app) *cobra.Command{typesCommand, workersCommand, schedulesCommand, namespacesCommand}},
	{"Keep the engine in order", []func(*app) *cobra.Command{
		verifyCommand, rebuildCommand, cutCommand, backupCommand, restoreCommand, clockCommand, salvageCommand, permissionsCommand, benchCommand, versionCommand,
	}},
}

// with connects, and calls fn with the client.
func (a *app) with(ctx context.Context, fn func(*streamwright.Client) error) error {
	c, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	return fn(c)
}

// ask is with for requests that take no longer than the flags' timeout together.
func (a *app) ask(ctx context.Context, fn func(context.Context, *streamwright.Client) error) error {
	return a.with(ctx, func(c *streamwright.Client) error {
		ctx, cancel := a.Within(ctx)
		defer cancel()
		return fn(ctx, c)
	})
}

// asks returns the run of a command that needs nothing but the engine's answer.
func (a *app) asks(fn func(ctx context.Context, c *streamwright.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		return a.ask(cmd.Context(), func(ctx context.Context, c *streamwright.Client) error { return fn(ctx, c, args) })
	}
}

// show prints a reply, unless err says that there is none: as JSON, or by text.
func (a *app) show(reply any, err error, text func()) error {
	switch {
	case err != nil:
		return err
	case a.JSON:
		return a.PrintJSON(reply)
	}
	text()
	return nil
}

// showList is show for a list: one entry a line as JSON, or a table with a row
// for each. none, if not empty, tells people that there are no entries.
func showList[T any](a *app, entries []T, err error, none string, head []string, row func(T) []string) error {
	switch {
	case err != nil:
		return err
	case a.JSON:
		for _, e := range entries {
			if err := a.PrintJSON(e); err != nil {
				return err
			}
		}
	case len(entries) > 0:
		table(a, entries, head, row)
	case none != "":
		a.Notef("%s", none)
	}
	return nil
}

// table prints a table with a row for each entry.
func table[T any](a *app, entries []T, head []string, row func(T) []string) {
	rows := [][]string{head}
	for _, e := range entries {
		rows = append(rows, row(e))
	}
	console.Table(a.Out, a.Style(), rows)
}

// inBytes is the unit of a bar that shows bytes.
const inBytes = "bytes"

// bar returns functions that show the progress of long work on a terminal, and
// end that. Named units are shown with their rate; a total below 0 is unknown.
func (a *app) bar(doing, units string) (show func(done, total int64), end func()) {
	if !console.OnTerminal(a.Err) {
		return func(int64, int64) {}, func() {}
	}
	var bar *progressbar.ProgressBar
	show = func(done, total int64) {
		if bar == nil {
			// Without the interval a bar of unknown length would be drawn by a goroutine of
			// its own, which nothing ends.
			options := []progressbar.Option{progressbar.OptionSetSpinnerChangeInterval(0),
				progressbar.OptionSetWriter(a.Err), progressbar.OptionSetDescription(doing),
				progressbar.OptionShowCount(), progressbar.OptionThrottle(100 * time.Millisecond), progressbar.OptionClearOnFinish()}
			if units == inBytes {
				options = append(options, progressbar.OptionShowBytes(true))
			} else if units != "" {
				options = append(options, progressbar.OptionShowIts(), progressbar.OptionSetItsString(units))
			}
			bar = progressbar.NewOptions64(total, options...)
		}
		if total >= 0 {
			bar.ChangeMax64(total)
		}
		_ = bar.Set64(done)
	}
	return show, func() {
		if bar != nil {
			_ = bar.Clear()
			_ = bar.Exit()
			bar = nil // a further show begins another
		}
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt ends the program at once
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the whole program. It returns an exit code: [cli.ExitDone] and the like.
func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	a := &app{App: console.App{In: in, Out: out, Err: errs, Program: console.Program("engine")}, stdin: untilEnd(ctx, in)}
	flush, err := a.trace(ctx)
	if err != nil {
		a.Notef("%v (%s)", err, events.CodeOf(err))
		return cli.ExitFailed
	}
	defer flush()
	return a.Run(ctx, rootCommand(a), args)
}

// The groups are in the order of use, and so are their commands.
func init() { cobra.EnableCommandSorting = false }

func rootCommand(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:     "engine",
		Version: embedded.Version,
		Short:   "Run the Streamwright work engine, and use it",
		Long: `Run the Streamwright work engine, and use it.

Exit codes: 0 done; 1 the operation failed, or the engine refused it; 2 the
command line is wrong.`,
		Example: `  engine demo
  engine serve
  engine work checksum -- sha256sum
  engine submit checksum '{"n":1}' --wait`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SuggestionsMinimumDistance = 2
	root.PersistentPreRunE = a.checkNamespace
	a.Flags(root)
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, make := range g.commands {
			cmd := make(a)
			cmd.GroupID = g.title
			root.AddCommand(cmd)
		}
	}
	root.AddCommand(manCommand(a))
	hint(root)
	a.complete(root)
	return root
}

func versionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this program",
		Example: "  engine version\n  engine version --json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return a.show(map[string]string{"version": embedded.Version, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}, nil, func() {
				a.Printf("%s %s (%s, %s/%s)\n", a.Program, embedded.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			})
		},
	}
}

func tailCommand(a *app) *cobra.Command { return console.TailCommand(&a.App, "engine tail") }

// flushWithin bounds the sending of the last spans at the end of a command.
const flushWithin = 5 * time.Second

// trace sets up OpenTelemetry if the environment asks for it. The caller calls
// flush at the end of the program.
func (a *app) trace(ctx context.Context) (flush func(), err error) {
	tp, err := telemetry.Provider(ctx, "streamwright", embedded.Version)
	if err != nil || tp == nil {
		return func() {}, err
	}
	a.tracing = tp
	otel.SetTracerProvider(tp)
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { a.Notef("traces: %v", err) }))
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushWithin)
		defer cancel()
		if err := tp.Shutdown(ctx); err != nil {
			a.Notef("traces: the last spans could not be sent: %v", err)
		}
	}, nil
}
