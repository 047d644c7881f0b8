package api

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/streamwright/streamwright/dispatcher"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// scheduleAPI shows and changes schedules.
type scheduleAPI struct {
	*engine
	Full func() *Full
}

func (a *scheduleAPI) handle(h *handlers) {
	on(h, wire.APISchedules, a.list)
	on(h, wire.APIScheduleSet, a.set)
	on(h, wire.APIScheduleRemove, a.remove)
	on(h, wire.APISchedulePause, a.pause(true))
	on(h, wire.APIScheduleResume, a.pause(false))
	at(h, wire.APIScheduleFire, a.fire)
	on(h, wire.APITicks, a.ticks)
}

// schedules lists them.
func (a *scheduleAPI) list(ctx context.Context, _ *call, req wire.See) (any, error) {
	if err := a.await(ctx, req.MinPosition); err != nil {
		return nil, err
	}
	at := a.Queries.Applied()
	recs, err := a.Queries.Records(events.RecordSchedule)
	if err != nil {
		return nil, err
	}
	reply := wire.SchedulesReply{Schedules: make([]wire.ScheduleInfo, len(recs)), Position: wire.PositionOf(at)}
	for i, rec := range recs {
		var v events.Schedule
		if err := json.Unmarshal(rec.Data, &v); err != nil {
			return nil, fmt.Errorf("read schedule %s: %w", rec.Key, err)
		}
		if reply.Schedules[i], err = a.info(&v); err != nil {
			return nil, err
		}
	}
	return reply, nil
}

// scheduleInfo adds the state of the last item.
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
	cmd, err := req.Command(events.SourceAPI)
	if err != nil {
		return nil, err
	}
	return a.changed(ctx, req.Name, cmd)
}

func (a *scheduleAPI) remove(ctx context.Context, c *call, req wire.ScheduleName) (any, error) {
	o, err := a.one(ctx, events.RemoveSchedule{Name: req.Name, Source: events.SourceAPI})
	return wire.ScheduleReply{Repeat: o.Decision.Repeat, Position: wire.PositionOf(o.Position)}, err
}

// schedulePause makes the handler of schedule_pause, or of schedule_resume.
func (a *scheduleAPI) pause(paused bool) func(context.Context, *call, wire.ScheduleName) (any, error) {
	return func(ctx context.Context, _ *call, req wire.ScheduleName) (any, error) {
		return a.changed(ctx, req.Name, events.PauseSchedule{Name: req.Name, Paused: paused})
	}
}

// changeSchedule decides a change and answers with the schedule as it is then,
// or as a tick has left it since.
func (a *scheduleAPI) changed(ctx context.Context, name string, cmd events.Command) (any, error) {
	o, err := a.one(ctx, cmd)
	if err != nil {
		return nil, err
	}
	reply := wire.ScheduleReply{Repeat: o.Decision.Repeat, Position: wire.PositionOf(o.Position)}
	if err := a.await(ctx, reply.Position); err != nil {
		return nil, err
	}
	recs, err := a.Queries.Records(events.RecordSchedule)
	if err != nil {
		return nil, err
	}
	for _, rec := range recs {
		if rec.Key != name {
			continue
		}
		var v events.Schedule
		if err := json.Unmarshal(rec.Data, &v); err != nil {
			return nil, fmt.Errorf("read schedule %s: %w", name, err)
		}
		info, err := a.info(&v)
		reply.Schedule = &info
		return reply, err
	}
	return reply, nil // removed since
}

// scheduleFire makes an item beside the ticks.
func (a *scheduleAPI) fire(c *call, req wire.ScheduleFire) {
	cmd, err := req.Command(a.Core.NewID())
	if err != nil {
		c.reply(nil, err)
		return
	}
	if full := a.Full(); full != nil {
		c.reply(nil, full.Why)
		return
	}
	c.do([]events.Command{cmd}, func(o []dispatcher.Outcome) {
		c.reply(submitted(o[0]), o[0].Err)
	})
}
