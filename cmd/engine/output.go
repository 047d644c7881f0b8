package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/internal/cli"
)

func outputCommand(a *app) *cobra.Command {
	var follow bool
	var after uint64
	cmd := &cobra.Command{
		Use:   "output ID",
		Short: "Show the output of an item",
		Long: `Write what an item's run has written as its output to standard output, byte for
byte. With --follow, continue until the item is finished. When another run of
the item begins, what was shown before is void: a line on standard error says
so, and the output of the new run follows.

With --json, each chunk is a JSON object with its position, seq, behind which
--after continues.`,
		Example: "  engine output 01JD3V6YB2M4C9W8ZK5T7QXRNE --follow\n  engine output 01JD3V6YB2M4C9W8ZK5T7QXRNE --follow --json --after 4711",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if after > 0 && !follow {
				return cli.Usagef("--after goes with --follow")
			}
			return a.with(cmd.Context(), func(c *streamwright.Client) error {
				o := outputPrinter{a: a, after: after}
				if follow {
					return c.FollowOutput(cmd.Context(), args[0], after, o.show)
				}
				ctx, cancel := a.Within(cmd.Context())
				defer cancel()
				return o.all(ctx, c, args[0])
			})
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "continue with new output until the item is finished")
	cmd.Flags().Uint64Var(&after, "after", 0, "begin behind the chunk with this `seq`; with --follow")
	return cmd
}

// outputPrinter prints the output of an item.
type outputPrinter struct {
	a     *app
	after uint64 // where it began
	any   bool   // a chunk was shown
	bytes int    // of the run that are known
}

// all prints what there is.
func (o *outputPrinter) all(ctx context.Context, c *streamwright.Client, id string) error {
	chunks, err := c.OutputChunks(ctx, id, 0)
	for ; err == nil && len(chunks) > 0; chunks, err = c.OutputChunks(ctx, id, chunks[len(chunks)-1].Seq) {
		for _, chunk := range chunks {
			if err := o.show(chunk); err != nil {
				return err
			}
		}
	}
	if err == nil && !o.any && !o.a.JSON {
		o.a.Notef("its runs have written no output")
	}
	return err
}

func (o *outputPrinter) show(chunk streamwright.OutputChunk) error {
	b, err := chunk.Bytes()
	if err != nil {
		return fmt.Errorf("read the output: %w", err)
	}
	if o.a.JSON {
		return o.a.PrintJSON(chunk)
	}
	switch {
	case chunk.Reset && (o.any || o.after > 0):
		o.a.Notef("\n--- a run begins (attempt %d): its output takes the place of what is above ---", chunk.Attempt)
		o.bytes = 0
	case o.any && chunk.Offset > o.bytes, !o.any && o.after == 0 && chunk.Offset > 0:
		o.a.Notef("\n--- %d bytes are no longer kept ---", chunk.Offset-o.bytes)
	}
	o.any, o.bytes = true, chunk.Offset+len(b)
	if _, err = o.a.Out.Write(b); err == nil && chunk.Cut {
		o.a.Notef("\n--- the output has reached its bound: what is beyond was dropped ---")
	}
	return err
}
