package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/internal/sleep"
	"github.com/streamwright/streamwright/workers"
)

// reachWithin bounds the wait for the last items to reach a handler.
const reachWithin = time.Minute

// probe collects the times from publish to handler start.
type probe struct {
	base time.Time // of the times in params
	want int
	all  chan struct{} // closed when all have been seen

	mu  sync.Mutex
	got []time.Duration
}

func newProbe(want int) *probe { return &probe{base: time.Now(), want: want, all: make(chan struct{})} }

// stamped returns params that carry a time.
func (p *probe) stamped(at time.Time) []byte {
	return fmt.Appendf(nil, `{"sent":%d,"pad":"%s"}`, at.Sub(p.base), strings.Repeat("x", bodyBytes-40))
}

// saw notes that stamped params have reached a handler.
func (p *probe) saw(params []byte) error {
	now := time.Now()
	var v struct{ Sent time.Duration }
	if err := json.Unmarshal(params, &v); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.got = append(p.got, now.Sub(p.base.Add(v.Sent))); len(p.got) == p.want {
		close(p.all)
	}
	return nil
}

// handle is a handler that notes its items.
func (p *probe) handle(_ context.Context, it *workers.RawItem) (any, error) {
	return nil, p.saw(it.Raw)
}

// wait waits until all items have been seen.
func (p *probe) wait(ctx context.Context) error {
	select {
	case <-p.all:
		return nil
	case <-time.After(reachWithin):
		p.mu.Lock()
		defer p.mu.Unlock()
		return fmt.Errorf("%d of %d items reached a handler", len(p.got), p.want)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// measureLatency is (d): publishes at a fixed rate, whatever comes back. Its
// floor is a raw memory work queue at the same rate, from publish to callback.
func (r *rig) measureLatency(ctx context.Context) error {
	for _, rate := range []int{300, 3000} {
		if err := r.latencyFloor(ctx, rate); err != nil {
			return err
		}
		if err := r.latency(ctx, fmt.Sprintf("(d) publish to handler start at %d/s", rate), fmt.Sprintf("latency-%d", rate), rate); err != nil {
			return err
		}
	}
	return r.measureDue(ctx)
}

// latency measures the time from publish to handler start.
func (r *rig) latency(ctx context.Context, what, typ string, rate int) error {
	p := newProbe(rate * int(r.o.LatencyFor/time.Second))
	stop, err := r.worker(ctx, 64, typ, p.handle)
	if err != nil {
		return err
	}
	used := r.costNow()
	if err := r.openLoop(ctx, p, "work.submit."+typ, rate); err != nil {
		return err
	}
	r.t.quantiles(what, p.got)
	r.costs(what, p.want, used)
	return stop()
}

// measureDue measures how late items start that were submitted for a later time,
// spread over a few seconds.
func (r *rig) measureDue(ctx context.Context) error {
	const n, spread = 1000, 5 * time.Second
	p := newProbe(n)
	stop, err := r.worker(ctx, 64, "due", p.handle)
	if err != nil {
		return err
	}
	first := time.Now().Add(2 * time.Second)
	err = r.submitAll(ctx, "due", n, func(i int, it *streamwright.Item) {
		it.AvailableAt = first.Add(spread * time.Duration(i) / n)
		it.Params = json.RawMessage(p.stamped(it.AvailableAt))
	})
	if err == nil {
		err = p.wait(ctx)
	}
	if err != nil {
		return err
	}
	r.t.quantiles("(d) due time to handler start, 200/s", p.got)
	return stop()
}

// latencyFloor measures one publish and one delivery.
func (r *rig) latencyFloor(ctx context.Context, rate int) error {
	nc, err := r.eng.Connect(nats.Name("bench-floor"))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	cons, err := floorConsumer(ctx, js)
	if err != nil {
		return err
	}
	defer func() { _ = js.DeleteStream(ctx, floorStream) }()
	p := newProbe(rate * int(r.o.LatencyFor/time.Second))
	cc, err := cons.Consume(func(m jetstream.Msg) {
		_ = p.saw(m.Data())
		_ = m.Ack()
	})
	if err != nil {
		return err
	}
	defer cc.Stop()
	if err := r.openLoop(ctx, p, floorSubject, rate); err != nil {
		return err
	}
	r.t.quantiles(fmt.Sprintf("(d) floor: raw work queue at %d/s", rate), p.got)
	return nil
}

// openLoop publishes the messages of a probe at a rate, and waits until all have
// been seen. Messages that come due while it slept are sent at once, and counted
// from then.
func (r *rig) openLoop(ctx context.Context, p *probe, subject string, rate int) error {
	nc, start := r.client.Conn(), time.Now()
	for i := 0; i < p.want; {
		due := min(int(time.Since(start).Seconds()*float64(rate))+1, p.want)
		for ; i < due; i++ {
			if err := nc.Publish(subject, p.stamped(time.Now())); err != nil {
				return err
			}
		}
		next := start.Add(time.Duration(float64(i) / float64(rate) * float64(time.Second)))
		if err := sleep.For(ctx, time.Until(next)); err != nil {
			return err
		}
	}
	if err := nc.Flush(); err != nil {
		return err
	}
	return p.wait(ctx)
}

// measureMemory is (f): the memory of a large backlog, and its effect on an
// urgent item.
func (r *rig) measureMemory(ctx context.Context) error {
	alone, err := r.urgent(ctx, "(f) urgent item with an empty queue", "alone", 0)
	if err != nil {
		return err
	}
	runtime.GC()
	debug.FreeOSMemory()
	before := resident()
	edit := func(i int, it *streamwright.Item) {
		if r.o.DedupKeys {
			it.DedupKey = fmt.Sprintf("key-%d", i)
		}
	}
	start := time.Now()
	if err := r.submitAll(ctx, "backlog", r.o.Backlog, edit); err != nil {
		return err
	}
	r.rate(fmt.Sprintf("(f) bulk submit of the backlog of %d", r.o.Backlog), r.o.Backlog, time.Since(start))
	peak := resident()
	runtime.GC()
	debug.FreeOSMemory()
	r.t.row("(f) resident before the backlog", before, "MiB", 0)
	r.t.row("(f) resident at the end of the submits", peak, "MiB", 0)
	r.t.row("(f) resident behind the backlog, settled", resident(), "MiB", 0)
	behind, err := r.urgent(ctx, "(f) urgent item of another type, empty slots", "other", 0)
	if err != nil {
		return err
	}
	r.t.row("(f) urgent item behind the backlog, of without it, p50", float64(behind)/float64(alone), "×", 0)
	_, err = r.urgent(ctx, "(f) urgent item of the same type, 16 slots of 5 ms work", "backlog", 5*time.Millisecond)
	return err
}

// urgent measures the pickup of items of the highest priority, one at a time, and returns
// the median.
func (r *rig) urgent(ctx context.Context, what, typ string, work time.Duration) (time.Duration, error) {
	const n = 200
	p := newProbe(n)
	stop, err := r.worker(ctx, 16, typ, func(ctx context.Context, it *workers.RawItem) (any, error) {
		if it.Labels["urgent"] == "" {
			time.Sleep(work)
			return nil, nil
		}
		return p.handle(ctx, it)
	})
	if err != nil {
		return 0, err
	}
	for range n {
		if _, err := r.client.Submit(ctx, streamwright.Item{Type: typ, Params: json.RawMessage(p.stamped(time.Now())), Priority: streamwright.Priority(9), Labels: map[string]string{"urgent": "yes"}}); err != nil {
			return 0, err
		}
		if err := sleep.For(ctx, 10*time.Millisecond); err != nil {
			return 0, err
		}
	}
	if err := p.wait(ctx); err != nil {
		return 0, err
	}
	return r.t.quantiles(what, p.got), stop()
}

// resident returns this process's resident memory in MiB, 0 where it can't be
// read.
func resident() float64 {
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, rss float64
	if _, err := fmt.Sscan(string(data), &size, &rss); err != nil {
		return 0
	}
	return rss * float64(os.Getpagesize()) / (1 << 20)
}

// idleWorkers is how many workers measureIdle starts.
const idleWorkers = 100

// measureIdle counts what 100 workers send and are sent that have nothing to do, and what
// crosses the server meanwhile.
func (r *rig) measureIdle(ctx context.Context) (err error) {
	list := make([]*started, 0, idleWorkers)
	defer func() {
		for _, w := range list {
			err = errors.Join(err, w.stop())
		}
	}()
	for range idleWorkers {
		w, err := r.connectWorker(ctx, 4, "idle", nothing)
		if err != nil {
			return err
		}
		list = append(list, w)
	}
	if err := sleep.For(ctx, min(settleFor, r.o.IdleFor)); err != nil {
		return err
	}
	of := func() (n uint64) {
		for _, w := range list {
			s := w.nc.Stats()
			n += s.InMsgs + s.OutMsgs
		}
		return n
	}
	in0, out0 := r.eng.Traffic()
	n0, cpu, began := of(), processCPU(), time.Now()
	if err := sleep.For(ctx, r.o.IdleFor); err != nil {
		return err
	}
	secs := time.Since(began).Seconds()
	in1, out1 := r.eng.Traffic()
	r.t.row("idle, 100 workers: messages of the workers", float64(of()-n0)/secs, "per s", 0)
	r.t.row("idle, 100 workers: messages to the server", float64(in1-in0)/secs, "per s", 0)
	r.t.row("idle, 100 workers: messages from the server", float64(out1-out0)/secs, "per s", 0)
	r.t.row("idle, 100 workers: CPU", 100*(processCPU()-cpu).Seconds()/secs, "% of a core", 0)
	return nil
}

// settleFor is the time in which workers that register together learn how many they are, and
// so how seldom they need to be heard of.
const settleFor = 90 * time.Second
