package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/cli"
	"github.com/streamwright/streamwright/wire"
)

// filterFlags defines the filters of items in any state.
func filterFlags(fs *pflag.FlagSet, f *streamwright.Filter) {
	fs.StringVar(&f.Type, "type", "", "only items of this `type`")
	fs.StringVar(&f.Code, "code", "", "only items whose last failure has this `code`")
	fs.StringVar(&f.Tenant, "tenant", "", "only items of this `tenant`")
	fs.Func("label", "only items with this label, `key=value`", console.Pair(&f.Label))
	fs.Func("created-after", "only items created after a `time` (RFC 3339), or so long ago, such as 10m", console.Moment(&f.CreatedAfter))
	fs.Func("created-before", "only items created before a `time`, or so long ago", console.Moment(&f.CreatedBefore))
}

// selectFlags defines the filters of the commands that work on many items.
func selectFlags(fs *pflag.FlagSet, s *streamwright.Selection) {
	filterFlags(fs, &s.List)
	fs.StringVar(&s.Cause, "cause", "", "only items that died of this `cause`: see engine dead --causes")
	fs.Func("since", "only items that have ended since a `time` (RFC 3339), or so long ago, such as 10m", console.Moment(&s.Since))
	fs.Func("until", "only items that had ended by a `time`, or so long ago", console.Moment(&s.Until))
}

// endedReasonFlag defines the filter by reason for items that have ended.
func endedReasonFlag(fs *pflag.FlagSet, s *streamwright.Selection) {
	fs.StringVar(&s.Reason, "reason", "", "only items that ended for this `reason`, such as exhausted")
}

// stateFlag defines the filter by state.
func stateFlag(fs *pflag.FlagSet, f *streamwright.Filter) {
	fs.Func("state", "only items in this `state`", console.State(&f.State))
}

// limitFlag defines --limit, a number above 0.
func limitFlag(fs *pflag.FlagSet, dst *int, most int, usage string) {
	*dst = most
	fs.Func("limit", fmt.Sprintf("%s (a `number`, default %d)", usage, most), console.Positive(dst))
}

// pageFlags defines the flags of a list that comes in pages.
func pageFlags(fs *pflag.FlagSet, of string, limit *int, cursor *string) {
	limitFlag(fs, limit, 50, "how many "+of+" to show in a page, at most 1000")
	fs.StringVar(cursor, "cursor", "", "continue a list at the `cursor` that the page before gave")
}

// listing is a list of items, of which a page is shown, or all.
type listing struct {
	streamwright.Filter
	all bool
}

func (l *listing) define(fs *pflag.FlagSet) {
	stateFlag(fs, &l.Filter)
	pageFlags(fs, "items", &l.Limit, &l.Cursor)
	fs.BoolVar(&l.all, "all", false, "show all pages")
}

// bulkFlags are the flags of a command that works on one item, or on all that a
// selection matches.
type bulkFlags struct {
	sel              streamwright.Selection
	all, dryRun, yes bool
	then             func(ctx context.Context, c *streamwright.Client, changed string) error // what to do once items are changed; nil: nothing
}

func (f *bulkFlags) define(fs *pflag.FlagSet) {
	selectFlags(fs, &f.sel)
	stateFlag(fs, &f.sel.List)
	fs.BoolVar(&f.all, "all", false, "select all items, where nothing else narrows them")
	fs.BoolVar(&f.dryRun, "dry-run", false, "only show which items are meant")
	fs.BoolVarP(&f.yes, "yes", "y", false, "do not ask; needed where there is no terminal")
}

// check makes sure that either ids, at most so many, or a selection is given.
func (f *bulkFlags) check(ids []string, most int) error {
	filters := f.all || f.sel.State != "" || f.sel.Narrow()
	switch {
	case len(ids) > most:
		return cli.Usagef("give one ID, or filters")
	case len(ids) > 0 && filters:
		return cli.Usagef("ids and filters are given: give one of them")
	case len(ids) > 0 && f.dryRun:
		return cli.Usagef("--dry-run is for filters")
	case f.dryRun && f.yes:
		return cli.Usagef("--dry-run and --yes: give one of them")
	case len(ids) == 0 && !filters:
		return cli.Usagef("give an ID, or filters such as --type (or --all)")
	case len(ids) == 0 && !f.all && !f.sel.Narrow():
		return cli.Usagef("only a state narrows the items: add filters, or --all for all of them")
	}
	return nil
}

