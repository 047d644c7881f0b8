package workers

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"runtime/metrics"
	"time"

	"github.com/nats-io/nats.go/micro"

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
	h.MemoryBytes, h.CPU = w.meter.read(time.Now())
	w.mu.Lock()
	defer w.unlock()
	h.Load = float64(w.busy()) / float64(w.cfg.Concurrency)
	h = h.Bounded()
	w.setFitness(h.Reason(), w.shunned)
	return h
}

// meter measures this process. Used by one goroutine at a time.
type meter struct {
	at  time.Time
	cpu time.Duration // that the process had used then
}

// read returns the memory that the process holds, and the part of all
// processors' time that it has used since the last call; 0 the first time, and
// where the system does not tell. Children are not counted.
func (m *meter) read(now time.Time) (memory uint64, cpu float64) {
	used := processCPU()
	if span := now.Sub(m.at); !m.at.IsZero() && span > 0 {
		cpu = float64(used-m.cpu) / float64(span) / float64(runtime.NumCPU())
	}
	m.at, m.cpu = now, used
	return processMemory(), cpu
}

// processMemory is what the Go runtime holds of the system's memory.
func processMemory() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64() - s[1].Value.Uint64()
}

// offerProbe answers the engine's probes from now on.
func (w *Worker) offerProbe() error {
	if !w.cfg.Probe {
		return nil
	}
	svc, err := micro.AddService(w.nc, micro.Config{
		Name: wire.WorkerService, Version: "1.0.0", Description: "worker " + string(w.cfg.ID),
		ErrorHandler: func(_ micro.Service, e *micro.NATSError) {
			w.log.Error("the probe can't be answered: the engine will take this worker for unhealthy", "subject", e.Subject, "err", e.Description)
		},
	})
	if err != nil {
		return fmt.Errorf("offer the probe: %w", err)
	}
	err = svc.AddEndpoint("probe", micro.HandlerFunc(w.answerProbe), micro.WithEndpointSubject(w.cfg.Names.Probe(w.cfg.ID)))
	w.mu.Lock()
	w.probe = svc
	w.mu.Unlock()
	if err != nil {
		return fmt.Errorf("offer the probe: %w", err)
	}
	return nil
}

// answerProbe answers one probe: it runs the checks, and takes the worker's
// lock, so that a worker that hangs does not answer.
func (w *Worker) answerProbe(req micro.Request) {
	h := (&wire.Health{Failing: w.checks.run(w.life)}).Bounded()
	w.mu.Lock()
	reply := wire.ProbeReply{Worker: string(w.cfg.ID), Session: w.session, Failing: h.Failing}
	w.mu.Unlock()
	if err := req.RespondJSON(reply); err != nil {
		w.log.Debug("a probe could not be answered", "err", err)
	}
}

// withdrawProbe answers no more probes.
func (w *Worker) withdrawProbe() {
	w.mu.Lock()
	svc := w.probe
	w.mu.Unlock()
	if svc == nil {
		return
	}
	if err := svc.Stop(); err != nil {
		w.log.Debug("the probe could not be withdrawn; the connection is gone", "err", err)
	}
}
