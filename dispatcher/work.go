package dispatcher

import (
	"context"
	"encoding/json"
	"time"

	"github.com/streamwright/streamwright/dispatcher/registry"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

// Register announces a worker: its types exist when it returns.
func (d *Dispatcher) Register(ctx context.Context, r wire.Register) (wire.Registered, error) {
	if err := d.registry.MayPut(r, d.Now()); err != nil { // what is refused defines no types
		return wire.Registered{}, err
	}
	if err := d.define(ctx, r.Types); err != nil {
		return wire.Registered{}, err
	}
	leases, err := d.leasesOf(ctx, r.Types)
	if err != nil {
		return wire.Registered{}, err
	}
	if err := d.registry.Put(r, d.Now()); err != nil {
		return wire.Registered{}, err
	}
	out := wire.Registered{Session: r.Session, Lease: make(map[string]events.Duration, len(leases))}
	beat := d.cfg.Heartbeat
	for t, lease := range leases {
		out.Lease[t] = events.DurationOf(lease)
		beat = min(beat, lease/beatsPerLease)
	}
	out.Heartbeat = events.DurationOf(beat.Truncate(time.Millisecond))
	return out, nil
}

// beatsPerLease is how many heartbeats a worker sends in a lease, at least.
const beatsPerLease = 3

// leasesOf returns the leases of types.
func (d *Dispatcher) leasesOf(ctx context.Context, types []string) (map[string]time.Duration, error) {
	leases, err := ask(ctx, d, func(l *loop) (map[string]time.Duration, error) {
		leases := make(map[string]time.Duration, len(types))
		for _, t := range types {
			set, _ := l.state.Settings(events.Type(t))
			leases[t] = set.Lease.Duration
		}
		return leases, nil
	})
	if err != nil && err == ctx.Err() {
		err = events.Refuse(events.CodeUnavailable, "the engine did not answer in time: register again")
	}
	return leases, err
}

// recallWithin bounds recallWorkers.
const recallWithin = 5 * time.Second

// recallWorkers registers the workers that an earlier owner knew: work goes on without
// waiting for their heartbeats. One that has died meanwhile is found out as any other is.
// What can't be recalled comes back with its next heartbeat. They are all asked to register
// again: nobody else knows what those have offered that say so themselves, and their leases
// may be others now.
func recallWorkers(ctx context.Context, d *Dispatcher) {
	if d.cfg.Registered == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, recallWithin)
	defer cancel()
	list, err := d.cfg.Registered(ctx)
	if err != nil && ctx.Err() == nil {
		d.cfg.Logger.Warn("the workers of the last owner are not known: they come back with their next heartbeats", "error", err)
	}
	for _, w := range list {
		if w.Status == wire.WorkerDead || d.registry.Knows(events.WorkerID(w.Worker)) {
			continue
		}
		reg := wire.Register{Worker: w.Worker, Types: w.Types, Capabilities: w.Capabilities, Slots: w.Slots, Host: w.Host, Version: w.Version, Session: w.Session, Probe: w.Probe, Most: w.Most, Offers: w.Offers}
		if err := d.registry.Put(reg, d.Now()); err != nil {
			continue
		}
		d.tell(events.WorkerID(w.Worker), wire.Control{Register: true})
	}
}

