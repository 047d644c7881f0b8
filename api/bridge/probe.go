package bridge

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/standing"
	"github.com/streamwright/streamwright/wire"
)

// Probe passes on a worker's answer to the last probe, if it has one, and waits
// for the next, until there is one or the time is over. Of two waits of one worker,
// the first ends with worker_id_in_use.
func (b *Bridge) Probe(ctx context.Context, worker string, req wire.ProbeWait) (wire.ProbeAsked, error) {
	wait, err := waitOf(req.Wait)
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
	w, err := s.sit(&s.probing)
	if err != nil {
		return wire.ProbeAsked{}, err
	}
	defer s.rise(&s.probing, w)
	for until := time.Now().Add(wait); ; {
		if nonce, err := s.asked(w); nonce != "" || err != nil {
			return wire.ProbeAsked{Nonce: nonce}, err
		}
		if !w.wait(ctx, until) {
			return wire.ProbeAsked{}, ctx.Err()
		}
	}
}

// asked takes the probe that waits for the worker; empty: none.
func (s *session) asked(w *waiter) (nonce string, err error) {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	switch {
	case w.replaced:
		return "", events.Refuse(events.CodeWorkerIDInUse, "another request of worker %s waits for probes by now: a worker has one open at a time", s.id)
	case s.closed:
		return "", s.whyClosed()
	case s.b.stopping:
		return "", errStopping
	}
	nonce, s.nonce = s.nonce, ""
	return nonce, nil
}

// onProbe hears the engine ask a worker whether it is well. What comes while the
// worker does not wait is kept for its next request; the engine says when it is late.
func (b *Bridge) onProbe(m *nats.Msg) {
	worker, ok := strings.CutPrefix(m.Subject, b.cfg.Names.Probe(""))
	if !ok || !standing.FromEngine(m) {
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
	s.probing.poke()
}
