package api

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/projector"
	"github.com/streamwright/streamwright/projector/query"
	"github.com/streamwright/streamwright/wire"
)

// moment reads the past that a request asks for: a position, or a time, or both.
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
// to there.
func (a *proofAPI) stateAt(c *call, req wire.StateAt) {
	through, until, err := a.moment(req.AtPosition, req.AtTime)
	if req.AtPosition == "" && req.AtTime.IsZero() {
		err = events.Refuse(events.CodeBadRequest, "give at_position or at_time")
	}
	if err != nil {
		c.reply(nil, err)
		return
	}
	if through == 0 {
		through = a.Queries.Applied()
	}
	var st wire.State
	a.replay(c, func(ctx context.Context, told projector.Progress) error {
		return a.Prover.AsOf(ctx, through, until, told, func(then *projector.Store) (err error) {
			st, err = stateOf(then)
			return err
		})
	}, func(now wire.VerifyReply) any {
		reply := wire.StateReply{Done: now.Done, Events: now.Events, Total: now.Total, Elapsed: now.Elapsed}
		if now.Done {
			reply.State = &st
		}
		return reply
	})
}

// stateOf returns the whole of a store at a glance.
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
	if st.Namespaces, err = then.Namespaces(); err != nil {
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

// eachRecord gives all records of a kind to fn.
func eachRecord[T any](s interface {
	Records(events.RecordKind) ([]events.Record, error)
}, kind events.RecordKind, fn func(key string, v T)) error {
	recs, err := s.Records(kind)
	if err != nil {
		return err
	}
	for _, rec := range recs {
		v, err := recordOf[T](rec)
		if err != nil {
			return err
		}
		fn(rec.Key, v)
	}
	return nil
}

// recordOf decodes a record.
func recordOf[T any](rec events.Record) (v T, err error) {
	if err := json.Unmarshal(rec.Data, &v); err != nil {
		return v, fmt.Errorf("read the record %s: %w", rec.Key, err)
	}
	return v, nil
}
