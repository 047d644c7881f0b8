package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
)

func verifyCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "verify",
		Short:   "Replay the log and compare the outcome with the live store",
		Long:    "Replay the whole log into a second store and compare it with the live one. Exit with 1 if they differ.",
		Example: "  engine verify\n  engine verify --json",
		Args:    console.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := a.prove(cmd.Context(), "verifying", streamwright.Engine.Verify)
			if err != nil {
				return err
			}
			return a.printVerified(p)
		},
	}
}

func rebuildCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "rebuild",
		Short:   "Rebuild the engine's store from the log",
		Example: "  engine rebuild",
		Args:    console.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := a.prove(cmd.Context(), "rebuilding", streamwright.Engine.Rebuild)
			return a.show(p, err, func() { a.Printf("rebuilt from %s; `engine verify` compares it with another replay\n", replayed(p)) })
		},
	}
}

type proving func(streamwright.Engine, context.Context, func(streamwright.Proof)) (streamwright.Proof, error)

// prove runs verify or rebuild under a progress bar.
func (a *app) prove(ctx context.Context, doing string, prove proving) (streamwright.Proof, error) {
	c, err := a.Connect(ctx)
	if err != nil {
		return streamwright.Proof{}, err
	}
	defer c.Close()
	show, end := a.bar(doing, "events")
	p, err := prove(c.Engine(), ctx, func(p streamwright.Proof) { show(int64(p.Events), int64(p.Total)) })
	end()
	return p, err
}

func (a *app) printVerified(p streamwright.Proof) error {
	var err error
	switch {
	case a.JSON:
		if err = a.PrintJSON(p); err == nil && !p.Equal {
			err = console.ErrTold
		}
	case p.Equal:
		a.Printf("equal: %s, give the live store; digest %s\n", replayed(p), p.Digest)
	default:
		a.Printf("DIFFERENT: %s, give digest %s, the live store has %s\n", replayed(p), p.Digest, p.Live)
		for _, d := range p.Diff {
			a.Printf("  %s\n", console.Clean(d))
		}
		err = fmt.Errorf("the live store is not what the log says: run `engine rebuild`, and keep a copy of the data folder for the report")
	}
	return err
}

func replayed(p streamwright.Proof) string {
	took := time.Duration(p.ElapsedMS) * time.Millisecond
	return fmt.Sprintf("%s, replayed in %s", console.Plural(p.Events, "event"), console.Span(took))
}

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
			return a.ask(cmd, func(ctx context.Context, c *streamwright.Client) error {
				r, err := c.Engine().Cut(ctx)
				return a.show(r, err, func() { a.printRetention(&r) })
			})
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
