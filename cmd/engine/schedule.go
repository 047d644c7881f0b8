package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/cli"
	"github.com/streamwright/streamwright/internal/cron"
	"github.com/streamwright/streamwright/wire"
)

func schedulesCommand(a *app) *cobra.Command {
	cmd := noun(a, &cobra.Command{
		Use:   "schedules",
		Short: "List schedules, set and control them, show their ticks and runs",
		Example: "  engine schedules set nightly --type report --cron '0 3 * * *' '{\"full\":true}'\n" +
			"  engine schedules set sweep --type clean --every 5m --overlap merge\n" +
			"  engine schedules next --cron '0 9 * * mon-fri' --zone America/New_York",
	}, schedulesListCommand)
	verb := func(use, short string, fn func(context.Context, *streamwright.Client, string) error) *cobra.Command {
		return &cobra.Command{
			Use: use + " NAME", Short: short, Example: "  engine schedules " + use + " nightly", Args: cobra.ExactArgs(1),
			RunE: a.asks(func(ctx context.Context, c *streamwright.Client, args []string) error { return fn(ctx, c, args[0]) }),
		}
	}
	cmd.AddCommand(
		verb("show", "Show a schedule", func(ctx context.Context, c *streamwright.Client, name string) error {
			return a.showSchedule(oneSchedule(ctx, c, name))
		}),
		schedulesSetCommand(a),
		verb("remove", "Remove a schedule; items that it has made stay", func(ctx context.Context, c *streamwright.Client, name string) error {
			return a.show(wire.OK{OK: true}, c.Schedules().Remove(ctx, name), func() { a.Printf("%s is removed\n", name) })
		}),
		verb("pause", "Stop the ticks of a schedule", func(ctx context.Context, c *streamwright.Client, name string) error {
			return a.showSchedule(c.Schedules().Pause(ctx, name))
		}),
		verb("resume", "Let a paused schedule tick again", func(ctx context.Context, c *streamwright.Client, name string) error {
			return a.showSchedule(c.Schedules().Resume(ctx, name))
		}),
		verb("fire", "Make an item of a schedule now, beside its ticks", func(ctx context.Context, c *streamwright.Client, name string) error {
			s, err := c.Schedules().Fire(ctx, name)
			return a.showSubmitted(name, s, err)
		}),
		schedulesNextCommand(a), schedulesRunsCommand(a))
	return cmd
}

func schedulesListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the schedules, with their next and last ticks",
		Example: "  engine schedules list\n  engine schedules list --json",
		Args:    cobra.NoArgs,
		RunE: a.asks(func(ctx context.Context, c *streamwright.Client, _ []string) error {
			list, err := c.Schedules().List(ctx)
			return a.showSchedules(list, a.noteLacking(len(list), err))
		}),
	}
}

// timingFlags defines the flags that say when a schedule ticks.
func timingFlags(fs *pflag.FlagSet, s *streamwright.Schedule) {
	fs.StringVar(&s.Cron, "cron", "", "when it ticks, in five `fields`: minute hour day-of-month month day-of-week; or @hourly, @daily, @weekly, @monthly, @yearly")
	fs.StringVar(&s.Zone, "zone", "", "the time `zone` of --cron, such as Europe/Berlin (default UTC)")
	fs.Func("every", "the `interval` of its ticks, in place of --cron, such as 90s or 5m", console.Duration(&s.Every))
	fs.Func("anchor", "the `time` of one of the ticks of --every (RFC 3339; default: when it is set)", console.Time(&s.Anchor))
}

// checkTiming checks what needs no engine to be checked.
func checkTiming(s *streamwright.Schedule) error {
	switch {
	case (s.Cron == "") == (s.Every == 0):
		return cli.Usagef("give either --cron or --every")
	case s.Every != 0 && s.Zone != "":
		return cli.Usagef("--every goes by real time: leave --zone out")
	case s.Every == 0 && !s.Anchor.IsZero():
		return cli.Usagef("--anchor is for --every")
	}
	return nil
}

