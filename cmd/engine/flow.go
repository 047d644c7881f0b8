package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// flowFlags are those flags of submit that say what an item has to do with
// others, and when it is no longer wanted.
type flowFlags struct {
	after       []string
	afterPolicy string
	dedupPolicy string
	dedupWindow string
	expiresAt   string
	batch       string
	estimate    time.Duration
}

func (f *flowFlags) define(fs *pflag.FlagSet) {
	fs.StringSliceVar(&f.after, "after", nil, "run after the item with this `id` has ended (repeatable)")
	fs.StringVar(&f.batch, "batch", "", "make it an item of the batch with this `id`")
	fs.StringVar(&f.afterPolicy, "after-policy", "", "what to do if one of those ends dead or cancelled, a `policy`: cancel (the default), dead or run")
	fs.StringVar(&f.dedupPolicy, "dedup-policy", "", "what to do if the dedup key is taken, a `policy`: merge (the default), distinct, supersede or defer")
	fs.StringVar(&f.dedupWindow, "dedup-window", "", "how long the dedup key stays taken after completion, a `duration` such as 1h (default: the type's)")
	fs.StringVar(&f.expiresAt, "expires-at", "", "cancel it if it has not started by this `time` (RFC 3339)")
	fs.DurationVar(&f.estimate, "estimated-duration", 0, "how long a run is likely to take, such as 90s: the waits of those behind it go by it")
}

// into checks the flags and puts them into the item.
func (f *flowFlags) into(item *streamwright.Item) error {
	item.After = f.after
	for _, id := range f.after {
		if _, err := events.ParseID(id); err != nil {
			return console.Usagef("--after: %v", err)
		}
	}
	if item.Batch = f.batch; f.batch != "" {
		if _, err := events.ParseID(f.batch); err != nil {
			return console.Usagef("--batch: %v", err)
		}
	}
	item.AfterPolicy, item.DedupPolicy = events.AfterPolicy(f.afterPolicy), events.DedupPolicy(f.dedupPolicy)
	switch item.AfterPolicy {
	case "", events.AfterCancel, events.AfterDead, events.AfterRun:
	default:
		return console.Usagef("--after-policy %q: use cancel, dead or run", f.afterPolicy)
	}
	switch item.DedupPolicy {
	case "", events.DedupMerge, events.DedupDistinct, events.DedupSupersede, events.DedupDefer:
	default:
		return console.Usagef("--dedup-policy %q: use merge, distinct, supersede or defer", f.dedupPolicy)
	}
	if f.dedupWindow != "" {
		d, err := time.ParseDuration(f.dedupWindow)
		if err != nil || d < 0 {
			return console.Usagef("invalid --dedup-window %q: use a duration such as 90s, 5m or 1h30m", f.dedupWindow)
		}
		item.DedupWindow = &d
	}
	if f.estimate < 0 {
		return console.Usagef("--estimated-duration %s is negative: write it as 90s, 5m or 1h30m", f.estimate)
	}
	item.EstimatedDuration = f.estimate
	if f.expiresAt != "" {
		t, err := parseTime("--expires-at", f.expiresAt)
		if err != nil {
			return err
		}
		item.ExpiresAt = t
	}
	return nil
}

// overlayTerms is overlay for what a line says of other items.
func overlayTerms(item *streamwright.Item, t wire.SubmitOptions) {
	if len(t.After) > 0 {
		item.After = t.After
	}
	set(&item.Batch, t.Batch)
	set(&item.AfterPolicy, t.AfterPolicy)
	set(&item.DedupPolicy, t.DedupPolicy)
	set(&item.ExpiresAt, t.ExpiresAt)
	set(&item.EstimatedDuration, time.Duration(t.EstimatedDurationMS)*time.Millisecond)
	if t.DedupWindowMS != nil {
		d := time.Duration(*t.DedupWindowMS) * time.Millisecond
		item.DedupWindow = &d
	}
}

// waitNote is what a waiting item waits for, in a list.
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

// printFlow prints the fields of an item's flow, those that are set.
func (a *app) printFlow(it streamwright.WorkItem, now time.Time) {
	style, field := console.StyleFor(a.Out), a.field
	if p := it.Progress; p != nil {
		field("progress", fmt.Sprintf("%s  (%s)", progressText(p, 200, style), console.Ago(p.At, now)))
	}
	if it.Batch != nil {
		field("batch", batchText(it.Batch, it.State))
		field("items", "engine list --batch "+it.ID)
	}
	if n := it.Children; n != nil && n.Declared > n.Total {
		field("children", fmt.Sprintf("%d of %d made so far, %d have not ended", n.Total, n.Declared, n.Live))
	}
	if it.HasCheckpoint {
		field("checkpoint", "saved: the next attempt gets it")
	}
	if it.Continues {
		field("continuation", strings.TrimSpace(console.Clean(it.Continuation)+" "+continues(it)))
	}
	for _, id := range it.Waits {
		field("waits for", id)
	}
	if more := it.WaitsLeft - len(it.Waits); more > 0 {
		field("waits for", fmt.Sprintf("and %d more", more))
	}
	if it.Awaited > 0 {
		field("awaited by", console.Plural(it.Awaited, "item"))
	}
	field("because of", it.By)
	if !it.ExpiresAt.IsZero() {
		field("expires", fmt.Sprintf("%s  (%s)", it.ExpiresAt.Format(time.RFC3339Nano), console.Ago(it.ExpiresAt, now)))
	}
	if it.EstimatedDurationMS > 0 {
		field("estimated run", console.Span(time.Duration(it.EstimatedDurationMS)*time.Millisecond))
	}
	if it.DedupWindowMS > 0 {
		field("dedup window", console.Span(time.Duration(it.DedupWindowMS)*time.Millisecond))
	}
	if it.LeasesLost > 0 {
		field("leases lost", fmt.Sprint(it.LeasesLost))
	}
	field("group", console.Clean(it.Group))
}

func continues(it streamwright.WorkItem) string {
	if it.State == events.StateWaiting {
		return "(when the children have ended)"
	}
	return "(the children have ended)"
}

// printTree draws what is above and below an item.
func (a *app) printTree(ctx context.Context, c *streamwright.Client, it streamwright.WorkItem) error {
	if it.Parent == "" && it.Children == nil {
		return nil
	}
	tree, err := c.Tree(ctx, it.ID)
	if err != nil {
		return err
	}
	style := console.StyleFor(a.Out)
	a.Printf("\n%s\n", style.Faint("tree"))
	depth := 0
	for i := range tree.Path {
		a.Printf("%s%s\n", lead(depth), nodeLine(&tree.Path[i], style))
		depth++
	}
	a.Printf("%s%s%s\n", lead(depth), nodeLine(&tree.Root, style), style.Faint("  ← this"))
	indent := ""
	if depth > 0 {
		indent = strings.Repeat("   ", depth)
	}
	a.drawBelow(&tree.Root, indent, style)
	return nil
}

// lead stands before an item of the path.
func lead(depth int) string {
	if depth == 0 {
		return ""
	}
	return strings.Repeat("   ", depth-1) + "└─ "
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

// nodeLine is an item of a tree on one line.
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
