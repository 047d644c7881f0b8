package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/cli"
	"github.com/streamwright/streamwright/wire"
)

func batchesCommand(a *app) *cobra.Command {
	return noun(a, &cobra.Command{
		Use:   "batches",
		Short: "List batches, open one, show how far it has come, seal it",
		Long: `List the batches. A batch is an item that runs nothing: it waits for the items
that are submitted with --batch, and completes once it is sealed (or has the
items that were declared when it was opened) and the last of them has ended.
engine cancel ID cancels all of it that has not ended.`,
		Example: "  engine batches\n  engine batches open --name nightly\n  engine batches show 01JD3V6YB2M4C9W8ZK5T7QXRNE",
	}, batchesListCommand, batchesShowCommand, batchesOpenCommand, batchesSealCommand)
}

func batchesListCommand(a *app) *cobra.Command {
	l := listing{Filter: streamwright.Filter{Type: string(events.BatchType)}}
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List batches, the last changed first",
		Example: "  engine batches list\n  engine batches list --state waiting",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.list(cmd.Context(), l, "no batches") },
	}
	l.define(cmd.Flags())
	return cmd
}

func batchesShowCommand(a *app) *cobra.Command {
	var wait bool
	cmd := &cobra.Command{
		Use:     "show ID",
		Short:   "Show how far a batch has come",
		Example: "  engine batches show 01JD3V6YB2M4C9W8ZK5T7QXRNE\n  engine batches show 01JD3V6YB2M4C9W8ZK5T7QXRNE --wait",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.ask(cmd.Context(), func(ctx context.Context, c *streamwright.Client) error {
				get := c.Get
				if wait {
					ctx, get = cmd.Context(), c.Wait
				}
				it, err := get(ctx, args[0])
				if err == nil && it.Batch == nil {
					err = fmt.Errorf("item %s is not a batch: see `engine show %s`", it.ID, it.ID)
				}
				return a.show(it, err, func() { a.printBatch(it.ID, it.State, it.Batch) })
			})
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until all of it has ended")
	return cmd
}

func batchesSealCommand(a *app) *cobra.Command {
	var count int
	cmd := &cobra.Command{
		Use:     "seal ID",
		Short:   "Settle how many items a batch has",
		Example: "  engine batches seal 01JD3V6YB2M4C9W8ZK5T7QXRNE",
		Args:    cobra.ExactArgs(1),
		RunE: a.asks(func(ctx context.Context, c *streamwright.Client, args []string) error {
			out, err := c.Batches().Seal(ctx, args[0], count)
			return a.show(out, err, func() { a.printBatch(out.ID, out.State, &out.Batch) })
		}),
	}
	cmd.Flags().Func("count", "how many `items` it has in all (default: as many as there are)", console.Positive(&count))
	return cmd
}

func batchesOpenCommand(a *app) *cobra.Command {
	var b streamwright.NewBatch
	var callback string
	var policy events.AfterPolicy
	cmd := &cobra.Command{
		Use:     "open",
		Short:   "Open a batch, and print its id",
		Example: "  engine batches open --name nightly\n  engine batches open --count 1500 --callback 'report {\"of\":\"nightly\"}'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if callback == "" && policy != "" {
				return cli.Usagef("--callback-policy is for a --callback")
			}
			if callback != "" {
				typ, params, _ := strings.Cut(strings.TrimSpace(callback), " ")
				b.Callback = &streamwright.Item{Type: typ, AfterPolicy: policy}
				if params = strings.TrimSpace(params); params != "" {
					if !json.Valid([]byte(params)) {
						return cli.Usagef("--callback: the params %q are not JSON: write TYPE, or TYPE and a JSON document", console.Clip(params, 64))
					}
					b.Callback.Params = json.RawMessage(params)
				}
			}
			return a.ask(cmd.Context(), func(ctx context.Context, c *streamwright.Client) error {
				out, err := c.Batches().Open(ctx, b)
				return a.show(out, err, func() { a.Printf("%s\n", out.ID) })
			})
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&b.ID, "id", "", "the batch's `id`, a ULID, so that the command may be repeated")
	fs.StringVar(&b.Name, "name", "", "a `name` for people")
	fs.Func("count", "how many `items` it will have (default: until it is sealed)", console.Positive(&b.Count))
	fs.StringVar(&b.Tenant, "tenant", "", "the `tenant` of the batch")
	fs.StringVar(&callback, "callback", "", "an item to run once all have ended: its `type`, or type and params")
	fs.Func("callback-policy", "the `policy` for the callback if an item ends dead or cancelled: cancel (the default), dead or run",
		console.Choice(&policy, events.AfterCancel, events.AfterDead, events.AfterRun))
	return cmd
}

func (a *app) printBatch(id string, state events.ItemState, b *wire.BatchCounts) {
	a.Printf("%s  %s  %s\n", id, a.Style().State(state), console.BatchText(b, state))
}

// flow prints what an item has to do with others.
func (f fields) flow(it streamwright.WorkItem) {
	if p := it.Progress; p != nil {
		f.field("progress", fmt.Sprintf("%s  (%s)", console.ProgressText(p, 200, f.Style()), console.Ago(p.At, f.now)))
	}
	if it.Batch != nil {
		f.field("batch", console.BatchText(it.Batch, it.State))
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
	if w := it.WaitsFor; w != nil {
		f.field("waits", console.Clean(console.WaitText(w)))
		f.at("since", w.Since)
		f.at("deadline", w.Until)
		f.field("then", string(w.Then))
	}
	f.text("submitted by", it.SubmittedBy)
	f.number("unread signals", uint64(it.UnreadSignals))
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
	f.span("estimated run", it.EstimatedDuration)
	f.span("dedup window", it.DedupWindow)
	f.number("leases lost", uint64(it.LeasesLost))
	f.number("attempts spared", uint64(it.AttemptsSpared))
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
		parts = append(parts, console.ProgressText(n.Progress, 60, style))
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
