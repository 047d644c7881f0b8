package api

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/streamwright/streamwright/dispatcher"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

// schedules lists them.
func (s *Service) schedules(ctx context.Context, c *call) (any, error) {
	if err := s.see(ctx, c); err != nil {
		return nil, err
	}
	at := s.Queries.Applied()
	recs, err := s.Queries.Records(events.RecordSchedule)
	if err != nil {
		return nil, err
	}
	reply := wire.SchedulesReply{Schedules: make([]wire.ScheduleInfo, len(recs)), Position: wire.PositionOf(at)}
	for i, rec := range recs {
		var v events.Schedule
		if err := json.Unmarshal(rec.Data, &v); err != nil {
			return nil, fmt.Errorf("read schedule %s: %w", rec.Key, err)
		}
		if reply.Schedules[i], err = s.scheduleInfo(&v); err != nil {
			return nil, err
		}
	}
	return reply, nil
}

// scheduleInfo adds the state of the last item.
func (s *Service) scheduleInfo(v *events.Schedule) (wire.ScheduleInfo, error) {
	info := wire.FromSchedule(v)
	if v.LastItem.IsZero() {
		return info, nil
	}
	it, err := s.Queries.Item(v.LastItem)
	if it != nil {
		info.LastState = it.State
	}
	return info, err
}

func (s *Service) scheduleSet(ctx context.Context, c *call) (any, error) {
	req, err := decode[wire.Schedule](c.data)
	if err != nil {
		return nil, err
	}
	cmd, err := req.Command(events.SourceAPI)
	if err != nil {
		return nil, err
	}
	return s.changeSchedule(ctx, req.Name, cmd)
}

func (s *Service) scheduleRemove(ctx context.Context, c *call) (any, error) {
	req, err := decode[wire.ScheduleName](c.data)
	if err != nil {
		return nil, err
	}
	o, err := s.one(ctx, core.RemoveSchedule{Name: req.Name, Source: events.SourceAPI})
	return wire.ScheduleReply{Repeat: o.Decision.Repeat, Position: wire.PositionOf(o.Position)}, err
}

// schedulePause makes the handler of schedule_pause, or of schedule_resume.
func (s *Service) schedulePause(paused bool) func(context.Context, *call) (any, error) {
	return func(ctx context.Context, c *call) (any, error) {
		req, err := decode[wire.ScheduleName](c.data)
		if err != nil {
			return nil, err
		}
		return s.changeSchedule(ctx, req.Name, core.PauseSchedule{Name: req.Name, Paused: paused})
	}
}

// changeSchedule decides a change and answers with the schedule as it is then,
// or as a tick has left it since.
func (s *Service) changeSchedule(ctx context.Context, name string, cmd core.Command) (any, error) {
	o, err := s.one(ctx, cmd)
	if err != nil {
		return nil, err
	}
	reply := wire.ScheduleReply{Repeat: o.Decision.Repeat, Position: wire.PositionOf(o.Position)}
	if err := s.await(ctx, reply.Position); err != nil {
		return nil, err
	}
	recs, err := s.Queries.Records(events.RecordSchedule)
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
		info, err := s.scheduleInfo(&v)
		reply.Schedule = &info
		return reply, err
	}
	return reply, nil // removed since
}

// scheduleFire makes an item beside the ticks.
func (s *Service) scheduleFire(c *call) {
	req, err := decode[wire.ScheduleFire](c.data)
	if err != nil {
		c.reply(nil, err)
		return
	}
	cmd, err := req.Command(s.Core.NewID())
	if err != nil {
		c.reply(nil, err)
		return
	}
	if full := s.Full(); full != nil {
		c.reply(nil, full.Why)
		return
	}
	c.do([]core.Command{cmd}, func(o []dispatcher.Outcome) {
		c.reply(submitted(o[0]), o[0].Err)
	})
}
