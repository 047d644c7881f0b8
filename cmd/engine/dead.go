package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
)

func deadCommand(a *app) *cobra.Command {
	var f selectFlags
	var causes, all bool
	q := streamwright.CausesQuery{}
	cmd := &cobra.Command{
		Use:   "dead",
		Short: "List dead items, those that died last first; or, with --causes, what they died of",
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
	fs.IntVar(&f.sel.Limit, "limit", 50, "items in a page, at most 1000")
	fs.StringVar(&f.sel.Cursor, "cursor", "", "go on from where a page has ended")
	fs.BoolVar(&all, "all", false, "all pages; with --causes, also those of which nothing is dead now")
	fs.BoolVar(&causes, "causes", false, "group by cause")
	fs.StringVar(&q.Sort, "sort", "last", "order of --causes: last, first, count or dead, the highest first")
	return cmd
}

func (a *app) dead(cmd *cobra.Command, sel streamwright.Selection, all bool) error {
	return a.pages(cmd, all, "nothing is dead", a.printDead, func(ctx context.Context, c *streamwright.Client) (streamwright.Page, error) {
		page, err := c.Dead(ctx, sel)
		sel.Cursor = page.NextCursor
		return page, err
	})
}

func (a *app) printDead(items []streamwright.WorkItem) error {
	if a.JSON || len(items) == 0 {
		return a.printItems(items)
	}
	now, style := time.Now(), console.StyleFor(a.Out)
	rows := [][]string{{"ID", "TYPE", "DIED", "REASON", "ATTEMPTS", "CAUSE", "ERROR"}}
	for _, it := range items {
		text := ""
		if it.Error != nil {
			text = console.Clip(it.Error.Code+": "+it.Error.Message, 60)
		}
		rows = append(rows, []string{it.ID, it.Type, console.Ago(it.FinishedAt, now), console.Clip(it.Reason, 20),
			fmt.Sprintf("%d/%d", it.Attempt, it.MaxAttempts), it.Cause, text})
	}
	console.Table(a.Out, style, rows)
	return nil
}

func (a *app) causes(cmd *cobra.Command, q streamwright.CausesQuery) error {
	c, ctx, done, err := a.client(cmd.Context())
	if err != nil {
		return err
	}
	defer done()
	reply, err := c.Causes(ctx, q)
	if err != nil {
		return err
	}
	if a.JSON {
		for _, cause := range reply.Causes {
			if err := a.PrintJSON(cause); err != nil {
				return err
			}
		}
		return nil
	}
	if len(reply.Causes) == 0 {
		a.Notef("nothing is dead")
		return nil
	}
	now, style := time.Now(), console.StyleFor(a.Out)
	rows := [][]string{{"CAUSE", "TYPE", "DEAD", "IN ALL", "FIRST", "LAST", "REASON", "EXAMPLE", "ERROR"}}
	for _, cause := range reply.Causes {
		rows = append(rows, []string{cause.Cause, cause.Type, console.Count(cause.Dead), console.Count(cause.Count), console.Ago(cause.First, now),
			console.Ago(cause.Last, now), console.Clip(cause.Reason, 20), cause.Example, console.Clip(strings.TrimPrefix(cause.Code+": "+cause.Error, ": "), 60)})
	}
	console.Table(a.Out, style, rows)
	if hidden := reply.Total - len(reply.Causes); hidden > 0 {
		a.Notef("%s more: --limit", console.Count(hidden))
	}
	return nil
}
