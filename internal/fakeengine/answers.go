package fakeengine

import (
	"encoding/json"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/directget"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/wire/command"
)

// answer does a request. Call with mu held.
func (e *Engine) answer(op string, m *nats.Msg) (any, error) {
	switch op {
	case wire.APISubmit:
		return e.submit(m.Data)
	case wire.APIGet:
		r := read[wire.Get](e, m)
		e.seen = append(e.seen, r.MinPosition)
		return e.find(r.ID)
	case wire.APIList:
		return e.list(read[wire.List](e, m)), nil
	case wire.APIHistory:
		r := read[wire.History](e, m)
		_, err := e.find(r.ID)
		return wire.HistoryReply{Events: []wire.HistoryEvent{
			{Seq: 1, Kind: events.KindCreated, ID: r.ID, Type: "email", At: Now, Data: json.RawMessage(`{"priority":5}`)},
			{Seq: 2, Kind: events.KindClaimed, ID: r.ID, Type: "email", At: Now.Add(time.Second), Attempt: 1, Worker: "w1"},
		}}, err
	case wire.APILogs:
		r := read[wire.Logs](e, m)
		it, err := e.find(r.ID)
		if err == nil && r.After != nil {
			return e.logs(it, *r.After)
		}
		return wire.LogsReply{Records: []wire.LogRecord{{Seq: 1, At: Now, Level: "warn", Attempt: 1, Message: "mind the gap"}}}, err
	case wire.APICancel:
		return e.cancel(read[wire.Cancel](e, m))
	case wire.APIReschedule:
		return e.reschedule(read[wire.Reschedule](e, m))
	case wire.APIStats:
		e.seen = append(e.seen, read[wire.StatsRequest](e, m).MinPosition)
		return wire.StatsReply{Workers: 1, Rejected: 2, Position: wire.PositionOf(e.position), Types: []wire.TypeStats{
			{Type: "email", States: map[string]int64{"queued": 12345, "running": 1, "dead": 2}, InFlight: 3, Capacity: 10, Workers: 1, OldestMS: 90_000},
		}}, nil
	case wire.APITypes:
		return wire.TypesReply{Types: []wire.TypeReply{{Type: "email", Source: "default", Settings: events.DefaultTypeSettings()}}}, nil
	case wire.APIConfigure:
		return e.configure(read[wire.Configure](e, m))
	case wire.APIWorkers:
		return wire.WorkersReply{Workers: []wire.WorkerInfo{{Worker: "w1", Types: []string{"email"}, Slots: 4, InFlight: 1, Status: "active", Host: "h", RegisteredAt: Now, LastSeen: Now}}}, nil
	case wire.APIDrain:
		e.drained = append(e.drained, read[wire.Drain](e, m).Worker)
		return wire.OK{OK: true}, nil
	case wire.APIInfo:
		return wire.InfoReply{Version: "v0", Owner: "fake", Epoch: 1, Durability: "always", Position: wire.PositionOf(e.position), Now: Now}, nil
	case wire.APIVerify, wire.APIRebuild:
		for i := range uint64(3) {
			e.reply(m, wire.VerifyReply{Events: 100 * (i + 1), Total: 300})
		}
		return wire.VerifyReply{Done: true, Events: 300, Total: 300, Equal: true, Digest: "abc", Live: "abc", ElapsedMS: 12}, nil
	}
	return nil, events.Refuse(events.CodeBadRequest, "no endpoint %s", op)
}

func read[T any](e *Engine, m *nats.Msg) (v T) {
	if err := json.Unmarshal(m.Data, &v); err != nil {
		e.t.Errorf("%s: %v: %s", m.Subject, err, m.Data)
	}
	return v
}

func (e *Engine) submit(data []byte) (any, error) {
	if len(data) == 0 || data[0] != '[' {
		var s wire.Submit
		if err := json.Unmarshal(data, &s); err != nil {
			return nil, events.Refuse(events.CodeBadRequest, "%v", err)
		}
		return e.one(s)
	}
	var many []wire.Submit
	if err := json.Unmarshal(data, &many); err != nil || len(many) > events.MaxSubmitBatch {
		return nil, events.Refuse(events.CodeBadRequest, "%d submissions: %v", len(many), err)
	}
	out := make([]wire.Submitted, len(many))
	for i, s := range many {
		var err error
		if out[i], err = e.one(s); err != nil {
			out[i] = wire.Submitted{Error: wire.FromError(err)}
		}
	}
	return out, nil
}

func (e *Engine) one(s wire.Submit) (wire.Submitted, error) {
	c, err := command.OfSubmit(s, events.ID{}, events.MaxParamsBytes)
	if err != nil {
		return wire.Submitted{}, err
	}
	id := c.ID.String()
	if it, ok := e.items[id]; ok {
		return wire.Submitted{ID: id, State: it.State, Repeat: true, Position: it.Position}, nil
	}
	it := &wire.Item{ID: id, Type: s.Type, State: events.StateQueued, Priority: 5, Params: s.Params, MaxAttempts: 3, CreatedAt: Now, QueuedAt: Now, Labels: s.Labels, DedupKey: s.DedupKey, Provenance: c.Provenance}
	if s.Priority != nil {
		it.Priority = int(*s.Priority)
	}
	if s.DedupKey != "" {
		for _, other := range e.items {
			if other.DedupKey == s.DedupKey && !other.State.Terminal() {
				it.State, it.MergedInto = events.StateMerged, other.ID
			}
		}
	}
	e.items[id] = it
	e.touch(it)
	return wire.Submitted{ID: id, State: it.State, MergedInto: it.MergedInto, Position: it.Position}, nil
}

