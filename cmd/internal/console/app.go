package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/cli"
	"github.com/streamwright/streamwright/wire"
)

// malformed are the codes by which the engine says that a request is wrong in
// itself, whatever the state of things.
var malformed = []events.Code{
	events.CodeBadRequest, events.CodeBadType, events.CodeBadPriority, events.CodeBadID, events.CodeBadTime, events.CodeBadHeader,
}

// App is one run of a program: its streams and the flags that all of its
// commands have.
type App struct {
	In       io.Reader
	Out, Err io.Writer

	Flagged   connect.Settings // what the command line says of the connection
	Prefix    string
	Namespace string // what the command line says; empty: what the environment does
	JSON      bool
	Timeout   time.Duration // for each request to the engine, all its tries included

	TellRefusals bool // by the NATS server, that concern no request

	// Program is the program's name on the command line; empty: the name of its root
	// command, which its texts use.
	Program string
	own     *regexp.Regexp // finds calls of the program in texts

	root *cobra.Command
}

// Program returns the name of this program: the name of its file if that begins with
// streamwright, as in a release, else name.
func Program(name string) string {
	file := strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe")
	if strings.HasPrefix(file, "streamwright") {
		return file
	}
	return name
}

// rename has the commands and their texts call the program by its name.
func (a *App) rename(root *cobra.Command) {
	if a.Program == "" || a.Program == root.Name() {
		return
	}
	names := []string{"help"}
	for _, c := range root.Commands() {
		names = append(names, c.Name())
	}
	a.own = regexp.MustCompile(`\b` + root.Name() + ` (` + strings.Join(names, "|") + `)\b`)
	root.Use = a.Program
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, text := range []*string{&cmd.Short, &cmd.Long, &cmd.Example} {
			*text = a.called(*text)
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) { f.Usage = a.called(f.Usage) })
		for _, c := range cmd.Commands() {
			walk(c)
		}
	}
	walk(root)
}

// called returns text with the program's name in its calls.
func (a *App) called(text string) string {
	if a.own == nil {
		return text
	}
	return a.own.ReplaceAllString(text, a.Program+" $1")
}

// quotedCall finds commands of the engine in texts.
var quotedCall = regexp.MustCompile("`engine ([a-z]+)([^`]*)`")

// connectless are the commands that need no connection, or make it in another way.
var connectless = []string{"serve", "edge", "mirror", "demo", "salvage", "restore", "help", "health"}

// OfTheWhole says why commands that concern an engine as a whole take no --namespace.
var OfTheWhole = map[string]string{
	"bench":       "it measures an engine of its own",
	"demo":        "it runs an engine of its own",
	"health":      "it is about the engine as a whole",
	"edge":        "a site submits to the default namespace",
	"namespace":   "it is about all namespaces",
	"permissions": "it prints the accounts of all namespaces",
	"serve":       "the engine runs all its namespaces",
	"version":     "it needs no engine",
}

// Calls returns text with its commands, in backquotes, as a user of this program would
// write them: with the program's name, and with the flags of the connection that this
// command line has.
func (a *App) Calls(text string) string {
	given := func(but ...string) string {
		if a.root == nil {
			return ""
		}
		return strings.Join(append([]string{""}, cli.GivenConnection(a.root, but...)...), " ")
	}
	return a.called(quotedCall.ReplaceAllStringFunc(text, func(call string) string {
		m := quotedCall.FindStringSubmatch(call)
		if slices.Contains(connectless, m[1]) {
			return call
		}
		flags := given()
		if OfTheWhole[m[1]] != "" || strings.Contains(m[2], "--namespace") {
			flags = given("namespace")
		}
		args, handler, isWork := strings.Cut(m[2], " -- ")
		if call = "`engine " + m[1] + args + flags; isWork {
			call += " -- " + handler
		}
		return call + "`"
	}))
}

// defaultTimeout bounds a request.
const defaultTimeout = 10 * time.Second

// Flags adds the flags that all commands have.
func (a *App) Flags(root *cobra.Command) {
	f := root.PersistentFlags()
	cli.ConnectFlags(root, &a.Flagged, &a.Prefix, &a.Namespace)
	f.BoolVar(&a.JSON, "json", false, "print JSON, one object a line")
	f.DurationVar(&a.Timeout, "request-timeout", defaultTimeout, "how long a request may take, all its tries included")
	cli.Common(f, "json", "request-timeout")
}

