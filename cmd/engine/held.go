package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright"
)

func heldCommand(a *app) *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use:   "held TYPE KEY",
		Short: "Show the item that holds a dedup key",
		Long: `Show the live item that holds a dedup key: a submission with this key would be
a duplicate of it. A free key is an error, not_found.

With --watch, show the holder and every change, until interrupted. A free key
shows as "free", in JSON as an object without id.

The holder may have changed by the time it is read: only a submission decides.`,
		Example: "  engine held check project-17\n  engine held check project-17 --watch --json",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if watch {
				return a.watchHolder(cmd.Context(), args[0], args[1])
			}
			return a.ask(cmd.Context(), func(ctx context.Context, c *streamwright.Client) error {
				info, err := c.Info(ctx)
				if err != nil {
					return err
				}
				c.ObservePosition(info.Position) // show what any command before this one has done
				h, err := c.Holder(ctx, args[0], args[1])
				if err != nil {
					return err
				}
				return a.showHolder(h)
			})
		},
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "show every change, until interrupted")
	return cmd
}

func (a *app) watchHolder(ctx context.Context, typ, key string) error {
	return a.with(ctx, func(c *streamwright.Client) error {
		err := c.WatchHolder(ctx, typ, key, a.showHolder)
		if errors.Is(ctx.Err(), context.Canceled) {
			return nil // interrupted, which is how a watch ends
		}
		return err
	})
}

func (a *app) showHolder(h streamwright.Holder) error {
	switch {
	case a.JSON && h.ID == "":
		return a.PrintJSON(struct{}{})
	case a.JSON:
		return a.PrintJSON(h)
	case h.ID == "":
		a.Printf("free\n")
	default:
		a.Printf("%s  %s\n", h.ID, a.Style().State(h.State))
	}
	return nil
}
