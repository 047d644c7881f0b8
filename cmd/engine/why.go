package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
)

func whyCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "why ID",
		Short: "Explain why an item is not running now",
		Long: `Explain why an item is not running now: show all reasons at once, each with its code
and, where it passes by itself, until when.`,
		Example: "  engine why 01JD3V6YB2M4C9W8ZK5T7QXRNE",
		Args:    console.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, ctx, done, err := a.client(cmd.Context())
			if err != nil {
				return err
			}
			defer done()
			w, err := c.Why(ctx, args[0])
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(w)
			}
			a.printWhy(w)
			return nil
		},
	}
}

func (a *app) printWhy(w streamwright.Explanation) {
	style := console.StyleFor(a.Out)
	a.Printf("%s  %s  %s\n", w.ID, w.Type, style.State(w.State))
	now := time.Now()
	for _, r := range w.Reasons {
		until := ""
		if !r.Until.IsZero() {
			until = ", passes " + console.Ago(r.Until, now)
		}
		a.Printf("  %s%s: %s\n", r.Code, until, console.Clean(r.Message))
		for _, id := range r.Items {
			a.Printf("    %s\n", id)
		}
	}
}
