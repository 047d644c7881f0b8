package embedded

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Stop stops in order. It chooses the node that is to own the log next, and lets the
// children of the configured commands finish for at most half of the time that ctx gives;
// then it ends them, and their items go back to the queue. It refuses new requests, decides
// and answers the ones that it has taken, hands the log on, flushes the store, and stops the
// NATS server. Last it lets go of the data folder. If ctx ends first, it cuts short what is
// under way; nothing is lost by that. Stop returns once nothing of the engine runs any more,
// the NATS server included, even if ctx has ended before. It may be called again, by
// several goroutines: each call returns when the engine has stopped.
func (e *Engine) Stop(ctx context.Context) error {
	e.stop.Do(func() { e.err = e.shutdown(ctx) })
	return e.err
}

func (e *Engine) shutdown(ctx context.Context) error {
	var errs []error
	do := func(there bool, stop func() error) {
		if there {
			errs = append(errs, stop())
		}
	}
	do(e.starting != nil, func() error { e.starting.Stop(); return nil })
	do(true, func() error { e.replicas.Load().stop(); return nil })
	heir := e.heir(ctx)
	drained := e.drainExecs(ctx)
	if again := e.heir(ctx); len(e.execs) > 0 && again != "" { // the first may have gone meanwhile
		heir = again
	}
	do(e.sites != nil, func() error { e.sites.stop(); return nil })
	do(e.space != nil, func() error { e.space.Stop(); return nil })
	faces, cancel := halfOf(ctx)
	defer cancel()
	do(e.live != nil, func() error { e.live.Stop(); return nil })
	do(e.bridge != nil, func() error { return e.bridge.Stop(faces) })
	do(e.http != nil, func() error { return e.http.Stop(faces) })
	do(e.service != nil, func() error { return e.service.Stop(faces) })
	do(e.janitor != nil, func() error { e.janitor.Stop(); return nil })
	do(e.dispatcher != nil, func() error { return e.dispatcher.Stop(ctx) })
	do(e.lease != nil, func() error { handOver(ctx, e, heir); return e.lease.stop(ctx, heir) })
	do(e.items != nil, func() error { e.items.Stop(); return nil })
	do(e.mirror != nil, func() error { return e.mirror.stop(ctx) })
	do(e.store != nil, e.store.Close)
	do(e.eventLog != nil, func() error { return e.eventLog.Close() })
	do(e.nc != nil, func() error { e.nc.Close(); return nil })
	do(e.srv != nil, e.srv.Stop)
	do(true, drained) // those that were too slow, without an engine to report to
	do(e.profiler != nil, func() error { return e.profiler.stop(ctx) })
	do(e.dir != nil, e.dir.Close)
	return errors.Join(errs...)
}

// heir returns the node that is to own the log after this one; empty if there is none.
func (e *Engine) heir(ctx context.Context) string {
	if e.lease == nil || !e.owns.Load() {
		return ""
	}
	return chooseHeir(ctx, e)
}

// drainExecs stops the workers of the types that have a command, all at once. It returns
// when they have ended, or when there is no more time for them: their children have half of
// what ctx gives to finish, and half of what is left then to end. The function that it
// returns waits for the rest.
func (e *Engine) drainExecs(ctx context.Context) (rest func() error) {
	if len(e.execs) == 0 {
		return func() error { return nil }
	}
	var stopping sync.WaitGroup
	errs := make([]error, len(e.execs))
	finish, cancel := halfOf(ctx)
	for i, x := range e.execs {
		stopping.Go(func() { errs[i] = x.stop(finish) })
	}
	ended := make(chan struct{})
	go func() {
		defer cancel()
		defer close(ended)
		stopping.Wait()
	}()
	select {
	case <-ended:
	case <-finish.Done():
		end, cancel := halfOf(ctx)
		defer cancel()
		select {
		case <-ended:
		case <-end.Done():
			e.log.Warn("children of commands do not end in time: stopping without them")
		}
	}
	return func() error {
		for _, x := range e.execs {
			x.nc.Close() // nobody answers any more
		}
		<-ended
		return errors.Join(errs...)
	}
}

// halfOf returns a context with half of the time that is left to ctx.
func halfOf(ctx context.Context) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(end)/2)
}
