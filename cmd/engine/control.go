package main

import (
	"context"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/internal/cli"
	"github.com/streamwright/streamwright/wire"
)

// priorityUsage describes --priority.
const priorityUsage = "the `priority`, 0 to 9, higher first, or low, medium, high"

func cancelCommand(a *app) *cobra.Command {
	var note string
	var f bulkFlags
	cmd := &cobra.Command{
		Use:     "cancel ID | FILTERS",
		Short:   "Cancel one item, or all that match the filters",
		Example: "  engine cancel 01JD3V6YB2M4C9W8ZK5T7QXRNE\n  engine cancel --type email --tenant acme --dry-run",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(args, 1); err != nil {
				return err
			}
			if len(args) == 0 {
				return a.bulk(cmd.Context(), &f, streamwright.Bulk{Action: wire.BulkCancel, Reason: note}, "cancelled")
			}
			return a.ask(cmd.Context(), func(ctx context.Context, c *streamwright.Client) error {
				state, was, err := c.Cancel(ctx, args[0], note)
				return a.show(wire.Cancelled{ID: args[0], State: state, WasRunning: was, Position: c.Position()}, err, func() {
					told := ""
					if was {
						told = " (its worker is being told to stop)"
					}
					a.Printf("%s  %s%s\n", args[0], state, told)
				})
			})
		},
	}
	cmd.Flags().StringVar(&note, "reason", "", "the `reason`, for the history")
	f.define(cmd.Flags())
	return cmd
}

func rescheduleCommand(a *app) *cobra.Command {
	var o streamwright.RescheduleOptions
	var f bulkFlags
	cmd := &cobra.Command{
		Use:     "reschedule ID | FILTERS",
		Short:   "Change when, or in what order, queued items run",
		Example: "  engine reschedule 01JD3V6YB2M4C9W8ZK5T7QXRNE --priority high --now\n  engine reschedule --tenant acme --priority low",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(args, 1); err != nil {
				return err
			}
			if err := checkOrder(o); err != nil {
				return err
			}
			if len(args) == 0 {
				return a.bulk(cmd.Context(), &f, streamwright.Bulk{Action: wire.BulkReschedule, Priority: o.Priority, Now: o.Now,
					Delay: o.Delay, AvailableAt: o.AvailableAt}, "rescheduled")
			}
			return a.ask(cmd.Context(), func(ctx context.Context, c *streamwright.Client) error {
				if err := c.Reschedule(ctx, args[0], o); err != nil {
					return err
				}
				it, err := c.Get(ctx, args[0])
				return a.showItems([]streamwright.WorkItem{it}, err)
			})
		},
	}
	fs := cmd.Flags()
	fs.Func("priority", priorityUsage, console.Priority(&o.Priority))
	fs.Func("at", "make it available from this `time` on (RFC 3339)", console.Time(&o.AvailableAt))
	fs.Func("delay", "make it available a `duration` later, such as 90s", console.Duration(&o.Delay))
	fs.BoolVar(&o.Now, "now", false, "make it available at once, whatever it waits for")
	f.define(fs)
	return cmd
}

func checkOrder(o streamwright.RescheduleOptions) error {
	when := 0
	for _, given := range []bool{!o.AvailableAt.IsZero(), o.Delay > 0, o.Now} {
		if given {
			when++
		}
	}
	switch {
	case when > 1:
		return cli.Usagef("--at, --delay and --now all say when: give one of them")
	case when == 0 && o.Priority == 0:
		return cli.Usagef("nothing to change: give --priority, --at, --delay or --now")
	}
	return nil
}

func workersDrainCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "drain WORKER",
		Short: "Let a worker finish what it runs, and give it no more",
		Long: `Mark a worker: it finishes what it runs, and gets nothing new. The mark is kept
in the log, over restarts of the engine and of the worker. It ends when the
worker unregisters, by workers undrain, or when nothing was heard of the worker
for 24 hours.`,
		Example: "  engine workers drain host-7",
		Args:    cobra.ExactArgs(1),
		RunE: a.asks(func(ctx context.Context, c *streamwright.Client, args []string) error {
			return a.show(wire.OK{OK: true}, c.Workers().Drain(ctx, args[0]), func() { a.Printf("%s is draining\n", args[0]) })
		}),
	}
}

