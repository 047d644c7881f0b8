package streamwright

import (
	"context"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// ScheduleInfo is a schedule, and where it is among its ticks.
type ScheduleInfo = wire.ScheduleInfo

// Schedule is periodic work: at each of its ticks the engine makes an item of
// its type. docs/guides/SCHEDULES.md says when ticks come, and what becomes of those
// that are missed. Name, Type and one of Cron and Every must be set.
type Schedule struct {
	Name string // a-z and 0-9 with single - or _ between them, at most 63 bytes
	Type string
	// Cron is an expression of five fields, or a word such as @daily, in Zone:
	// an IANA name such as Europe/Berlin; empty: UTC.
	Cron, Zone string
	// Every, at least a second, is an interval instead. Anchor is one of its
	// ticks; zero: the time at which it is set.
	Every  time.Duration
	Anchor time.Time
	// Missed says what becomes of ticks that came while no engine ran, or in a
	// pause: "skip", "one" item for all of them (empty), or "all", one for each.
	Missed string
	// Overlap says what becomes of a tick whose previous item has not ended:
	// "distinct": both run (empty); "merge": it becomes part of it; "defer": it
	// waits for it; "supersede": it replaces it.
	Overlap     string
	Params      any // of the items, as JSON; at most 64 KiB
	Priority    *wire.Priority
	Tenant      string
	Labels      map[string]string
	MaxAttempts int           // 0: the type's
	Timeout     time.Duration // 0: the type's
	Paused      bool          // it does not tick
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
		Name: s.Name, Type: s.Type, Cron: s.Cron, EveryMS: s.Every.Milliseconds(), Anchor: s.Anchor, Zone: s.Zone, Missed: s.Missed, Overlap: s.Overlap,
		Params: params, Priority: s.Priority, Tenant: s.Tenant, Labels: s.Labels, MaxAttempts: s.MaxAttempts, TimeoutMS: wire.Millis(s.Timeout), Paused: s.Paused,
	}, nil
}

// Schedules lists the schedules, by name.
func (c *Client) Schedules(ctx context.Context) ([]ScheduleInfo, error) {
	r, err := ask[wire.SchedulesReply](ctx, c, wire.APISchedules, wire.See{MinPosition: c.Position()})
	return r.Schedules, err
}

// SetSchedule makes a schedule, or replaces the one of its name. One whose
// timing stays the same keeps its place among its ticks. A schedule that
// engine.toml sets is CodeSetInFile.
func (c *Client) SetSchedule(ctx context.Context, s Schedule) (ScheduleInfo, error) {
	req, err := s.request()
	if err != nil {
		return ScheduleInfo{}, err
	}
	return c.changeSchedule(ctx, wire.APIScheduleSet, req)
}

// PauseSchedule stops a schedule's ticks.
func (c *Client) PauseSchedule(ctx context.Context, name string) (ScheduleInfo, error) {
	return c.changeSchedule(ctx, wire.APISchedulePause, wire.ScheduleName{Name: name})
}

// ResumeSchedule has a paused schedule tick again. The ticks of the pause count
// as missed.
func (c *Client) ResumeSchedule(ctx context.Context, name string) (ScheduleInfo, error) {
	return c.changeSchedule(ctx, wire.APIScheduleResume, wire.ScheduleName{Name: name})
}

func (c *Client) changeSchedule(ctx context.Context, op string, req any) (ScheduleInfo, error) {
	r, err := ask[wire.ScheduleReply](ctx, c, op, req)
	c.Saw(r.Position)
	if r.Schedule == nil {
		return ScheduleInfo{}, err
	}
	return *r.Schedule, err
}

// RemoveSchedule ends a schedule. Items that it has made stay.
func (c *Client) RemoveSchedule(ctx context.Context, name string) error {
	r, err := ask[wire.ScheduleReply](ctx, c, wire.APIScheduleRemove, wire.ScheduleName{Name: name})
	c.Saw(r.Position)
	return err
}

// FireSchedule makes an item of a schedule now, beside its ticks, also of one
// that is paused. It chooses the id, so that trying again makes no second item.
func (c *Client) FireSchedule(ctx context.Context, name string) (Submitted, error) {
	id, err := c.ids.next()
	if err != nil {
		return Submitted{}, err
	}
	s, err := ask[Submitted](ctx, c, wire.APIScheduleFire, wire.ScheduleFire{Name: name, ID: id})
	c.Saw(s.Position)
	return s, err
}
