package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/wire"
)

func clockCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "clock",
		Short:   "Show the engine's time, and whether the NATS server's is plausible",
		Example: "  engine clock\n  engine clock accept --by ada",
		Long: `Show the engine's time, the NATS server's, and whether that is plausible. The
engine does not follow a server time that is far from the last event, from the
time of the previous run, and from the time that has passed since: nothing is
pruned, cut or made due by it until it is plausible, or accepted.`,
		Args: cobra.NoArgs,
		RunE: a.asks(func(ctx context.Context, c *streamwright.Client, _ []string) error { return a.showClock(c.Clock(ctx)) }),
	}
	var by string
	accept := &cobra.Command{
		Use:   "accept",
		Short: "Confirm that the NATS server's clock is right",
		Long: `Confirm that the NATS server's clock is right: the engine's time is the
server's from then on. Check the machine's clock first. What is due by that
time happens at once: items expire, and ended ones are pruned. If the event log
lies in the future, its clock is set back; items keep the due times that they
were given under the wrong clock (engine reschedule).`,
		Example: "  engine clock accept --by ada",
		Args:    cobra.NoArgs,
		RunE: a.asks(func(ctx context.Context, c *streamwright.Client, _ []string) error {
			return a.showClock(c.AcceptClock(ctx, by))
		}),
	}
	accept.Flags().StringVar(&by, "by", "", "the `name` of who confirms it, for the log")
	cmd.AddCommand(accept)
	return cmd
}

func (a *app) showClock(c streamwright.Clock, err error) error {
	return a.show(c, err, func() {
		line := func(name, text string) { a.Printf("%-11s %s\n", name, text) }
		at := func(name string, t time.Time) {
			if !t.IsZero() {
				line(name, t.Local().Format(time.RFC3339))
			}
		}
		at("engine", c.EngineTime)
		at("server", c.ServerTime)
		at("last event", c.LastEvent)
		at("known good", c.KnownGood)
		line("difference", (time.Duration(c.DifferenceMS) * time.Millisecond).String())
		if c.Verdict == wire.ClockPlausible {
			line("verdict", c.Verdict)
			return
		}
		line("verdict", "implausible ("+c.Verdict+"), since "+c.Since.Local().Format(time.RFC3339))
		line("why", c.Why)
		line("held", strings.Join(c.Held, "; "))
	})
}
