package bench

import (
	"context"
	"encoding/json"
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
	"github.com/streamwright/streamwright/workers"
)

func jsonBody() json.RawMessage { return params(bodyBytes) }

// probe collects the time from publish to handler start.
type probe struct {
	mu   sync.Mutex
	got  []time.Duration
	all  chan struct{}
	want int
}

func newProbe(want int) *probe { return &probe{want: want, all: make(chan struct{})} }

func (p *probe) saw(sent time.Time) {
	took := time.Since(sent)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.got = append(p.got, took); len(p.got) == p.want {
		close(p.all)
	}
}

// stamped are params that carry the time, on this process's clock.
func stamped(base time.Time) []byte {
	return fmt.Appendf(nil, `{"sent":%d,"pad":"%s"}`, time.Since(base), strings.Repeat("x", bodyBytes-40))
}

func sentAt(base time.Time, params []byte) (time.Time, error) {
	var v struct{ Sent time.Duration }
	err := json.Unmarshal(params, &v)
	return base.Add(v.Sent), err
}

// measureLatency is (d): publishes at a fixed rate, whatever comes back. Its
// floor is a raw memory work queue at the same rate, from publish to callback.
func (r *rig) measureLatency(ctx context.Context) error {
	for _, rate := range []int{300, 3000} {
		if err := r.latencyFloor(ctx, rate); err != nil {
			return err
		}
		n := rate * int(r.o.LatencyFor/time.Second)
		p, base := newProbe(n), time.Now()
		typ := fmt.Sprintf("latency-%d", rate)
		stop, err := r.worker(ctx, 64, typ, func(_ context.Context, it *workers.RawItem) (any, error) {
			sent, err := sentAt(base, it.Raw)
			if err == nil {
				p.saw(sent)
			}
			return nil, err
		})
		if err != nil {
			return err
		}
		used := costNow()
		if err := openLoop(ctx, r.client.Conn(), "work.submit."+typ, base, rate, n); err != nil {
			return err
		}
		select {
		case <-p.all:
		case <-time.After(30 * time.Second):
			return fmt.Errorf("%d of %d items reached a handler", len(p.got), n)
		case <-ctx.Done():
			return ctx.Err()
		}
		r.t.quantiles(fmt.Sprintf("(d) publish to handler start at %d/s", rate), p.got)
		r.costs(fmt.Sprintf("(d) publish to handler start at %d/s", rate), n, used)
		if err := stop(); err != nil {
			return err
		}
	}
	return r.measureDue(ctx)
}

// measureDue is how late items start that were submitted for a later time,
// spread over a few seconds.
func (r *rig) measureDue(ctx context.Context) error {
	const n, spread = 1000, 5 * time.Second
	p, base := newProbe(n), time.Now()
	stop, err := r.worker(ctx, 64, "due", func(_ context.Context, it *workers.RawItem) (any, error) {
		due, err := sentAt(base, it.Raw)
		if err == nil {
			p.saw(due)
		}
		return nil, err
	})
	if err != nil {
		return err
	}
	first := time.Now().Add(2 * time.Second)
	err = r.submitAll(ctx, "due", n, func(i int, it *streamwright.Item) {
		at := first.Add(spread * time.Duration(i) / n)
		it.AvailableAt = at
		it.Params = json.RawMessage(fmt.Sprintf(`{"sent":%d}`, at.Sub(base)))
	})
	if err != nil {
		return err
	}
	select {
	case <-p.all:
	case <-time.After(time.Minute):
		return fmt.Errorf("%d of %d due items reached a handler", len(p.got), n)
	case <-ctx.Done():
		return ctx.Err()
	}
	r.t.quantiles("(d) due time to handler start, 200/s", p.got)
	return stop()
}

