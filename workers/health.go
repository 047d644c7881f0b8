package workers

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/metrics"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/wire"
)

// A worker is unfit while a check of its own fails, or while the engine takes
// it for unhealthy. It closes its lanes then, so that the server has no pull
// request of it left to answer, hands back what it holds unclaimed, and keeps
// registered by its heartbeats. When it is well again it registers anew, which
// opens fresh lanes.

// unfit reports whether the worker takes no new work for its health. REQUIRES: mu.
func (w *Worker) unfit() bool { return w.ailing != "" || w.shunned != "" }

// whyUnfit is why, its own reason first. REQUIRES: mu.
func (w *Worker) whyUnfit() string { return cmp.Or(w.ailing, w.shunned) }

// setFitness takes note of what the checks say, and the engine. REQUIRES: mu.
func (w *Worker) setFitness(ailing, shunned string) {
	was := w.unfit()
	w.ailing, w.shunned = ailing, shunned
	switch unfit := w.unfit(); {
	case unfit == was || w.phase != phaseActive:
	case unfit:
		w.log.Warn("this worker is unhealthy: it takes no new work", "reason", w.whyUnfit())
		w.handBackHeld("unhealthy")
		w.kickSession() // closes the lanes
	default:
		w.log.Info("this worker is well again")
		w.needRegister() // opens them
	}
}

// takenFor hears what the engine takes the worker for; empty: it did not say.
// REQUIRES: mu.
func (w *Worker) takenFor(status wire.WorkerStatus, reason string) {
	switch status {
	case "":
	case wire.WorkerUnhealthy:
		w.setFitness(w.ailing, cmp.Or(reason, "the engine says so"))
	default:
		w.setFitness(w.ailing, "")
	}
}

// refusedAsUnhealthy follows from a claim that was refused. The refusal may be
// older than what the engine said last, so it is asked again, once. REQUIRES:
// mu.
func (w *Worker) refusedAsUnhealthy(reason string) {
	if w.unfit() {
		return
	}
	w.confirm = true
	w.takenFor(wire.WorkerUnhealthy, reason)
}

// checkUp runs the checks and says how the worker is.
func (w *Worker) checkUp(ctx context.Context) *wire.Health {
	h := &wire.Health{Failing: w.checks.run(ctx)}
	h.MemoryBytes, h.CPU = w.meter.read(time.Now(), w.outside.total())
	w.mu.Lock()
	defer w.unlock()
	h.Load = float64(w.busy()) / float64(w.cfg.Concurrency)
	h = h.Bounded()
	w.setFitness(h.Reason(), w.shunned)
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

// processMemory is what the Go runtime holds of the system's memory.
func processMemory() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64() - s[1].Value.Uint64()
}

// probeTimeout bounds the request that answers a probe.
const probeTimeout = 2 * time.Second

// offerProbe answers the engine's probes from now on.
func (w *Worker) offerProbe() error {
	if !w.cfg.Probe {
		return nil
	}
	sub, err := w.nc.Subscribe(w.cfg.Names.Probe(w.cfg.ID), w.onProbe)
	if err != nil {
		return fmt.Errorf("offer the probe: %w", err)
	}
	w.mu.Lock()
	w.probe = sub
	w.mu.Unlock()
	return nil
}

// onProbe answers one probe: it runs the checks, and takes the worker's lock, so
// that a worker that hangs does not answer.
func (w *Worker) onProbe(m *nats.Msg) {
	var p wire.Probe
	if err := json.Unmarshal(m.Data, &p); err != nil || p.Nonce == "" {
		w.log.Warn("a probe can't be read", "err", err)
		return
	}
	h := (&wire.Health{Failing: w.checks.run(w.life)}).Bounded()
	w.mu.Lock()
	answer := wire.Probed{Worker: string(w.cfg.ID), Session: w.session, Nonce: p.Nonce, Failing: h.Failing}
	w.mu.Unlock()
	var ok wire.OK
	if err := w.call(w.life, wire.APIProbed, answer, &ok, probeTimeout); err != nil {
		w.log.Debug("a probe could not be answered", "err", err)
	}
}

// withdrawProbe answers no more probes.
func (w *Worker) withdrawProbe() {
	w.mu.Lock()
	sub := w.probe
	w.mu.Unlock()
	if sub == nil {
		return
	}
	if err := sub.Unsubscribe(); err != nil {
		w.log.Debug("the probe could not be withdrawn; the connection is gone", "err", err)
	}
}
