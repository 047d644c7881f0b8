package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

func schedulesCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "schedules",
		Short:   "List the schedules, with their next and last ticks",
		Example: "  engine schedules\n  engine schedules --json",
		Args:    console.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.ask(cmd, func(ctx context.Context, c *streamwright.Client) error {
				list, err := c.Schedules().List(ctx)
				if err != nil {
					return err
				}
				return a.printSchedules(list)
			})
		},
	}
}

func scheduleCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schedule",
		Short: "Set, remove, pause, resume or fire schedules, show their ticks and runs",
		Example: "  engine schedule set nightly --type report --cron '0 3 * * *' --zone Europe/Berlin '{\"full\":true}'\n" +
			"  engine schedule set sweep --type clean --every 5m --overlap merge\n" +
			"  engine schedule next --cron '0 9 * * mon-fri' --zone America/New_York",
		Args: console.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	change := func(use, short string, fn func(streamwright.Schedules, context.Context, string) (streamwright.ScheduleInfo, error)) *cobra.Command {
		return a.nameCommand(use, short, func(ctx context.Context, c *streamwright.Client, name string) error {
			s, err := fn(c.Schedules(), ctx, name)
			if err != nil {
				return err
			}
			return a.printSchedules([]streamwright.ScheduleInfo{s})
		})
	}
	cmd.AddCommand(scheduleSetCommand(a), scheduleRemoveCommand(a),
		change("pause", "Stop the ticks of a schedule", streamwright.Schedules.Pause),
		change("resume", "Let a paused schedule tick again", streamwright.Schedules.Resume),
		scheduleFireCommand(a), scheduleNextCommand(a), scheduleRunsCommand(a))
	return cmd
}

// nameCommand makes a command about one schedule.
func (a *app) nameCommand(use, short string, fn func(context.Context, *streamwright.Client, string) error) *cobra.Command {
	return &cobra.Command{
		Use: use + " NAME", Short: short, Example: "  engine schedule " + use + " nightly", Args: console.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.ask(cmd, func(ctx context.Context, c *streamwright.Client) error { return fn(ctx, c, args[0]) })
		},
	}
}

func scheduleRemoveCommand(a *app) *cobra.Command {
	return a.nameCommand("remove", "Remove a schedule; items that it has made stay", func(ctx context.Context, c *streamwright.Client, name string) error {
		if err := c.Schedules().Remove(ctx, name); err != nil {
			return err
		}
		if a.JSON {
			return a.PrintJSON(wire.OK{OK: true})
		}
		a.Printf("%s is removed\n", name)
		return nil
	})
}

func scheduleFireCommand(a *app) *cobra.Command {
	return a.nameCommand("fire", "Make an item of a schedule now, beside its ticks", func(ctx context.Context, c *streamwright.Client, name string) error {
		s, err := c.Schedules().Fire(ctx, name)
		if err != nil {
			return err
		}
		return a.printSubmitted(name, s)
	})
}

// timingFlags are the flags that say when a schedule ticks.
type timingFlags struct {
	cron, zone, anchor string
	every              time.Duration
}

func (f *timingFlags) define(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.cron, "cron", "", "when it ticks, in five `fields`: minute hour day-of-month month day-of-week; or @hourly, @daily, @weekly, @monthly, @yearly")
	fs.StringVar(&f.zone, "zone", "", "the time `zone` of --cron, such as Europe/Berlin (default UTC)")
	fs.DurationVar(&f.every, "every", 0, "the interval of its ticks, in place of --cron, such as 90s or 5m")
	fs.StringVar(&f.anchor, "anchor", "", "the `time` of one of the ticks of --every (RFC 3339; default: when it is set)")
}

// check checks what needs no engine to be checked.
func (f *timingFlags) check() (anchor time.Time, err error) {
	switch {
	case (f.cron == "") == (f.every == 0):
		return anchor, console.Usagef("give either --cron or --every")
	case f.every != 0 && f.zone != "":
		return anchor, console.Usagef("--every goes by real time: leave --zone out")
	case f.every == 0 && f.anchor != "":
		return anchor, console.Usagef("--anchor is for --every")
	case f.anchor != "":
		return parseTime("--anchor", f.anchor)
	}
	return anchor, nil
}

func scheduleSetCommand(a *app) *cobra.Command {
	var t timingFlags
	var s streamwright.Schedule
	var priority string
	var labels []string
	cmd := &cobra.Command{
		Use:   "set NAME [JSON | - | @file]",
		Short: "Make a schedule, or replace it",
		Long: "Make a schedule, or replace the one of its name, whose items have the params of the JSON argument, of standard\n" +
			"input (-) or of a file (@file). One whose timing stays the same keeps its place among its ticks.",
		Example: "  engine schedule set nightly --type report --cron '0 3 * * *' --zone Europe/Berlin '{\"full\":true}'",
		Args:    console.Args(cobra.RangeArgs(1, 2)),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if s.Type == "" {
				return console.Usagef("give the --type of the items")
			}
			if s.Anchor, err = t.check(); err != nil {
				return err
			}
			if s.Labels, err = parseLabels(labels); err != nil {
				return err
			}
			if priority != "" {
				p, err := events.ParsePriority(priority)
				if err != nil {
					return console.Usagef("--priority: %v", err)
				}
				s.Priority = streamwright.Priority(int(p))
			}
			if len(args) == 2 {
				p, err := a.params(args[1])
				if err != nil {
					return err
				}
				s.Params = p
			}
			s.Name, s.Cron, s.Zone, s.Every = args[0], t.cron, t.zone, t.every
			return a.ask(cmd, func(ctx context.Context, c *streamwright.Client) error {
				set, err := c.Schedules().Set(ctx, s)
				if err != nil {
					return err
				}
				return a.printSchedules([]streamwright.ScheduleInfo{set})
			})
		},
	}
	t.define(cmd)
	fs := cmd.Flags()
	fs.StringVar(&s.Type, "type", "", "the `type` of the items")
	fs.StringVar(&s.Missed, "missed", "", "what to do with ticks that nobody could answer, a `policy`: skip, one or all (default one)")
	fs.StringVar(&s.Overlap, "overlap", "", "what to do with a tick whose last item has not ended, a `policy`: distinct, merge, defer or supersede (default distinct)")
	fs.StringVar(&priority, "priority", "", "the `priority`, 0 to 9, higher first, or low, medium, high (default 5)")
	fs.StringVar(&s.Tenant, "tenant", "", "the `tenant` for whom its items are")
	fs.StringArrayVar(&labels, "label", nil, "a label, `key=value` (repeatable)")
	fs.IntVar(&s.MaxAttempts, "max-attempts", 0, "how many attempts an item has before it is dead (default: the type's)")
	fs.DurationVar(&s.Timeout, "timeout", 0, "how long an attempt may take (default: the type's)")
	fs.BoolVar(&s.Paused, "paused", false, "set it without ticks, until it is resumed")
	return cmd
}
