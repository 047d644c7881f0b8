package registry

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/nudge"
	"github.com/streamwright/streamwright/wire"
)

// maxProbes bounds the probes under way. At the bound, a worker whose turn comes waits for
// one to end.
const maxProbes = 256

// probeTicks is the number of moments into which an interval is divided: probes due between
// two of them are sent at the second.
const probeTicks = 256

// probeState holds the results of a worker's probes.
type probeState struct {
	next     time.Time // when it is probed next; zero: not set yet
	underWay bool
	failures int    // in a row
	failing  string // why it is unhealthy; empty: it is healthy
}

// probeTarget is a worker to be probed.
type probeTarget struct {
	worker  events.WorkerID
	session string
}

// probesOffered wakes the prober if a newly registered worker offers a probe.
func (r *Registry) probesOffered(offered bool) {
	if !offered {
		return
	}
	nudge.Send(r.offered)
}

// dueProbes returns the workers to probe now, at most most, and when the next are due; zero
// if none will be. Every worker is probed once per interval, busy or not, each at a time of
// its own: the first probe is at a random time within an interval from now.
func (r *Registry) dueProbes(now time.Time, interval time.Duration, most int) (due []probeTarget, next time.Time) {
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

// probed notes the result of a probe; fault is nil for a good answer. changed says that the
// worker's status, or its reason, has changed.
func (r *Registry) probed(t probeTarget, fault error, failures int, now time.Time) (info wire.WorkerInfo, changed bool) {
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
	} else if p.failures = min(p.failures+1, failures); p.failures == failures {
		p.failing = fmt.Sprintf("%d probes in a row have failed, the last: %v", failures, fault)
	}
	changed, info = w.settle(), w.info
	r.mu.Unlock()
	if changed {
		r.changed()
	}
	return info, changed
}

// abandonProbe notes that a probe was ended by the engine, or failed for want of a
// connection, and says nothing about the worker.
func (r *Registry) abandonProbe(t probeTarget) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.workers[t.worker]; w != nil && w.info.Session == t.session {
		w.probe.underWay = false
	}
}

// Prober probes the workers that offer it. Its fields are set once, before it is used. Run
// may be called again once it has returned.
type Prober struct {
	Registry *Registry
	Interval time.Duration // between two probes of a worker
	Timeout  time.Duration // for one probe; shorter than Interval
	Failures int           // failures in a row that make a worker unhealthy
	Now      func() time.Time
	// Send sends a probe to a worker, and must not wait for the answer. The probe has no
	// reply subject, since a worker in an account of its own could not answer there.
	Send func(events.WorkerID, wire.Probe) error
	// Connected reports whether a worker could have been reached.
	Connected func() bool
	// Failed, if set, is called for each probe without a good answer.
	Failed func()
	// Changed is called when a worker's status or its reason has changed.
	Changed func(events.WorkerID, wire.WorkerInfo)

	asked probesAsked
}

// Run probes workers until ctx ends, and waits for the probes under way. If no worker
// offers a probe, it sleeps.
func (p *Prober) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	ended := make(chan struct{}, maxProbes) // receives each probe's end; has room for all
	timer := time.NewTimer(0)
	defer timer.Stop()
	underWay := 0
	for {
		now := p.Now()
		due, next := p.Registry.dueProbes(now, p.Interval, maxProbes-underWay)
		for _, t := range due {
			underWay++
			wg.Go(func() {
				p.probe(ctx, t)
				ended <- struct{}{}
			})
		}
		var tick <-chan time.Time
		if !next.IsZero() && underWay < maxProbes {
			timer.Reset(max(next.Sub(now), p.Interval/probeTicks))
			tick = timer.C
		}
		select {
		case <-ctx.Done():
			return
		case <-tick:
		case <-p.Registry.offered:
		case <-ended:
			underWay--
		}
	}
}

// probe probes one worker, and calls Changed if that changes the worker's status.
func (p *Prober) probe(ctx context.Context, t probeTarget) {
	fault := p.ask(ctx, t)
	if ctx.Err() != nil || (fault != nil && !p.Connected()) {
		p.Registry.abandonProbe(t)
		return
	}
	if p.Failed != nil && fault != nil {
		p.Failed()
	}
	if info, changed := p.Registry.probed(t, fault, p.Failures, p.Now()); changed {
		p.Changed(t.worker, info)
	}
}

// ask sends one probe. The error says what is wrong with the answer.
func (p *Prober) ask(ctx context.Context, t probeTarget) error {
	nonce := rand.Text()
	asked := p.asked.open(nonce, t)
	defer p.asked.close(nonce)
	if err := p.Send(t.worker, wire.Probe{Nonce: nonce}); err != nil {
		return err
	}
	timer := time.NewTimer(p.Timeout)
	defer timer.Stop()
	select {
	case reply := <-asked.answer:
		return probeFault(&reply)
	case <-timer.C:
		if asked.others.Load() {
			return errors.New("another worker answers under this id")
		}
		return fmt.Errorf("no answer within %s", p.Timeout)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Answered takes a worker's answer to a probe. It ignores one that is late, or repeated.
func (p *Prober) Answered(reply wire.Probed) { p.asked.answered(reply) }

// probeFault returns what is wrong with the answer to a probe, nil if it is good.
func probeFault(reply *wire.Probed) error {
	if h := (&wire.Health{Failing: reply.Failing}).Bounded(); len(h.Failing) > 0 {
		return errors.New(h.Reason())
	}
	return nil
}

// probesAsked holds the probes that wait for their answers, by nonce: at most maxProbes.
type probesAsked struct {
	mu      sync.Mutex
	waiting map[string]*probeAsked // guarded by mu
}

// probeAsked is a probe that waits for its answer.
type probeAsked struct {
	of     probeTarget
	answer chan wire.Probed // has room for one
	others atomic.Bool      // another worker has answered
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

// answered takes an answer. Every worker hears all probes, so another worker's answer does
// not keep out the right one.
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
