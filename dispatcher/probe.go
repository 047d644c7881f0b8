package dispatcher

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// maxProbes bounds the probes under way. A worker whose turn comes while there
// are so many waits for one to end.
const maxProbes = 256

// probeTicks is into how many moments an interval is divided: the probes whose
// time falls between two of them are sent at the second.
const probeTicks = 256

func (c Config) withProbes() Config {
	c.ProbeInterval = cmp.Or(c.ProbeInterval, DefaultProbeInterval)
	c.ProbeTimeout = cmp.Or(c.ProbeTimeout, DefaultProbeTimeout)
	c.ProbeFailures = cmp.Or(c.ProbeFailures, DefaultProbeFailures)
	return c
}

// probeState is what the probes of a worker have shown.
type probeState struct {
	next     time.Time // when it is probed next; zero: that is not settled yet
	underWay bool
	failures int    // in a row
	failing  string // why it is unhealthy; empty: it is not
}

// probeTarget is a worker to be probed.
type probeTarget struct {
	worker  events.WorkerID
	session string
}

// probesOffered wakes the prober, if a worker that has come offers a probe.
func (r *registry) probesOffered(offered bool) {
	if !offered {
		return
	}
	select {
	case r.offered <- struct{}{}:
	default:
	}
}

// dueProbes returns the workers to be probed now, at most so many, and when the
// next will be; zero if none will. Every worker is probed once in an interval,
// busy or not, each at a time of its own: the first is at a random time within
// an interval from now.
func (r *registry) dueProbes(now time.Time, interval time.Duration, most int) (due []probeTarget, next time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, w := range r.workers {
		p := &w.probe
		if !w.info.Probe || p.underWay {
			continue
		}
		switch {
		case p.next.IsZero():
			p.next = now.Add(mathrand.N(interval))
		case !p.next.After(now) && len(due) < most:
			p.underWay, p.next = true, now.Add(interval)
			due = append(due, probeTarget{id, w.info.Session})
			continue // its end wakes the prober
		}
		next = clock.Sooner(next, p.next)
	}
	return due, next
}

// probed notes what came of a probe; fault is nil for a good answer. changed
// says that the worker's status, or its reason, has.
func (r *registry) probed(t probeTarget, fault error, failures int, now time.Time) (info wire.WorkerInfo, changed bool) {
	r.mu.Lock()
	w := r.workers[t.worker]
	if w == nil || w.info.Session != t.session || !w.info.Probe {
		r.mu.Unlock()
		return wire.WorkerInfo{}, false
	}
	p := &w.probe
	p.underWay, w.info.ProbedAt = false, now
	if fault == nil {
		p.failures, p.failing = 0, ""
	} else if p.failures = min(p.failures+1, failures); p.failures == failures && p.failing == "" {
		p.failing = fmt.Sprintf("%d probes in a row have failed, the last: %v", failures, fault)
	}
	changed, info = w.settle(), w.info
	r.mu.Unlock()
	if changed {
		r.changed()
	}
	return info, changed
}

// abandonProbe: the probe was ended by the engine, or for want of a connection,
// and says nothing of the worker.
func (r *registry) abandonProbe(t probeTarget) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.workers[t.worker]; w != nil && w.info.Session == t.session {
		w.probe.underWay = false
	}
}

// prober probes the workers that offer it, during one ownership.
type prober struct {
	e     *Engine
	ended chan struct{} // told of each probe's end
	wg    sync.WaitGroup
}

func newProber(e *Engine) *prober {
	return &prober{e: e, ended: make(chan struct{}, maxProbes)}
}

