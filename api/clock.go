package api

import (
	"context"
	"errors"
	"time"

	"github.com/streamwright/streamwright/dispatcher"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// acceptTimeout bounds how long accepting the clock takes: the engine takes its
// log over anew.
const acceptTimeout = 20 * time.Second

// clockStatus tells of the clock; nil while the engine is not the owner.
func (s *Service) clockStatus() *wire.Clock {
	st, ok := s.Core.Clock()
	if !ok {
		return nil
	}
	c := clockOf(st)
	if m, err := s.Queries.Meta(); err == nil {
		c.LastEvent = m.LastAt
	}
	return &c
}

func clockOf(st dispatcher.ClockStatus) wire.Clock {
	c := wire.Clock{
		Verdict: st.Verdict, EngineTime: st.Engine, ServerTime: st.Server, KnownGood: st.Known, Difference: events.DurationOf(st.Difference.Truncate(time.Millisecond)),
		MaxJump: events.DurationOf(max(st.MaxJump, 0).Truncate(time.Millisecond)), Since: st.Since, Why: st.Why,
	}
	if !st.Plausible() {
		c.Held = []string{"pruning ended items", "cutting the log"}
	}
	if st.Blind {
		c.Held = append(c.Held, "what is due by the engine's time and not by the server's: delayed items, retries, timeouts, expiry, schedules, ends of pauses")
	}
	return c
}

// clock answers how the clock is.
func (s *Service) clock(_ context.Context, c *call, _ wire.StatsRequest) (any, error) {
	st := s.clockStatus()
	if st == nil {
		return nil, events.Refuse(events.CodeUnavailable, "the engine has no time yet: ask again")
	}
	return st, nil
}

// acceptClock makes the server's time the engine's.
func (s *Service) acceptClock(ctx context.Context, c *call, req wire.AcceptClock) (any, error) {
	if len(req.By) > events.MaxNameLen {
		return nil, events.Refuse(events.CodeTooLarge, "by has %d bytes: at most %d", len(req.By), events.MaxNameLen)
	}
	ctx, cancel := context.WithTimeout(ctx, acceptTimeout)
	defer cancel()
	if _, err := s.Core.AcceptClock(ctx, c.author(req.By)); err != nil {
		return nil, err
	}
	return s.clock(ctx, nil, wire.StatsRequest{})
}

// clockIsPlausible returns why the clock is implausible, nil if it is not.
func (s *Service) clockIsPlausible() error {
	if st, ok := s.Core.Clock(); ok && !st.Plausible() {
		return errors.New(st.Why)
	}
	return nil
}

// retentionTimeout bounds how long info waits for the loop's word on retention.
const retentionTimeout = time.Second

// cut has the log cut now, however short it is.
func (s *Service) cut(ctx context.Context, c *call, req wire.Cut) (any, error) {
	past, err := req.Past.Seq()
	if err != nil {
		return nil, err
	}
	st, err := s.Core.Cut(ctx, past)
	if err != nil {
		if events.CodeOf(err) == events.CodeInternal {
			err = events.Refuse(events.CodeUnavailable, "the engine does not answer: ask again")
		}
		return nil, err
	}
	return retentionOf(st), nil
}

// retention returns nil if the loop does not answer in time.
func (s *Service) retention(ctx context.Context) *wire.Retention {
	ctx, cancel := context.WithTimeout(ctx, retentionTimeout)
	defer cancel()
	st, err := s.Core.Retention(ctx)
	if err != nil {
		return nil
	}
	return retentionOf(st)
}

func retentionOf(st dispatcher.RetentionStatus) *wire.Retention {
	return &wire.Retention{
		LogFirst: wire.PositionOf(st.First), LogLast: wire.PositionOf(st.Last), Events: st.Events, Retained: st.Retained, Held: st.Held,
		Pruned: st.Pruned, LastCut: st.CutAt, Round: st.Phase,
	}
}
