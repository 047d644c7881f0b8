package dispatcher

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/streamwright/streamwright/dispatcher/lanes"
	"github.com/streamwright/streamwright/dispatcher/natsio"
	"github.com/streamwright/streamwright/dispatcher/registry"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

// Register announces a worker: its types and their consumers exist when it
// returns.
func (e *Engine) Register(ctx context.Context, r wire.Register) (wire.Registered, error) {
	if err := e.registry.MayPut(r, e.Now()); err != nil { // what is refused defines no types
		return wire.Registered{}, err
	}
	if err := e.define(ctx, r.Types); err != nil {
		return wire.Registered{}, err
	}
	// First the registry, then the lanes: a lane made in between either tells the worker,
	// or is among those found.
	session, fresh, err := e.registry.Put(r, e.Now())
	if err != nil {
		return wire.Registered{}, err
	}
	out, err := e.consumers(ctx, &r)
	if err != nil {
		if fresh { // the caller does not know the session
			e.registry.Remove(events.WorkerID(r.Worker), session)
		}
		return wire.Registered{}, err
	}
	out.Session = session
	return out, nil
}

// recallWithin bounds recallWorkers.
const recallWithin = 5 * time.Second

// recallWorkers registers the workers that an earlier owner knew, and makes their consumers:
// work goes on without waiting for their heartbeats. One that has died meanwhile is found out
// as any other is. What can't be recalled comes back with its next heartbeat.
func recallWorkers(ctx context.Context, e *Engine) {
	if e.cfg.Registered == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, recallWithin)
	defer cancel()
	list, err := e.cfg.Registered(ctx)
	if err != nil && ctx.Err() == nil {
		e.cfg.Logger.Warn("the workers of the last owner are not known: they come back with their next heartbeats", "error", err)
	}
	for _, w := range list {
		if w.Status == wire.WorkerDead || e.registry.Knows(events.WorkerID(w.Worker)) {
			continue
		}
		reg := wire.Register{Worker: w.Worker, Types: w.Types, Capabilities: w.Capabilities, Slots: w.Slots, Host: w.Host, Version: w.Version, Session: w.Session, Probe: w.Probe, Most: w.Most, Offers: w.Offers, Pull: w.Pull}
		if _, _, err := e.registry.Put(reg, e.Now()); err != nil {
			continue
		}
		if _, err := e.consumers(ctx, &reg); err != nil {
			e.cfg.Logger.Warn("a worker of the last owner has no consumers yet: they are made with its next heartbeat", "worker", w.Worker, "error", err)
		}
		e.tell(events.WorkerID(w.Worker), wire.Control{Register: true}) // its consumers may be others now
	}
}

// define defines types that are not known yet.
func (e *Engine) define(ctx context.Context, types []string) error {
	cmds := make([]core.Command, len(types))
	for i, t := range types {
		cmds[i] = core.Define{Type: events.Type(t)}
	}
	outcomes, err := e.all(ctx, cmds)
	if err != nil {
		return err
	}
	for _, o := range outcomes {
		if o.Err != nil {
			return o.Err
		}
	}
	return nil
}

// beatsPerLease is how many heartbeats a worker sends in a lease, at least.
const beatsPerLease = 3

// consumers makes the consumers that a worker pulls from.
func (e *Engine) consumers(ctx context.Context, r *wire.Register) (wire.Registered, error) {
	out := wire.Registered{Stream: e.cfg.Names.DispatchStream(), Consumers: map[string][]string{}, LeaseMS: map[string]int64{}}
	beat := e.cfg.Heartbeat
	for _, t := range r.Types {
		reply, err := e.lanes(ctx, events.Type(t), r.Capabilities)
		if err != nil {
			return out, err
		}
		if !r.Pull {
			reply.lanes = nil
		}
		for _, lane := range reply.lanes {
			name, err := e.topology.EnsureConsumer(ctx, events.Type(t), lane, reply.ackWait)
			if err != nil {
				e.whenOwner((*natsio.Signals).SweepNow)() // consumers of closed lanes may take the room
				return out, events.Refuse(events.CodeUnavailable, "%v", err)
			}
			out.Consumers[t] = append(out.Consumers[t], name)
		}
		out.LeaseMS[t] = reply.lease.Milliseconds()
		beat = min(beat, reply.lease/beatsPerLease)
	}
	out.HeartbeatMS = beat.Milliseconds()
	return out, nil
}

// served holds the lanes of a type that a worker serves.
type served struct {
	lease   time.Duration // lease of future dispatches
	ackWait time.Duration // ack-wait that the consumers should have now
	lanes   []string
}

// lanes returns a type's lease, and the lanes of the type that a worker serves.
func (e *Engine) lanes(ctx context.Context, t events.Type, capabilities []string) (served, error) {
	offer := lanes.Offer(slices.Compact(slices.Sorted(slices.Values(capabilities))))
	s, err := ask(ctx, e, func(l *loop) (served, error) { return l.workforce.served(t, offer) })
	if err != nil && err == ctx.Err() {
		err = events.Refuse(events.CodeUnavailable, "the engine did not answer in time: register again")
	}
	return s, err
}

