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
	var sel streamwright.Selection
	var causes, all bool
	var sort string
	cmd := &cobra.Command{
		Use:   "dead",
		Short: "List dead items, or the causes that they died of",
		Example: "  engine dead --causes\n  engine dead --type email --since 1h\n" +
			"  engine dead --cause 3f1c9a52b7d04e88 --json",
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
	pageFlags(fs, &sel.List)
	fs.BoolVar(&all, "all", false, "show all pages; with --causes, include resolved causes")
	fs.BoolVar(&causes, "causes", false, "group the items by cause")
	fs.StringVar(&sort, "sort", "last", "the `order` of --causes: last, first, count or dead, the highest first")
	return cmd
}

func (a *app) dead(ctx context.Context, sel streamwright.Selection, all bool) error {
	return a.pages(ctx, all, "nothing is dead", a.showDead, func(ctx context.Context, c *streamwright.Client) (streamwright.Page, error) {
		page, err := c.Dead(ctx, sel)
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
			text = style.Clip(failure(it.Error), 60)
		}
		return []string{it.ID, it.Type, console.Ago(it.FinishedAt, now), style.Clip(it.Reason, 20),
			fmt.Sprintf("%d/%d", it.Attempt, it.MaxAttempts), it.Cause, text}
	})
}

func (a *app) causes(ctx context.Context, q streamwright.CausesQuery) error {
	return a.ask(ctx, func(ctx context.Context, c *streamwright.Client) error {
		reply, err := c.Causes(ctx, q)
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
