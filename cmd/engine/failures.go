package main

import (
	"cmp"
	"context"
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
	"github.com/streamwright/streamwright/internal/cli"
)

func deadCommand(a *app) *cobra.Command {
	return noun(a, &cobra.Command{
		Use:     "dead",
		Short:   "List dead items, or the causes that they died of",
		Example: "  engine dead --causes\n  engine dead --type email --since 1h",
	}, deadListCommand)
}

func deadListCommand(a *app) *cobra.Command {
	var sel streamwright.Selection
	var causes, all bool
	var sort string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List dead items, or the causes that they died of",
		Example: "  engine dead list --causes\n  engine dead list --type email --since 1h\n" +
			"  engine dead list --cause 3f1c9a52b7d04e88 --json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !causes {
				return a.dead(cmd.Context(), sel, all)
			}
			q := streamwright.CausesQuery{Type: sel.Type, Reason: sel.Reason, Code: sel.Code, Sort: sort, All: all}
			if cmd.Flags().Changed("limit") {
				q.Limit = sel.Limit
			}
			return a.causes(cmd.Context(), q)
		},
	}
	fs := cmd.Flags()
	selectFlags(fs, &sel)
	endedReasonFlag(fs, &sel)
	pageFlags(fs, "items", &sel.Limit, &sel.Cursor)
	fs.BoolVar(&all, "all", false, "show all pages; with --causes, include resolved causes")
	fs.BoolVar(&causes, "causes", false, "group the items by cause")
	fs.StringVar(&sort, "sort", "last", "the `order` of --causes: last, first, count or dead, the highest first")
	return cmd
}

func (a *app) dead(ctx context.Context, sel streamwright.Selection, all bool) error {
	return a.pages(ctx, all, "nothing is dead", a.showDead, func(ctx context.Context, c *streamwright.Client) (streamwright.Page, error) {
		page, err := c.DeadLetters().List(ctx, sel)
		a.noteStale(page.Stale)
		sel.Cursor = page.NextCursor
		for i := range page.Items {
			if !a.JSON || err != nil {
				break
			}
			// With its params, which lists leave out. An item that is gone by now stays
			// as it is.
			if it, gerr := c.Get(ctx, page.Items[i].ID); gerr == nil {
				page.Items[i] = it
			} else if events.CodeOf(gerr) != events.CodeNotFound {
				err = gerr
			}
		}
		return page, err
	})
}

func (a *app) showDead(items []streamwright.WorkItem, err error) error {
	now, style := time.Now(), a.Style()
	head := []string{"ID", "TYPE", "DIED", "REASON", "ATTEMPTS", "CAUSE", "ERROR"}
	return showList(a, items, err, "", head, func(it streamwright.WorkItem) []string {
		text := ""
		if it.Error != nil {
			text = style.Clip(console.Failure(it.Error), 60)
		}
		return []string{it.ID, it.Type, console.Ago(it.FinishedAt, now), style.Clip(it.Reason, 20),
			fmt.Sprintf("%d/%d", it.Attempt, it.MaxAttempts), it.Cause, text}
	})
}

func (a *app) causes(ctx context.Context, q streamwright.CausesQuery) error {
	return a.ask(ctx, func(ctx context.Context, c *streamwright.Client) error {
		reply, err := c.DeadLetters().Causes(ctx, q)
		a.noteStale(reply.Stale)
		now, style := time.Now(), a.Style()
		head := []string{"CAUSE", "TYPE", "DEAD", "IN ALL", "FIRST", "LAST", "REASON", "EXAMPLE", "ERROR"}
		err = showList(a, reply.Causes, err, "nothing is dead", head, func(cause streamwright.Cause) []string {
			return []string{cause.Cause, cause.Type, console.Count(cause.Dead), console.Count(cause.Count), console.Ago(cause.First, now),
				console.Ago(cause.Last, now), style.Clip(cause.Reason, 20), cause.Example, style.Clip(strings.TrimPrefix(cause.Code+": "+cause.Error, ": "), 60)}
		})
		if hidden := reply.Total - len(reply.Causes); hidden > 0 && !a.JSON {
			a.Notef("%s more: --limit", console.Count(hidden))
		}
		return err
	})
}

func rejectedCommand(a *app) *cobra.Command {
	return noun(a, &cobra.Command{
		Use:   "rejected",
		Short: "List, show, replay or purge submissions that became no item",
		Long: `Submissions that could not become an item are kept with their original bytes:
the newest 10,000, up to 64 MiB. SEQ is the sequence of the rejected event, as
the list shows it.`,
		Example: "  engine rejected --type email\n  engine rejected show 53248\n" +
			"  engine rejected replay 53248 --params '{\"to\":\"ada@example.org\"}'",
	}, rejectedListCommand, rejectedShowCommand, rejectedReplayCommand, rejectedPurgeCommand)
}

