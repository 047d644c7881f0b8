package workers

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/wire"
)

// A worker is unfit while a check of its own fails, or while the engine takes it for
// unhealthy. Its heartbeats tell the engine, which then sends it no items; those that
// come nevertheless it hands back.

// health says whether the worker is fit, and tells the engine.
type health struct {
	w       *Worker
	checks  *checker
	meter   meter // used by the session loop
	outside outside

	// Guarded by Worker.mu.
	ailing  string             // why this worker takes itself for unhealthy; empty: it doesn't
	resting bool               // it takes no new work
	probe   *nats.Subscription // nil: none
}

// unfit reports whether the worker takes no new work for its health. REQUIRES: mu.
func (f *health) unfit() bool { return f.why() != "" }

// why returns the reason, the worker's own first. REQUIRES: mu.
func (f *health) why() string { return cmp.Or(f.ailing, f.w.session.Unhealthy()) }

// review follows from a new verdict of the checks or of the engine. REQUIRES: mu.
func (f *health) review() {
	was := f.resting
	f.resting = f.unfit()
	switch {
	case f.resting == was || f.w.phase != phaseActive:
	case f.resting:
		f.w.reviewHeld(time.Now())
		f.w.log.Warn("this worker is unhealthy: it takes no new work", "reason", f.why())
	default:
		f.w.log.Info("this worker is well again")
		f.w.session.Ask() // what it has handed back keeps others away until its next heartbeat
		f.w.session.wake()
	}
}

// checkUp runs the checks and returns the worker's health.
func (f *health) checkUp(ctx context.Context) *wire.Health {
	h := &wire.Health{Failing: f.checks.run(ctx)}
	h.MemoryBytes, h.CPU = f.meter.read(time.Now(), f.outside.total())
	f.w.mu.Lock()
	defer f.w.unlock()
	h.Load = float64(f.w.table.busy()) / float64(f.w.cfg.Concurrency)
	h = h.Bounded()
	f.ailing = h.Reason()
	f.review()
	return h
}

// meter measures this process, and what runs use outside it. Used by one goroutine
// at a time.
type meter struct {
	childrenOnly bool
	at           time.Time
	cpu          time.Duration // that had been used then
}

// read returns the memory that is held, and the part of all processors' time that
// was used since the last call; 0 the first time.
func (m *meter) read(now time.Time, children Usage) (memory uint64, cpu float64) {
	used := children.CPU
	memory = children.Memory
	if !m.childrenOnly {
		used += processCPU()
		memory += processMemory()
	}
	if span := now.Sub(m.at); !m.at.IsZero() && span > 0 {
		cpu = max(float64(used-m.cpu)/float64(span)/float64(runtime.NumCPU()), 0)
	}
	m.at, m.cpu = now, used
	return memory, cpu
}

// processMemory returns the bytes that the Go runtime holds of the system's memory.
func processMemory() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64() - s[1].Value.Uint64()
}

// probeTimeout bounds the request that answers a probe.
const probeTimeout = 2 * time.Second

// offerProbe answers the engine's probes from now on.
func (f *health) offerProbe() error {
	if !f.w.cfg.Probe {
		return nil
	}
	sub, err := f.w.nc.Subscribe(f.w.cfg.Names.Probe(f.w.cfg.ID), f.onProbe)
	if err != nil {
		return fmt.Errorf("offer the probe: %w", err)
	}
	f.w.mu.Lock()
	f.probe = sub
	f.w.mu.Unlock()
	return nil
}

// onProbe answers one probe: it runs the checks, and takes the worker's lock, so
// that a worker that hangs does not answer.
func (f *health) onProbe(m *nats.Msg) {
	var p wire.Probe
	if err := json.Unmarshal(m.Data, &p); err != nil || p.Nonce == "" {
		f.w.log.Warn("a probe can't be read", "err", err)
		return
	}
	h := (&wire.Health{Failing: f.checks.run(f.w.life)}).Bounded()
	f.w.mu.Lock()
	answer := wire.Probed{Worker: string(f.w.cfg.ID), Session: f.w.session.id, Nonce: p.Nonce, Failing: h.Failing}
	f.w.mu.Unlock()
	var ok wire.OK
	if err := f.w.link.call(f.w.life, wire.APIProbed, answer, &ok, probeTimeout); err != nil {
		f.w.log.Debug("a probe could not be answered", "err", err)
	}
}

// withdrawProbe answers no more probes.
func (f *health) withdrawProbe() {
	f.w.mu.Lock()
	sub := f.probe
	f.w.mu.Unlock()
	if sub == nil {
		return
	}
	if err := sub.Unsubscribe(); err != nil {
		f.w.log.Debug("the probe could not be withdrawn; the connection is gone", "err", err)
	}
}

// Usage is the memory and processor time that a run uses outside the worker's
// own process, such as in a child process and its descendants.
type Usage struct {
	Memory uint64        // bytes of the system's memory that it holds now
	CPU    time.Duration // processor time that it has used since it began; does not shrink
}

// Measure has the worker's heartbeats count what read returns, until done is called,
// which reads once more. read may be called from another goroutine, one call at a
// time, and must be quick.
func (it *RawItem) Measure(read func() Usage) (done func()) {
	if it.OnMeasure == nil {
		return func() {}
	}
	return it.OnMeasure(read)
}

// outside counts what runs use outside this process.
type outside struct {
	mu    sync.Mutex                 // guards what follows, and calls of the meters
	live  map[*func() Usage]struct{} // of the runs that measure; bounded by the runs
	ended time.Duration              // CPU of ended runs
}

func (o *outside) measure(read func() Usage) (done func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.live == nil {
		o.live = map[*func() Usage]struct{}{}
	}
	key := &read
	o.live[key] = struct{}{}
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if _, ok := o.live[key]; ok {
			delete(o.live, key)
			o.ended += read().CPU
		}
	}
}

// total returns what all runs hold now and have used so far.
func (o *outside) total() (sum Usage) {
	o.mu.Lock()
	defer o.mu.Unlock()
	sum.CPU = o.ended
	for read := range o.live {
		u := (*read)()
		sum.Memory += u.Memory
		sum.CPU += u.CPU
	}
	return sum
}
