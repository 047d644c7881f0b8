package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/wire"
)

func clockCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "clock",
		Short:   "Show the engine's time, and whether the NATS server's is plausible",
		Example: "  engine clock\n  engine clock accept --by ada",
		Long: "Show the engine's time, the NATS server's, and whether that is plausible. A server time far from\n" +
			"the last event, from the time of the previous run, and from the time that has passed since is not\n" +
			"followed: nothing is pruned, cut or made due by it until it is plausible, or accepted.",
		Args: console.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.ask(cmd, func(ctx context.Context, c *streamwright.Client) error {
				clock, err := c.Engine().Clock(ctx)
				if err != nil {
					return err
				}
				return a.printClock(&clock)
			})
		},
	}
	cmd.AddCommand(acceptClockCommand(a))
	return cmd
}

func acceptClockCommand(a *app) *cobra.Command {
	var by string
	cmd := &cobra.Command{
		Use:   "accept",
		Short: "Confirm that the NATS server's clock is right",
		Long: "Confirm that the NATS server's clock is right: the engine's time is the server's from then on.\n" +
			"Check the machine's clock first. What is due by that time happens at once: items expire, ended\n" +
			"ones are pruned. If the event log lies in the future, its clock is set back; items keep the due\n" +
			"times that they were given under the wrong clock (engine reschedule).",
		Example: "  engine clock accept --by ada",
		Args:    console.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.ask(cmd, func(ctx context.Context, c *streamwright.Client) error {
				clock, err := c.Engine().AcceptClock(ctx, by)
				if err != nil {
					return err
				}
				return a.printClock(&clock)
			})
		},
	}
	cmd.Flags().StringVar(&by, "by", "", "the `name` of who confirms it, for the log")
	return cmd
}

func (a *app) printClock(c *streamwright.Clock) error {
	if a.JSON {
		return a.PrintJSON(c)
	}
	at := func(name string, t time.Time) {
		if !t.IsZero() {
			a.Printf("%-11s %s\n", name, t.Local().Format(time.RFC3339))
		}
	}
	at("engine", c.EngineTime)
	at("server", c.ServerTime)
	at("last event", c.LastEvent)
	at("known good", c.KnownGood)
	a.Printf("%-11s %v\n", "difference", (time.Duration(c.DifferenceMS) * time.Millisecond).Round(time.Millisecond))
	if c.Verdict == wire.ClockPlausible {
		a.Printf("%-11s %s\n", "verdict", c.Verdict)
		return nil
	}
	a.Printf("%-11s implausible (%s), since %s\n", "verdict", c.Verdict, c.Since.Local().Format(time.RFC3339))
	a.Printf("%-11s %s\n", "why", c.Why)
	a.Printf("%-11s %s\n", "held", strings.Join(c.Held, "; "))
	return nil
}
