package bench

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/internal/measure"
	"github.com/streamwright/streamwright/internal/sleep"
)

// urgentItems is the number of urgent items of each part of measureMemory. They are the
// first numbers; those of the backlog come after them.
const urgentItems = 200

// measureMemory is (f): the memory of a large backlog, and its effect on an
// urgent item.
func (r *rig) measureMemory(ctx context.Context) error {
	alone, err := r.urgent(ctx, "(f) urgent item with an empty queue", "alone", 0)
	if err != nil {
		return err
	}
	before := settled()
	backlog := r.urgentQueue("backlog")
	if _, err := r.timed(fmt.Sprintf("(f) bulk submit of the backlog of %d", r.o.Backlog), r.o.Backlog, func() error {
		return measure.Bulk(ctx, backlog, urgentItems, r.o.Backlog, measure.BulkCallers)
	}); err != nil {
		return err
	}
	peak := measure.SelfResident()
	r.t.row("(f) resident before the backlog", before, "MiB", 0)
	r.t.row("(f) resident at the end of the submits", peak, "MiB", 0)
	r.t.row("(f) resident behind the backlog, settled", settled(), "MiB", 0)
	behind, err := r.urgent(ctx, "(f) urgent item of another type, empty slots", "other", 0)
	if err != nil {
		return err
	}
	r.t.row("(f) urgent item behind the backlog, of without it, p50", float64(behind)/float64(alone), "×", 0)
	_, err = r.urgent(ctx, "(f) urgent item of the same type, 16 slots of 5 ms work", "backlog", 5*time.Millisecond)
	return err
}

// settled returns the resident memory after a collection, in MiB.
func settled() float64 {
	runtime.GC()
	debug.FreeOSMemory()
	return measure.SelfResident()
}

// urgentQueue returns a queue of 16 slots whose first items are of the highest priority.
func (r *rig) urgentQueue(typ string) *measure.Streamwright {
	q := r.queue(typ)
	q.Slots = 16
	q.Edit = func(seq int, it *streamwright.Item) {
		switch {
		case seq < urgentItems:
			it.Priority = streamwright.Priority(9)
		case r.o.DedupKeys:
			it.DedupKey = fmt.Sprintf("key-%d", seq)
		}
	}
	return q
}

// busy is a queue whose handlers take a time for each item that is not urgent.
type busy struct {
	measure.Queue
	work time.Duration
}

// Work implements [measure.Queue].
func (b busy) Work(ctx context.Context, handle func(measure.Payload)) (func() error, error) {
	return b.Queue.Work(ctx, func(p measure.Payload) {
		if p.Seq < urgentItems {
			handle(p)
		} else {
			time.Sleep(b.work)
		}
	})
}

// urgent measures the pickup of urgent items, a hundred a second, and returns the median.
func (r *rig) urgent(ctx context.Context, what, typ string, work time.Duration) (time.Duration, error) {
	q := busy{r.urgentQueue(typ), work}
	return r.late(ctx, what, q, urgentItems, func(ctx context.Context, t *measure.Tally) error {
		return measure.OpenLoop(ctx, q, t, 100, false)
	})
}

const (
	// idleWorkers is how many workers measureIdle starts.
	idleWorkers = 100
	// settleFor is the time in which workers that register together learn how many they are,
	// and so how seldom they need to be heard of.
	settleFor = 90 * time.Second
)

// measureIdle counts what 100 workers send and are sent that have nothing to do, and what
// crosses the server meanwhile.
func (r *rig) measureIdle(ctx context.Context) (err error) {
	list := make([]*measure.Worker, 0, idleWorkers)
	defer func() {
		for _, w := range list {
			err = errors.Join(err, w.Stop())
		}
	}()
	q := r.queue("idle")
	q.Slots = 4
	for range idleWorkers {
		w, err := q.Worker(ctx, counted(measure.NewTally(0)))
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
			s := w.Conn.Stats()
			n += s.InMsgs + s.OutMsgs
		}
		return n
	}
	in0, out0 := r.eng.Traffic()
	n0, cpu, began := of(), measure.SelfCPU(), time.Now()
	if err := sleep.For(ctx, r.o.IdleFor); err != nil {
		return err
	}
	secs := time.Since(began).Seconds()
	in1, out1 := r.eng.Traffic()
	r.t.row("idle, 100 workers: messages of the workers", float64(of()-n0)/secs, "per s", 0)
	r.t.row("idle, 100 workers: messages to the server", float64(in1-in0)/secs, "per s", 0)
	r.t.row("idle, 100 workers: messages from the server", float64(out1-out0)/secs, "per s", 0)
	r.t.row("idle, 100 workers: CPU", 100*(measure.SelfCPU()-cpu).Seconds()/secs, "% of a core", 0)
	return nil
}

// diskItems is the most items by which measureDisk measures.
const diskItems = 50_000

// measureDisk is (i): the bytes in the data folder for each ended item, with an engine and a
// folder of its own. It is stopped first, so that nothing is left in memory.
func (r *rig) measureDisk(ctx context.Context) error {
	if r.o.Nodes > 1 {
		return nil // each node's folder is as one alone
	}
	items, dir := min(r.o.Items, diskItems), filepath.Join(r.dir, "disk")
	alone, err := startRig(ctx, r.o, r.d, nil, dir)
	if err != nil {
		return err
	}
	if err := errors.Join(alone.workOff(ctx, items), alone.stop()); err != nil {
		return err
	}
	sum := 0.0
	for _, part := range []struct{ what, glob string }{
		{"log", filepath.Join(dir, nodeName(0), "jetstream", "*", "streams", "WORK_EVENTS_*")},
		{"store", filepath.Join(dir, nodeName(0), "store")},
		{"the whole data folder", dir},
	} {
		found, err := filepath.Glob(part.glob)
		if err != nil || len(found) == 0 {
			return errors.Join(err, errors.New("there is nothing at "+part.glob))
		}
		bytes := 0.0
		for _, f := range found {
			n, err := bytesIn(f)
			if err != nil {
				return err
			}
			bytes += float64(n) / float64(items)
		}
		r.t.row("(i) disk an item, "+part.what, bytes, "bytes", 0)
		if sum += bytes; part.what == "store" {
			r.t.row("(i) disk an item, log and store", sum, "bytes", 0)
		}
	}
	return nil
}

// workOff submits items while a worker runs, and waits until all are completed.
func (r *rig) workOff(ctx context.Context, items int) error {
	q, t := r.queue("disk"), measure.NewTally(items)
	w, err := q.Worker(ctx, counted(t))
	if err != nil {
		return err
	}
	return errors.Join(through(ctx, q, q, t, items), w.Stop())
}

// bytesIn returns the size of all files in a folder.
func bytesIn(dir string) (sum int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	return sum, err
}
