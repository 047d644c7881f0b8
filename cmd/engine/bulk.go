package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// selectFlags are the flags that say which items are meant.
type selectFlags struct {
	sel           streamwright.Selection
	since, until  string
	after, before string
}

func (f *selectFlags) define(fs *pflag.FlagSet) {
	fs.StringVar(&f.sel.Type, "type", "", "only items of this `type`")
	fs.StringVar(&f.sel.Code, "code", "", "only items whose last failure has this `code`")
	fs.StringVar(&f.sel.Cause, "cause", "", "only items that are dead of this `cause`: see engine dead --causes")
	fs.StringVar(&f.sel.Tenant, "tenant", "", "only items of this `tenant`")
	fs.StringVar(&f.sel.Label, "label", "", "only items with this label, `key=value`")
	fs.StringVar(&f.since, "since", "", "only items that have ended since a `time` (RFC 3339), or so long ago, such as 10m")
	fs.StringVar(&f.until, "until", "", "only items that had ended by a `time`")
	fs.StringVar(&f.after, "created-after", "", "only items created after a `time`")
	fs.StringVar(&f.before, "created-before", "", "only items created before a `time`")
}

// defineReason adds the filter that is of use for what has ended.
func (f *selectFlags) defineReason(fs *pflag.FlagSet) {
	fs.StringVar(&f.sel.Reason, "reason", "", "only items that have ended for this `reason`, such as exhausted")
}

// selection reads the flags.
func (f *selectFlags) selection(now time.Time) (streamwright.Selection, error) {
	sel := f.sel
	for _, t := range []struct {
		flag, text string
		to         *time.Time
	}{
		{"--since", f.since, &sel.Since}, {"--until", f.until, &sel.Until},
		{"--created-after", f.after, &sel.CreatedAfter}, {"--created-before", f.before, &sel.CreatedBefore},
	} {
		if t.text == "" {
			continue
		}
		at, err := parseMoment(t.flag, t.text, now)
		if err != nil {
			return sel, err
		}
		*t.to = at
	}
	return sel, nil
}

// parseMoment reads a time, or how long ago it was.
func parseMoment(flag, s string, now time.Time) (time.Time, error) {
	if ago, err := time.ParseDuration(s); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return t, console.Usagef("invalid %s %q: use 10m (ago), 2h or a time such as 2030-01-31T08:00:00Z", flag, s)
	}
	return t, nil
}

// bulkFlags are those of a command that does something to one item, or to all
// that a selection means.
type bulkFlags struct {
	selectFlags
	all, dryRun, yes bool
}

func (f *bulkFlags) define(fs *pflag.FlagSet) {
	f.selectFlags.define(fs)
	fs.StringVar(&f.sel.State, "state", "", "only items in this `state`")
	fs.BoolVar(&f.all, "all", false, "select all items, where nothing else narrows them")
	fs.BoolVar(&f.dryRun, "dry-run", false, "only show which items are meant")
	fs.BoolVarP(&f.yes, "yes", "y", false, "go on without asking; needed where there is no terminal")
}

// names says whether the flags mean any items: a selection, or all.
func (f *bulkFlags) names() bool { return f.all || f.sel.State != "" || f.narrow() }

func (f *bulkFlags) narrow() bool {
	return f.sel.Narrow() || f.since+f.until+f.after+f.before != ""
}

// check makes sure that either ids or a selection is given.
func (f *bulkFlags) check(args []string) error {
	switch {
	case len(args) > 0 && f.names():
		return console.Usagef("ids and filters are given: give one of them")
	case len(args) > 0 && f.dryRun:
		return console.Usagef("--dry-run is for filters")
	case f.dryRun && f.yes:
		return console.Usagef("--dry-run and --yes: give one of them")
	case len(args) == 0 && !f.names():
		return console.Usagef("give an ID, or filters such as --type (or --all)")
	case len(args) == 0 && !f.all && !f.narrow():
		return console.Usagef("nothing but a state narrows the items: add filters, or --all for all of them")
	}
	return nil
}

