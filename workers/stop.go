package workers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/streamwright/streamwright/wire"
)

// drainByEngine stops taking work because the engine has asked for it.
// REQUIRES: mu.
func (w *Worker) drainByEngine() {
	if w.phase != phaseActive {
		return
	}
	w.log.Info("the engine has asked this worker to drain")
	w.phase = phaseDraining
	w.reviewHeld(time.Now())
	w.noteDrained()
}

// noteDrained says so when a drain asked for by the engine is complete.
// REQUIRES: mu.
func (w *Worker) noteDrained() {
	if w.phase == phaseDraining && !w.drainDone && len(w.table.runs) == 0 {
		w.drainDone = true
		close(w.drained)
	}
}

// Stop drains and ends the worker: it tells the engine that it takes no more items, lets
// handlers finish until ctx or Config.DrainTimeout ends, then cancels them
// with ErrShutdown and hands their items back, waits (at most 5 s) for the
// engine's answers to the last reports, and unregisters. It may be called any
// number of times, at any time; every call returns once the worker has ended.
// It returns an error if handlers had to be abandoned (ErrAbandoned) or reports
// got no answer (ErrUnanswered); the leases of their items run out by themselves.
func (w *Worker) Stop(ctx context.Context) error {
	w.slots.end()
	w.goroutines.end()
	return each(append([]*Worker{w}, w.others...), func(w *Worker) error { return w.stop(ctx) })
}

// stop stops the worker of one namespace.
func (w *Worker) stop(ctx context.Context) error {
	w.stopOnce.Do(func() {
		w.stopErr = w.shutDown(ctx)
		w.runner.failures.Flush()
		close(w.stopped)
	})
	<-w.stopped
	return w.stopErr
}

func (w *Worker) shutDown(ctx context.Context) error {
	w.mu.Lock()
	was := w.phase
	w.phase = phaseStopping
	w.reviewHeld(time.Now())
	if len(w.table.runs) > 0 {
		w.session.Ask() // so that others get the items that wait
		w.session.wake()
	}
	w.unlock()
	if was == phaseNew {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, w.cfg.DrainTimeout)
	defer cancel()
	// A registration that is under way has a moment for its answer: the engine would count
	// a worker that is gone.
	late := time.AfterFunc(farewellTimeout, w.noIntake)
	<-w.begun
	late.Stop()
	w.noIntake()
	err := w.finishHandlers(ctx)
	if err == nil {
		w.handlers.Wait()
	}
	err = errors.Join(err, w.finishReports())
	w.session.unregister()

	w.endLife()
	w.health.withdrawProbe()
	w.receiver.close()
	w.reports.close()
	for _, sub := range w.session.control {
		_ = sub.Unsubscribe() // fails only when the connection is closed
	}
	w.loops.Wait()
	return errors.Join(err, w.health.checks.stop())
}

// finishHandlers waits for the handlers, cancels them when ctx ends, and gives
// up on any that do not return then.
func (w *Worker) finishHandlers(ctx context.Context) error {
	none := func() bool { return w.table.counts[running] == 0 }
	if w.await(ctx, none) {
		return nil
	}
	w.mu.Lock()
	for _, r := range w.table.runs {
		if r.state == running {
			w.endRun(r, ErrShutdown, false)
		}
	}
	w.unlock()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.abandonAfter)
	defer cancel()
	if w.await(last, none) {
		return nil
	}
	w.mu.Lock()
	defer w.unlock()
	n := 0
	for _, r := range w.table.runs {
		if r.state == running {
			r.gaveUp = true
			n++
			w.log.Error("a handler does not end: its item's lease will run out", "item", r.msg.ID, "type", string(r.reg.typ))
		}
	}
	return fmt.Errorf("stop worker: %w: %d of them", ErrAbandoned, n)
}

// finishReports waits for the engine's answers to the last reports.
func (w *Worker) finishReports() error {
	ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
	defer cancel()
	open := 0
	w.await(ctx, func() bool {
		open = len(w.table.runs) - w.table.counts[running]
		return open == 0 || !w.reportable()
	})
	if open == 0 {
		return nil
	}
	return fmt.Errorf("stop worker: %w: %d of them", ErrUnanswered, open)
}

// reportable reports whether reports can still be answered. REQUIRES: mu.
func (w *Worker) reportable() bool {
	select {
	case <-w.closed:
		return false
	default:
		return true
	}
}

// await waits until ok (asked with mu held) or ctx's end, and reports whether
// it is ok.
func (w *Worker) await(ctx context.Context, ok func() bool) bool {
	wake := context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.changed.Broadcast()
	})
	defer wake()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting++
	defer func() { w.waiting-- }()
	for !ok() {
		if ctx.Err() != nil {
			return false
		}
		w.changed.Wait()
	}
	return true
}

// unregister takes the worker out at the engine, if it can be told.
func (s *session) unregister() {
	s.w.mu.Lock()
	req, registered := wire.Unregister{Worker: string(s.w.cfg.ID), Session: s.id}, s.w.link.connected
	s.w.mu.Unlock()
	if !registered {
		return
	}
	var ok wire.OK
	if err := s.w.link.call(context.Background(), wire.APIUnregister, req, &ok, farewellTimeout); err != nil {
		s.w.log.Debug("could not unregister; the engine will notice by the missing heartbeats", "err", err)
	}
}
