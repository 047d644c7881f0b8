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
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

func listCommand(a *app) *cobra.Command {
	var f streamwright.Filter
	var after, before string
	var all bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List items, the last changed first",
		Example: "  engine list --state dead --type email\n  engine list --label region=eu --all --json\n  engine list --state dead --error \"connection refused\"\n  engine list --q order-4711\n  engine list --worker mailer-1\n  engine list --schedule nightly --state dead",
		Args:    console.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.State != "" {
				if _, err := events.ParseItemState(f.State); err != nil {
					return console.Usagef("--state: %v", err)
				}
			}
			if f.Label != "" && !strings.Contains(f.Label, "=") {
				return console.Usagef("invalid --label %q: use key=value", f.Label)
			}
			for _, t := range []struct {
				flag, text string
				to         *time.Time
			}{{"--created-after", after, &f.CreatedAfter}, {"--created-before", before, &f.CreatedBefore}} {
				if t.text == "" {
					continue
				}
				at, err := parseMoment(t.flag, t.text, time.Now())
				if err != nil {
					return err
				}
				*t.to = at
			}
			if f.Batch != "" {
				if _, err := events.ParseID(f.Batch); err != nil {
					return console.Usagef("--batch: %v", err)
				}
			}
			return a.list(cmd, f, all)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.State, "state", "", "only items in this `state`")
	fs.StringVar(&f.Type, "type", "", "only items of this `type`")
	fs.StringVar(&f.Label, "label", "", "only items with this label, `key=value`")
	fs.StringVar(&f.Tenant, "tenant", "", "only items of this `tenant`")
	fs.StringVar(&f.Code, "code", "", "only items whose last failure has this `code`")
	fs.StringVar(&f.Reason, "reason", "", "only items that are in their state for this `reason`, such as exhausted")
	fs.StringVar(&after, "created-after", "", "only items created after a `time` (RFC 3339), or so long ago, such as 10m")
	fs.StringVar(&before, "created-before", "", "only items created before a `time` (RFC 3339), or so long ago")
	fs.StringVar(&f.Worker, "worker", "", "only items that this `worker` holds now: claimed or running")
	fs.StringVar(&f.Schedule, "schedule", "", "only items that the schedule of this `name` has made")
	fs.StringVar(&f.Batch, "batch", "", "only items of the batch with this `id`, or what this item has spawned")
	fs.StringVar(&f.Error, "error", "", "only items whose last error has all these `words`, the last as the beginning of one")
	fs.StringVar(&f.Q, "q", "", "only items found by this `text`: an id; or a type, tenant, dedup key or label's value; or words of the last error")
	fs.IntVar(&f.Limit, "limit", 50, "how many items to show in a page, at most 1000")
	fs.StringVar(&f.Cursor, "cursor", "", "go on from where a page has ended, by its `cursor`")
	fs.BoolVar(&all, "all", false, "show all pages")
	return cmd
}

func (a *app) list(cmd *cobra.Command, f streamwright.Filter, all bool) error {
	return a.pages(cmd, all, "no items", a.printItems, func(ctx context.Context, c *streamwright.Client) (streamwright.Page, error) {
		page, err := c.List(ctx, f)
		f.Cursor = page.NextCursor
		return page, err
	})
}

// pages prints a page of items, or all of them, as next gives them. none is said
// when there are none.
func (a *app) pages(cmd *cobra.Command, all bool, none string, print func([]streamwright.WorkItem) error, next func(context.Context, *streamwright.Client) (streamwright.Page, error)) error {
	c, err := a.Connect(cmd.Context())
	if err != nil {
		return err
	}
	defer c.Close()
	shown, cursor := 0, ""
	for {
		ctx, cancel := a.Within(cmd.Context())
		page, err := next(ctx, c)
		cancel()
		if err != nil {
			return err
		}
		shown += len(page.Items)
		if err := print(page.Items); err != nil {
			return err
		}
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
}

func (a *app) printItems(items []streamwright.WorkItem) error {
	now, style := time.Now(), console.StyleFor(a.Out)
	head := []string{"ID", "TYPE", "STATE", "PRIO", "ATTEMPT", "CREATED", "NOTE"}
	return printList(a, items, "", head, func(it streamwright.WorkItem) []string {
		return []string{
			it.ID, it.Type, style.State(it.State), strconv.Itoa(it.Priority),
			fmt.Sprintf("%d/%d", it.Attempt, it.MaxAttempts), console.Ago(it.CreatedAt, now), note(it, now, style),
		}
	})
}

// note is what is worth knowing of an item beside its state.
func note(it streamwright.WorkItem, now time.Time, style console.Style) string {
	switch {
	case it.MergedInto != "":
		return "into " + it.MergedInto
	case it.State == events.StateWaiting:
		return waitNote(it, style)
	case it.State == events.StateRunning && it.Progress != nil:
		return progressText(it.Progress, 40, style) + " by " + console.Clean(it.Worker)
	case it.State == events.StateQueued && it.AvailableAt.After(now):
		return "due " + console.Ago(it.AvailableAt, now)
	case it.State == events.StateRunning || it.State == events.StateClaimed:
		return "by " + console.Clean(it.Worker)
	case it.Error != nil:
		return style.Clip(failure(it.Error), 60)
	}
	return style.Clip(it.Reason, 60)
}

func showCommand(a *app) *cobra.Command {
	var docs documentFlags
	var at string
	var intake uint64
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show all that is known of an item, now or at an earlier moment",
		Long: "Show all that is known of an item, and, if it has spawned others or was spawned itself, its place in\n" +
			"their tree: what is above it, and what is below it, each with its state. With --at, show the item as it\n" +
			"was at a position of the log (1042), at a time (RFC 3339) or so long ago (10m); with --intake what became of a\n" +
			"plain publish, by the sequence in its ack. With --params or --result, write that document instead, just as\n" +
			"it is stored, also one that is in the object store for its size.",
		Example: "  engine show 01JD3V6YB2M4C9W8ZK5T7QXRNE --at 10m\n  engine show --intake 17\n" +
			"  engine show 01JD3V6YB2M4C9W8ZK5T7QXRNE --result result.json",
		Args: console.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 0) == (intake == 0) {
				return console.Usagef("give an ID, or --intake")
			}
			if intake != 0 && at != "" {
				return console.Usagef("--at is for an ID")
			}
			if err := docs.check(); err != nil {
				return err
			}
			return a.ask(cmd, func(ctx context.Context, c *streamwright.Client) error {
				it, err := getItem(ctx, c, args, at, intake)
				if err != nil {
					return err
				}
				if docs.wanted() {
					// A large document may take longer than a request.
					return a.writeDocuments(cmd.Context(), c, it, docs)
				}
				if a.JSON {
					return a.PrintJSON(it)
				}
				a.printItem(it)
				if at != "" {
					return nil // the tree is that of now
				}
				return a.printTree(ctx, c, it)
			})
		},
	}
	cmd.Flags().StringVar(&docs.params, "params", "", "write the params to this `file`, or to standard output (-)")
	cmd.Flags().StringVar(&docs.result, "result", "", "write the result to this `file`, or to standard output (-)")
	cmd.Flags().StringVar(&at, "at", "", "show it as it was at this `moment`: a position, a time, or how long ago")
	cmd.Flags().Uint64Var(&intake, "intake", 0, "show what became of a plain publish, by the `sequence` in its ack")
	return cmd
}