// served opens and returns the lanes of a type that a worker with an offer can serve.
func (wf *workforce) served(t events.Type, offer lanes.Offer) (served, error) {
	set, _ := wf.l.state.Settings(t)
	s := served{lease: set.Lease(), ackWait: wf.l.leases.ackWait(t), lanes: []string{""}}
	// The registry has the worker, but its signal may still be on its way to the loop.
	wf.quiet = true
	wf.l.ready.Offers(wf.registry.Offers())
	err := wf.findLanes()
	wf.quiet = false
	if err != nil {
		return s, err
	}
	if err := wf.l.ready.Prepare(t); err != nil {
		return s, err
	}
	for name := range wf.l.ready.OpenLanes(t) {
		if offer.Covers(name) {
			s.lanes = append(s.lanes, name)
		}
	}
	return s, nil
}

// maxInFlight bounds the runs that one heartbeat names.
const maxInFlight = 2 * lanes.MaxPending

// Heartbeat keeps a worker registered, and registers it if it is not known.
func (e *Engine) Heartbeat(ctx context.Context, h wire.Heartbeat) (wire.HeartbeatReply, error) {
	if len(h.InFlight) > maxInFlight {
		return wire.HeartbeatReply{}, events.Refuse(events.CodeTooLarge, "the heartbeat names %d runs: at most %d", len(h.InFlight), maxInFlight)
	}
	if !e.registry.Knows(events.WorkerID(h.Worker)) {
		if _, err := e.Register(ctx, h.Register); err != nil {
			return wire.HeartbeatReply{}, err
		}
		// The worker may not know of lanes made while the engine did not know it.
		e.tell(events.WorkerID(h.Worker), wire.Control{Register: true})
	} else if _, _, err := e.registry.Put(h.Register, e.Now()); err != nil {
		return wire.HeartbeatReply{}, idTaken(err, h.Worker)
	}
	reply := wire.HeartbeatReply{IdleMS: e.registry.MayRest().Milliseconds(), Fence: events.NewToken(e.Epoch(), 0)}
	reply.Status, reply.Reason = e.registry.Beat(&h)
	reply.ShouldDrain = reply.Status == wire.WorkerDraining
	if s := e.signals.Load(); s != nil {
		s.Heartbeat(&h)
	}
	for _, r := range h.InFlight {
		if e.runEnded(r) {
			reply.Cancel = append(reply.Cancel, r)
		}
	}
	return reply, nil
}

// Offer takes a worker's offer; see wire.Offer.
func (e *Engine) Offer(_ context.Context, o wire.Offer) error {
	if err := e.registry.MayOffer(&o); err != nil {
		return err
	}
	if s := e.signals.Load(); s != nil {
		s.Offered(&o)
	}
	return nil
}

// idTaken returns the refusal of a heartbeat whose worker id is another session's by now.
func idTaken(err error, worker string) error {
	if events.CodeOf(err) != events.CodeWorkerIDInUse {
		return err
	}
	return events.Refuse(events.CodeWorkerIDInUse, "worker id %s belongs to another session by now: stop all runs of this one, and register under another id", worker)
}

// tell sends a worker a control message, which is only a hint.
func (e *Engine) tell(w events.WorkerID, c wire.Control) {
	data, err := json.Marshal(c)
	if err == nil {
		err = e.cfg.Conn.Publish(e.cfg.Names.Control(w), data)
	}
	if err != nil {
		e.cfg.Logger.Warn("a worker could not be told: its next heartbeat will", "worker", w, "error", err)
	}
}

// runEnded reports whether a run is no longer its item's present run.
func (e *Engine) runEnded(r wire.RunRef) bool {
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
		return false // not known yet, or unreadable now: no reason to stop the run
	}
	running := it.State == events.StateClaimed || it.State == events.StateRunning
	return it.Token > tok || (it.Token == tok && !running)
}

// Workers returns the registered workers, by id, including those that died within the last
// ten minutes.
func (e *Engine) Workers() []wire.WorkerInfo { return e.registry.List() }

// Probed takes a worker's answer to a probe. It ignores one that is late, or repeated.
func (e *Engine) Probed(p wire.Probed) { e.prober.Answered(p) }

// newProber makes the prober of the engine's workers.
func (e *Engine) newProber() *registry.Prober {
	p := &registry.Prober{
		Registry: e.registry, Interval: e.cfg.ProbeInterval, Timeout: e.cfg.ProbeTimeout, Failures: e.cfg.ProbeFailures,
		Now: e.Now, Connected: e.cfg.Conn.IsConnected,
		Send: func(w events.WorkerID, probe wire.Probe) error {
			body, err := json.Marshal(probe)
			if err != nil {
				return err
			}
			return e.cfg.Conn.Publish(e.cfg.Names.Probe(w), body)
		},
		Changed: func(w events.WorkerID, info wire.WorkerInfo) {
			e.cfg.Logger.Warn("a worker's probes have changed its status", "worker", w, "status", info.Status, "reason", info.Reason)
			e.tell(w, wire.Control{Status: info.Status, Reason: info.Reason})
		},
	}
	if h := e.cfg.Hooks.WorkerFailed; h != nil {
		p.Failed = func() { h(WorkerProbe) }
	}
	return p
}
