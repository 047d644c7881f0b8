package dispatcher

import (
	"context"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Register announces a worker: its types and their consumers exist when it
// returns.
func (e *Engine) Register(ctx context.Context, r wire.Register) (wire.Registered, error) {
	if _, err := checkRegister(&r); err != nil {
		return wire.Registered{}, err
	}
	for _, t := range r.Types {
		if _, err := e.one(ctx, events.Define{Type: events.Type(t)}); err != nil {
			return wire.Registered{}, err
		}
	}
	out := wire.Registered{Stream: e.cfg.Names.DispatchStream(), Consumers: map[string][]string{}, LeaseMS: map[string]int64{}}
	beat := e.cfg.Heartbeat
	for _, t := range r.Types {
		lease, lanes, err := e.lanes(ctx, events.Type(t), r.Capabilities)
		if err != nil {
			return wire.Registered{}, err
		}
		for _, lane := range lanes {
			name, err := e.topology.ensureConsumer(ctx, events.Type(t), lane, lease)
			if err != nil {
				return wire.Registered{}, events.Refuse(events.CodeUnavailable, "%v", err)
			}
			out.Consumers[t] = append(out.Consumers[t], name)
		}
		out.LeaseMS[t] = lease.Milliseconds()
		beat = min(beat, lease/3)
	}
	session, _, err := e.registry.put(r, e.Now())
	if err != nil {
		return wire.Registered{}, err
	}
	out.Session, out.HeartbeatMS = session, beat.Milliseconds()
	return out, nil
}

// lanes returns a type's lease, and the lanes of it that a worker serves.
func (e *Engine) lanes(ctx context.Context, t events.Type, capabilities []string) (time.Duration, []string, error) {
	j := &lanesJob{typ: t, worker: &worker{info: wire.WorkerInfo{Capabilities: capabilities}, lanes: map[string]bool{}}, out: make(chan lanesReply, 1)}
	if err := e.enqueue(ctx, j); err != nil {
		return 0, nil, err
	}
	select {
	case r := <-j.out:
		return r.lease, r.lanes, r.err
	case <-ctx.Done():
		return 0, nil, ctx.Err()
	}
}

// lanesJob asks the loop which lanes of a type a worker can serve.
type lanesJob struct {
	typ    events.Type
	worker *worker
	out    chan lanesReply
	reply  lanesReply
}

type lanesReply struct {
	lease time.Duration
	lanes []string
	err   error
}

func (j *lanesJob) len() int { return 1 }

func (j *lanesJob) decide(l *loop, _ int) error {
	set, _ := l.state.Settings(j.typ)
	j.reply = lanesReply{lease: set.Lease(), lanes: []string{""}}
	for name := range l.ready.types[j.typ] {
		if name != "" && j.worker.serves(name) {
			j.reply.lanes = append(j.reply.lanes, name)
		}
	}
	return nil
}

func (j *lanesJob) finish()                   { j.out <- j.reply }
func (j *lanesJob) abandon(err *events.Error) { j.out <- lanesReply{err: err} }

// Heartbeat keeps a worker registered, registering it if it is not known.
func (e *Engine) Heartbeat(ctx context.Context, h wire.Heartbeat) (wire.HeartbeatReply, error) {
	if !e.registry.knows(events.WorkerID(h.Worker)) {
		if _, err := e.Register(ctx, h.Register); err != nil {
			return wire.HeartbeatReply{}, err
		}
	} else if _, _, err := e.registry.put(h.Register, e.Now()); err != nil {
		return wire.HeartbeatReply{}, err
	}
	reply := wire.HeartbeatReply{ShouldDrain: e.registry.beat(&h)}
	if s := e.signals.Load(); s != nil {
		s.heartbeat(h)
	}
	for _, r := range h.InFlight {
		if e.ended1(r) {
			reply.Cancel = append(reply.Cancel, r)
		}
	}
	return reply, nil
}

// ended1 reports whether a run is no longer its item's.
func (e *Engine) ended1(r wire.RunRef) bool {
	id, err := events.ParseID(r.ID)
	if err != nil {
		return true
	}
	tok, err := wire.ParseToken(r.Token)
	if err != nil {
		return true
	}
	it, err := e.cfg.Store.Item(id)
	if err != nil || it == nil {
		return false // not known yet, or not now: no reason to stop it
	}
	running := it.State == events.StateClaimed || it.State == events.StateRunning
	return it.Token > tok || (it.Token == tok && !running)
}

// Unregister takes a worker out of the rotation.
func (e *Engine) Unregister(_ context.Context, u wire.Unregister) error {
	e.registry.remove(events.WorkerID(u.Worker), u.Session)
	return nil
}

// Drain asks a worker to take no more work.
func (e *Engine) Drain(_ context.Context, w events.WorkerID) error {
	if err := e.registry.drain(w); err != nil {
		return err
	}
	data := []byte(`{"drain":true}`)
	if err := e.cfg.Conn.Publish(e.cfg.Names.Control(w), data); err != nil {
		e.cfg.Logger.Warn("a worker could not be told to drain: its next heartbeat will", "worker", w, "error", err)
	}
	return nil
}

// Workers lists the registered workers, by id.
func (e *Engine) Workers() []wire.WorkerInfo { return e.registry.list() }
