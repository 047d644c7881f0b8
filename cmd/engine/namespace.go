package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/cli"
	"github.com/streamwright/streamwright/internal/sleep"
)

func namespacesCommand(a *app) *cobra.Command {
	cmd := noun(a, &cobra.Command{
		Use:     "namespace",
		Aliases: []string{"namespaces"},
		Short:   "List namespaces, add, change, move and remove them",
		Long: `List the namespaces. Each is a log of its own in the same engine, with its own
items, types, schedules and limits. The namespace default is always there, has
the list of the others, and is not in it.`,
		Example: "  engine namespace add acme --max-queued 100000\n" +
			"  engine namespace pause acme\n" +
			"  engine namespace remove acme",
	}, namespacesListCommand)
	verb := func(use, short string, fn func(context.Context, *streamwright.Client, string) (streamwright.NamespaceInfo, error)) *cobra.Command {
		return &cobra.Command{
			Use: use + " NAME", Short: short, Example: "  engine namespace " + use + " acme", Args: cobra.ExactArgs(1),
			RunE: a.asks(func(ctx context.Context, c *streamwright.Client, args []string) error {
				n, err := fn(ctx, c, args[0])
				return a.showNamespace(n, err)
			}),
		}
	}
	cmd.AddCommand(
		verb("show", "Show a namespace", func(ctx context.Context, c *streamwright.Client, name string) (streamwright.NamespaceInfo, error) {
			return c.Namespaces().Get(ctx, name)
		}),
		namespacesAddCommand(a), namespacesSetCommand(a),
		verb("pause", "Stop a namespace, which keeps what it holds", func(ctx context.Context, c *streamwright.Client, name string) (streamwright.NamespaceInfo, error) {
			return c.Namespaces().Pause(ctx, name)
		}),
		verb("resume", "Let a paused namespace go on", func(ctx context.Context, c *streamwright.Client, name string) (streamwright.NamespaceInfo, error) {
			return c.Namespaces().Resume(ctx, name)
		}),
		namespacesMoveCommand(a), namespacesRemoveCommand(a))
	return cmd
}

func namespacesListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the namespaces, and how they are",
		Example: "  engine namespace list\n  engine namespace list --json",
		Args:    cobra.NoArgs,
		RunE: a.asks(func(ctx context.Context, c *streamwright.Client, _ []string) error {
			list, err := c.Namespaces().List(ctx)
			err = a.noteLacking(len(list), err)
			now := time.Now()
			head := []string{"NAME", "STATE", "OWNER", "LIVE", "ITEMS", "LOG", "LAST EVENT", "SET BY"}
			return showList(a, list, err, "no namespaces beside default: see `engine namespace add --help`", head, func(n streamwright.NamespaceInfo) []string {
				s := n.State
				if s == nil {
					s = &streamwright.NamespaceState{}
				}
				return []string{string(n.Name), stateOf(n), a.Style().Clip(s.Owner, 40), console.Count(s.Live()), console.Count(s.Items()), bytesText(s.LogBytes), console.Ago(s.LastAt, now), n.Source}
			})
		}),
	}
}

// stateOf says in a word or two how a namespace is.
func stateOf(n streamwright.NamespaceInfo) string {
	var words []string
	if n.State != nil {
		words = append(words, n.State.State)
	}
	if n.Paused {
		words = append(words, "paused")
	}
	return strings.Join(words, ", ")
}

// sizeOrNone reads a number of bytes, or 0.
func sizeOrNone(s string) (int64, error) {
	if s == "0" {
		return 0, nil
	}
	return config.ParseSize(s)
}

func wholeOrNone(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		err = errors.New("use a whole number, or 0 for no limit")
	}
	return n, err
}

func weight(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > events.MaxWeight {
		err = fmt.Errorf("use a whole number from 1 to %d", events.MaxWeight)
	}
	return n, err
}

// given decodes a flag's value into what it points at once it is given.
func given[T any](dst **T, parse func(string) (T, error)) func(string) error {
	return func(s string) error {
		var v T
		err := console.Value(&v, parse)(s)
		*dst = &v
		return err
	}
}