// bulk changes all items that the flags select, under a progress bar. It first
// shows what these are, and asks.
func (a *app) bulk(ctx context.Context, f *bulkFlags, b streamwright.Bulk, did string) error {
	if !f.dryRun && !f.yes && !console.OnTerminal(a.In) {
		return cli.Usagef("no terminal to confirm on: check with --dry-run, then pass --yes")
	}
	b.Select, b.All = f.sel, f.all
	return a.with(ctx, func(c *streamwright.Client) error {
		if !f.yes {
			// Only what is shown is changed, not what comes or ends while it asks.
			info, err := c.Engine().Info(ctx)
			if err != nil {
				return err
			}
			bound := &b.Select.CreatedBefore
			if b.Action == streamwright.BulkReplay || b.Action == streamwright.BulkPurge {
				bound = &b.Select.Until
			}
			if bound.IsZero() || bound.After(info.Now) {
				*bound = info.Now
			}
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
			if !confirmed(ctx, a.stdin, a.Err, "Go on?") {
				a.Notef("nothing was changed")
				return console.ErrTold
			}
		}
		sum, err := a.bulkPages(ctx, c, b, false, did)
		if err = a.printBulk(sum, did, err); f.then != nil && sum.Changed > 0 {
			err = cmp.Or(err, f.then(ctx, c, console.Plural(sum.Changed, did+" item")))
		}
		return err
	})
}

// bulkPages changes the items, or only counts them, under a progress bar.
func (a *app) bulkPages(ctx context.Context, c *streamwright.Client, b streamwright.Bulk, dry bool, did string) (streamwright.BulkResult, error) {
	b.DryRun = dry
	show, end := a.bar(did, "items")
	defer end()
	return c.Bulk(ctx, b, func(r streamwright.BulkResult) { show(int64(r.Matched), -1) })
}

// printMeant prints what a bulk would change: how many items, of which types, and
// a few of them.
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

// confirmed asks a question and reports whether the answer is yes. The end of ctx, an
// interrupt, is a no.
func confirmed(ctx context.Context, in io.Reader, out io.Writer, question string) bool {
	switch strings.ToLower(answer(ctx, in, out, question+" [y/N] ")) {
	case "y", "yes":
		return true
	}
	return false
}

func (a *app) printBulk(sum streamwright.BulkResult, did string, err error) error {
	was := func(n int) string {
		if n == 1 {
			return "1 was"
		}
		return console.Count(n) + " were"
	}
	if a.JSON {
		if perr := a.PrintJSON(sum); perr != nil {
			return perr
		}
	} else {
		text := console.Plural(sum.Changed, "item") + " " + did
		if rest := sum.Matched - sum.Changed - sum.Failed; rest > 0 {
			text += ", " + was(rest) + " so already"
		}
		if sum.Failed > 0 {
			text += ", " + was(sum.Failed) + " refused"
		}
		a.Printf("%s\n", text)
		for _, e := range sum.Errors {
			a.Notef("  %s: %s (%s)", e.ID, console.Clean(e.Error.Message), e.Error.Code)
		}
	}
	if err == nil && sum.Failed > 0 {
		return console.ErrTold
	}
	return err
}

// each changes each of the items with these ids, and fails if it fails for any.
func (a *app) each(ctx context.Context, f *bulkFlags, ids []string, do func(context.Context, *streamwright.Client, string) (events.ItemState, error), did string) error {
	return a.with(ctx, func(c *streamwright.Client) error {
		var failed error
		var changed []string
		for _, id := range ids {
			within, cancel := a.Within(ctx)
			state, err := do(within, c, id)
			cancel()
			if err != nil && len(ids) > 1 {
				failed = console.ErrTold
				a.Notef("%s: %s", id, console.Clean(err.Error()))
				continue
			}
			if err == nil {
				changed = append(changed, id)
			}
			if err := a.show(wire.ReplayReply{ID: id, State: state, Position: c.Position()}, err, func() { a.Printf("%s  %s\n", id, did) }); err != nil {
				failed = err
				break
			}
		}
		if f.then != nil && len(changed) > 0 {
			failed = cmp.Or(failed, f.then(ctx, c, strings.Join(changed, ", ")))
		}
		return failed
	})
}

