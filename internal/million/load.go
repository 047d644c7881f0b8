package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/measure"
	"github.com/streamwright/streamwright/internal/sleep"
	"github.com/streamwright/streamwright/workers"
)

const (
	loadSlots  = 500
	loadReport = 50_000 // items between two lines about the progress
	// eventsOfItem is the number of events of an item that completes at once:
	// created, queued, claimed, running, completed.
	eventsOfItem = 5
	driveWorkers = 4
	driveSlots   = 64
	driveReport  = 10 * time.Second
	driveRun     = 100 * time.Millisecond
)

// queue connects to the engine as one that submits the items of a function.
func (o options) queue(ctx context.Context, item func(i int) streamwright.Item) (*measure.Streamwright, error) {
	c, err := streamwright.Connect(ctx, o.server)
	return &measure.Streamwright{Client: c, Edit: func(seq int, it *streamwright.Item) { *it = item(seq) }}, err
}

// worker starts a worker that does what run does with an item, and then what its params say.
func (o options) worker(ctx context.Context, id string, slots int, run func(context.Context, work) error, types ...string) (*measure.Worker, error) {
	dial := func() (*nats.Conn, error) { return nats.Connect(o.server, nats.Name("million-"+id)) }
	handle := func(ctx context.Context, it *workers.RawItem) (any, error) {
		var w work
		if err := json.Unmarshal(it.Raw, &w); err != nil {
			return nil, workers.Permanent(err)
		}
		if err := run(ctx, w); err != nil || w.Fail == 0 {
			return nil, err
		}
		return nil, fail(w)
	}
	return measure.StartWorker(ctx, dial, workers.Config{ID: events.WorkerID(id), Concurrency: slots}, handle, types...)
}

// load submits the items, and works on them, until nothing is left to do.
func load(ctx context.Context, o options, out io.Writer) error {
	q, err := o.queue(ctx, item)
	if err != nil {
		return err
	}
	defer q.Client.Close()
	n := 0
	for i := range o.items {
		if it := item(i); it.Delay == 0 && slices.Contains(served, it.Type) {
			n++
		}
	}
	tally := measure.NewTally(n)
	w, err := o.worker(ctx, "loader", loadSlots, func(context.Context, work) error { tally.Count(); return nil }, served...)
	if err != nil {
		return err
	}
	start := time.Now()
	for from := 0; from < o.items && err == nil; from += loadReport {
		n := min(loadReport, o.items-from)
		err = measure.Bulk(ctx, q, from, n, measure.BulkCallers)
		fmt.Fprintf(out, "%d submitted in %v\n", from+n, time.Since(start).Round(time.Second))
	}
	if err == nil {
		err = tally.Wait(ctx)
	}
	fmt.Fprintf(out, "%d items in %v\n", o.items, time.Since(start).Round(time.Second))
	return errors.Join(err, w.Stop())
}

// drive keeps the engine at so many events a second: items with labels that run
// for a tenth of a second each, on four workers; one in fifty fails and dies.
func drive(ctx context.Context, o options, out io.Writer) (err error) {
	alive := context.WithoutCancel(ctx) // the workers end what they have begun
	if o.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.duration)
		defer cancel()
	}
	var submitted atomic.Int64
	var tally atomic.Pointer[measure.Tally]
	q, err := o.queue(alive, func(i int) streamwright.Item { return ticked(i, int(submitted.Add(1))) })
	if err != nil {
		return err
	}
	defer q.Client.Close()
	run := func(ctx context.Context, w work) error {
		tally.Load().Saw(w.N)
		return sleep.For(ctx, driveRun)
	}
	for i := range driveWorkers {
		w, e := o.worker(alive, fmt.Sprintf("driven-%d", i+1), driveSlots, run, "tick")
		if e != nil {
			return e
		}
		defer func() { err = errors.Join(err, w.Stop()) }()
	}
	start, rate := time.Now(), o.rate/eventsOfItem
	for err == nil {
		t := measure.NewTally(rate * int(driveReport.Seconds()))
		tally.Store(t)
		err = measure.OpenLoop(ctx, q, t, rate, true)
		n, took := submitted.Load(), time.Since(start)
		fmt.Fprintf(out, "%d items in %v, about %.0f events a second\n", n, took.Round(time.Second), float64(n*eventsOfItem)/took.Seconds())
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}
