package bridge

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/pull"
	"github.com/streamwright/streamwright/wire"
)

// probeWait is a request of a worker that waits to be asked whether it is well.
// Guarded by Bridge.mu.
type probeWait struct {
	wake     chan struct{} // room for one
	replaced bool          // another request has taken over
}

func (p *probeWait) poke() {
	if p == nil {
		return
	}
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Probe passes on a worker's answer to the last probe, if it has one, and waits
// for the next, until there is one or the time is over. Of two waits of one worker,
// the first ends with worker_id_in_use.
func (b *Bridge) Probe(ctx context.Context, worker string, req wire.ProbeWait) (wire.ProbeAsked, error) {
	wait, err := waitOf(req.WaitMS)
	if err != nil {
		return wire.ProbeAsked{}, err
	}
	s, err := b.enter(ctx, worker, req.Session)
	if err != nil {
		return wire.ProbeAsked{}, err
	}
	defer b.leave(s)
	if !s.reg.Probe {
		return wire.ProbeAsked{}, events.Refuse(events.CodeBadRequest, "worker %s offers no probe: register with \"probe\": true", worker)
	}
	if req.Nonce != "" {
		var ok wire.OK
		if err := b.call(ctx, wire.APIProbed, wire.Probed{Worker: s.id, Session: s.reg.Session, Nonce: req.Nonce, Failing: req.Failing}, &ok); err != nil {
			return wire.ProbeAsked{}, err
		}
	}
	p, err := b.beginProbe(s)
	if err != nil {
		return wire.ProbeAsked{}, err
	}
	defer b.endProbe(s, p)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		if asked, err := b.asked(s, p); asked != "" || err != nil {
			return wire.ProbeAsked{Nonce: asked}, err
		}
		select {
		case <-p.wake:
		case <-timer.C:
			return wire.ProbeAsked{}, nil
		case <-ctx.Done():
			return wire.ProbeAsked{}, ctx.Err()
		}
	}
}

// beginProbe makes a wait the open one of its worker.
func (b *Bridge) beginProbe(s *session) (*probeWait, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopping {
		return nil, errStopping
	}
	if s.prober != nil {
		s.prober.replaced = true
		s.prober.poke()
	}
	s.prober = &probeWait{wake: make(chan struct{}, 1)}
	b.polls.Add(1)
	return s.prober, nil
}

func (b *Bridge) endProbe(s *session, p *probeWait) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.prober == p {
		s.prober = nil
	}
	b.polls.Done()
}

// asked takes the probe that waits for the worker; empty: there is none.
func (b *Bridge) asked(s *session, p *probeWait) (nonce string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case p.replaced:
		return "", events.Refuse(events.CodeWorkerIDInUse, "another request of worker %s waits for probes by now: a worker has one open at a time", s.id)
	case s.closed:
		return "", s.whyClosed()
	case b.stopping:
		return "", errStopping
	}
	nonce, s.nonce = s.nonce, ""
	return nonce, nil
}

// onProbe hears the engine ask a worker whether it is well. What comes while the
// worker does not wait is kept for its next request; the engine says when it is late.
func (b *Bridge) onProbe(m *nats.Msg) {
	worker, ok := strings.CutPrefix(m.Subject, b.cfg.Names.Probe(""))
	if !ok || !pull.FromEngine(m) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.sessions[worker]
	if s == nil || !s.reg.Probe {
		return // it speaks NATS
	}
	var p wire.Probe
	if err := json.Unmarshal(m.Data, &p); err != nil || p.Nonce == "" {
		b.log.Warn("a probe can't be read", "error", err)
		return
	}
	s.nonce = p.Nonce
	s.prober.poke()
}