// Within bounds a request by the flags' timeout.
func (a *App) Within(ctx context.Context) (context.Context, context.CancelFunc) {
	if a.Timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, a.Timeout)
}

// PrintJSON prints v as one line.
func (a *App) PrintJSON(v any) error {
	enc := json.NewEncoder(a.Out)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// Printf prints to standard output.
func (a *App) Printf(format string, args ...any) { fmt.Fprintf(a.Out, format, args...) }

// Notef tells something beside the output, to people.
func (a *App) Notef(format string, args ...any) { fmt.Fprintf(a.Err, a.called(format)+"\n", args...) }

// Style returns the style of standard output.
func (a *App) Style() Style { return styleFor(a.Out) }

// OnTerminal reports whether a stream, an io.Reader or io.Writer, is a terminal.
func OnTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// ErrTold fails a command that has already said why.
var ErrTold = errors.New("failed")

// Run runs a tree of commands with the arguments and returns its exit code.
func (a *App) Run(ctx context.Context, root *cobra.Command, args []string) int {
	a.root = root
	a.rename(root)
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	root.SetArgs(append([]string{}, args...)) // nil would mean the process's own
	cmd, err := cli.Prepare(root, args, a.Out)(ctx)
	return a.exit(cmd, err)
}

// exit tells why a command failed, and with which code to exit.
func (a *App) exit(cmd *cobra.Command, err error) int {
	code := cli.ExitFailed
	wrong := cli.IsUsage(err)
	if wrong || slices.Contains(malformed, events.CodeOf(err)) {
		code = cli.ExitUsage
	}
	switch {
	case err == nil:
		return cli.ExitDone
	case code == cli.ExitUsage && (wrong || !a.JSON):
		a.Notef("%s: %s\nSee `%s --help`.", cmd.CommandPath(), a.called(Explain(err)), cmd.CommandPath())
	case errors.Is(err, ErrTold):
	case a.JSON:
		_ = json.NewEncoder(a.Err).Encode(wire.ErrorReply{Error: wire.FromError(err)})
	default:
		a.Notef("%s: %s", cmd.CommandPath(), a.called(Explain(err)))
	}
	return code
}

// Explain returns an error's text with its code. What is wrong with a configuration
// is shown with one fault on a line.
func Explain(err error) string {
	var e *events.Error
	if !errors.As(err, &e) {
		return Clean(err.Error())
	}
	if errors.Is(err, context.Canceled) { // the user knows
		return Clean(e.Message)
	}
	faults := []string{e.Message}
	if e.Code == events.CodeBadConfig {
		faults = strings.Split(e.Message, "\n")
	}
	for i, f := range faults {
		faults[i] = Clean(f)
	}
	if len(faults) == 1 {
		return fmt.Sprintf("%s (%s)", faults[0], e.Code)
	}
	return fmt.Sprintf("%d things are wrong (%s)\n  %s", len(faults), e.Code, strings.Join(faults, "\n  "))
}

// Connect connects to the server that the flags and the environment name.
func (a *App) Connect(ctx context.Context, more ...streamwright.Option) (*streamwright.Client, error) {
	conn, err := connect.FromPlaces(a.Flagged, os.Getenv)
	if err == nil {
		if _, oerr := conn.Options(); errors.Is(oerr, connect.ErrConflict) {
			err = oerr
		}
	}
	switch {
	case errors.Is(err, connect.ErrConflict):
		return nil, cli.Usage(err)
	case err != nil:
		return nil, events.WithCode(events.CodeBadConfig, err)
	}
	ns, err := cli.Namespace(a.Namespace, os.Getenv)
	if err != nil {
		return nil, err
	}
	opts := []streamwright.Option{
		streamwright.WithName("streamwright command line"), streamwright.WithPrefix(a.Prefix), streamwright.WithNamespace(string(ns)), streamwright.WithConnection(conn),
		streamwright.WithNATS(nats.ErrorHandler(a.natsError)),
	}
	ctx, cancel := a.Within(ctx)
	defer cancel()
	return streamwright.Connect(ctx, "", append(opts, more...)...)
}

// natsError reports a refusal of the server that fails no request. A request that is
// refused fails and reports that itself; refusals of what a worker does are reported
// here.
func (a *App) natsError(_ *nats.Conn, _ *nats.Subscription, err error) {
	if a.TellRefusals || !errors.Is(err, nats.ErrPermissionViolation) {
		a.Notef("NATS: %s", Clean(err.Error()))
	}
}
