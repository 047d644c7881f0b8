package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/measure"
	"github.com/streamwright/streamwright/internal/sleep"
)

const (
	// latencySlots are those of the worker of a latency: more than are ever taken.
	latencySlots = 64
	// ackRate is the rate, in items a second, at which the latency of ack workers is measured.
	ackRate = 300
)

// plain is a queue to which items are published, and that acknowledges nothing.
type plain struct {
	measure.Queue
	nc      *nats.Conn
	subject string
}

// Submit implements [measure.Queue].
func (p plain) Submit(_ context.Context, v measure.Payload) error {
	return p.nc.Publish(p.subject, v.JSON())
}

// published returns the queue of a type, by plain publishes.
func (r *rig) published(typ string) plain {
	q := r.queue(typ)
	q.Slots = latencySlots
	return plain{q, r.client.Conn(), "work.submit." + typ}
}

// measureLatency is (d): publishes at a fixed rate, whatever comes back. Its
// floor is a raw memory work queue at the same rate, from publish to callback.
func (r *rig) measureLatency(ctx context.Context) error {
	for _, rate := range []int{300, 3000} {
		floor, end, err := r.floorQueue(ctx)
		if err != nil {
			return err
		}
		err = r.latency(ctx, fmt.Sprintf("(d) floor: raw work queue at %d/s", rate), plain{floor, floor.Conn, floor.Subject}, rate)
		if err = errors.Join(err, end()); err != nil {
			return err
		}
		if err := r.latency(ctx, fmt.Sprintf("(d) publish to handler start at %d/s", rate), r.published(fmt.Sprintf("latency-%d", rate)), rate); err != nil {
			return err
		}
	}
	return r.measureDue(ctx)
}

// latency measures the time from submission to handler start, and what each item costs.
func (r *rig) latency(ctx context.Context, what string, q measure.Queue, rate int) error {
	n, used := max(1, int(float64(rate)*r.o.LatencyFor.Seconds())), r.costNow()
	_, err := r.late(ctx, what, q, n, func(ctx context.Context, t *measure.Tally) error {
		return measure.OpenLoop(ctx, q, t, rate, false)
	})
	if err == nil {
		r.costs(what, n, used)
	}
	return err
}

// late writes how late n items are that submit submits, and returns the median.
func (r *rig) late(ctx context.Context, what string, q measure.Queue, n int, submit func(context.Context, *measure.Tally) error) (p50 time.Duration, err error) {
	t := measure.NewTally(n)
	stop, err := q.Work(ctx, func(p measure.Payload) { t.Saw(p.Seq) })
	if err != nil {
		return 0, err
	}
	within, cancel := context.WithTimeout(ctx, r.o.LatencyFor+reachWithin)
	defer cancel()
	if err = errors.Join(submit(within, t), stop()); err != nil {
		return 0, err
	}
	return r.t.quantiles(what, t.Late()), nil
}

// measureDue measures how late items start that were submitted for a later time,
// spread over a few seconds.
func (r *rig) measureDue(ctx context.Context) error {
	const n, spread = 1000, 5 * time.Second
	q, first := r.queue("due"), time.Now().Add(2*time.Second)
	q.Slots = latencySlots
	due := func(seq int) time.Time { return first.Add(spread * time.Duration(seq) / n) }
	q.Edit = func(seq int, it *streamwright.Item) { it.AvailableAt = due(seq) }
	_, err := r.late(ctx, "(d) due time to handler start, 200/s", q, n, func(ctx context.Context, t *measure.Tally) error {
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

// picks is the number of items picked at each depth.
const picks = 2000

// measureDiscovery is (g): what it costs to find the next item behind which a
// backlog stands, at several depths, one item at a time; and whether the first
// in is the first out, without exception.
func (r *rig) measureDiscovery(ctx context.Context) error {
	for _, depth := range []int{10, 10_000, 1_000_000} {
		if depth > r.o.Backlog {
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
	q := r.queue(fmt.Sprintf("depth-%d", depth))
	q.Slots = 1
	if err := measure.Bulk(ctx, q, 0, depth, 1); err != nil {
		return err
	}
	var gaps []time.Duration
	var last time.Time // the last handler's end
	next, done := 0, make(chan error, 1)
	stop, err := q.Work(ctx, func(p measure.Payload) {
		if next > picks {
			return // it is over
		}
		if next > 0 {
			gaps = append(gaps, time.Since(last))
		}
		err := q.Submit(ctx, measure.NewPayload(depth+next))
		if p.Seq != next {
			err = fmt.Errorf("item %d came where %d was the first in: not first in, first out", p.Seq, next)
		}
		if next++; err != nil || next > picks {
			next = picks + 1
			done <- err
		}
		last = time.Now()
	})
	if err != nil {
		return err
	}
	select {
	case err = <-done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err = errors.Join(err, stop()); err != nil {
		return err
	}
	slices.Sort(gaps)
	r.t.quantiles(fmt.Sprintf("(g) handler's end to the next one's start, depth %d", depth), gaps)
	return nil
}

// ackQueue is a type with protocol ack, worked off by an ordinary JetStream consumer.
type ackQueue struct {
	plain
	r   *rig
	typ string
}

// ackQueue makes a type's protocol ack, with room for as many runs as the worker has slots.
func (r *rig) ackQueue(ctx context.Context, typ string) (ackQueue, error) {
	_, err := r.client.Types().Configure(ctx, typ, streamwright.Settings{Protocol: new(events.ProtocolAck), Capacity: new(r.o.Slots)})
	return ackQueue{r.published(typ), r, typ}, err
}

// Work implements [measure.Queue]: it finds the type's consumer as any program would, and
// handles one message after the other.
func (n ackQueue) Work(ctx context.Context, handle func(measure.Payload)) (func() error, error) {
	nc, err := n.r.dial()
	if err != nil {
		return nil, err
	}
	q, err := measure.NewJetStream(nc, "", n.r.o.Slots)
	for err == nil && q.Consumer == nil {
		if q.Consumer, err = q.JS.Consumer(ctx, "WORK_DISPATCH", n.typ); errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
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

// measureAck is (h): items of a type with protocol ack, worked off by an
// ordinary JetStream consumer, and beside them the same items by a registered worker
// with as many slots, in the same run.
func (r *rig) measureAck(ctx context.Context) error {
	n, err := r.ackQueue(ctx, "ack")
	if err != nil {
		return err
	}
	t := measure.NewTally(r.o.Items)
	acked, err := r.burnDownBy(ctx, "(h) burn-down by an ordinary consumer, protocol ack", r.queue("ack"), t, func() (func() error, error) {
		return n.Work(ctx, func(measure.Payload) { t.Count() })
	})
	if err != nil {
		return err
	}
	t = measure.NewTally(r.o.Items)
	offered, err := r.burnDown(ctx, "(h) burn-down by offers", r.queue("ack-offer"), t, counted(t))
	if err != nil {
		return err
	}
	r.t.row("(h) ack burn-down, of that by offers", acked/offered, "×", 0)
	if n, err = r.ackQueue(ctx, "ack-latency"); err != nil {
		return err
	}
	what := fmt.Sprintf("(h) publish to handler at %d/s, protocol ", ackRate)
	if err := r.latency(ctx, what+"ack", n, ackRate); err != nil {
		return err
	}
	return r.latency(ctx, what+"offer", r.published("ack-latency-offer"), ackRate)
}