// define defines types that are not known yet.
func (d *Dispatcher) define(ctx context.Context, types []string) error {
	cmds := make([]core.Command, len(types))
	for i, t := range types {
		cmds[i] = core.Define{Type: events.Type(t)}
	}
	outcomes, err := d.all(ctx, cmds)
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

// maxInFlight bounds the runs that one heartbeat names.
const maxInFlight = 2 * registry.MaxSlots

// Heartbeat keeps a worker registered, and registers it if it is not known.
func (d *Dispatcher) Heartbeat(ctx context.Context, h wire.Heartbeat) (wire.HeartbeatReply, error) {
	if len(h.InFlight) > maxInFlight {
		return wire.HeartbeatReply{}, events.Refuse(events.CodeTooLarge, "the heartbeat names %d runs: at most %d", len(h.InFlight), maxInFlight)
	}
	if !d.registry.Knows(events.WorkerID(h.Worker)) {
		if _, err := d.Register(ctx, h.Register); err != nil {
			return wire.HeartbeatReply{}, err
		}
		// The engine does not know what it has offered.
		d.tell(events.WorkerID(h.Worker), wire.Control{Register: true})
	} else if err := d.registry.Put(h.Register, d.Now()); err != nil {
		return wire.HeartbeatReply{}, idTaken(err, h.Worker)
	}
	reply := wire.HeartbeatReply{Idle: events.DurationOf(d.registry.MayRest().Truncate(time.Millisecond)), Fence: events.NewToken(d.Epoch(), 0)}
	reply.Status, reply.Reason = d.registry.Beat(&h)
	reply.ShouldDrain = reply.Status == wire.WorkerDraining
	if s := d.signals.Load(); s != nil {
		s.Heartbeat(&h)
	}
	for _, r := range h.InFlight {
		if d.runEnded(r) {
			reply.Cancel = append(reply.Cancel, r)
		}
	}
	return reply, nil
}

// Offer takes a worker's offer; see wire.Offer.
func (d *Dispatcher) Offer(_ context.Context, o wire.Offer) error {
	if err := d.registry.Offer(&o); err != nil {
		return err
	}
	if s := d.signals.Load(); s != nil {
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
func (d *Dispatcher) tell(w events.WorkerID, c wire.Control) {
	data, err := json.Marshal(c)
	if err == nil {
		err = d.cfg.Conn.Publish(d.cfg.Names.Control(w), data)
	}
	if err != nil {
		d.cfg.Logger.Warn("a worker could not be told: its next heartbeat will", "worker", w, "error", err)
	}
}

// runEnded reports whether a run is no longer its item's present run.
func (d *Dispatcher) runEnded(r wire.RunRef) bool {
	id, err := events.ParseID(r.ID)
	if err != nil {
		return true
	}
	tok, err := wire.ParseToken(r.Token)
	if err != nil {
		return true
	}
	it, err := d.cfg.Store.Item(id)
	if err != nil || it == nil {
		return false // not known yet, or unreadable now: no reason to stop the run
	}
	running := it.State == events.StateClaimed || it.State == events.StateRunning
	return it.Token > tok || (it.Token == tok && !running)
}

// Workers returns the registered workers, by id, including those that died within the last
// ten minutes.
func (d *Dispatcher) Workers() []wire.WorkerInfo { return d.registry.List() }

// Probed takes a worker's answer to a probe. It ignores one that is late, or repeated.
func (d *Dispatcher) Probed(p wire.Probed) { d.prober.Answered(p) }

// newProber makes the prober of the engine's workers.
func (d *Dispatcher) newProber() *registry.Prober {
	p := &registry.Prober{
		Registry: d.registry, Interval: d.cfg.ProbeInterval, Timeout: d.cfg.ProbeTimeout, Failures: d.cfg.ProbeFailures,
		Now: d.Now, Connected: d.cfg.Conn.IsConnected,
		Send: func(w events.WorkerID, probe wire.Probe) error {
			body, err := json.Marshal(probe)
			if err != nil {
				return err
			}
			return d.cfg.Conn.Publish(d.cfg.Names.Probe(w), body)
		},
		Changed: func(w events.WorkerID, info wire.WorkerInfo) {
			d.cfg.Logger.Warn("a worker's probes have changed its status", "worker", w, "status", info.Status, "reason", info.Reason)
			d.tell(w, wire.Control{Status: info.Status, Reason: info.Reason})
		},
	}
	if h := d.cfg.Hooks.WorkerFailed; h != nil {
		p.Failed = func() { h(WorkerProbe) }
	}
	return p
}