// latencyFloor is what one publish and one delivery take.
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
	n := rate * int(r.o.LatencyFor/time.Second)
	p, base := newProbe(n), time.Now()
	cc, err := cons.Consume(func(m jetstream.Msg) {
		if sent, err := sentAt(base, m.Data()); err == nil {
			p.saw(sent)
		}
		_ = m.Ack()
	})
	if err != nil {
		return err
	}
	defer cc.Stop()
	if err := openLoop(ctx, r.client.Conn(), floorSubject, base, rate, n); err != nil {
		return err
	}
	select {
	case <-p.all:
	case <-ctx.Done():
		return ctx.Err()
	}
	r.t.quantiles(fmt.Sprintf("(d) floor: raw work queue at %d/s", rate), p.got)
	return nil
}

// openLoop publishes n messages at a rate. Those that come due while it slept
// are sent at once, and counted from when they were sent.
func openLoop(ctx context.Context, nc *nats.Conn, subject string, base time.Time, rate, n int) error {
	start := time.Now()
	for i := 0; i < n; {
		due := min(int(time.Since(start).Seconds()*float64(rate))+1, n)
		for ; i < due; i++ {
			if err := nc.Publish(subject, stamped(base)); err != nil {
				return err
			}
		}
		next := start.Add(time.Duration(float64(i) / float64(rate) * float64(time.Second)))
		select {
		case <-time.After(time.Until(next)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nc.Flush()
}

// measureMemory is (f): what a large backlog costs, and what it does to an
// urgent item.
func (r *rig) measureMemory(ctx context.Context) error {
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
	if err := r.urgent(ctx, "(f) urgent item of another type, empty slots", "other", 0); err != nil {
		return err
	}
	return r.urgent(ctx, "(f) urgent item of the same type, 16 slots of 5 ms work", "backlog", 5*time.Millisecond)
}

// urgent measures the pickup of items of the highest priority, one at a time.
func (r *rig) urgent(ctx context.Context, what, typ string, work time.Duration) error {
	const n = 200
	p, base := newProbe(n), time.Now()
	stop, err := r.worker(ctx, 16, typ, func(ctx context.Context, it *workers.RawItem) (any, error) {
		if it.Labels["urgent"] == "" {
			time.Sleep(work)
			return nil, nil
		}
		sent, err := sentAt(base, it.Raw)
		if err == nil {
			p.saw(sent)
		}
		return nil, err
	})
	if err != nil {
		return err
	}
	for range n {
		if _, err := r.client.Submit(ctx, streamwright.Item{Type: typ, Params: json.RawMessage(stamped(base)), Priority: streamwright.Priority(9), Labels: map[string]string{"urgent": "yes"}}); err != nil {
			return err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	select {
	case <-p.all:
	case <-time.After(30 * time.Second):
		return fmt.Errorf("%d of %d urgent items reached a handler", len(p.got), n)
	}
	r.t.quantiles(what, p.got)
	return stop()
}

// resident is this process's resident memory in MiB, 0 where it can't be read.
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

// measureIdle counts what crosses the wire when 100 workers have nothing to do.
func (r *rig) measureIdle(ctx context.Context) error {
	const n = 100
	stops := make([]func() error, 0, n)
	for range n {
		stop, err := r.worker(ctx, 4, "idle", nothing)
		if err != nil {
			return err
		}
		stops = append(stops, stop)
	}
	in0, out0 := r.eng.Traffic()
	select {
	case <-time.After(r.o.IdleFor):
	case <-ctx.Done():
		return ctx.Err()
	}
	in1, out1 := r.eng.Traffic()
	secs := r.o.IdleFor.Seconds()
	r.t.row(fmt.Sprintf("idle, %d workers: messages to the server", n), float64(in1-in0)/secs, "per s", 0)
	r.t.row(fmt.Sprintf("idle, %d workers: messages from the server", n), float64(out1-out0)/secs, "per s", 0)
	for _, stop := range stops {
		if err := stop(); err != nil {
			return err
		}
	}
	return nil
}