// bulk does something to all that the flags mean, under a progress bar. It first
// says what that is, and asks.
func (a *app) bulk(ctx context.Context, f *bulkFlags, b streamwright.Bulk, did string) error {
	sel, err := f.selection(time.Now())
	if err != nil {
		return err
	}
	if !f.dryRun && !f.yes && !console.OnTerminal(a.In) {
		return console.Usagef("there is no terminal to ask on: look with --dry-run, then say --yes")
	}
	b.Select, b.All = sel, f.all
	c, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if !f.yes {
		meant, err := a.bulkPages(ctx, c, b, true, "counted")
		switch {
		case err != nil:
			return err
		case f.dryRun && a.JSON:
			return a.PrintJSON(meant)
		}
		a.printMeant(meant, b, did)
		if f.dryRun || meant.Matched == 0 {
			return nil
		}
		if !confirmed(a.In, a.Err, "Go on?") {
			a.Notef("nothing was changed")
			return console.ErrTold
		}
	}
	sum, err := a.bulkPages(ctx, c, b, false, did)
	return a.printBulk(sum, did, err)
}

// bulkPages does a bulk, or only counts what it is about, under a progress bar.
func (a *app) bulkPages(ctx context.Context, c *streamwright.Client, b streamwright.Bulk, dry bool, did string) (streamwright.BulkResult, error) {
	b.DryRun = dry
	show, end := func(int64, int64) {}, func() {}
	if !a.JSON {
		show, end = a.bar(did, "items")
	}
	sum, err := c.Bulk(ctx, b, func(r streamwright.BulkResult) { show(int64(r.Matched), -1) })
	end()
	return sum, err
}

// printMeant says what a bulk would touch: how many items, of which types, and a
// few of them.
func (a *app) printMeant(meant streamwright.BulkResult, b streamwright.Bulk, did string) {
	w := a.Out
	if a.JSON { // standard output is for what was done
		w = a.Err
	}
	fmt.Fprintf(w, "%s would be %s\n", console.Plural(meant.Matched, "item"), did)
	for _, t := range slices.Sorted(maps.Keys(meant.Types)) {
		fmt.Fprintf(w, "  %s  %s\n", t, console.Count(meant.Types[t]))
	}
	if len(meant.Sample) > 0 {
		more := ""
		if meant.Matched > len(meant.Sample) {
			more = ", …"
		}
		fmt.Fprintf(w, "  such as %s%s\n", strings.Join(meant.Sample, ", "), more)
	}
	switch {
	case meant.Matched == 0:
	case len(b.Params) > 0:
		fmt.Fprintf(w, "  all of them with the same params: %s\n", console.Clip(string(b.Params), 200))
	case len(b.Patch) > 0:
		fmt.Fprintf(w, "  each with its own params, changed by %s\n", console.Clip(string(b.Patch), 200))
	}
}

// confirmed asks a question and reports whether the answer is yes.
func confirmed(in io.Reader, out io.Writer, question string) bool {
	fmt.Fprintf(out, "%s [y/N] ", question)
	line, _ := bufio.NewReader(in).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return true
	}
	return false
}

// was is the verb of a number of items.
func was(n int) string {
	if n == 1 {
		return "was"
	}
	return "were"
}

func (a *app) printBulk(sum streamwright.BulkResult, did string, err error) error {
	switch {
	case a.JSON:
		if perr := a.PrintJSON(sum); perr != nil {
			return perr
		}
	default:
		a.Printf("%s %s", console.Plural(sum.Changed, "item"), did)
		if rest := sum.Matched - sum.Changed - sum.Failed; rest > 0 {
			a.Printf(", %s %s so already", console.Count(rest), was(rest))
		}
		if sum.Failed > 0 {
			a.Printf(", %s %s refused", console.Count(sum.Failed), was(sum.Failed))
		}
		a.Printf("\n")
		for _, e := range sum.Errors {
			a.Notef("  %s: %s (%s)", e.ID, console.Clean(e.Error.Message), e.Error.Code)
		}
	}
	if err == nil && sum.Failed > 0 {
		return console.ErrTold
	}
	return err
}

// each does something to each of the ids, tells what became of it, and fails if
// any of it did.
func (a *app) each(ctx context.Context, ids []string, do func(context.Context, *streamwright.Client, string) (events.ItemState, error), did string) error {
	c, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	var failed error
	for _, id := range ids {
		within, cancel := a.Within(ctx)
		state, err := do(within, c, id)
		cancel()
		switch {
		case err != nil && len(ids) == 1:
			return err
		case err != nil:
			failed = console.ErrTold
			a.Notef("%s: %s", id, console.Clean(err.Error()))
		case a.JSON:
			if err := a.PrintJSON(wire.ReplayReply{ID: id, State: state, Position: c.Position()}); err != nil {
				return err
			}
		default:
			a.Printf("%s  %s\n", id, did)
		}
	}
	return failed
}