// namespaceFlags defines the flags that say what to change of a namespace.
func namespaceFlags(fs *pflag.FlagSet, c *streamwright.NamespaceChange) {
	l := &c.Limits
	fs.Func("max-queued", "how many items may be queued or waiting, a `number`; 0: no limit (default)", given(&l.MaxQueued, wholeOrNone))
	fs.Func("max-log-size", "how large its event stream may be, a `size` such as 10GiB; 0: no limit (default)", given(&l.MaxLogBytes, sizeOrNone))
	fs.Func("max-document-size", "how large its object store of documents may be, a `size` such as 1GiB; 0: as the engine's (default)", given(&l.MaxDocumentBytes, sizeOrNone))
	fs.Func("requests-per-second", "how many requests its users may make a second, a `number`; 0: no limit (default)", given(&l.RequestsPerSecond, wholeOrNone))
	fs.Func("weight", "its share of the processors while they are all taken, a `number`, 1 (default) to 100", given(&c.Weight, weight))
	fs.Func("accept", "the `namespaces` whose clients may hand work to it, with commas between them; '': none (default)", given(&c.Accept, events.ParseNamespaceList))
	fs.Func("node", "the `node` that should own its log (default any)", given(&c.Node, func(s string) (string, error) { return s, nil }))
}

func namespacesAddCommand(a *app) *cobra.Command {
	var change streamwright.NamespaceChange
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Add a namespace",
		Long: `Add a namespace. Its name has at most 32 characters of a-z and 0-9, with
single - between them. Adding one that is there changes what the flags say, and
nothing without them.`,
		Example: "  engine namespace add acme\n  engine namespace add acme --max-queued 100000",
		Args:    cobra.ExactArgs(1),
		RunE: a.asks(func(ctx context.Context, c *streamwright.Client, args []string) error {
			n, err := c.Namespaces().Set(ctx, args[0], change)
			return a.showNamespace(n, err)
		}),
	}
	namespaceFlags(cmd.Flags(), &change)
	return cmd
}

func namespacesSetCommand(a *app) *cobra.Command {
	var change streamwright.NamespaceChange
	cmd := &cobra.Command{
		Use:     "set NAME FLAGS",
		Short:   "Change a namespace",
		Long:    "Change what the flags say of a namespace; the rest stays as it is.",
		Example: "  engine namespace set acme --max-queued 0 --requests-per-second 50",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if change == (streamwright.NamespaceChange{}) {
				return cli.Usagef("nothing to change: give a flag such as --max-queued")
			}
			return a.ask(cmd.Context(), func(ctx context.Context, c *streamwright.Client) error {
				n, err := c.Namespaces().Change(ctx, args[0], change)
				return a.showNamespace(n, err)
			})
		},
	}
	namespaceFlags(cmd.Flags(), &change)
	return cmd
}

func namespacesMoveCommand(a *app) *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:     "move NAME --to NODE",
		Short:   "Name the node that should own the log of a namespace",
		Long:    "Name the node that should own the log of a namespace. `engine cluster` lists the\nnodes; --to '' leaves the choice to them.",
		Example: "  engine namespace move acme --to n2",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("to") {
				return cli.Usagef("give --to with the name of a node")
			}
			return a.ask(cmd.Context(), func(ctx context.Context, c *streamwright.Client) error {
				n, err := c.Namespaces().Move(ctx, args[0], to)
				return a.showNamespace(n, err)
			})
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "the `node` that should own its log")
	return cmd
}

func namespacesRemoveCommand(a *app) *cobra.Command {
	var yes bool
	var o streamwright.RemoveNamespace
	cmd := &cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a namespace with all that it holds",
		Long: `Remove a namespace, and destroy its items, histories, documents and logs. That
can't be undone. The command first says what it would destroy, and asks for the
name. While items have not ended, and while the engine does not know what the
namespace holds, it wants --force.`,
		Example: "  engine namespace remove acme\n  engine namespace remove acme --yes --by kelly",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !yes && !console.OnTerminal(a.In) {
				return cli.Usagef("no terminal to type the name of the namespace on: pass --yes to destroy what it holds without a question")
			}
			return a.with(cmd.Context(), func(c *streamwright.Client) error { return a.removeNamespace(cmd.Context(), c, args[0], o, yes) })
		},
	}
	fs := cmd.Flags()
	fs.BoolVar(&yes, "yes", false, "go on without asking")
	fs.BoolVar(&o.Force, "force", false, "destroy items that have not ended, and what the engine does not know")
	fs.StringVar(&o.By, "by", "", "the `name` of who removes it, for the log")
	return cmd
}

