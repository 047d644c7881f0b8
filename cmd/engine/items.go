package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/internal/cli"
)

func listCommand(a *app) *cobra.Command {
	var l listing
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List items, the last changed first",
		Example: "  engine list --state dead --type email\n  engine list --label region=eu --all --json\n  engine list --state dead --error \"connection refused\"\n  engine list --q order-4711\n  engine list --worker mailer-1\n  engine list --schedule nightly --state dead",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.list(cmd.Context(), l, "no items") },
	}
	fs := cmd.Flags()
	l.define(fs)
	f := &l.Filter
	filterFlags(fs, f)
	fs.StringVar(&f.Reason, "reason", "", "only items that are in their state for this `reason`, such as exhausted")
	fs.StringVar(&f.Worker, "worker", "", "only items that this `worker` holds now: claimed or running")
	fs.StringVar(&f.Schedule, "schedule", "", "only items that the schedule with this `name` has made")
	fs.Func("batch", "only items of the batch with this `id`, or spawned by the item with it", console.ID(&f.Batch))
	fs.StringVar(&f.WaitsFor, "waits-for", "", "only items that wait for the signal of this `name`")
	fs.StringVar(&f.Error, "error", "", "only items whose last error has all these `words`, the last as the beginning of one")
	fs.StringVar(&f.Q, "q", "", "only items found by this `text`: an id; or a type, tenant, dedup key or label's value; or words of the last error")
	return cmd
}

// list shows a page of items, or all of them. none tells people that there are none.
func (a *app) list(ctx context.Context, l listing, none string) error {
	return a.pages(ctx, l.all, none, a.showItems, func(ctx context.Context, c *streamwright.Client) (streamwright.Page, error) {
		page, err := c.List(ctx, l.Filter)
		a.noteStale(page.Stale)
		l.Cursor = page.NextCursor
		return page, err
	})
}

// pages shows a page of items, or all of them, as next returns them. none tells
// people that there are no items.
func (a *app) pages(ctx context.Context, all bool, none string, show func([]streamwright.WorkItem, error) error, next func(context.Context, *streamwright.Client) (streamwright.Page, error)) error {
	return a.with(ctx, func(c *streamwright.Client) error {
		shown, cursor := 0, ""
		for {
			ctx, cancel := a.Within(ctx)
			page, err := next(ctx, c)
			cancel()
			if err := show(page.Items, err); err != nil {
				return err
			}
			shown += len(page.Items)
			// A page may be short of entries that match; what was asked for is a
			// page, so go on until there is something to show.
			if cursor = page.NextCursor; cursor == "" || !all && shown > 0 {
				break
			}
		}
		switch {
		case cursor != "":
			a.Notef("there is more: --cursor %s, or --all", cursor)
		case shown == 0 && !a.JSON:
			a.Notef("%s", none)
		}
		return nil
	})
}

func (a *app) showItems(items []streamwright.WorkItem, err error) error {
	now, style := time.Now(), a.Style()
	head := []string{"ID", "TYPE", "STATE", "PRIO", "ATTEMPT", "CREATED", "NOTE"}
	return showList(a, items, err, "", head, func(it streamwright.WorkItem) []string {
		return []string{
			it.ID, it.Type, style.State(it.State), strconv.Itoa(it.Priority),
			fmt.Sprintf("%d/%d", it.Attempt, it.MaxAttempts), console.Ago(it.CreatedAt, now), console.ItemNote(it, now, style),
		}
	})
}

func showCommand(a *app) *cobra.Command {
	var docs documentFlags
	var at streamwright.PointInTime
	var intake uint64
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show all that is known of an item, now or at an earlier moment",
		Long: `Show all that is known of an item and, if it has spawned others or was spawned
itself, its place in their tree: what is above it and below it, each with its
state. With --at, show the item as it was at a position of the log (53248), at a
time (RFC 3339) or so long ago (10m). With --intake, show what became of a plain
publish, by the sequence in its ack. With --params or --result, write that
document instead, just as it is stored, even if the object store has it.`,
		Example: "  engine show 01JD3V6YB2M4C9W8ZK5T7QXRNE --at 10m\n  engine show --intake 17\n" +
			"  engine show 01JD3V6YB2M4C9W8ZK5T7QXRNE --result result.json",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			past := at != streamwright.PointInTime{}
			switch {
			case (len(args) == 0) == (intake == 0):
				return cli.Usagef("give an ID, or --intake")
			case intake != 0 && past:
				return cli.Usagef("--at is for an ID")
			}
			if err := docs.check(); err != nil {
				return err
			}
			return a.ask(cmd.Context(), func(ctx context.Context, c *streamwright.Client) (err error) {
				var it streamwright.WorkItem
				switch {
				case intake != 0:
					it, err = c.GetByIntake(ctx, intake)
				case past:
					it, err = c.GetAt(ctx, args[0], at)
				default:
					it, err = c.Get(ctx, args[0])
				}
				if err == nil && docs.wanted() {
					// A large document may take longer than a request.
					return docs.write(cmd.Context(), a, c, it)
				}
				err = a.show(it, err, func() { a.printItem(it) })
				if err != nil || a.JSON || past { // the tree shows the present
					return err
				}
				return a.printTree(ctx, c, it)
			})
		},
	}
	cmd.Flags().StringVar(&docs.params, "params", "", "write the params to this `file`, or to standard output (-)")
	cmd.Flags().StringVar(&docs.result, "result", "", "write the result to this `file`, or to standard output (-)")
	cmd.Flags().Func("at", "show it as it was at this `moment`: a position, a time, or how long ago", pointInTime(&at))
	cmd.Flags().Uint64Var(&intake, "intake", 0, "show what became of a plain publish, by the `sequence` in its ack")
	return cmd
}

