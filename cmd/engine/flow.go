package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/events"
)

// waitNote tells in a list what a waiting item waits for.
func waitNote(it streamwright.WorkItem, style console.Style) string {
	switch {
	case it.Batch != nil:
		return batchText(it.Batch, it.State)
	case it.WaitsLeft > 0:
		return fmt.Sprintf("for %d to end (%s)", it.WaitsLeft, style.Clip(it.Reason, 30))
	case it.Children != nil:
		return fmt.Sprintf("for %d of %s", it.Children.Live, console.Children(it.Children.Total))
	}
	return style.Clip(it.Reason, 60)
}

func progressText(p *streamwright.Progress, n int, style console.Style) string {
	text := fmt.Sprintf("%d %%", p.Percent)
	if p.Message != "" {
		text += "  " + style.Clip(p.Message, n)
	}
	return text
}

// flow prints what an item has to do with others.
func (f fields) flow(it streamwright.WorkItem) {
	if p := it.Progress; p != nil {
		f.field("progress", fmt.Sprintf("%s  (%s)", progressText(p, 200, f.Style()), console.Ago(p.At, f.now)))
	}
	if it.Batch != nil {
		f.field("batch", batchText(it.Batch, it.State))
		f.field("items", "engine list --batch "+it.ID)
	}
	if n := it.Children; n != nil && n.Declared > n.Total {
		f.field("children", fmt.Sprintf("%d of %d made so far, %d have not ended", n.Total, n.Declared, n.Live))
	}
	if it.HasCheckpoint {
		f.field("checkpoint", "saved: the next attempt gets it")
	}
	if it.Continues {
		when := "(the children have ended)"
		if it.State == events.StateWaiting {
			when = "(when the children have ended)"
		}
		f.field("continuation", strings.TrimSpace(console.Clean(it.Continuation)+" "+when))
	}
	for _, id := range it.Waits {
		f.field("waits for", id)
	}
	if more := it.WaitsLeft - len(it.Waits); more > 0 {
		f.field("waits for", fmt.Sprintf("and %d more", more))
	}
	if it.Awaited > 0 {
		f.field("awaited by", console.Plural(it.Awaited, "item"))
	}
	f.field("because of", it.By)
	f.at("expires", it.ExpiresAt)
	f.span("estimated run", it.EstimatedDurationMS)
	f.span("dedup window", it.DedupWindowMS)
	f.number("leases lost", uint64(it.LeasesLost))
	f.text("group", it.Group)
}

// printTree draws the items above and below one.
func (a *app) printTree(ctx context.Context, c *streamwright.Client, it streamwright.WorkItem) error {
	if it.Parent == "" && it.Children == nil {
		return nil
	}
	tree, err := c.Tree(ctx, it.ID)
	if err != nil {
		return err
	}
	style := a.Style()
	a.Printf("\n%s\n", style.Faint("tree"))
	lead, indent := "", ""
	for i := range tree.Path {
		a.Printf("%s%s\n", lead, nodeLine(&tree.Path[i], style))
		lead, indent = indent+"└─ ", indent+"   "
	}
	a.Printf("%s%s%s\n", lead, nodeLine(&tree.Root, style), style.Faint("  ← this"))
	a.drawBelow(&tree.Root, indent, style)
	return nil
}

// drawBelow draws a node's children.
func (a *app) drawBelow(n *streamwright.TreeNode, indent string, style console.Style) {
	for i := range n.Children {
		branch, deeper := "├─ ", "│  "
		if i == len(n.Children)-1 && !n.Truncated {
			branch, deeper = "└─ ", "   "
		}
		a.Printf("%s%s%s\n", indent, branch, nodeLine(&n.Children[i], style))
		a.drawBelow(&n.Children[i], indent+deeper, style)
	}
	if n.Truncated {
		a.Printf("%s└─ %s\n", indent, style.Faint("… and more, not shown: show one of these"))
	}
}

// nodeLine returns an item of a tree on one line.
func nodeLine(n *streamwright.TreeNode, style console.Style) string {
	parts := []string{n.ID, n.Type, style.State(n.State)}
	if n.Progress != nil && n.State == events.StateRunning {
		parts = append(parts, progressText(n.Progress, 60, style))
	}
	if n.Attempt > 1 {
		parts = append(parts, fmt.Sprintf("#%d", n.Attempt))
	}
	if n.Reason != "" && (n.State == events.StateDead || n.State == events.StateCancelled || n.State == events.StateWaiting) {
		parts = append(parts, style.Clip(n.Reason, 60))
	}
	if n.Code != "" && n.State == events.StateDead {
		parts = append(parts, "("+style.Clip(n.Code, 40)+")")
	}
	return strings.Join(parts, "  ")
}