// removeNamespace says what goes, asks for the name, and removes it.
func (a *app) removeNamespace(ctx context.Context, c *streamwright.Client, name string, o streamwright.RemoveNamespace, yes bool) error {
	remove := func(dry bool) (streamwright.NamespaceRemoval, error) {
		ctx, cancel := a.Within(ctx)
		defer cancel()
		o.DryRun = dry
		return c.Namespaces().Remove(ctx, name, o)
	}
	would, err := remove(true)
	if err != nil {
		return err
	}
	a.printDestroyed(a.Err, would.Namespace)
	if err := would.Namespace.Unused(); err != nil && !o.Force {
		return err
	}
	if !yes && answer(ctx, a.stdin, a.Err, "This can't be undone. Type the name of the namespace to go on: ") != name {
		a.Notef("nothing was changed")
		return console.ErrTold
	}
	did, err := remove(false)
	if err == nil {
		err = a.awaitRemoved(ctx, c, name)
	}
	return a.show(did, err, func() { a.Printf("removed %s\n", console.Clean(name)) })
}

// awaitRemoved returns once what a namespace held is destroyed, and it is off the list.
func (a *app) awaitRemoved(ctx context.Context, c *streamwright.Client, name string) error {
	ctx, cancel := a.Within(ctx)
	defer cancel()
	for {
		n, err := c.Namespaces().Get(ctx, name)
		switch {
		case errors.Is(err, streamwright.ErrNotFound) || err == nil && !n.Removing: // another has its name
			return nil
		case err != nil:
			return fmt.Errorf("what %s held is still being destroyed: %w", name, err)
		}
		if err := sleep.For(ctx, removedLook); err != nil {
			return fmt.Errorf("what %s held is still being destroyed: `engine namespace show %s` says when it is not there any more", name, name)
		}
	}
}

// removedLook is the time between two looks whether a namespace is gone.
const removedLook = 50 * time.Millisecond

// printDestroyed prints what a removal destroys.
func (a *app) printDestroyed(w io.Writer, n streamwright.NamespaceInfo) {
	if n.State == nil {
		fmt.Fprintf(w, "namespace %s and all that it holds, which this engine does not know, would be destroyed\n", n.Name)
		return
	}
	fmt.Fprintf(w, "namespace %s (%s) would be destroyed, with\n", n.Name, stateOf(n))
	fmt.Fprintf(w, "  %s\n", console.Plural(n.State.Items(), "item"))
	for _, state := range slices.Sorted(maps.Keys(n.State.States)) {
		fmt.Fprintf(w, "    %-10s %s\n", state, console.Count(n.State.States[state]))
	}
	if u := n.State.Undecided; u > 0 {
		fmt.Fprintf(w, "  %s not decided yet\n", console.Plural(u, "submission"))
	}
	fmt.Fprintf(w, "  %s of event log, and its documents, logs of items, types and schedules\n", bytesText(n.State.LogBytes))
}

// answer asks for a line of text. The end of ctx, an interrupt, is an empty one.
func answer(ctx context.Context, in io.Reader, out io.Writer, question string) string {
	fmt.Fprint(out, question)
	line, _ := bufio.NewReader(in).ReadString('\n')
	if ctx.Err() != nil {
		fmt.Fprintln(out)
		return ""
	}
	return strings.TrimSpace(line)
}

// showNamespace shows one namespace with all that is set of it.
func (a *app) showNamespace(n streamwright.NamespaceInfo, err error) error {
	return a.show(n, err, func() {
		now := time.Now()
		line := func(name, value string) {
			if value != "" {
				a.Printf("%-20s %s\n", name, a.Style().Clip(value, 200))
			}
		}
		number := func(name string, v int64, text string) {
			if v != 0 {
				line(name, text)
			}
		}
		line("name", string(n.Name))
		line("state", stateOf(n))
		if s := n.State; s != nil {
			line("error", s.Error)
			line("owner", s.Owner)
			line("items", fmt.Sprintf("%s, %s of them not ended", console.Count(s.Items()), console.Count(s.Live())))
			number("undecided", s.Undecided, console.Plural(s.Undecided, "submission"))
			line("log", bytesText(s.LogBytes))
			line("last event", console.Ago(s.LastAt, now))
		}
		l := n.Limits
		number("max_queued", int64(l.MaxQueued), console.Count(l.MaxQueued))
		number("max_log_size", l.MaxLogBytes, config.FormatSize(l.MaxLogBytes))
		number("max_document_size", l.MaxDocumentBytes, config.FormatSize(l.MaxDocumentBytes))
		number("requests_per_second", int64(l.RequestsPerSecond), console.Count(l.RequestsPerSecond))
		number("weight", int64(n.Weight), console.Count(n.Weight))
		line("node", n.Node)
		line("accept", join(n.Accept.All(), ", "))
		line("set by", n.Source)
		line("added", console.Ago(n.CreatedAt, now))
	})
}
