package main

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/streamwright/streamwright/internal/measure"
	"github.com/streamwright/streamwright/internal/sleep"
)

// A load is one kind of work, the same for all systems. It runs in the client's process.
type load struct {
	name  string
	cases func(o Options) []Case
	// run brings the system to where the measurement begins, says so by r.ready, and adds
	// what it measures then to r.values.
	run func(ctx context.Context, r *Run) error
}

// Case is one setting of a load. No other has its label.
type Case struct {
	Label string
	N     int // clients, or items a second
	Items int
}

// Values are the figures of a measurement, by name.
type Values map[string]float64

func (v Values) String() (text string) {
	for _, name := range slices.Sorted(maps.Keys(v)) {
		text += name + " " + measure.Figure(v[name]) + "  "
	}
	return text
}

// Names of values.
const (
	valueRate    = "rate" // items a second
	valueFill    = "fill" // the same, of the submits before the measurement
	valueP50     = "p50"  // milliseconds
	valueP99     = "p99"
	valueMax     = "highest"
	valueMore    = "more"    // items that were handled again
	valueSeconds = "seconds" // the length of an idle measurement
)

// Options are the sizes of a run.
type Options struct {
	Items   int     // of a throughput load
	Depth   int     // of the deep queue
	Slots   int     // handlers at once
	Rates   []int   // of the open loop, items a second
	Seconds float64 // of the open loop and of idleness
}

const (
	submitters = 100 // single submits at once, end to end, the same for all systems
	warmUp     = 200 // items that pass before a pickup is measured
)

// Run is one load on one system.
type Run struct {
	Options
	Case   Case
	Queue  measure.Queue
	ready  func() error
	values Values
	tally  *measure.Tally
	stop   func() error // the worker
}

// loads are all of them, in their order.
var loads = []load{
	// Many items at once; nobody works.
	{"bulk", func(o Options) []Case { return []Case{{"Bulk submit", 0, 2 * o.Items}} }, func(ctx context.Context, r *Run) error {
		return r.rate(func() error { return r.bulk(ctx, r.Case.Items) })
	}},
	// Items one by one; nobody works.
	{"single", func(o Options) []Case {
		return []Case{{"Single submits, 1 client", 1, max(1, o.Items/10)}, {"Single submits, 32 clients", 32, o.Items}}
	}, func(ctx context.Context, r *Run) error {
		return r.rate(func() error { return measure.Single(ctx, r.Queue, 0, r.Case.Items, r.Case.N) })
	}},
	// Items one by one, by many clients, while the worker works: from the first submit until
	// the last item is recorded as done. Its costs cover the whole life of an item.
	{"endtoend", func(o Options) []Case { return []Case{{"End to end", submitters, o.Items}} }, func(ctx context.Context, r *Run) error {
		if err := r.work(ctx, r.saw); err != nil {
			return err
		}
		return r.rate(func() error { return r.through(ctx) })
	}},
	// A backlog: from the start of the worker until the last item is recorded as done.
	{"burndown", func(o Options) []Case { return []Case{{"Burn-down of a backlog", 0, 2 * o.Items}} }, func(ctx context.Context, r *Run) error {
		if err := r.bulk(ctx, r.Case.Items); err != nil {
			return err
		}
		return r.rate(func() error {
			if err := r.work(ctx, r.saw); err != nil {
				return err
			}
			return measure.Drain(ctx, r.Queue, r.tally)
		})
	}},
	{"pickup", func(o Options) (cases []Case) {
		for _, rate := range o.Rates {
			cases = append(cases, Case{"Pickup at " + measure.Figure(float64(rate)) + "/s", rate, max(1, int(float64(rate)*o.Seconds))})
		}
		return cases
	}, pickup},
	// A worker is connected, with nothing to do: the CPU is read from outside. An item passes
	// first, so that all is connected.
	{"idle", func(Options) []Case { return []Case{{"Idle", 1, 1}} }, func(ctx context.Context, r *Run) error {
		if err := r.work(ctx, r.saw); err != nil {
			return err
		}
		if err := r.through(ctx); err != nil {
			return err
		}
		if err := r.ready(); err != nil {
			return err
		}
		start := time.Now()
		err := sleep.For(ctx, time.Duration(r.Seconds*float64(time.Second)))
		r.values[valueSeconds] = time.Since(start).Seconds()
		return err
	}},
	// A queue is filled to its depth, and then worked on: how fast it was filled, how fast the
	// first items come out of it, and the memory that it takes. Order differs between systems:
	// any items will do.
	{"depth", func(o Options) []Case { return []Case{{"Depth", 0, min(o.Items, o.Depth)}} }, func(ctx context.Context, r *Run) error {
		start := time.Now()
		if err := r.bulk(ctx, r.Depth); err != nil {
			return err
		}
		r.values[valueFill] = measure.PerSecond(r.Depth, start)
		return r.rate(func() error {
			if err := r.work(ctx, func(measure.Payload) { r.tally.Count() }); err != nil {
				return err
			}
			return r.tally.Wait(ctx)
		})
	}},
}

// pickup submits at a fixed rate, and measures the time from when an item was to be
// submitted to the first line of its handler. A few items pass before, so that connections,
// plans and caches are there. Their numbers lie beyond those of the case.
func pickup(ctx context.Context, r *Run) error {
	warm := measure.NewTally(warmUp)
	err := r.work(ctx, func(p measure.Payload) {
		if p.Seq >= r.Case.Items {
			warm.Saw(p.Seq - r.Case.Items)
		} else {
			r.saw(p)
		}
	})
	if err != nil {
		return err
	}
	if err := measure.Single(ctx, r.Queue, r.Case.Items, warmUp, 1); err != nil {
		return err
	}
	if err := warm.Wait(ctx); err != nil {
		return err
	}
	if err := r.ready(); err != nil {
		return err
	}
	if err := measure.OpenLoop(ctx, r.Queue, r.tally, r.Case.N, true); err != nil {
		return err
	}
	late := r.tally.Late()
	r.values[valueP50], r.values[valueP99], r.values[valueMax] = measure.Quantile(late, 0.5), measure.Quantile(late, 0.99), measure.Quantile(late, 1)
	r.values[valueMore] = r.tally.More()
	return nil
}

// rate measures how many of the case's items a second pass while do runs.
func (r *Run) rate(do func() error) error {
	if err := r.ready(); err != nil {
		return err
	}
	start := time.Now()
	err := do()
	r.values[valueRate], r.values[valueMore] = measure.PerSecond(r.Case.Items, start), r.tally.More()
	return err
}

func (r *Run) bulk(ctx context.Context, n int) error {
	return measure.Bulk(ctx, r.Queue, 0, n, measure.BulkCallers)
}

// through submits the items, and waits until the worker has done them.
func (r *Run) through(ctx context.Context) error {
	if err := measure.Single(ctx, r.Queue, 0, r.Case.Items, r.Case.N); err != nil {
		return err
	}
	return measure.Drain(ctx, r.Queue, r.tally)
}

func (r *Run) saw(p measure.Payload) { r.tally.Saw(p.Seq) }

// work starts the worker.
func (r *Run) work(ctx context.Context, handle func(measure.Payload)) error {
	stop, err := r.Queue.Work(ctx, handle)
	if err == nil {
		r.stop = stop
	}
	return err
}

// loadsNamed returns those that names means, all for none.
func loadsNamed(names string) ([]load, error) {
	return pick(names, loads, func(l load, name string) bool { return l.name == name })
}