func workersUndrainCommand(a *app) *cobra.Command {
	return a.changing(&cobra.Command{
		Use:   "undrain WORKER",
		Short: "Let a worker that was marked by drain have work again",
		Long: `Remove the mark of workers drain. A worker that has heard of the mark stops for
good, as those of package workers and engine work do; the next worker with its
id gets work.`,
		Example: "  engine workers undrain host-7",
	}, "%s may have work again", "%s was not marked to drain", func(ctx context.Context, c *streamwright.Client, worker string) (bool, error) {
		return c.Workers().Undrain(ctx, worker)
	})
}

func typesPauseCommand(a *app) *cobra.Command {
	var o streamwright.PauseOptions
	cmd := &cobra.Command{
		Use:   "pause TYPE",
		Short: "Hold back the items of a type",
		Long: `Hold back the items of a type: none is begun, those that run go on, and
submissions are accepted. The pause lasts until types resume, or until the
time given, also over a restart of the engine. If the type is paused already,
this changes that time.`,
		Example: "  engine types pause email --reason 'the provider is down'\n  engine types pause email --for 2h\n  engine types pause email --until 2030-01-31T08:00:00Z",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			yes, no := args[0]+" is paused", args[0]+" was paused already"
			switch {
			case !o.Until.IsZero() && o.For != 0:
				return cli.Usagef("--until and --for both say when the pause ends: give one of them")
			case o.For > 0:
				yes += " for " + console.Span(o.For)
			case !o.Until.IsZero():
				yes += " until " + o.Until.Format(time.RFC3339)
				no += " until then"
			}
			return a.change(cmd, yes, no, func(ctx context.Context, c *streamwright.Client) (bool, error) {
				return c.Types().Pause(ctx, args[0], o)
			})
		},
	}
	cmd.Flags().StringVar(&o.Reason, "reason", "", "the `reason`, for the history and for engine types")
	cmd.Flags().StringVar(&o.By, "by", userName(), "the `name` of who pauses it")
	cmd.Flags().Func("for", "the `duration` of the pause, such as 2h", console.Duration(&o.For))
	cmd.Flags().Func("until", "the `time` when the pause ends, in place of --for (RFC 3339)", console.Time(&o.Until))
	return cmd
}

// userName returns the login name, if there is one.
func userName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return ""
}

func typesResumeCommand(a *app) *cobra.Command {
	return a.changing(&cobra.Command{Use: "resume TYPE", Short: "End the pause of a type", Example: "  engine types resume email"},
		"%s goes on", "%s was not paused", func(ctx context.Context, c *streamwright.Client, typ string) (bool, error) {
			return c.Types().Resume(ctx, typ)
		})
}

func typesResetCommand(a *app) *cobra.Command {
	return a.changing(&cobra.Command{Use: "reset TYPE", Short: "Close the circuit of a type now", Example: "  engine types reset email"},
		circuitClosed, circuitWasClosed, func(ctx context.Context, c *streamwright.Client, typ string) (bool, error) {
			return c.Types().ResetCircuit(ctx, typ)
		})
}

func workersResetCommand(a *app) *cobra.Command {
	return a.changing(&cobra.Command{Use: "reset WORKER", Short: "Close the circuit of a worker now", Example: "  engine workers reset host-7"},
		circuitClosed, circuitWasClosed, func(ctx context.Context, c *streamwright.Client, worker string) (bool, error) {
			return c.Workers().ResetCircuit(ctx, worker)
		})
}

// What the commands that close a circuit print.
const (
	circuitClosed    = "the circuit of %s is closed"
	circuitWasClosed = "the circuit of %s was closed already"
)

// changing completes a command that changes the thing its one argument names. The
// texts, with %s for the argument, tell that it was changed, or was so already.
func (a *app) changing(cmd *cobra.Command, yes, no string, do func(context.Context, *streamwright.Client, string) (bool, error)) *cobra.Command {
	cmd.Args = cobra.ExactArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		say := func(format string) string { return strings.Replace(format, "%s", args[0], 1) }
		return a.change(cmd, say(yes), say(no), func(ctx context.Context, c *streamwright.Client) (bool, error) { return do(ctx, c, args[0]) })
	}
	return cmd
}

// change makes a change, and tells whether there was one to make.
func (a *app) change(cmd *cobra.Command, yes, no string, do func(context.Context, *streamwright.Client) (bool, error)) error {
	return a.ask(cmd.Context(), func(ctx context.Context, c *streamwright.Client) error {
		changed, err := do(ctx, c)
		text := no
		if changed {
			text = yes
		}
		return a.show(wire.Changed{Changed: changed, Position: c.Position()}, err, func() { a.Printf("%s\n", console.Clean(text)) })
	})
}