func replayCommand(a *app) *cobra.Command {
	var f bulkFlags
	var o streamwright.ReplayOptions
	var dead bool
	var params, patch string
	cmd := &cobra.Command{
		Use:   "replay ID… | --dead FILTERS",
		Short: "Queue dead or cancelled items again, with other params if need be",
		Example: "  engine replay 01JD3V6YB2M4C9W8ZK5T7QXRNE --params '{\"to\":\"ada@example.org\"}'\n" +
			"  engine replay --dead --type email --cause 3f1c9a52b7d04e88 --dry-run\n" +
			"  engine replay --dead --type email --patch '{\"from\":\"eve@example.org\"}' --yes",
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if dead {
				if f.sel.State != "" && f.sel.State != "dead" {
					return cli.Usagef("--dead and --state %s: give one of them", f.sel.State)
				}
				f.sel.State = "dead"
			}
			if err := f.check(args, len(args)); err != nil {
				return err
			}
			switch {
			case o.MaxAttempts < 0:
				return cli.Usagef("invalid --max-attempts %d: use 1 or more", o.MaxAttempts)
			case params != "" && patch != "":
				return cli.Usagef("--params replaces the params, --patch changes them: give one of them")
			case params != "":
				o.Params, err = a.params(params)
			case patch != "":
				o.Patch, err = a.json("patch is", patch)
			}
			if err != nil {
				return err
			}
			if len(args) > 0 {
				return a.each(cmd.Context(), &f, args, func(ctx context.Context, c *streamwright.Client, id string) (events.ItemState, error) {
					return c.Replay(ctx, id, o)
				}, "queued again")
			}
			b := streamwright.Bulk{Action: wire.BulkReplay, Params: o.Params, Patch: o.Patch, Priority: o.Priority, MaxAttempts: o.MaxAttempts, Reason: o.Reason}
			return a.bulk(cmd.Context(), &f, b, "queued again")
		},
	}
	fs := cmd.Flags()
	f.define(fs)
	endedReasonFlag(fs, &f.sel)
	fs.BoolVar(&dead, "dead", false, "only dead items (the default for filters)")
	fs.StringVar(&params, "params", "", "replace the params, of all items alike, by `JSON`, by a file's (@file), or by standard input (-)")
	fs.StringVar(&patch, "patch", "", "change each item's own params by a JSON merge patch (RFC 7396): `JSON`, a file's (@file), or standard input (-)")
	fs.Func("priority", priorityUsage, console.Priority(&o.Priority))
	fs.Func("max-attempts", "how many further attempts an item has, a `number` (default: as many as its submission or last replay chose, else the type's)", console.Positive(&o.MaxAttempts))
	fs.StringVar(&o.Reason, "note", "", "the `reason`, for the history")
	return cmd
}

func purgeCommand(a *app) *cobra.Command {
	var f bulkFlags
	var note string
	var now bool
	cmd := &cobra.Command{
		Use:     "purge ID… | FILTERS",
		Short:   "Forget items that have ended",
		Example: "  engine purge 01JD3V6YB2M4C9W8ZK5T7QXRNE --now\n  engine purge --state dead --type email --until 720h --dry-run",
		Long: `Forget items that have ended, with their history and documents. They can't be
brought back. What their handlers have logged stays up to log_max_age.

The event log holds the params and results of purged items until it is cut,
which the engine does when the log has grown: until then engine tail --since
and engine state --at show them. With --now the log is cut at once, and the
command waits until nothing of the purged items can be read from it; time
travel then begins at the cut. engine cut does the same for items purged
before. Backups hold what they held when they were made: delete them yourself.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(args, len(args)); err != nil {
				return err
			}
			switch {
			case now && f.dryRun:
				return cli.Usagef("--dry-run and --now: give one of them")
			case now:
				f.then = func(ctx context.Context, c *streamwright.Client, changed string) error {
					return a.cutPast(ctx, c, c.Position(), changed)
				}
			}
			if len(args) > 0 {
				return a.each(cmd.Context(), &f, args, func(ctx context.Context, c *streamwright.Client, id string) (events.ItemState, error) {
					return events.StateNone, c.Purge(ctx, id, note)
				}, "purged")
			}
			return a.bulk(cmd.Context(), &f, streamwright.Bulk{Action: wire.BulkPurge, Reason: note}, "purged")
		},
	}
	f.define(cmd.Flags())
	endedReasonFlag(cmd.Flags(), &f.sel)
	cmd.Flags().StringVar(&note, "note", "", "the `reason`, for the log")
	cmd.Flags().BoolVar(&now, "now", false, "also cut the log, so that it no longer holds what is purged")
	return cmd
}
