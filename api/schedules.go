package api

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/streamwright/streamwright/dispatcher"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/internal/cron"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/wire/command"
)

// scheduleAPI shows and changes schedules.
type scheduleAPI struct{ *engine }

func (a *scheduleAPI) handle(h *handlers) {
	projected(h, wire.APISchedules, a.list)
	on(h, wire.APIScheduleSet, a.set)
	on(h, wire.APIScheduleRemove, a.remove)
	on(h, wire.APISchedulePause, a.pause(true))
	on(h, wire.APIScheduleResume, a.pause(false))
	at(h, wire.APIScheduleFire, a.fire)
	on(h, wire.APITicks, a.ticks)
}

// list lists the schedules.
func (a *scheduleAPI) list(ctx context.Context, _ *call, req wire.StatsRequest) (any, error) {
	at := a.Queries.Applied()
	all, err := a.all()
	if err != nil {
		return nil, err
	}
	reply := wire.SchedulesReply{Schedules: make([]wire.ScheduleInfo, len(all)), Position: wire.PositionOf(at), Stale: a.lacking(ctx)}
	for i := range all {
		if reply.Schedules[i], err = a.info(&all[i]); err != nil {
			return nil, err
		}
	}
	return reply, nil
}

func (a *scheduleAPI) all() (all []events.Schedule, err error) {
	err = eachRecord(a.Queries, events.RecordSchedule, func(_ string, v events.Schedule) { all = append(all, v) })
	return all, err
}

// info adds the state of the last item.
func (a *scheduleAPI) info(v *events.Schedule) (wire.ScheduleInfo, error) {
	info := wire.FromSchedule(v)
	if v.LastItem.IsZero() {
		return info, nil
	}
	it, err := a.Queries.Item(v.LastItem)
	if it != nil {
		info.LastState = it.State
	}
	return info, err
}

func (a *scheduleAPI) set(ctx context.Context, c *call, req wire.Schedule) (any, error) {
	cmd, err := command.OfSchedule(req, events.SourceAPI)
	if err != nil {
		return nil, err
	}
	return a.changed(ctx, req.Name, cmd)
}

func (a *scheduleAPI) remove(ctx context.Context, c *call, req wire.ScheduleName) (any, error) {
	o, err := a.one(ctx, core.RemoveSchedule{Name: req.Name, Source: events.SourceAPI})
	return wire.ScheduleReply{Repeat: o.Decision.Repeat, Position: wire.PositionOf(o.Position)}, err
}

// pause makes the handler of schedule_pause, or of schedule_resume.
func (a *scheduleAPI) pause(paused bool) func(context.Context, *call, wire.ScheduleName) (any, error) {
	return func(ctx context.Context, _ *call, req wire.ScheduleName) (any, error) {
		return a.changed(ctx, req.Name, core.PauseSchedule{Name: req.Name, Paused: paused})
	}
}

// changed decides a change and answers with the schedule as it is then,
// or as a tick has left it since.
func (a *scheduleAPI) changed(ctx context.Context, name string, cmd core.Command) (any, error) {
	o, err := a.one(ctx, cmd)
	if err != nil {
		return nil, err
	}
	reply := wire.ScheduleReply{Repeat: o.Decision.Repeat, Position: wire.PositionOf(o.Position)}
	if err := a.await(ctx, reply.Position); err != nil {
		return nil, err
	}
	recs, err := a.Queries.Records(events.RecordSchedule)
	i := slices.IndexFunc(recs, func(r events.Record) bool { return r.Key == name })
	if err != nil || i < 0 { // removed since
		return reply, err
	}
	v, err := recordOf[events.Schedule](recs[i])
	if err != nil {
		return nil, err
	}
	info, err := a.info(&v)
	reply.Schedule = &info
	return reply, err
}

// fire makes an item beside the ticks.
func (a *scheduleAPI) fire(c *call, req wire.ScheduleFire) {
	cmd, err := command.OfFire(req, a.Core.NewID())
	if full := a.Full(); err == nil && full != nil {
		err = full.Why
	}
	c.decide(cmd, err, func(o dispatcher.Outcome) any { return submitted(o) })
}

// ticks shows when a schedule would tick next. It refuses what setting such a
// schedule would refuse of its timing.
func (a *scheduleAPI) ticks(_ context.Context, c *call, req wire.Ticks) (any, error) {
	if req.Count == 0 {
		req.Count = wire.DefaultTicks
	}
	if req.Count < 1 || req.Count > wire.MaxTicks {
		return nil, events.Refuse(events.CodeBadRequest, "count is %d: it must be 1 to %d", req.Count, wire.MaxTicks)
	}
	now := a.Core.Now()
	timing, err := timingOf(req, now)
	if err != nil {
		return nil, err
	}
	zone, err := cron.Zone(req.Zone)
	if err != nil {
		return nil, badTiming(err)
	}
	reply := wire.TicksReply{Ticks: []time.Time{}}
	for at := timing.Next(now); !at.IsZero() && len(reply.Ticks) < req.Count; at = timing.Next(at) {
		reply.Ticks = append(reply.Ticks, at.In(zone))
	}
	if len(reply.Ticks) == 0 {
		return nil, events.Refuse(events.CodeBadRequest, "no moment in the next ten years matches: check the expression")
	}
	return reply, nil
}

// timingOf reads a timing; one without an anchor begins now.
func timingOf(req wire.Ticks, now time.Time) (cron.Timing, error) {
	s := events.Schedule{Cron: req.Cron, Every: req.Every, Anchor: req.Anchor, Zone: req.Zone}
	every, isEvery, err := cron.ParseEvery(s.Cron)
	if err == nil && isEvery && s.Every.IsZero() {
		s.Cron, s.Every = "", events.DurationOf(every)
	}
	if err == nil {
		err = s.CheckTiming()
	}
	if err != nil {
		return cron.Timing{}, badTiming(err)
	}
	if !s.Every.IsZero() && s.Anchor.IsZero() {
		s.Anchor = now.Truncate(time.Second)
	}
	var t cron.Timing
	if !s.Every.IsZero() {
		t, err = cron.Every(s.Every.Duration, s.Anchor)
	} else {
		t, err = cron.New(s.Cron, s.Zone)
	}
	return t, badTiming(err)
}

// badTiming returns an error about a timing as a refusal; nil stays nil.
func badTiming(err error) error {
	var refused *events.Error
	if err == nil || errors.As(err, &refused) {
		return err
	}
	return events.Refuse(events.CodeBadRequest, "%v", err)
}