func rejectedListCommand(a *app) *cobra.Command {
	var f streamwright.RejectedFilter
	cmd := &cobra.Command{
		Use: "list", Short: "List rejected submissions, newest first", Example: "  engine rejected list --type email --code bad_params", Args: cobra.NoArgs,
		RunE: a.asks(func(ctx context.Context, c *streamwright.Client, _ []string) error {
			page, err := c.Rejected().List(ctx, f)
			a.noteStale(page.Stale)
			now, style := time.Now(), a.Style()
			head := []string{"SEQ", "AT", "TYPE", "INTAKE", "CODE", "BYTES", "WHY"}
			err = showList(a, page.Rejected, err, "nothing was rejected that is still kept", head, func(r streamwright.Rejected) []string {
				return []string{r.Seq.String(), console.Ago(r.At, now), orDash(r.Type), strconv.FormatUint(r.IntakeSeq, 10), console.Clean(r.Code),
					console.Count(r.Size), style.Clip(r.Message, 70)}
			})
			if err == nil && page.NextCursor != "" {
				a.Notef("there is more: --cursor %s", page.NextCursor)
			}
			return err
		}),
	}
	fs := cmd.Flags()
	fs.StringVar(&f.Type, "type", "", "only submissions of this `type`")
	fs.StringVar(&f.Code, "code", "", "only submissions rejected with this `code`, such as bad_params")
	pageFlags(fs, "entries", &f.Limit, &f.Cursor)
	return cmd
}

// orDash returns foreign text, - if it is empty.
func orDash(s string) string { return console.Clean(cmp.Or(s, "-")) }

// seqArg makes the run of a command about the rejected submission that its argument
// names.
func seqArg(a *app, fn func(context.Context, *streamwright.Client, events.Seq) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		seq, err := events.ParseSeq(args[0])
		if err != nil {
			return cli.Usagef("SEQ: %v", err)
		}
		return a.ask(cmd.Context(), func(ctx context.Context, c *streamwright.Client) error { return fn(ctx, c, seq) })
	}
}

func rejectedShowCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "show SEQ", Short: "Show a rejected submission with its original", Example: "  engine rejected show 53248", Args: cobra.ExactArgs(1),
		RunE: seqArg(a, func(ctx context.Context, c *streamwright.Client, seq events.Seq) error {
			r, err := c.Rejected().Get(ctx, seq)
			return a.show(r, err, func() { a.printRejected(r) })
		}),
	}
}

func (a *app) printRejected(r streamwright.Rejected) {
	f := fields{a, time.Now()}
	f.text("seq", r.Seq.String())
	f.at("at", r.At)
	f.text("type", r.Type)
	f.text("code", r.Code)
	f.text("why", r.Message)
	f.text("subject", r.Subject)
	f.number("intake seq", r.IntakeSeq)
	for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
		f.text("header", name+": "+strings.Join(r.Headers[name], ", "))
	}
	size := console.Count(r.Size) + " bytes"
	if r.Truncated {
		size += ", of which a part is kept"
	}
	f.text("size", size)
	f.text("body", r.Text)
	if len(r.Bytes) > 0 {
		f.text("body", fmt.Sprintf("%q", r.Bytes))
	}
}

func rejectedReplayCommand(a *app) *cobra.Command {
	var fix streamwright.Correction
	var params string
	cmd := &cobra.Command{
		Use: "replay SEQ", Short: "Submit a rejected submission anew, corrected",
		Long: `Submit a rejected submission anew. --header replaces a header, or drops it if
nothing follows the =. The new item's trigger is rejected:SEQ.`,
		Example: "  engine rejected replay 53248 --params '{\"to\":\"ada@example.org\"}'\n" +
			"  engine rejected replay 53248 --header Work-Priority=8",
		Args: cobra.ExactArgs(1),
		PreRunE: func(*cobra.Command, []string) (err error) {
			if params != "" {
				fix.Params, err = a.params(params)
			}
			return err
		},
		RunE: seqArg(a, func(ctx context.Context, c *streamwright.Client, seq events.Seq) error {
			fix.Seq = seq
			s, err := c.Rejected().Replay(ctx, fix)
			return a.showSubmitted(fix.Type, s, err)
		}),
	}
	fs := cmd.Flags()
	fs.StringVar(&params, "params", "", "replace the body by `JSON`, by a file's (@file), or by standard input (-)")
	fs.StringVar(&fix.Type, "type", "", "submit it as an item of this `type`")
	fs.Func("header", "replace a header, `NAME=VALUE` (repeatable)", console.Pairs(&fix.Headers, "NAME=VALUE"))
	return cmd
}

func rejectedPurgeCommand(a *app) *cobra.Command {
	var note string
	cmd := &cobra.Command{
		Use: "purge SEQ", Short: "Forget a rejected submission", Example: "  engine rejected purge 53248 --note 'a test'", Args: cobra.ExactArgs(1),
		Long: `Forget a rejected submission: it is no longer listed, and can't be replayed.

The event log holds its original until it is cut, which the engine does when the
log has grown, and engine cut at once: until then engine tail --since shows it.
Backups hold what they held when they were made: delete them yourself.`,
		RunE: seqArg(a, func(ctx context.Context, c *streamwright.Client, seq events.Seq) error {
			err := c.Rejected().Purge(ctx, seq, note)
			return a.show(map[string]any{"seq": seq, "position": c.Position()}, err, func() { a.Printf("%s  purged\n", seq) })
		}),
	}
	cmd.Flags().StringVar(&note, "note", "", "the `reason`, for the log")
	return cmd
}