// run probes until ctx ends. With no worker that offers a probe it sleeps.
func (p *prober) run(ctx context.Context) {
	defer p.wg.Wait()
	r, interval := p.e.registry, p.e.cfg.ProbeInterval
	timer := time.NewTimer(0)
	defer timer.Stop()
	underWay := 0
	for {
		now := p.e.Now()
		due, next := r.dueProbes(now, interval, maxProbes-underWay)
		for _, t := range due {
			underWay++
			p.wg.Go(func() {
				p.probe(ctx, t)
				p.ended <- struct{}{} // has room for all
			})
		}
		var tick <-chan time.Time
		if !next.IsZero() && underWay < maxProbes {
			timer.Reset(max(next.Sub(now), interval/probeTicks))
			tick = timer.C
		}
		select {
		case <-ctx.Done():
			return
		case <-tick:
		case <-r.offered:
		case <-p.ended:
			underWay--
		}
	}
}

// probe asks one worker, and tells it if that changes what it is taken for.
func (p *prober) probe(ctx context.Context, t probeTarget) {
	fault := p.ask(ctx, t)
	if ctx.Err() != nil || (fault != nil && !p.e.cfg.Conn.IsConnected()) {
		p.e.registry.abandonProbe(t)
		return
	}
	if h := p.e.cfg.Hooks.WorkerFailed; h != nil && fault != nil {
		h(WorkerProbe)
	}
	info, changed := p.e.registry.probed(t, fault, p.e.cfg.ProbeFailures, p.e.Now())
	if !changed {
		return
	}
	p.e.cfg.Logger.Warn("a worker's probes have changed its status", "worker", t.worker, "status", info.Status, "reason", info.Reason)
	p.e.tell(t.worker, wire.Control{Status: info.Status, Reason: info.Reason})
}

// ask sends one probe. The error says what is wrong with the answer. The probe
// has no reply subject: a worker in an account of its own could not answer there.
func (p *prober) ask(ctx context.Context, t probeTarget) error {
	limit := p.e.cfg.ProbeTimeout
	nonce := rand.Text()
	asked := p.e.asked.open(nonce, t)
	defer p.e.asked.close(nonce)
	body, err := json.Marshal(wire.Probe{Nonce: nonce})
	if err == nil {
		err = p.e.cfg.Conn.Publish(p.e.cfg.Names.Probe(t.worker), body)
	}
	if err != nil {
		return err
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case reply := <-asked.answer:
		return probeFault(&reply)
	case <-timer.C:
		if asked.others.Load() {
			return errors.New("another worker answers under this id")
		}
		return fmt.Errorf("no answer within %s", limit)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// probeFault is what is wrong with the answer to a probe.
func probeFault(reply *wire.Probed) error {
	if h := (&wire.Health{Failing: reply.Failing}).Bounded(); len(h.Failing) > 0 {
		return errors.New(h.Reason())
	}
	return nil
}

// probesAsked are the probes that wait for their answers, by nonce: at most
// maxProbes.
type probesAsked struct {
	mu      sync.Mutex
	waiting map[string]*probeAsked // guarded by mu
}

// probeAsked is a probe that waits for its answer.
type probeAsked struct {
	of     probeTarget
	answer chan wire.Probed // has room for one
	others atomic.Bool      // somebody else has answered
}

func (a *probesAsked) open(nonce string, of probeTarget) *probeAsked {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.waiting == nil {
		a.waiting = map[string]*probeAsked{}
	}
	p := &probeAsked{of: of, answer: make(chan wire.Probed, 1)}
	a.waiting[nonce] = p
	return p
}

func (a *probesAsked) close(nonce string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.waiting, nonce)
}

// Probed takes a worker's answer to a probe. One that comes late, or twice,
// counts for nothing.
func (e *Engine) Probed(p wire.Probed) { e.asked.answered(p) }

// answered takes an answer. Every worker hears the probes of all, so that of
// another one does not keep out the worker's own.
func (a *probesAsked) answered(p wire.Probed) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.waiting[p.Nonce]
	switch {
	case w == nil:
	case p.Worker != string(w.of.worker) || p.Session != w.of.session:
		w.others.Store(true)
	default:
		select {
		case w.answer <- p:
		default:
		}
	}
}
