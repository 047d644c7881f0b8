package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/internal/measure"
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
	r.t.row("floor: raw memory work queue", r.floor, perSecond)
	return nil
}

func (r *rig) floorOnce(ctx context.Context) (rate float64, err error) {
	q, end, err := r.floorQueue(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, end()) }()
	t, start := measure.NewTally(r.Items), time.Now()
	stop, err := q.Consume(func(m jetstream.Msg) {
		_ = m.Ack()
		t.Count()
	})
	if err != nil {
		return 0, err
	}
	if err = r.bulk(ctx, q, 0, r.Items); err == nil {
		err = t.Wait(ctx)
	}
	return measure.PerSecond(r.Items, start), errors.Join(err, stop())
}

// floorQueue makes the raw work queue. end removes it.
func (r *rig) floorQueue(ctx context.Context) (q *measure.JetStream, end func() error, err error) {
	c := jetstream.StreamConfig{Name: "BENCH_FLOOR", Subjects: []string{"bench.floor"}, Storage: jetstream.MemoryStorage, Retention: jetstream.WorkQueuePolicy}
	nc, err := r.dial()
	if err != nil {
		return nil, nil, err
	}
	if q, err = measure.OpenJetStream(ctx, nc, c, r.slots); err != nil {
		nc.Close()
	}
	return q, func() error { defer nc.Close(); return q.JS.DeleteStream(ctx, c.Name) }, err
}

func (r *rig) bulk(ctx context.Context, q measure.Queue, first, n int) error {
	return measure.Bulk(ctx, q, first, n, measure.BulkCallers)
}

// measureFlow is the end to end: items go in while the worker runs, until all are
// completed.
func (r *rig) measureFlow(ctx context.Context) error {
	plain, err := measure.NewJetStream(r.client.Conn(), "work.submit.flow-publish", 0)
	if err != nil {
		return err
	}
	publish, submit := r.queue("flow-publish", r.slots), r.queue("flow-submit", r.slots)
	_, err = r.workOff(ctx, "end to end, plain publish", publish, func() error { return r.bulk(ctx, plain, 0, r.Items) })
	if err == nil {
		_, err = r.workOff(ctx, "end to end, work.api.submit", submit, func() error { return r.bulk(ctx, submit, 0, r.Items) })
	}
	return err
}

// workOff measures from the start of a worker until all items are recorded as done. Meanwhile
// they may be submitted.
func (r *rig) workOff(ctx context.Context, what string, q measure.Queue, meanwhile func() error) (rate float64, err error) {
	t, stop := measure.NewTally(r.Items), func() error { return nil }
	rate, err = r.timed(what, r.Items, func() error {
		end, err := q.Work(ctx, func(p measure.Payload) { t.Saw(p.Seq) })
		if err != nil {
			return err
		}
		stop = end
		if err := meanwhile(); err != nil {
			return err
		}
		return measure.Drain(ctx, q, t)
	})
	return rate, errors.Join(err, stop())
}

// burnDown measures a backlog that is there before the worker.
func (r *rig) burnDown(ctx context.Context, what string, q measure.Queue) (rate float64, err error) {
	if err := r.bulk(ctx, q, 0, r.Items); err != nil {
		return 0, err
	}
	return r.workOff(ctx, what, q, func() error { return nil })
}

func (r *rig) measureBurnDown(ctx context.Context) error {
	_, err := r.burnDown(ctx, "burn-down", r.queue("burndown", r.slots))
	return err
}

// measureBulk measures how fast items are accepted, durably.
func (r *rig) measureBulk(ctx context.Context) error {
	_, err := r.timed("bulk", r.Items, func() error { return r.bulk(ctx, r.queue("bulk", 0), 0, r.Items) })
	return err
}

// measureRebuild measures rebuilding the store from the log.
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
	r.t.row("rebuild", float64(replayed)/rebuilt.Seconds(), "events/s")
	return nil
}