// fields prints the fields that are set, one on a line.
type fields struct {
	*app
	now time.Time
}

// field prints a field whose value is fit for a terminal.
func (f fields) field(name, value string) {
	if value != "" {
		f.Printf("%s%s\n", f.Style().Faint(fmt.Sprintf("%-16s", name)), value)
	}
}

// text prints a field whose value is foreign.
func (f fields) text(name, value string) { f.field(name, console.Clean(value)) }

// lines prints a text of several lines, such as a stack, below what it belongs to.
func (f fields) lines(text string) {
	for line := range strings.Lines(strings.Trim(text, "\n")) {
		line = strings.ReplaceAll(strings.TrimRight(line, "\r\n"), "\t", "    ")
		f.Printf("  %s\n", console.Clean(line))
	}
}

// at prints a time.
func (f fields) at(name string, t time.Time) {
	if !t.IsZero() {
		f.field(name, fmt.Sprintf("%s  (%s)", t.Format(time.RFC3339Nano), console.Ago(t, f.now)))
	}
}

// span prints a duration of so many milliseconds.
func (f fields) span(name string, d streamwright.Duration) {
	if d.Duration > 0 {
		f.field(name, console.Span(d.Duration))
	}
}

// number prints a number.
func (f fields) number(name string, n uint64) {
	if n > 0 {
		f.field(name, strconv.FormatUint(n, 10))
	}
}

// millis shows a duration of so many milliseconds.
func millis(ms int64) string { return console.Span(time.Duration(ms) * time.Millisecond) }

func (a *app) printItem(it streamwright.WorkItem) {
	f := fields{a, time.Now()}
	if it.AsOf != nil {
		since := "it has changed since"
		if it.AsOf.Latest {
			since = "nothing has happened to it since"
		}
		f.at("as of", it.AsOf.At)
		f.field("", "position "+string(it.AsOf.Position)+"; "+since)
	}
	for _, n := range it.Notes {
		f.text("note", n)
	}
	f.field("id", it.ID)
	f.field("type", it.Type)
	f.field("state", a.Style().State(it.State))
	f.text("reason", it.Reason)
	f.field("merged into", it.MergedInto)
	f.field("priority", strconv.Itoa(it.Priority))
	f.attempts(it)
	f.text("worker", it.Worker)
	f.flow(it)
	f.failure(it)
	f.identity(it)
	f.at("available", it.AvailableAt)
	f.at("created", it.CreatedAt)
	f.at("queued", it.QueuedAt)
	f.at("claimed", it.ClaimedAt)
	f.at("started", it.StartedAt)
	if !it.State.Terminal() {
		f.at("deadline", it.Deadline)
	}
	f.at("finished", it.FinishedAt)
	f.number("intake seq", it.IntakeSeq)
	f.field("position", string(it.Position))
	for _, m := range it.MergedProvenance {
		f.text("merged", fmt.Sprintf("%s  %s %s %s", m.ID, m.At.Format(time.RFC3339), m.Source, m.Trigger))
	}
	f.field("params", shownDocument(it.Params, "--params"))
	f.field("result", shownDocument(it.Result, "--result"))
}

// attempts prints the bounds of an item's runs. A batch runs nothing.
func (f fields) attempts(it streamwright.WorkItem) {
	if it.Batch != nil {
		return
	}
	own := func(is bool) string {
		if is {
			return " (its own)"
		}
		return ""
	}
	f.field("attempt", fmt.Sprintf("%d of %d", it.Attempt, it.MaxAttempts)+own(it.OwnAttempts))
	f.field("timeout", console.Span(it.Timeout.Duration)+own(it.OwnTimeout))
}

// failure prints an item's last error.
func (f fields) failure(it streamwright.WorkItem) {
	if it.Error != nil {
		retry := "not retryable"
		if it.Error.Retryable {
			retry = "retryable"
		}
		if it.Error.Code != "" {
			retry = it.Error.Code + ", " + retry
		}
		first, rest, more := strings.Cut(it.Error.Message, "\n")
		f.text("error", fmt.Sprintf("%s (%s)", first, retry))
		if more {
			f.lines(rest)
		}
	}
	f.field("cause", it.Cause)
}

// identity prints an item's keys, its labels and where it came from.
func (f fields) identity(it streamwright.WorkItem) {
	f.text("dedup key", it.DedupKey)
	f.text("idempotency key", it.IdempotencyKey)
	f.field("capabilities", strings.Join(it.Capabilities, ", "))
	f.text("tenant", it.Tenant)
	for _, k := range slices.Sorted(maps.Keys(it.Labels)) {
		f.text("label", k+"="+it.Labels[k])
	}
	f.text("source", it.Provenance.Source)
	f.text("trigger", it.Provenance.Trigger)
}

// indent lays a document out, below its field's name if it is long.
func indent(doc json.RawMessage) string {
	const short = 80
	if len(doc) <= short {
		return console.Clean(string(doc))
	}
	var b bytes.Buffer
	if err := json.Indent(&b, doc, "  ", "  "); err != nil {
		return console.Clean(string(doc))
	}
	lines := strings.Split(b.String(), "\n")
	for i, l := range lines {
		lines[i] = console.Clean(l)
	}
	return "\n  " + strings.Join(lines, "\n")
}

// noteStale says why a list may lack something, if it may.
func (a *app) noteStale(why string) {
	if why != "" {
		a.Notef("stale, %s: ask another node for all of it", console.Clean(why))
	}
}

// noteLacking shows the error of a list that has n entries and may lack others: they are
// shown then. Any other error it returns.
func (a *app) noteLacking(n int, err error) error {
	if err == nil || n == 0 {
		return err
	}
	a.Notef("%s", console.Clean(err.Error()))
	return nil
}