func schedulesSetCommand(a *app) *cobra.Command {
	var s streamwright.Schedule
	cmd := &cobra.Command{
		Use:   "set NAME [JSON | - | @file]",
		Short: "Make a schedule, or replace it",
		Long: `Make a schedule, or replace the one with its name. Its items have the params of
the JSON argument, of standard input (-) or of a file (@file). A schedule whose
timing stays the same keeps its place among its ticks.`,
		Example: "  engine schedules set nightly --type report --cron '0 3 * * *' '{\"full\":true}'",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if s.Type == "" {
				return cli.Usagef("give the --type of the items")
			}
			if err := checkTiming(&s); err != nil {
				return err
			}
			if len(args) == 2 {
				p, err := a.params(args[1])
				if err != nil {
					return err
				}
				s.Params = p
			}
			s.Name = args[0]
			return a.ask(cmd.Context(), func(ctx context.Context, c *streamwright.Client) error {
				return a.showSchedule(c.Schedules().Set(ctx, s))
			})
		},
	}
	fs := cmd.Flags()
	timingFlags(fs, &s)
	fs.StringVar(&s.Type, "type", "", "the `type` of the items")
	fs.StringVar((*string)(&s.Missed), "missed", "", "the `policy` for ticks that no engine was there for: skip, one or all (default one)")
	fs.StringVar((*string)(&s.Overlap), "overlap", "", "the `policy` for a tick while the last item has not ended: distinct, merge, defer or supersede (default distinct)")
	fs.Func("priority", priorityUsage+" (default 5)", console.Priority(&s.Priority))
	fs.StringVar(&s.Tenant, "tenant", "", "the `tenant` that its items are for")
	fs.Func("label", "a label, `key=value` (repeatable)", console.Pairs(&s.Labels, "key=value"))
	fs.Func("max-attempts", "how many attempts an item has before it is dead, a `number` (default: the type's)", console.Positive(&s.MaxAttempts))
	fs.Func("timeout", "how long an attempt may take, a `duration` (default: the type's)", console.Duration(&s.Timeout))
	fs.BoolVar(&s.Paused, "paused", false, "set it without ticks, until it is resumed")
	return cmd
}

func (a *app) showSchedule(s streamwright.ScheduleInfo, err error) error {
	return a.showSchedules([]streamwright.ScheduleInfo{s}, err)
}

func (a *app) showSchedules(list []streamwright.ScheduleInfo, err error) error {
	style, now := a.Style(), time.Now()
	head := []string{"NAME", "TYPE", "WHEN", "MISSED", "OVERLAP", "NEXT", "LAST", "LAST ITEM", "STATE", "SET BY"}
	err = showList(a, list, err, "no schedules yet: see `engine schedules set --help`", head, func(s streamwright.ScheduleInfo) []string {
		next, state := console.Ago(s.Next, now), ""
		if s.Paused {
			next = "paused"
		}
		if s.LastState != events.StateNone {
			state = style.State(s.LastState)
		}
		if s.LastError != nil {
			state = "refused: " + string(s.LastError.Code)
		}
		when := strings.TrimSpace(s.Cron + " " + s.Zone)
		if !s.Every.IsZero() {
			when = "every " + console.Span(s.Every.Duration)
		}
		return []string{s.Name, s.Type, style.Clip(when, 60), s.Missed, s.Overlap, next, console.Ago(s.LastTick, now), s.LastItem, state, s.Source}
	})
	for _, s := range list {
		if err == nil && s.LastError != nil && !a.JSON {
			a.Notef("%s: the item of its last tick was refused: %s", s.Name, console.Clean(s.LastError.Message))
		}
	}
	return err
}

// maxNext bounds the ticks that are shown.
const maxNext = 1000

