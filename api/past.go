package api

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/projector"
	"github.com/streamwright/streamwright/projector/query"
	"github.com/streamwright/streamwright/wire"
)

// moment is the past that a request asks for: a position, or a time, or both.
func (e *engine) moment(at wire.Position, when time.Time) (through events.Seq, until time.Time, err error) {
	if through, err = at.Seq(); err != nil {
		return 0, when, err
	}
	if applied := e.Queries.Applied(); through > applied {
		return 0, when, events.Refuse(events.CodeBadRequest, "position %s is not reached yet: the engine is at %s", at, applied)
	}
	return through, when, nil
}

// past answers a get of an item as it was.
func (a *itemAPI) past(ctx context.Context, id events.ID, req wire.Get) (any, error) {
	through, until, err := a.moment(req.AtPosition, req.AtTime)
	if err != nil {
		return nil, err
	}
	now, err := a.item(ctx, id)
	if err != nil {
		return nil, err
	}
	it, found, err := a.Queries.ItemAt(id, through, until)
	if err != nil || found {
		return it, err
	}
	return nil, events.Refuse(events.CodeNotFound, "item %s was not there yet: it was created at %s, by event %d", id, now.CreatedAt.Format(time.RFC3339Nano), now.CreatedSeq)
}

// stateAt tells what the engine was like at a moment, by replaying its log up
// to there. One replay is under way at a time.
func (a *proofAPI) stateAt(c *call, req wire.StateAt) {
	var err error
	if req.AtPosition == "" && req.AtTime.IsZero() {
		err = events.Refuse(events.CodeBadRequest, "give at_position or at_time")
	}
	if err == nil && a.Prover == nil {
		err = events.Refuse(events.CodeUnavailable, "this engine can't replay its log")
	}
	if err != nil {
		c.reply(nil, err)
		return
	}
	through, until, err := a.moment(req.AtPosition, req.AtTime)
	if err != nil {
		c.reply(nil, err)
		return
	}
	if through == 0 {
		through = a.Queries.Applied()
	}
	select {
	case a.proving <- struct{}{}:
	default:
		c.reply(nil, errProving)
		return
	}
	go a.replayTo(c, through, until)
}

// replayTo replays on a goroutine of its own, and tells progress and outcome.
func (a *proofAPI) replayTo(c *call, through events.Seq, until time.Time) {
	p := &pastProgress{c: c, sent: time.Now()}
	var reply wire.StateReply
	err := a.Prover.AsOf(a.ctx, through, until, p.told, func(then *projector.Store) error {
		st, err := stateOf(then)
		reply.State = &st
		return err
	})
	switch {
	case errors.Is(err, projector.ErrProving):
		err = errProving
	case err != nil && a.ctx.Err() != nil:
		err = errClosing
	}
	<-a.proving // before the reply, so that the caller can ask for the next
	reply.Done, reply.ElapsedMS = true, time.Since(c.start).Milliseconds()
	reply.Events, reply.Total = p.done, p.total
	c.reply(reply, err)
}

// pastProgress tells the caller how far a replay is, now and then.
type pastProgress struct {
	c           *call
	mu          sync.Mutex
	done, total uint64
	sent        time.Time
}

func (p *pastProgress) told(done, total uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done, p.total = done, total
	if time.Since(p.sent) < proofEvery {
		return
	}
	p.sent = time.Now()
	p.c.progress(wire.StateReply{Events: done, Total: total, ElapsedMS: time.Since(p.c.start).Milliseconds()})
}

// stateOf is the whole of a store at a glance.
func stateOf(then *projector.Store) (st wire.State, err error) {
	meta, err := then.Meta()
	if err != nil {
		return st, err
	}
	st = wire.State{Position: wire.PositionOf(meta.Applied), At: meta.LastAt, Epoch: uint64(meta.Epoch), Owner: meta.Owner,
		Types: []wire.TypeState{}, Schedules: []events.Schedule{}, Rejected: meta.Rejected}
	types, err := then.Types()
	if err != nil {
		return st, err
	}
	for _, t := range types {
		st.Types = append(st.Types, wire.FromTypeInfo(t))
	}
	causes, err := query.Of(then).Causes(wire.CausesQuery{})
	if err != nil {
		return st, err
	}
	st.Causes = causes.Total
	if err := eachRecord(then, events.RecordSchedule, func(_ string, sc events.Schedule) { st.Schedules = append(st.Schedules, sc) }); err != nil {
		return st, err
	}
	drains := map[events.WorkerID]events.Drain{}
	if err := eachRecord(then, events.RecordDrain, func(worker string, d events.Drain) { drains[events.WorkerID(worker)] = d }); err != nil {
		return st, err
	}
	st.Drains = wire.FromDrains(drains)
	return st, eachRecord(then, events.RecordWorker, func(worker string, c events.Circuit) {
		if now := wire.FromCircuit("", c); now != nil {
			if st.Workers == nil {
				st.Workers = map[string]wire.Circuit{}
			}
			st.Workers[worker] = *now
		}
	})
}

func eachRecord[T any](s *projector.Store, kind events.RecordKind, fn func(key string, v T)) error {
	recs, err := s.Records(kind)
	if err != nil {
		return err
	}
	for _, rec := range recs {
		var v T
		if err := json.Unmarshal(rec.Data, &v); err != nil {
			return err
		}
		fn(rec.Key, v)
	}
	return nil
}
