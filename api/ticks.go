package api

import (
	"context"
	"errors"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/cron"
	"github.com/streamwright/streamwright/wire"
)

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
	s := events.Schedule{Cron: req.Cron, EveryMS: req.EveryMS, Anchor: req.Anchor, Zone: req.Zone}
	every, isEvery, err := cron.ParseEvery(s.Cron)
	if err == nil && isEvery && s.EveryMS == 0 {
		s.Cron, s.EveryMS = "", every.Milliseconds()
	}
	if err == nil {
		err = s.CheckTiming()
	}
	if err != nil {
		return cron.Timing{}, badTiming(err)
	}
	if s.EveryMS != 0 && s.Anchor.IsZero() {
		s.Anchor = now.Truncate(time.Second)
	}
	var t cron.Timing
	if s.EveryMS != 0 {
		t, err = cron.Every(s.Every(), s.Anchor)
	} else {
		t, err = cron.New(s.Cron, s.Zone)
	}
	return t, badTiming(err)
}

// badTiming is an error about a timing as a refusal; nil stays nil.
func badTiming(err error) error {
	var refused *events.Error
	if err == nil || errors.As(err, &refused) {
		return err
	}
	return events.Refuse(events.CodeBadRequest, "%v", err)
}
