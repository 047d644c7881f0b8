package main

import (
	"context"
	"fmt"
	"time"

	"github.com/schollz/progressbar/v3"
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
			p, err := a.prove(cmd.Context(), "verifying", (*streamwright.Client).Verify)
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
			p, err := a.prove(cmd.Context(), "rebuilding", (*streamwright.Client).Rebuild)
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(p)
			}
			a.Printf("rebuilt from %s; `engine verify` compares it with another replay\n", replayed(p))
			return nil
		},
	}
}

type proving func(*streamwright.Client, context.Context, func(streamwright.Proof)) (streamwright.Proof, error)

// prove runs verify or rebuild under a progress bar.
func (a *app) prove(ctx context.Context, doing string, prove proving) (streamwright.Proof, error) {
	c, err := a.Connect(ctx)
	if err != nil {
		return streamwright.Proof{}, err
	}
	defer c.Close()
	var bar *progressbar.ProgressBar
	progress := func(p streamwright.Proof) {
		if !console.OnTerminal(a.Err) {
			return
		}
		if bar == nil {
			bar = progressbar.NewOptions64(int64(p.Total), progressbar.OptionSetWriter(a.Err), progressbar.OptionSetDescription(doing),
				progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("events"),
				progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
		}
		bar.ChangeMax64(int64(p.Total))
		_ = bar.Set64(int64(p.Events))
	}
	p, err := prove(c, ctx, progress)
	if bar != nil {
		_ = bar.Clear()
		_ = bar.Exit()
	}
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
