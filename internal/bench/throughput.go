package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/internal/measure"
	"github.com/streamwright/streamwright/workers"
)

// measureFloor measures the server without the engine: a memory work queue, asynchronous
// publishes, one pulling consumer with acks.
func (r *rig) measureFloor(ctx context.Context) error {
	for range 3 { // the best of three: the floor must not be an accident
		rate, err := r.floorOnce(ctx)
		if err != nil {
			return err
		}
		r.floor = max(r.floor, rate)
	}
	r.t.row("(a) floor: raw memory work queue", r.floor, "items/s", 1)
	return nil
}

func (r *rig) floorOnce(ctx context.Context) (rate float64, err error) {
	q, end, err := r.floorQueue(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, end()) }()
	t := measure.NewTally(r.o.Items)
	start := time.Now()
	stop, err := q.Consume(func(m jetstream.Msg) {
		_ = m.Ack()
		t.Count()
	})
	if err != nil {
		return 0, err
	}
	if err = measure.Bulk(ctx, q, 0, r.o.Items, measure.BulkCallers); err == nil {
		err = t.Wait(ctx)
	}
	rate = measure.PerSecond(r.o.Items, start)
	return rate, errors.Join(err, stop())
}

// floorQueue makes the raw work queue. end removes it.
func (r *rig) floorQueue(ctx context.Context) (q *measure.JetStream, end func() error, err error) {
	const stream, subject = "BENCH_FLOOR", "bench.floor"
	nc, err := r.dial()
	if err != nil {
		return nil, nil, err
	}
	end = func() error {
		defer nc.Close()
		return q.JS.DeleteStream(ctx, stream)
	}
	if q, err = measure.NewJetStream(nc, subject, r.o.Slots); err == nil {
		_, err = q.JS.CreateStream(ctx, jetstream.StreamConfig{Name: stream, Subjects: []string{subject}, Storage: jetstream.MemoryStorage, Retention: jetstream.WorkQueuePolicy})
	}
	if err == nil {
		q.Consumer, err = q.JS.CreateConsumer(ctx, stream, jetstream.ConsumerConfig{Durable: "floor", AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 1000})
	}
	if err != nil {
		nc.Close()
	}
	return q, end, err
}

// counted is a handler that does nothing but count.
func counted(t *measure.Tally) workers.Handler {
	return func(context.Context, *workers.RawItem) (any, error) {
		t.Count()
		return nil, nil
	}
}

// measureFlow is (b): items go in while the worker runs, until all are
// completed: five durable events each.
func (r *rig) measureFlow(ctx context.Context) error {
	publishes, err := measure.NewJetStream(r.client.Conn(), "work.submit.flow-publish", 0)
	if err != nil {
		return err
	}
	submits := r.queue("flow-submit")
	for _, way := range []struct {
		name   string
		submit measure.Queue
		work   *measure.Streamwright
	}{
		{"(b) end to end, plain publishes", publishes, r.queue("flow-publish")},
		{"(b) end to end, work.api.submit", submits, submits},
	} {
		t := measure.NewTally(r.o.Items)
		w, err := way.work.Worker(ctx, counted(t))
		if err != nil {
			return err
		}
		_, err = r.timed(way.name, r.o.Items, func() error { return through(ctx, way.submit, way.work, t, r.o.Items) })
		if err = errors.Join(err, w.Stop()); err != nil {
			return err
		}
	}
	return nil
}

// through submits n items to one queue, and waits until all have been through another.
func through(ctx context.Context, submit, work measure.Queue, t *measure.Tally, n int) error {
	if err := measure.Bulk(ctx, submit, 0, n, measure.BulkCallers); err != nil {
		return err
	}
	return measure.Drain(ctx, work, t)
}

// measureBurnDown is (c): the backlog is there before the worker.
func (r *rig) measureBurnDown(ctx context.Context) error {
	t := measure.NewTally(r.o.Items)
	_, err := r.burnDown(ctx, "(c) burn-down of a backlog", r.queue("burndown"), t, counted(t))
	return err
}

// burnDown submits a backlog and then works it off, by a handler that counts in t. It
// returns the items a second.
func (r *rig) burnDown(ctx context.Context, what string, q *measure.Streamwright, t *measure.Tally, handle workers.Handler) (float64, error) {
	return r.burnDownBy(ctx, what, q, t, func() (func() error, error) {
		w, err := q.Worker(ctx, handle)
		if err != nil {
			return nil, err
		}
		return w.Stop, nil
	})
}

