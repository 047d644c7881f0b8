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
	"github.com/streamwright/streamwright/wire"
)

func batchCommand(a *app) *cobra.Command {
	var wait bool
	cmd := &cobra.Command{
		Use:   "batch ID",
		Short: "Show how far a batch has come, open one, or seal it",
		Long: "Show how far a batch has come. A batch is an item that runs nothing: it waits for the items that are\n" +
			"submitted with --batch, and completes once it is sealed (or has the items that were declared when it was\n" +
			"opened) and the last of them has ended. engine cancel ID cancels all of it that has not ended.",
		Example: "  engine batch 01JD3V6YB2M4C9W8ZK5T7QXRNE\n  engine batch 01JD3V6YB2M4C9W8ZK5T7QXRNE --wait",
		Args:    console.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.ask(cmd, func(ctx context.Context, c *streamwright.Client) error {
				get := c.Get
				if wait {
					ctx, get = cmd.Context(), c.Wait
				}
				it, err := get(ctx, args[0])
				if err != nil {
					return err
				}
				if it.Batch == nil {
					return fmt.Errorf("item %s is not a batch: see engine show", it.ID)
				}
				return a.printBatch(it.ID, it.State, *it.Batch, it)
			})
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until all of it has ended")
	cmd.AddCommand(openBatchCommand(a), sealBatchCommand(a))
	return cmd
}

func openBatchCommand(a *app) *cobra.Command {
	var b streamwright.NewBatch
	var callback, policy string
	cmd := &cobra.Command{
		Use:     "open",
		Short:   "Open a batch, and print its id",
		Example: "  engine batch open --name nightly\n  engine batch open --count 1500 --callback 'report {\"of\":\"nightly\"}' --callback-policy run",
		Args:    console.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if callback != "" {
				typ, params, _ := strings.Cut(strings.TrimSpace(callback), " ")
				b.Callback = &wire.Submit{Type: typ}
				if params = strings.TrimSpace(params); params != "" {
					if !json.Valid([]byte(params)) {
						return console.Usagef("--callback: the params %q are no JSON: write TYPE, or TYPE and a JSON document", console.Clip(params, 64))
					}
					b.Callback.Params = json.RawMessage(params)
				}
				b.Callback.AfterPolicy = events.AfterPolicy(policy)
			} else if policy != "" {
				return console.Usagef("--callback-policy is for a --callback")
			}
			return a.ask(cmd, func(ctx context.Context, c *streamwright.Client) error {
				out, err := c.Batches().Open(ctx, b)
				return a.show(out, err, func() { a.Printf("%s\n", out.ID) })
			})
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&b.ID, "id", "", "the batch's `id`, a ULID, so that the command may be repeated")
	fs.StringVar(&b.Name, "name", "", "a `name` for people")
	fs.IntVar(&b.Count, "count", 0, "how many `items` it will have (default: until it is sealed)")
	fs.StringVar(&b.Tenant, "tenant", "", "the `tenant` of the batch")
	fs.StringVar(&callback, "callback", "", "an item to run once all have ended: its `type`, or type and params")
	fs.StringVar(&policy, "callback-policy", "", "what to do with the callback if an item ends dead or cancelled, a `policy`: cancel (the default), dead or run")
	return cmd
}

func sealBatchCommand(a *app) *cobra.Command {
	var count int
	cmd := &cobra.Command{
		Use:     "seal ID",
		Short:   "Settle how many items a batch has",
		Example: "  engine batch seal 01JD3V6YB2M4C9W8ZK5T7QXRNE",
		Args:    console.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.ask(cmd, func(ctx context.Context, c *streamwright.Client) error {
				out, err := c.Batches().Seal(ctx, args[0], count)
				if err != nil {
					return err
				}
				return a.printBatch(out.ID, out.State, out.Batch, out)
			})
		},
	}
	cmd.Flags().IntVar(&count, "count", 0, "how many `items` it has in all (default: as many as there are)")
	return cmd
}

// printBatch prints how far a batch has come, or all as JSON.
func (a *app) printBatch(id string, state events.ItemState, b wire.BatchCounts, all any) error {
	if a.JSON {
		return a.PrintJSON(all)
	}
	style := console.StyleFor(a.Out)
	a.Printf("%s  %s  %s\n", id, style.State(state), batchText(&b, state))
	return nil
}

// batchText is how far a batch in a state has come, on one line. Once it has ended
// nothing more comes.
func batchText(b *wire.BatchCounts, state events.ItemState) string {
	of := max(b.Total, b.Declared)
	text := fmt.Sprintf("%d of %d done", b.Done, of)
	if of > 0 {
		text += fmt.Sprintf(" (%d %%)", 100*b.Done/of)
	}
	if b.Dead > 0 {
		text += fmt.Sprintf(", %d dead", b.Dead)
	}
	if b.Cancelled > 0 {
		text += fmt.Sprintf(", %d cancelled", b.Cancelled)
	}
	switch {
	case state.Terminal():
	case !b.Sealed:
		text += ", open: more may come"
	case b.Total < b.Declared:
		text += fmt.Sprintf(", %d still to be submitted", b.Declared-b.Total)
	}
	if b.Name != "" {
		text = console.Clip(b.Name, 60) + ": " + text
	}
	return text
}
