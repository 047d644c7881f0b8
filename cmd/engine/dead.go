package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/events"
)

func deadCommand(a *app) *cobra.Command {
	var f selectFlags
	var causes, all bool
	q := streamwright.CausesQuery{}
	cmd := &cobra.Command{
		Use:   "dead",
		Short: "List dead items, or the causes that they died of",
		Example: "  engine dead --causes\n  engine dead --type email --since 1h\n" +
			"  engine dead --cause 3f1c9a52b7d04e88 --json",
		Args: console.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			sel, err := f.selection(time.Now())
			if err != nil {
				return err
			}
			if causes {
				q.Type, q.Reason, q.Code, q.All = sel.Type, sel.Reason, sel.Code, all
				if cmd.Flags().Changed("limit") {
					q.Limit = sel.Limit
				}
				return a.causes(cmd, q)
			}
			return a.dead(cmd, sel, all)
		},
	}
	fs := cmd.Flags()
	f.define(fs)
	f.defineReason(fs)
	fs.IntVar(&f.sel.Limit, "limit", 50, "how many items to show in a page, at most 1000")
	fs.StringVar(&f.sel.Cursor, "cursor", "", "go on from where a page has ended, by its `cursor`")
	fs.BoolVar(&all, "all", false, "show all pages; with --causes, include resolved causes")
	fs.BoolVar(&causes, "causes", false, "group the items by cause")
	fs.StringVar(&q.Sort, "sort", "last", "the `order` of --causes: last, first, count or dead, the highest first")
	return cmd
}

func (a *app) dead(cmd *cobra.Command, sel streamwright.Selection, all bool) error {
	return a.pages(cmd, all, "nothing is dead", a.printDead, func(ctx context.Context, c *streamwright.Client) (streamwright.Page, error) {
		page, err := c.DeadLetters().List(ctx, sel)
		sel.Cursor = page.NextCursor
		for i := range page.Items {
			if !a.JSON || err != nil {
				break
			}
			// With its params, which lists leave out: one that is gone by now stays as it is.
			if it, gerr := c.Get(ctx, page.Items[i].ID); gerr == nil {
				page.Items[i] = it
			} else if events.CodeOf(gerr) != events.CodeNotFound {
				err = gerr
			}
		}
		return page, err
	})
}

func (a *app) printDead(items []streamwright.WorkItem) error {
	now, style := time.Now(), console.StyleFor(a.Out)
	head := []string{"ID", "TYPE", "DIED", "REASON", "ATTEMPTS", "CAUSE", "ERROR"}
	return printList(a, items, "", head, func(it streamwright.WorkItem) []string {
		text := ""
		if it.Error != nil {
			text = style.Clip(failure(it.Error), 60)
		}
		return []string{it.ID, it.Type, console.Ago(it.FinishedAt, now), style.Clip(it.Reason, 20),
			fmt.Sprintf("%d/%d", it.Attempt, it.MaxAttempts), it.Cause, text}
	})
}

func (a *app) causes(cmd *cobra.Command, q streamwright.CausesQuery) error {
	return a.ask(cmd, func(ctx context.Context, c *streamwright.Client) error {
		reply, err := c.DeadLetters().Causes(ctx, q)
		if err != nil {
			return err
		}
		now, style := time.Now(), console.StyleFor(a.Out)
		head := []string{"CAUSE", "TYPE", "DEAD", "IN ALL", "FIRST", "LAST", "REASON", "EXAMPLE", "ERROR"}
		err = printList(a, reply.Causes, "nothing is dead", head, func(cause streamwright.Cause) []string {
			return []string{cause.Cause, cause.Type, console.Count(cause.Dead), console.Count(cause.Count), console.Ago(cause.First, now),
				console.Ago(cause.Last, now), style.Clip(cause.Reason, 20), cause.Example, style.Clip(strings.TrimPrefix(cause.Code+": "+cause.Error, ": "), 60)}
		})
		if hidden := reply.Total - len(reply.Causes); hidden > 0 && !a.JSON {
			a.Notef("%s more: --limit", console.Count(hidden))
		}
		return err
	})
}
