package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/cron"
)

// printSchedules prints schedules as a table, or one as JSON a line.
func (a *app) printSchedules(list []streamwright.ScheduleInfo) error {
	style, now := console.StyleFor(a.Out), time.Now()
	head := []string{"NAME", "TYPE", "WHEN", "MISSED", "OVERLAP", "NEXT", "LAST", "LAST ITEM", "STATE", "SET BY"}
	err := printList(a, list, "no schedules yet: see `engine schedule set --help`", head, func(s streamwright.ScheduleInfo) []string {
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
		return []string{s.Name, s.Type, style.Clip(whenOf(&s), 60), s.Missed, s.Overlap, next, console.Ago(s.LastTick, now), s.LastItem, state, s.Source}
	})
	for _, s := range list {
		if s.LastError != nil && !a.JSON {
			a.Notef("%s: the item of its last tick was refused: %s", s.Name, console.Clean(s.LastError.Message))
		}
	}
	return err
}

// whenOf says when a schedule ticks.
func whenOf(s *streamwright.ScheduleInfo) string {
	if s.EveryMS != 0 {
		return "every " + console.Span(time.Duration(s.EveryMS)*time.Millisecond)
	}
	if s.Zone == "" {
		return s.Cron
	}
	return s.Cron + " " + s.Zone
}

// maxNext bounds the ticks that are shown.
const maxNext = 1000

func scheduleNextCommand(a *app) *cobra.Command {
	var t timingFlags
	n := 10
	cmd := &cobra.Command{
		Use:   "next [NAME]",
		Short: "Print the next ticks of a schedule, or of an expression",
		Long: "Print the next ticks of a schedule, or, with --cron or --every and no NAME, those that such a schedule would have.\n" +
			"The latter needs no engine.",
		Example: "  engine schedule next nightly\n  engine schedule next --cron '30 2 * * *' --zone Europe/Berlin --count 3",
		Args:    console.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if n < 1 || n > maxNext {
				return console.Usagef("invalid --count %d: use 1 to %d", n, maxNext)
			}
			if len(args) == 0 {
				return a.nextOf(&t, n)
			}
			if t != (timingFlags{}) {
				return console.Usagef("give either NAME, or --cron or --every")
			}
			return a.ask(cmd, func(ctx context.Context, c *streamwright.Client) error { return a.nextOfNamed(ctx, c, args[0], n) })
		},
	}
	t.define(cmd)
	cmd.Flags().IntVar(&n, "count", n, "how many ticks to print")
	return cmd
}

// nextOf prints the ticks of what the flags say.
func (a *app) nextOf(f *timingFlags, n int) error {
	anchor, err := f.check()
	if err != nil {
		return err
	}
	now := time.Now()
	if anchor.IsZero() {
		anchor = now.Truncate(time.Second)
	}
	t, err := timingOf(f.cron, f.zone, f.every, anchor)
	if err != nil {
		return console.Usage(err)
	}
	return a.printTicks(t, f.zone, t.Next(now), n)
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
	list, err := c.Schedules().List(ctx)
	if err != nil {
		return err
	}
	for _, s := range list {
		if s.Name != name {
			continue
		}
		t, err := timingOf(s.Cron, s.Zone, time.Duration(s.EveryMS)*time.Millisecond, s.Anchor)
		if err != nil {
			return fmt.Errorf("compute the ticks of schedule %s here: %w", name, err)
		}
		if s.Paused {
			a.Notef("%s is paused: none of these comes before it is resumed", name)
		}
		return a.printTicks(t, s.Zone, s.Next, n)
	}
	return events.Refuse(events.CodeNotFound, "there is no schedule %q: `engine schedules` lists them", name)
}

// tickLine is a tick as --json has it.
type tickLine struct {
	Tick time.Time `json:"tick"`
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
			if err := a.PrintJSON(tickLine{next.UTC()}); err != nil {
				return err
			}
			continue
		}
		a.Printf("%s  %s\n", next.In(loc).Format("Mon 2006-01-02 15:04:05 -07:00"), console.Ago(next, now))
	}
	return nil
}

// scheduleRunsCommand lists what a schedule has made, also of one that is removed:
// its items stay.
func scheduleRunsCommand(a *app) *cobra.Command {
	var f streamwright.Filter
	var all bool
	cmd := &cobra.Command{
		Use:     "runs NAME",
		Short:   "List the items that a schedule has made, newest change first",
		Example: "  engine schedule runs nightly\n  engine schedule runs nightly --state dead --all",
		Args:    console.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.State != "" {
				if _, err := events.ParseItemState(f.State); err != nil {
					return console.Usagef("--state: %v", err)
				}
			}
			f.Schedule = args[0]
			none := "no items of schedule " + args[0] + ": `engine schedules` lists the schedules"
			return a.pages(cmd, all, none, a.printItems, func(ctx context.Context, c *streamwright.Client) (streamwright.Page, error) {
				page, err := c.List(ctx, f)
				f.Cursor = page.NextCursor
				return page, err
			})
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.State, "state", "", "only items in this `state`")
	fs.IntVar(&f.Limit, "limit", 50, "how many items to show in a page, at most 1000")
	fs.StringVar(&f.Cursor, "cursor", "", "go on from where a page has ended, by its `cursor`")
	fs.BoolVar(&all, "all", false, "show all pages")
	return cmd
}
