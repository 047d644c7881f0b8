package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// A Load is one kind of work, the same for all systems. It runs in the client's process.
type Load interface {
	Name() string
	// Cases are what the load is measured at.
	Cases(o Options) []Case
	// Prepare brings the system to where the measurement begins.
	Prepare(ctx context.Context, r *Run) error
	// Measure is what is measured.
	Measure(ctx context.Context, r *Run) (Values, error)
}

// Case is one setting of a load.
type Case struct {
	Label string
	N     int // clients, or items a second
	Items int
}

// Values are the figures of a measurement, by name.
type Values map[string]float64

// Names of values.
const (
	valueRate = "rate" // items a second
	valueFill = "fill" // the same, of the submits before the measurement
	valueP50  = "p50"  // milliseconds
	valueP99  = "p99"
	valueMax  = "max"
	valueMore = "more" // items that were handled again
	// valueSeconds is the length of an idle measurement.
	valueSeconds = "seconds"
)

// Options are the sizes of a run.
type Options struct {
	Items   int     // of a throughput load
	Depth   int     // of the deep queue
	Slots   int     // handlers at once
	Rates   []int   // of the open loop, items a second
	Seconds float64 // of the open loop and of idleness
}

// The concurrency of submitters, the same for all systems.
const (
	bulkBatch   = 1000 // items in one call of SubmitMany
	bulkCallers = 4    // such calls at once
	submitters  = 100  // single submits at once, end to end
)

func loads() []Load {
	return []Load{bulkLoad{}, singleLoad{}, endToEndLoad{}, burnDownLoad{}, pickupLoad{}, idleLoad{}, depthLoad{}}
}

// Run is one load on one system.
type Run struct {
	Options
	Case Case
	Peer Peer

	items  []Payload
	tally  *tally
	pickup *pickup // of pickupLoad
	filled float64 // of depthLoad: the rate of filling
	stop   func() error
}

// work starts the worker, which tallies what it handles.
func (r *Run) work(ctx context.Context) error {
	r.tally = newTally(r.Case.Items)
	return r.workWith(ctx, func(p Payload) { r.tally.saw(p.Seq) })
}

func (r *Run) workWith(ctx context.Context, handle func(Payload)) (err error) {
	r.stop, err = r.Peer.Work(ctx, handle)
	return err
}

// end stops the worker, if one runs.
func (r *Run) end() error {
	if r.stop == nil {
		return nil
	}
	return r.stop()
}

// bulk submits items in batches.
func (r *Run) bulk(ctx context.Context, items []Payload) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(bulkCallers)
	for from := 0; from < len(items); from += bulkBatch {
		batch := items[from:min(from+bulkBatch, len(items))]
		g.Go(func() error { return r.Peer.SubmitMany(ctx, batch) })
	}
	return g.Wait()
}

// single submits items one by one, by so many clients at once.
func (r *Run) single(ctx context.Context, items []Payload, clients int) error {
	var next atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for range clients {
		g.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(items) {
					return nil
				}
				if err := r.Peer.Submit(ctx, items[i]); err != nil {
					return err
				}
			}
		})
	}
	return g.Wait()
}

// drain waits until every item has been handled and recorded as done.
func (r *Run) drain(ctx context.Context) error {
	if err := r.tally.wait(ctx); err != nil {
		return err
	}
	return r.drained(ctx)
}

func (r *Run) drained(ctx context.Context) error {
	t := time.NewTicker(5 * time.Millisecond)
	defer t.Stop()
	for {
		ok, err := r.Peer.Drained(ctx, r.Case.Items)
		if ok || err != nil {
			return err
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for the system to record what was handled: %w", ctx.Err())
		}
	}
}

// perSecond is the rate of so many items since then.
func perSecond(items int, since time.Time) float64 {
	return float64(items) / time.Since(since).Seconds()
}

// tally counts each item once, whatever the order.
type tally struct {
	seen    []atomic.Bool
	left    atomic.Int64
	more    atomic.Int64 // handled again: allowed, where delivery is at least once
	strange atomic.Int64 // never submitted
	all     chan struct{}
}

func newTally(n int) *tally {
	t := &tally{seen: make([]atomic.Bool, n), all: make(chan struct{})}
	t.left.Store(int64(n))
	return t
}

func (t *tally) saw(seq int) {
	switch {
	case seq < 0 || seq >= len(t.seen):
		t.strange.Add(1)
	case t.seen[seq].Swap(true):
		t.more.Add(1)
	case t.left.Add(-1) == 0:
		close(t.all)
	}
}

func (t *tally) wait(ctx context.Context) error {
	select {
	case <-t.all:
	case <-ctx.Done():
		return fmt.Errorf("%d of %d items were never handled: %w", t.left.Load(), len(t.seen), ctx.Err())
	}
	if t.strange.Load() > 0 {
		return errors.New("items were handled that nobody submitted")
	}
	return nil
}