// replayFlags are those of replay.
type replayFlags struct {
	bulkFlags
	dead     bool
	params   string
	patch    string
	priority string
	again    streamwright.ReplayOptions
}

func replayCommand(a *app) *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay ID… | --dead FILTERS",
		Short: "Queue dead or cancelled items again, with changed params if need be",
		Example: "  engine replay 01JD3V6YB2M4C9W8ZK5T7QXRNE --params '{\"to\":\"ada@example.org\"}'\n" +
			"  engine replay --dead --type email --cause 3f1c9a52b7d04e88 --dry-run\n" +
			"  engine replay --dead --type email --since 1h --patch '{\"from\":\"noreply@example.org\"}' --yes",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.parse(a, args); err != nil {
				return err
			}
			if len(args) > 0 {
				return a.each(cmd.Context(), args, func(ctx context.Context, c *streamwright.Client, id string) (events.ItemState, error) {
					return c.Replay(ctx, id, f.again)
				}, "queued again")
			}
			b := streamwright.Bulk{Action: wire.BulkReplay, Params: f.again.Params, Patch: f.again.Patch, Priority: f.again.Priority, MaxAttempts: f.again.MaxAttempts, Reason: f.again.Reason}
			return a.bulk(cmd.Context(), &f.bulkFlags, b, "queued again")
		},
	}
	fs := cmd.Flags()
	f.define(fs)
	f.defineReason(fs)
	fs.BoolVar(&f.dead, "dead", false, "only dead items (the default for filters)")
	fs.StringVar(&f.params, "params", "", "replace the params, of all items alike, by `JSON`, by a file's (@file), or by standard input (-)")
	fs.StringVar(&f.patch, "patch", "", "change each item's own params by a JSON merge patch (RFC 7396): `JSON`, a file's (@file), or standard input (-)")
	fs.StringVar(&f.priority, "priority", "", "the `priority`, 0 to 9, higher first, or low, medium, high")
	fs.IntVar(&f.again.MaxAttempts, "max-attempts", 0, "how many further attempts it has (default: the type's)")
	fs.StringVar(&f.again.Reason, "note", "", "the `reason`, for the history")
	return cmd
}

func (f *replayFlags) parse(a *app, args []string) error {
	if f.dead {
		if f.sel.State != "" && f.sel.State != "dead" {
			return console.Usagef("--dead and --state %s: give one of them", f.sel.State)
		}
		f.sel.State = "dead"
	}
	if err := f.check(args); err != nil {
		return err
	}
	if f.priority != "" {
		p, err := events.ParsePriority(f.priority)
		if err != nil {
			return console.Usagef("--priority: %v", err)
		}
		f.again.Priority = streamwright.Priority(int(p))
	}
	if f.again.MaxAttempts < 0 {
		return console.Usagef("invalid --max-attempts %d: use 1 or more", f.again.MaxAttempts)
	}
	if f.params != "" && f.patch != "" {
		return console.Usagef("--params replaces the params, --patch changes them: give one of them")
	}
	var err error
	if f.params != "" {
		f.again.Params, err = a.params(f.params)
	}
	if f.patch != "" {
		f.again.Patch, err = a.json("patch is", f.patch)
	}
	return err
}

func purgeCommand(a *app) *cobra.Command {
	var f bulkFlags
	var note string
	cmd := &cobra.Command{
		Use:     "purge ID… | FILTERS",
		Short:   "Forget items that have ended",
		Example: "  engine purge 01JD3V6YB2M4C9W8ZK5T7QXRNE\n  engine purge --state dead --type email --until 720h --dry-run",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(args); err != nil {
				return err
			}
			if len(args) > 0 {
				return a.each(cmd.Context(), args, func(ctx context.Context, c *streamwright.Client, id string) (events.ItemState, error) {
					return events.StateNone, c.Purge(ctx, id, note)
				}, "purged")
			}
			return a.bulk(cmd.Context(), &f, streamwright.Bulk{Action: wire.BulkPurge, Reason: note}, "purged")
		},
	}
	f.define(cmd.Flags())
	f.defineReason(cmd.Flags())
	cmd.Flags().StringVar(&note, "note", "", "the `reason`, for the log")
	return cmd
}

// oneOrMany lets a command that took one ID take filters instead.
func oneOrMany(f *bulkFlags, one func(*cobra.Command, string) error, many func(*cobra.Command) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return console.Usage(errors.New("give one ID, or filters"))
		}
		if err := f.check(args); err != nil {
			return err
		}
		if len(args) == 1 {
			return one(cmd, args[0])
		}
		return many(cmd)
	}
}