// burnDownBy does the same by any worker.
func (r *rig) burnDownBy(ctx context.Context, what string, q *measure.Streamwright, t *measure.Tally, work func() (func() error, error)) (rate float64, err error) {
	if err := measure.Bulk(ctx, q, 0, r.o.Items, measure.BulkCallers); err != nil {
		return 0, err
	}
	stop := func() error { return nil }
	rate, err = r.timed(what, r.o.Items, func() (err error) {
		if stop, err = work(); err != nil {
			return err
		}
		return measure.Drain(ctx, q, t)
	})
	return rate, errors.Join(err, stop())
}

// measureKinds measures the cost of items that are found by more than their type
// and state: burn-downs like (c), of items with labels, and of items whose first
// attempt fails with an error text.
func (r *rig) measureKinds(ctx context.Context) error {
	labels := map[string]string{"customer": "c-4711", "region": "eu-west", "plan": "gold", "build": "2026.11"}
	for _, k := range []struct {
		name, typ string
		edit      func(int, *streamwright.Item)
	}{
		{"(h) burn-down of plain items", "kind-plain", nil},
		{"(h) burn-down of items with 4 labels", "kind-labels", func(_ int, it *streamwright.Item) { it.Labels = labels }},
		{"(h) burn-down of items that fail once", "kind-failing", nil},
	} {
		q, t := r.queue(k.typ), measure.NewTally(r.o.Items)
		q.Edit = k.edit
		handle := counted(t)
		if k.typ == "kind-failing" {
			handle = func(ctx context.Context, it *workers.RawItem) (any, error) {
				if it.Attempt == 1 {
					return nil, errors.New("dial tcp 10.0.0.7:5432: connect: connection refused after 3 tries")
				}
				return counted(t)(ctx, it)
			}
		}
		if _, err := r.burnDown(ctx, k.name, q, t, handle); err != nil {
			return err
		}
	}
	return nil
}

// measureBulk measures how fast items are accepted, durably.
func (r *rig) measureBulk(ctx context.Context) error {
	_, err := r.timed("bulk submit (arrays of up to 1,000)", r.o.Items, func() error {
		return measure.Bulk(ctx, r.queue("bulk"), 0, r.o.Items, measure.BulkCallers)
	})
	return err
}

// measureRebuild is (e): rebuilding the store from the log.
func (r *rig) measureRebuild(ctx context.Context) error {
	start, rebuilt, replayed := time.Now(), time.Duration(0), uint64(0)
	res, err := r.client.Engine().Verify(ctx, func(p streamwright.Proof) {
		if p.Events > replayed { // told about ten times a second
			replayed, rebuilt = p.Events, time.Since(start)
		}
	})
	if err != nil {
		return err
	}
	if !res.Equal {
		return fmt.Errorf("the rebuilt store differs from the live one: %v", res.Diff)
	}
	if replayed == 0 { // it was over before it told of any: then the comparison counts too
		replayed, rebuilt = res.Events, time.Since(start)
	}
	r.t.row("(e) rebuild", float64(replayed)/rebuilt.Seconds(), "events/s", 0)
	r.t.row("(e) rebuild and compare", float64(res.Events)/(float64(res.ElapsedMS)/1000), "events/s", 0)
	r.t.row("(e) events in the log", float64(res.Events), "events", 0)
	return nil
}

// timed does something with n items, and writes how many a second, and what each cost.
func (r *rig) timed(what string, n int, do func() error) (rate float64, err error) {
	start, used := time.Now(), r.costNow()
	if err := do(); err != nil {
		return 0, err
	}
	rate = measure.PerSecond(n, start)
	ratio := 0.0
	if r.floor > 0 {
		ratio = rate / r.floor
	}
	r.t.row(what, rate, "items/s", ratio)
	r.costs(what, n, used)
	return rate, nil
}

// cost holds what this process, with the server, the clients and the workers in
// it, has used so far. On a machine that others share, its differences tell more
// than a wall clock.
type cost struct {
	cpu           time.Duration
	allocs, bytes uint64
	msgs          uint64 // to and from the server
}

func (r *rig) costNow() cost {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	in, out := r.eng.Traffic()
	return cost{measure.SelfCPU(), m.Mallocs, m.TotalAlloc, uint64(in + out)}
}

// costs writes the cost of each of n items since then.
func (r *rig) costs(what string, n int, since cost) {
	now, per := r.costNow(), float64(n)
	if now.cpu > 0 {
		r.t.row(what+", CPU an item", float64((now.cpu-since.cpu).Nanoseconds())/1000/per, "µs", 0)
	}
	r.t.row(what+", messages an item", float64(now.msgs-since.msgs)/per, "messages", 0)
	r.t.row(what+", allocated an item", float64(now.allocs-since.allocs)/per, "objects", 0)
	r.t.row(what+", allocated an item", float64(now.bytes-since.bytes)/per/1024, "KiB", 0)
}
