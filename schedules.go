package streamwright

import (
	"cmp"
	"context"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// ScheduleInfo is a schedule and its place among its ticks.
type ScheduleInfo = wire.ScheduleInfo

// Schedule describes periodic work: at each tick the engine makes an item of
// the schedule's type. docs/guides/SCHEDULES.md says when ticks come and what
// happens to missed ones. Name, Type and one of Cron and Every must be set.
type Schedule struct {
	Name string // a-z and 0-9 with single - or _ between them, at most 63 bytes
	Type string
	// Cron is an expression of five fields, or a word such as @daily. Zone is the
	// IANA name of its time zone, such as Europe/Berlin; empty: UTC.
	Cron, Zone string
	// Every is an interval, at least a second, to use instead of Cron. Anchor is
	// one of its ticks; zero: the time at which the schedule is set.
	Every  time.Duration
	Anchor time.Time
	// Missed decides about ticks that passed while no engine ran or the schedule
	// was paused; empty: MissedOne.
	Missed MissedPolicy
	// Overlap decides about a tick whose previous item has not ended; empty:
	// DedupDistinct.
	Overlap     DedupPolicy
	Params      any // of the items, as JSON; at most 64 KiB
	Priority    int // 1 to 9, higher first; 0: the default, 5; [Lowest]: below 1
	Tenant      string
	Labels      map[string]string
	MaxAttempts int           // 0: the type's
	Timeout     time.Duration // 0: the type's
	Paused      bool          // set the schedule without starting it
}

func (s *Schedule) request() (wire.Schedule, error) {
	params, err := encodeParams(s.Params)
	if err != nil {
		return wire.Schedule{}, err
	}
	if s.Every < 0 || s.Timeout < 0 || s.Every%time.Millisecond != 0 {
		return wire.Schedule{}, events.Refuse(events.CodeBadRequest, "schedule %s: every (%v) and timeout (%v) must not be negative, and every be whole milliseconds", s.Name, s.Every, s.Timeout)
	}
	return wire.Schedule{
		Name: s.Name, Type: s.Type, Cron: s.Cron, Every: events.DurationOf(s.Every), Anchor: s.Anchor, Zone: s.Zone, Missed: string(s.Missed), Overlap: string(s.Overlap),
		Params: params, Priority: priority(s.Priority), Tenant: s.Tenant, Labels: s.Labels, MaxAttempts: s.MaxAttempts, Timeout: events.DurationOf(s.Timeout), Paused: s.Paused,
	}, nil
}

// Schedules manages schedules. [Client.Schedules] returns one.
type Schedules struct{ c *Client }

// Schedules returns the handle for schedules:
//
//	_, err := client.Schedules().Set(ctx, streamwright.Schedule{Name: "nightly", Type: "report", Cron: "@daily"})
func (c *Client) Schedules() Schedules { return Schedules{c} }

// List returns the schedules, by name. Where some may be missing, since the node that
// answers is cut off from the others, or behind them, the error is CodeUnavailable beside
// the list.
func (s Schedules) List(ctx context.Context) ([]ScheduleInfo, error) {
	r, err := ask[wire.SchedulesReply](ctx, s.c, wire.APISchedules, wire.StatsRequest{MinPosition: s.c.Position()})
	return r.Schedules, cmp.Or(err, listStale(r.Stale))
}

// Set makes a schedule, or replaces the one with its name. A schedule whose
// timing stays the same keeps its place among its ticks. A schedule that
// engine.toml sets is CodeSetInFile.
func (s Schedules) Set(ctx context.Context, schedule Schedule) (ScheduleInfo, error) {
	req, err := schedule.request()
	if err != nil {
		return ScheduleInfo{}, err
	}
	return s.change(ctx, wire.APIScheduleSet, req)
}

// Pause stops a schedule's ticks.
func (s Schedules) Pause(ctx context.Context, name string) (ScheduleInfo, error) {
	return s.change(ctx, wire.APISchedulePause, wire.ScheduleName{Name: name})
}

// Resume starts a paused schedule again. The ticks of the pause count as missed.
func (s Schedules) Resume(ctx context.Context, name string) (ScheduleInfo, error) {
	return s.change(ctx, wire.APIScheduleResume, wire.ScheduleName{Name: name})
}

// Remove ends a schedule. The items that it has made stay.
func (s Schedules) Remove(ctx context.Context, name string) error {
	_, err := s.change(ctx, wire.APIScheduleRemove, wire.ScheduleName{Name: name})
	return err
}

// Fire makes an item of a schedule now, in addition to its ticks, even if it is
// paused. The client chooses the item's id, so a repeated try makes no second item.
func (s Schedules) Fire(ctx context.Context, name string) (Submitted, error) {
	id, err := s.c.ids.next()
	if err != nil {
		return Submitted{}, err
	}
	out, err := ask[Submitted](ctx, s.c, wire.APIScheduleFire, wire.ScheduleFire{Name: name, ID: id})
	s.c.ObservePosition(out.Position)
	return out, err
}

func (s Schedules) change(ctx context.Context, op string, req any) (ScheduleInfo, error) {
	r, err := ask[wire.ScheduleReply](ctx, s.c, op, req)
	s.c.ObservePosition(r.Position)
	if r.Schedule == nil {
		return ScheduleInfo{}, err
	}
	return *r.Schedule, err
}