// list pages by two, so that a few items already need a cursor.
func (e *Engine) list(r wire.List) (out wire.Listed) {
	e.seen = append(e.seen, r.MinPosition)
	for _, it := range e.sorted() {
		if it.ID <= r.Cursor || r.State != "" && it.State.String() != r.State || r.Worker != "" && it.Worker != r.Worker {
			continue
		}
		if len(out.Items) == 2 {
			out.NextCursor = out.Items[1].ID
			break
		}
		out.Items = append(out.Items, it)
	}
	return out
}

func (e *Engine) cancel(r wire.Cancel) (any, error) {
	it, err := e.find(r.ID)
	if err != nil {
		return nil, err
	}
	was := it.State == events.StateRunning
	it.State, it.Reason = events.StateCancelled, r.Reason
	e.touch(it)
	return wire.Cancelled{ID: it.ID, State: it.State, WasRunning: was, Position: it.Position}, nil
}

func (e *Engine) reschedule(r wire.Reschedule) (any, error) {
	c, err := command.OfReschedule(r, Now)
	if err != nil {
		return nil, err
	}
	it, err := e.find(r.ID)
	if err != nil {
		return nil, err
	}
	if c.Priority != nil {
		it.Priority = int(*c.Priority)
	}
	it.AvailableAt = r.AvailableAt
	e.touch(it)
	return wire.Rescheduled{ID: it.ID, State: it.State, Position: it.Position}, nil
}

func (e *Engine) configure(r wire.Configure) (any, error) {
	s, ok := e.settings[r.Type]
	if !ok {
		s = events.DefaultTypeSettings()
	}
	if err := json.Unmarshal(r.Settings, &s); err != nil {
		return nil, events.Refuse(events.CodeBadRequest, "%v", err)
	}
	e.settings[r.Type] = s
	return wire.TypeReply{Type: r.Type, Source: "api", Settings: s}, s.Validate()
}

// logs are the records of an item's log behind one.
func (e *Engine) logs(it *wire.Item, after uint64) (reply wire.LogsReply, err error) {
	id, err := events.ParseID(it.ID)
	if err != nil {
		return reply, err
	}
	n := wire.Default
	msgs, pending, err := directget.Get(e.ctx, e.nc, n.JetStream("DIRECT.GET."+n.LogStream()), directget.Request{Seq: after + 1, NextFor: n.Log(events.Type(it.Type), id), Batch: 2})
	if err != nil {
		return reply, events.Refuse(events.CodeUnavailable, "%v", err)
	}
	for _, m := range msgs {
		r := wire.LogRecord{At: m.Time, Level: "info", Message: string(m.Data)}
		if json.Unmarshal(m.Data, &r) != nil {
			r = wire.LogRecord{At: m.Time, Level: "info", Message: string(m.Data)}
		}
		r.Seq = m.Seq
		reply.Records = append(reply.Records, r)
	}
	reply.More = pending > 0
	return reply, nil
}

// events answers with a page of the log.
func (e *Engine) events(m *nats.Msg) {
	r := read[wire.ReadEvents](e, m)
	e.mu.Lock()
	e.requests[wire.APIEvents]++
	e.mu.Unlock()
	q := eventlog.PageQuery{From: r.FromSeq, Since: r.Since, Wait: time.Duration(r.WaitMS) * time.Millisecond}
	for _, t := range r.Types {
		q.Types = append(q.Types, events.Type(t))
	}
	for _, text := range r.Kinds {
		k, _ := events.ParseKind(text)
		q.Kinds = append(q.Kinds, k)
	}
	if r.ID != "" {
		q.ID, _ = events.ParseID(r.ID)
	}
	page, err := e.pages.Read(e.ctx, q, nil)
	if err != nil {
		if e.ctx.Err() == nil {
			e.reply(m, wire.ErrorReply{Error: wire.FromError(events.WithCode(events.CodeUnavailable, err))})
		}
		return
	}
	reply := wire.EventsReply{Events: []wire.HistoryEvent{}, NextSeq: page.Next, More: page.More}
	for _, ev := range page.Events {
		reply.Events = append(reply.Events, wire.FromEvent(ev))
	}
	e.reply(m, reply)
}

// wait answers once the item is terminal or its time is up.
func (e *Engine) wait(m *nats.Msg) {
	r := read[wire.Wait](e, m)
	timeout := time.NewTimer(time.Duration(r.TimeoutMS) * time.Millisecond)
	defer timeout.Stop()
	e.mu.Lock()
	e.requests[wire.APIWait]++
	e.mu.Unlock()
	for up := false; ; {
		e.mu.Lock()
		it, err := e.find(r.ID)
		changed := e.changed
		if err != nil || up || it.State.Terminal() {
			if err != nil {
				e.reply(m, wire.ErrorReply{Error: wire.FromError(err)})
			} else {
				e.reply(m, it)
			}
			e.mu.Unlock()
			return
		}
		e.mu.Unlock()
		select {
		case <-changed:
		case <-timeout.C:
			up = true
		case <-e.stop:
			return
		}
	}
}
