package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

func cancelCommand(a *app) *cobra.Command {
	var note string
	var f bulkFlags
	cmd := &cobra.Command{
		Use:     "cancel ID | FILTERS",
		Short:   "Cancel one item, or all that match the filters",
		Example: "  engine cancel 01JD3V6YB2M4C9W8ZK5T7QXRNE\n  engine cancel --type email --tenant acme --dry-run",
		RunE: oneOrMany(&f, func(cmd *cobra.Command, id string) error {
			return a.cancelOne(cmd, id, note)
		}, func(cmd *cobra.Command) error {
			return a.bulk(cmd.Context(), &f, streamwright.Bulk{Action: wire.BulkCancel, Reason: note}, "cancelled")
		}),
	}
	cmd.Flags().StringVar(&note, "reason", "", "the `reason`, for the history")
	f.define(cmd.Flags())
	return cmd
}

func (a *app) cancelOne(cmd *cobra.Command, id, note string) error {
	return a.ask(cmd, func(ctx context.Context, c *streamwright.Client) error {
		state, was, err := c.Cancel(ctx, id, note)
		if err != nil {
			return err
		}
		if a.JSON {
			return a.PrintJSON(wire.Cancelled{ID: id, State: state, WasRunning: was, Position: c.Position()})
		}
		a.Printf("%s  %s", id, state)
		if was {
			a.Printf(" (its worker is being told to stop)")
		}
		a.Printf("\n")
		return nil
	})
}

func rescheduleCommand(a *app) *cobra.Command {
	var o streamwright.RescheduleOptions
	var priority, at string
	var f bulkFlags
	cmd := &cobra.Command{
		Use:     "reschedule ID | FILTERS",
		Short:   "Change when, or in what order, queued items run",
		Example: "  engine reschedule 01JD3V6YB2M4C9W8ZK5T7QXRNE --priority high --now\n  engine reschedule --tenant acme --priority low",
		RunE: oneOrMany(&f, func(cmd *cobra.Command, id string) error {
			if err := parseOrder(&o, priority, at); err != nil {
				return err
			}
			return a.rescheduleOne(cmd, id, o)
		}, func(cmd *cobra.Command) error {
			if err := parseOrder(&o, priority, at); err != nil {
				return err
			}
			return a.bulk(cmd.Context(), &f, streamwright.Bulk{Action: wire.BulkReschedule, Priority: o.Priority, Now: o.Now,
				DelayMS: wire.Millis(o.Delay), AvailableAt: o.AvailableAt}, "rescheduled")
		}),
	}
	fs := cmd.Flags()
	fs.StringVar(&priority, "priority", "", "the `priority`, 0 to 9, higher first, or low, medium, high")
	fs.StringVar(&at, "at", "", "make it available from this `time` on (RFC 3339)")
	fs.DurationVar(&o.Delay, "delay", 0, "make it available so much later, such as 90s")
	fs.BoolVar(&o.Now, "now", false, "make it available at once, whatever it waits for")
	f.define(fs)
	return cmd
}

func (a *app) rescheduleOne(cmd *cobra.Command, id string, o streamwright.RescheduleOptions) error {
	return a.ask(cmd, func(ctx context.Context, c *streamwright.Client) error {
		if err := c.Reschedule(ctx, id, o); err != nil {
			return err
		}
		it, err := c.Get(ctx, id)
		if err != nil {
			return err
		}
		return a.printItems([]streamwright.WorkItem{it})
	})
}

// parseOrder checks what needs no engine to be checked.
func parseOrder(o *streamwright.RescheduleOptions, priority, at string) error {
	if priority != "" {
		p, err := events.ParsePriority(priority)
		if err != nil {
			return console.Usagef("--priority: %v", err)
		}
		o.Priority = streamwright.Priority(int(p))
	}
	when := 0
	if at != "" {
		t, err := parseTime("--at", at)
		if err != nil {
			return err
		}
		o.AvailableAt = t
		when++
	}
	if o.Delay < 0 {
		return console.Usagef("--delay %v is negative: use --now", o.Delay)
	}
	if o.Delay > 0 {
		when++
	}
	if o.Now {
		when++
	}
	switch {
	case when > 1:
		return console.Usagef("--at, --delay and --now all say when: give one of them")
	case when == 0 && o.Priority == nil:
		return console.Usagef("nothing to change: give --priority, --at, --delay or --now")
	}
	return nil
}

func undrainCommand(a *app) *cobra.Command {
	return a.changing(&cobra.Command{
		Use:   "undrain WORKER",
		Short: "Let a worker that was marked by engine drain have work again",
		Long: "Take away the mark that a worker is to drain. A worker that has heard of it stops for good,\n" +
			"as those of package workers and engine work do; the next worker with its id gets work.",
		Example: "  engine undrain host-7",
	}, "%s may have work again", "%s was not marked to drain",
		func(c *streamwright.Client, ctx context.Context, worker string) (bool, error) {
			return c.Workers().Undrain(ctx, worker)
		})
}

func drainCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "drain WORKER",
		Short: "Let a worker finish what it runs, and give it no more",
		Long: "Mark a worker: it finishes what it runs, and gets nothing new. The mark is kept in the log, over\n" +
			"restarts of the engine and of the worker; it ends when the worker unregisters, by engine undrain,\n" +
			"or when nothing was heard of the worker for 24 hours.",
		Example: "  engine drain host-7",
		Args:    console.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.ask(cmd, func(ctx context.Context, c *streamwright.Client) error {
				if err := c.Workers().Drain(ctx, args[0]); err != nil {
					return err
				}
				if a.JSON {
					return a.PrintJSON(wire.OK{OK: true})
				}
				a.Printf("%s is draining\n", args[0])
				return nil
			})
		},
	}
}
