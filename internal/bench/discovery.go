package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/workers"
)

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
	typ := fmt.Sprintf("depth-%d", depth)
	numbered := func(i int, it *streamwright.Item) { it.Params = json.RawMessage(fmt.Sprintf(`{"n":%d}`, i)) }
	if err := r.submitAll(ctx, typ, depth, numbered); err != nil {
		return err
	}
	p := &picker{done: make(chan struct{}), refill: make(chan struct{}, picks)}
	stop, err := r.worker(ctx, 1, typ, p.handle)
	if err != nil {
		return err
	}
	for i := range picks {
		select {
		case <-p.refill:
		case <-p.done:
			return p.err
		case <-ctx.Done():
			return ctx.Err()
		}
		it := streamwright.Item{Type: typ, Params: json.RawMessage(fmt.Sprintf(`{"n":%d}`, depth+i))}
		if _, err := r.client.Submit(ctx, it); err != nil {
			return err
		}
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	if p.err != nil {
		return p.err
	}
	r.t.quantiles(fmt.Sprintf("(g) handler's end to the next one's start, depth %d", depth), p.gaps)
	return stop()
}

// picker is a handler that notes how long it was without work.
type picker struct {
	refill chan struct{} // one for each item begun
	done   chan struct{} // closed after so many picks, or a fault

	mu   sync.Mutex
	next int
	last time.Time // the last handler's end
	gaps []time.Duration
	err  error
}

func (p *picker) handle(_ context.Context, it *workers.RawItem) (any, error) {
	began := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.gaps) == picks || p.err != nil {
		return nil, nil
	}
	var v struct{ N int }
	if err := json.Unmarshal(it.Raw, &v); err != nil {
		return nil, err
	}
	if v.N != p.next {
		p.err = fmt.Errorf("item %d came where %d was the first in: not first in, first out", v.N, p.next)
		close(p.done)
		return nil, nil
	}
	p.next++
	if !p.last.IsZero() {
		if p.gaps = append(p.gaps, began.Sub(p.last)); len(p.gaps) == picks {
			close(p.done)
		}
	}
	select {
	case p.refill <- struct{}{}:
	default: // enough
	}
	p.last = time.Now()
	return nil, nil
}
