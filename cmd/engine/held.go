package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
)

func heldCommand(a *app) *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use:   "held TYPE KEY",
		Short: "Show the item that holds a dedup key",
		Long: `Show the live item that holds a dedup key: the one that a submission with this
key would be a duplicate of. A key that is free is not_found.

With --watch, show that and every change of it, until it is interrupted. A free
key shows as "free", in JSON as an object without id.

What is shown may be over when it is read: the submission alone decides.`,
		Example: "  engine held check project-17\n  engine held check project-17 --watch --json",
		Args:    console.Args(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if watch {
				return a.watchHolder(cmd.Context(), args[0], args[1])
			}
			return a.ask(cmd, func(ctx context.Context, c *streamwright.Client) error {
				info, err := c.Engine().Info(ctx)
				if err != nil {
					return err
				}
				c.ObservePosition(info.Position) // what any command before this one has done is to be seen
				h, err := c.DedupKeys().Holder(ctx, args[0], args[1])
				if err != nil {
					return err
				}
				return a.printHolder(h)
			})
		},
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "show every change, until interrupted")
	return cmd
}

func (a *app) watchHolder(ctx context.Context, typ, key string) error {
	c, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	err = c.DedupKeys().Watch(ctx, typ, key, a.printHolder)
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil // interrupted, which is how a watch ends
	}
	return err
}

func (a *app) printHolder(h streamwright.Holder) error {
	switch {
	case a.JSON && h.ID == "":
		return a.PrintJSON(struct{}{})
	case a.JSON:
		return a.PrintJSON(h)
	case h.ID == "":
		a.Printf("free\n")
	default:
		a.Printf("%s  %s\n", h.ID, console.StyleFor(a.Out).State(h.State))
	}
	return nil
}
