package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
)

func cutCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "cut",
		Short:   "Cut the event log now, in front of what is kept",
		Example: "  engine cut",
		Long: "Cut the event log now. The engine does so by itself when the log has grown ([retention] in engine.toml).\n" +
			"It re-states every item that it keeps, with its history, and then drops the log in front of that.\n" +
			"Time travel (--at) reaches back to the cut. The command returns at once: engine status shows the rest.",
		Args: console.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, ctx, done, err := a.client(cmd.Context())
			if err != nil {
				return err
			}
			defer done()
			r, err := c.Cut(ctx)
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(r)
			}
			a.printRetention(&r)
			return nil
		},
	}
}

// printRetention shows what is kept, in a line.
func (a *app) printRetention(r *streamwright.Retention) {
	if r == nil {
		return
	}
	a.Printf("log %s to %s  items kept %s  pruned %s", r.LogFirst, orZero(string(r.LogLast)), console.Count(r.Retained), console.Count(r.Pruned))
	if r.Held > 0 {
		a.Printf("  past their time, still referred to %s", console.Count(int64(r.Held)))
	}
	if !r.LastCut.IsZero() {
		a.Printf("  last cut %s", console.Ago(r.LastCut, time.Now()))
	}
	if r.Round != "" {
		a.Printf("  a cut is under way (%s)", r.Round)
	}
	a.Printf("\n")
}
