package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/measure"
	"github.com/streamwright/streamwright/internal/sleep"
)

// measureLatency is the pickup: publishes at a fixed rate, whatever comes back. Its floor is
// a raw memory work queue at the same rate, from publish to callback.
func (r *rig) measureLatency(ctx context.Context) error {
	for _, rate := range []int{300, 3000} {
		floor, end, err := r.floorQueue(ctx)
		if err != nil {
			return err
		}
		at := " at " + measure.Figure(float64(rate)) + "/s"
		_, err = r.pickup(ctx, "raw work queue"+at, plain{floor, floor.Conn, floor.Subject}, rate)
		if err = errors.Join(err, end()); err != nil {
			return err
		}
		if _, err := r.pickup(ctx, "pickup"+at, r.published(fmt.Sprintf("latency-%d", rate)), rate); err != nil {
			return err
		}
	}
	return r.measureDue(ctx)
}

// pickup measures the time from submission to handler start, at a rate, and returns the
// median in milliseconds.
func (r *rig) pickup(ctx context.Context, what string, q measure.Queue, rate int) (p50 float64, err error) {
	n := max(1, int(float64(rate)*r.LatencyFor.Seconds()))
	return r.late(ctx, what, q, n, func(ctx context.Context, t *measure.Tally) error {
		return measure.OpenLoop(ctx, q, t, rate, false)
	})
}

// late writes how late n items are that submit submits, and returns the median.
func (r *rig) late(ctx context.Context, what string, q measure.Queue, n int, submit func(context.Context, *measure.Tally) error) (p50 float64, err error) {
	t := measure.NewTally(n)
	stop, err := q.Work(ctx, func(p measure.Payload) { t.Saw(p.Seq) })
	if err != nil {
		return 0, err
	}
	within, cancel := context.WithTimeout(ctx, r.LatencyFor+reachWithin)
	defer cancel()
	if err = errors.Join(submit(within, t), stop()); err != nil {
		return 0, err
	}
	return r.quantiles(what, t.Late()), nil
}

// quantiles writes the spread of latencies, and returns the median.
func (r *rig) quantiles(what string, late []time.Duration) (p50 float64) {
	p50 = measure.Quantile(late, 0.5)
	r.t.row(what+", p50", p50, "ms")
	r.t.row(what+", p99", measure.Quantile(late, 0.99), "ms")
	r.t.row(what+", highest", measure.Quantile(late, 1), "ms")
	return p50
}

// measureDue measures how late items start that were submitted for a later time,
// spread over a few seconds.
func (r *rig) measureDue(ctx context.Context) error {
	const n, spread = 1000, 5 * time.Second
	q, first := r.queue("due", 64), time.Now().Add(2*time.Second)
	due := func(seq int) time.Time { return first.Add(spread * time.Duration(seq) / n) }
	q.Edit = func(seq int, it *streamwright.Item) { it.AvailableAt = due(seq) }
	_, err := r.late(ctx, "due time to handler start, 200/s", q, n, func(ctx context.Context, t *measure.Tally) error {
		for i := range n {
			t.From(i, due(i))
		}
		if err := measure.Bulk(ctx, q, 0, n, 1); err != nil {
			return err
		}
		return t.Wait(ctx)
	})
	return err
}

// measureDiscovery measures what it costs to find the next item behind which a backlog
// stands, at several depths, one item at a time; and whether the first in is the first
// out, without exception.
func (r *rig) measureDiscovery(ctx context.Context) error {
	for _, depth := range []int{10, 10_000, 1_000_000} {
		if depth > r.Backlog {
			break
		}
		if err := r.pickAt(ctx, depth); err != nil {
			return fmt.Errorf("at depth %d: %w", depth, err)
		}
	}
	return nil
}

// pickAt keeps a backlog at a depth while one slot works it off.
func (r *rig) pickAt(ctx context.Context, depth int) error {
	const picks = 2000
	q := r.queue(fmt.Sprintf("depth-%d", depth), 1)
	if err := measure.Bulk(ctx, q, 0, depth, 1); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var gaps []time.Duration
	var last time.Time // the last handler's end
	next, enough := 0, errors.New("enough")
	stop, err := q.Work(ctx, func(p measure.Payload) {
		switch {
		case ctx.Err() != nil:
			return
		case p.Seq != next:
			cancel(fmt.Errorf("item %d came where %d was the first in: not first in, first out", p.Seq, next))
		case next > 0:
			gaps = append(gaps, time.Since(last))
		}
		if err := q.Submit(ctx, measure.NewPayload(depth+next)); err != nil {
			cancel(err)
		}
		if next++; next > picks {
			cancel(enough)
		}
		last = time.Now()
	})
	if err != nil {
		return err
	}
	<-ctx.Done()
	if err := stop(); err != nil {
		return err
	}
	if err := context.Cause(ctx); err != enough {
		return err
	}
	r.quantiles(fmt.Sprintf("handler's end to the next one's start, depth %d", depth), gaps)
	return nil
}

// ackQueue is the queue of a type with protocol ack, worked off by an ordinary JetStream
// consumer.
type ackQueue struct {
	plain
	r   *rig
	typ string
}

// Work implements [measure.Queue]: it makes the type's protocol ack, with room for as many
// runs as the worker has slots, and finds its consumer as any program would.
func (a ackQueue) Work(ctx context.Context, handle func(measure.Payload)) (func() error, error) {
	_, err := a.r.client.Types().Configure(ctx, a.typ, streamwright.Settings{Protocol: new(events.ProtocolAck), Capacity: new(a.r.slots)})
	if err != nil {
		return nil, err
	}
	nc, err := a.r.dial()
	if err != nil {
		return nil, err
	}
	q, err := measure.NewJetStream(nc, "", a.r.slots)
	for err == nil && q.Consumer == nil {
		if q.Consumer, err = q.JS.Consumer(ctx, "WORK_DISPATCH", a.typ); errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
			err = sleep.For(ctx, 5*time.Millisecond)
		}
	}
	var stop func() error
	if err == nil {
		stop, err = q.Work(ctx, handle)
	}
	if err != nil {
		nc.Close()
		return nil, err
	}
	return func() error { defer nc.Close(); return stop() }, nil
}

// measureAck measures items of a type with protocol ack, worked off by an ordinary
// JetStream consumer, and beside them the same items sent to a registered worker with as
// many slots, in the same run.
func (r *rig) measureAck(ctx context.Context) error {
	const rate = 300
	burn, slow := ackQueue{r.published("ack"), r, "ack"}, ackQueue{r.published("ack-latency"), r, "ack-latency"}
	if _, err := r.burnDown(ctx, "burn-down, protocol ack", burn); err != nil {
		return err
	}
	if _, err := r.burnDown(ctx, "burn-down, protocol offer", r.queue("ack-offer", r.slots)); err != nil {
		return err
	}
	if _, err := r.pickup(ctx, "publish to handler at 300/s, protocol ack", slow, rate); err != nil {
		return err
	}
	_, err := r.pickup(ctx, "publish to handler at 300/s, protocol offer", r.published("ack-latency-offer"), rate)
	return err
}