func getItem(ctx context.Context, c *streamwright.Client, args []string, at string, intake uint64) (it streamwright.WorkItem, err error) {
	switch {
	case intake != 0:
		return c.GetByIntake(ctx, intake)
	case at == "":
		return c.Get(ctx, args[0])
	}
	m, err := parseAt(at, time.Now())
	if err != nil {
		return it, err
	}
	return c.GetAt(ctx, args[0], m)
}

// failure is an error on one line. An item that never ran, for what it comes after has
// ended badly, has an error without a code.
func failure(e *wire.ItemError) string {
	if e.Code == "" {
		return e.Message
	}
	return e.Code + ": " + e.Message
}

// printItem prints an item's fields, those that are set, one on a line.
func (a *app) printItem(it streamwright.WorkItem) {
	now, style, field := time.Now(), console.StyleFor(a.Out), a.field
	text := func(name, value string) { field(name, console.Clean(value)) }
	at := func(name string, t time.Time) {
		if !t.IsZero() {
			field(name, fmt.Sprintf("%s  (%s)", t.Format(time.RFC3339Nano), console.Ago(t, now)))
		}
	}
	if it.AsOf != nil {
		since := "it has changed since"
		if it.AsOf.Latest {
			since = "nothing has happened to it since"
		}
		at("as of", it.AsOf.At)
		field("", "position "+string(it.AsOf.Position)+"; "+since)
	}
	for _, n := range it.Notes {
		text("note", n)
	}
	field("id", it.ID)
	field("type", it.Type)
	field("state", style.State(it.State))
	text("reason", it.Reason)
	field("merged into", it.MergedInto)
	field("priority", strconv.Itoa(it.Priority))
	own := func(is bool) string {
		if is {
			return " (its own)"
		}
		return ""
	}
	if it.Batch == nil { // a batch runs nothing
		field("attempt", fmt.Sprintf("%d of %d", it.Attempt, it.MaxAttempts)+own(it.OwnAttempts))
		field("timeout", console.Span(time.Duration(it.TimeoutMS)*time.Millisecond)+own(it.OwnTimeout))
	}
	text("worker", it.Worker)
	a.printFlow(it, now)
	if it.Error != nil {
		retry := "not retryable"
		if it.Error.Retryable {
			retry = "retryable"
		}
		if it.Error.Code != "" {
			retry = it.Error.Code + ", " + retry
		}
		text("error", fmt.Sprintf("%s (%s)", it.Error.Message, retry))
	}
	field("cause", it.Cause)
	text("dedup key", it.DedupKey)
	text("idempotency key", it.IdempotencyKey)
	field("capabilities", strings.Join(it.Capabilities, ", "))
	text("tenant", it.Tenant)
	for _, k := range slices.Sorted(maps.Keys(it.Labels)) {
		text("label", k+"="+it.Labels[k])
	}
	text("source", it.Provenance.Source)
	text("trigger", it.Provenance.Trigger)
	at("available", it.AvailableAt)
	at("created", it.CreatedAt)
	at("queued", it.QueuedAt)
	at("claimed", it.ClaimedAt)
	at("started", it.StartedAt)
	if !it.State.Terminal() {
		at("deadline", it.Deadline)
	}
	at("finished", it.FinishedAt)
	if it.IntakeSeq > 0 {
		field("intake seq", strconv.FormatUint(it.IntakeSeq, 10))
	}
	field("position", string(it.Position))
	for _, m := range it.MergedProvenance {
		text("merged", fmt.Sprintf("%s  %s %s %s", m.ID, m.At.Format(time.RFC3339), m.Source, m.Trigger))
	}
	field("params", shownDocument(it.Params, "--params"))
	field("result", shownDocument(it.Result, "--result"))
}

// indent lays a document out, under its field's name if it has several lines.
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