func schedulesNextCommand(a *app) *cobra.Command {
	var s streamwright.Schedule
	n := 10
	cmd := &cobra.Command{
		Use:   "next [NAME]",
		Short: "Print the next ticks of a schedule, or of an expression",
		Long: `Print the next ticks of a schedule, or, with --cron or --every and no NAME, the
ticks that such a schedule would have. The latter needs no engine.`,
		Example: "  engine schedules next nightly\n  engine schedules next --cron '30 2 * * *' --zone Europe/Berlin --count 3",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case n < 1 || n > maxNext:
				return cli.Usagef("invalid --count %d: use 1 to %d", n, maxNext)
			case len(args) == 0:
				return a.nextOf(s, n)
			case s.Cron != "" || s.Zone != "" || s.Every != 0 || !s.Anchor.IsZero():
				return cli.Usagef("give either NAME, or --cron or --every")
			}
			return a.ask(cmd.Context(), func(ctx context.Context, c *streamwright.Client) error { return a.nextOfNamed(ctx, c, args[0], n) })
		},
	}
	timingFlags(cmd.Flags(), &s)
	cmd.Flags().IntVar(&n, "count", n, "how many ticks to print")
	return cmd
}

// nextOf prints the next ticks that the flags describe.
func (a *app) nextOf(s streamwright.Schedule, n int) error {
	if err := checkTiming(&s); err != nil {
		return err
	}
	now := time.Now()
	if s.Anchor.IsZero() {
		s.Anchor = now.Truncate(time.Second)
	}
	t, err := timingOf(s.Cron, s.Zone, s.Every, s.Anchor)
	if err != nil {
		return cli.Usage(err)
	}
	return a.printTicks(t, s.Zone, t.Next(now), n)
}

func timingOf(expr, zone string, every time.Duration, anchor time.Time) (cron.Timing, error) {
	interval, is, err := cron.ParseEvery(expr)
	switch {
	case err != nil:
		return cron.Timing{}, err
	case is:
		every = interval
	}
	if every != 0 {
		return cron.Every(every, anchor)
	}
	return cron.New(expr, zone)
}

func (a *app) nextOfNamed(ctx context.Context, c *streamwright.Client, name string, n int) error {
	s, err := oneSchedule(ctx, c, name)
	if err != nil {
		return err
	}
	t, err := timingOf(s.Cron, s.Zone, s.Every.Duration, s.Anchor)
	if err != nil {
		return fmt.Errorf("compute the ticks of schedule %s here: %w", name, err)
	}
	if s.Paused {
		a.Notef("%s is paused: none of these comes before it is resumed", name)
	}
	return a.printTicks(t, s.Zone, s.Next, n)
}

// oneSchedule returns a schedule by its name.
func oneSchedule(ctx context.Context, c *streamwright.Client, name string) (streamwright.ScheduleInfo, error) {
	list, err := c.Schedules().List(ctx)
	return named(list, err, "schedule", name, func(s streamwright.ScheduleInfo) string { return s.Name })
}

// printTicks prints n ticks from next on, in the schedule's zone.
func (a *app) printTicks(t cron.Timing, zone string, next time.Time, n int) error {
	loc, err := cron.Zone(zone)
	if err != nil {
		return err
	}
	now := time.Now()
	if next.IsZero() {
		a.Notef("no tick comes in the next ten years")
	}
	for ; n > 0 && !next.IsZero(); n, next = n-1, t.Next(next) {
		if a.JSON {
			if err := a.PrintJSON(map[string]time.Time{"tick": next.UTC()}); err != nil {
				return err
			}
			continue
		}
		a.Printf("%s  %s\n", next.In(loc).Format("Mon 2006-01-02 15:04:05 -07:00"), console.Ago(next, now))
	}
	return nil
}

// schedulesRunsCommand lists the items of a schedule, also of one that is removed:
// its items stay.
func schedulesRunsCommand(a *app) *cobra.Command {
	var l listing
	cmd := &cobra.Command{
		Use:     "runs NAME",
		Short:   "List the items that a schedule has made, newest change first",
		Example: "  engine schedules runs nightly\n  engine schedules runs nightly --state dead --all",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			l.Schedule = args[0]
			return a.list(cmd.Context(), l, "no items of schedule "+args[0]+": `engine schedules` lists the schedules")
		},
	}
	l.define(cmd.Flags())
	return cmd
}
