package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
)

func verifyCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "verify",
		Short: "Replay the log and compare the outcome with the live store",
		Long: `Replay the whole log into a second store and compare it with the live one. Exit
with 1 if they differ.`,
		Example: "  engine verify\n  engine verify --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := a.prove(cmd.Context(), "verifying", (*streamwright.Client).Verify)
			err = a.show(p, err, func() { a.printVerified(p) })
			switch {
			case err != nil || p.Equal:
				return err
			case a.JSON:
				return console.ErrTold
			}
			return errors.New("the live store is not what the log says: run `engine rebuild`, and keep a copy of the data folder for the report")
		},
	}
}

func rebuildCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "rebuild",
		Short:   "Rebuild the engine's store from the log",
		Example: "  engine rebuild",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := a.prove(cmd.Context(), "rebuilding", (*streamwright.Client).Rebuild)
			return a.show(p, err, func() { a.Printf("rebuilt from %s; `engine verify` compares it with another replay\n", replayed(p)) })
		},
	}
}

type proving func(*streamwright.Client, context.Context, func(streamwright.Proof)) (streamwright.Proof, error)

// prove runs verify or rebuild under a progress bar.
func (a *app) prove(ctx context.Context, doing string, prove proving) (p streamwright.Proof, err error) {
	err = a.with(ctx, func(c *streamwright.Client) error {
		show, end := a.bar(doing, "events")
		defer end()
		p, err = prove(c, ctx, func(p streamwright.Proof) { show(int64(p.Events), int64(p.Total)) })
		return err
	})
	return p, err
}

func (a *app) printVerified(p streamwright.Proof) {
	if p.Equal {
		a.Printf("equal: %s, give the live store; digest %s\n", replayed(p), p.Digest)
		return
	}
	a.Printf("DIFFERENT: %s, give digest %s, the live store has %s\n", replayed(p), p.Digest, p.Live)
	for _, d := range p.Diff {
		a.Printf("  %s\n", console.Clean(d))
	}
}

func replayed(p streamwright.Proof) string {
	return fmt.Sprintf("%s, replayed in %s", console.Plural(p.Events, "event"), millis(p.ElapsedMS))
}

func cutCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "cut",
		Short:   "Cut the event log now, in front of what is kept",
		Example: "  engine cut",
		Long: `Cut the event log now. The engine does so by itself when the log has grown
([retention] in engine.toml). It re-states every item that it keeps, with its
history, and then drops the log in front of that. Time travel (--at) reaches
back to the cut. The command returns at once: engine status shows the rest.`,
		Args: cobra.NoArgs,
		RunE: a.asks(func(ctx context.Context, c *streamwright.Client, _ []string) error {
			r, err := c.Cut(ctx)
			return a.show(r, err, func() { a.printRetention(&r) })
		}),
	}
}

// printRetention prints on one line what is kept.
func (a *app) printRetention(r *streamwright.Retention) {
	if r == nil {
		return
	}
	a.Printf("log %s to %s  items kept %s  pruned %s", r.LogFirst, cmp.Or(r.LogLast, "0"), console.Count(r.Retained), console.Count(r.Pruned))
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
