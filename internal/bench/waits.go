package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/internal/measure"
	"github.com/streamwright/streamwright/internal/sleep"
	"github.com/streamwright/streamwright/workers"
)

// waiters is the queue of a type whose items wait for a signal first: a submit signals the
// next one, and it is handled once it has been.
type waiters struct {
	*measure.Streamwright
	r   *rig
	ids []string // by number
}

// waiters submits n items, whose numbers are those of their params.
func (r *rig) waiters(ctx context.Context, typ string, n int) (waiters, error) {
	q := waiters{r.queue(typ, r.slots), r, make([]string, n)}
	for i := range q.ids {
		q.ids[i] = ulid.Make().String()
	}
	q.Edit = func(seq int, it *streamwright.Item) { it.ID = q.ids[seq] }
	return q, r.bulk(ctx, q, 0, n)
}

// Submit implements [measure.Queue].
func (q waiters) Submit(ctx context.Context, p measure.Payload) error {
	_, err := q.Client.Signal(ctx, q.ids[p.Seq], streamwright.Signal{Name: "go"})
	return err
}

// Work implements [measure.Queue]: it returns once all items wait.
func (q waiters) Work(ctx context.Context, handle func(measure.Payload)) (func() error, error) {
	w, err := measure.StartWorker(ctx, q.Dial, workers.Config{Concurrency: q.Slots}, func(_ context.Context, it *workers.RawItem) (any, error) {
		if it.Waited == nil {
			return workers.Wait("go").For(24 * time.Hour), nil
		}
		p, err := q.Decode(it.Raw)
		if err == nil {
			handle(p)
		}
		return nil, err
	}, q.Type)
	if err != nil {
		return nil, err
	}
	if err := q.await(ctx, "waiting"); err != nil {
		return nil, errors.Join(err, w.Stop())
	}
	return w.Stop, nil
}

// await waits until all items are in a state.
func (q waiters) await(ctx context.Context, state string) error {
	for {
		s, err := q.Client.Engine().Stats(ctx)
		for _, t := range s.Types {
			if err == nil && string(t.Type) == q.Type && t.States[state] == int64(len(q.ids)) {
				return nil
			}
		}
		if err := errors.Join(err, sleep.For(ctx, 50*time.Millisecond)); err != nil {
			return fmt.Errorf("%d items of %s are to be %s: %w", len(q.ids), q.Type, state, err)
		}
	}
}

// measureWaits measures how soon a signal is with its handler, and a request that submits an item
// beside it. Then it measures what many items cost that wait, and as many that are queued.
func (r *rig) measureWaits(ctx context.Context) error {
	const rate = 300
	submitted, err := r.pickup(ctx, "request to handler at 300/s", r.queue("requests", 64), rate)
	if err != nil {
		return err
	}
	q, err := r.waiters(ctx, "signals", max(1, int(rate*r.LatencyFor.Seconds())))
	if err != nil {
		return err
	}
	signalled, err := r.pickup(ctx, "signal to handler at 300/s", q, rate)
	if err != nil {
		return err
	}
	r.t.row("signal to handler, p50, of request to handler", signalled/submitted, "×")
	if r.Nodes > 1 {
		return nil // what items cost each node is as with one alone
	}
	for _, state := range []string{"queued", "waiting"} {
		if err := r.keep(ctx, state); err != nil {
			return err
		}
	}
	return nil
}

// keep measures what many items in a state cost while nothing happens to them, with an engine
// and a folder of its own.
func (r *rig) keep(ctx context.Context, state string) error {
	heap := func() float64 {
		runtime.GC()
		runtime.GC() // what had a finalizer goes with the second
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	n, before := float64(r.Items), heap()
	alone, err := r.alone(ctx, state)
	if err == nil {
		err = alone.fill(ctx, state)
	}
	if err == nil {
		r.t.row("heap an item, "+state, (heap()-before)/n, "bytes")
		err = sleep.For(ctx, r.LatencyFor) // what came before is flushed
	}
	if err == nil {
		start, cpu := time.Now(), measure.Self(measure.SelfCPU)
		err = sleep.For(ctx, r.LatencyFor)
		r.t.row("CPU with them at rest, "+state, 1000*(measure.Self(measure.SelfCPU)-cpu)/time.Since(start).Seconds(), "ms a second")
	}
	if err = errors.Join(err, alone.stop()); err != nil {
		return err
	}
	log, store, err := alone.disk()
	r.t.row("disk an item, "+state+", log", log, "bytes")
	r.t.row("disk an item, "+state+", store", store, "bytes")
	return err
}

// fill makes items that stay in a state, with no worker.
func (r *rig) fill(ctx context.Context, state string) error {
	q, err := r.waiters(ctx, "kept", r.Items)
	if err != nil || state == "queued" {
		return err
	}
	stop, err := q.Work(ctx, func(measure.Payload) {})
	if err != nil {
		return err
	}
	return stop()
}
