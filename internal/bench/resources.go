package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/internal/measure"
	"github.com/streamwright/streamwright/internal/sleep"
	"github.com/streamwright/streamwright/workers"
)

// measureMemory measures the memory of a large backlog, and its effect on an urgent item.
func (r *rig) measureMemory(ctx context.Context) error {
	alone, err := r.urgent(ctx, "pickup of an urgent item, no backlog", "alone")
	if err != nil {
		return err
	}
	backlog := r.queue("backlog", 0)
	backlog.Edit = func(seq int, it *streamwright.Item) {
		if r.DedupKeys {
			it.DedupKey = fmt.Sprintf("key-%d", seq)
		}
	}
	if _, err := r.timed(fmt.Sprintf("bulk, a backlog of %d", r.Backlog), r.Backlog, func() error { return r.bulk(ctx, backlog, 0, r.Backlog) }); err != nil {
		return err
	}
	debug.FreeOSMemory() // after a collection
	r.t.row("resident with the backlog", measure.Self(measure.SelfResident)/(1<<20), "MiB")
	behind, err := r.urgent(ctx, "pickup of an urgent item behind the backlog", "other")
	if err != nil {
		return err
	}
	r.t.row("pickup behind the backlog, p50, of that without it", behind/alone, "×")
	return nil
}

// urgent measures the pickup of 200 urgent items, a hundred a second, and returns the median.
func (r *rig) urgent(ctx context.Context, what, typ string) (p50 float64, err error) {
	q := r.queue(typ, 16)
	q.Edit = func(_ int, it *streamwright.Item) { it.Priority = 9 }
	return r.late(ctx, what, q, 200, func(ctx context.Context, t *measure.Tally) error {
		return measure.OpenLoop(ctx, q, t, 100, false)
	})
}

// measureIdle counts what 100 workers send and are sent that have nothing to do.
func (r *rig) measureIdle(ctx context.Context) (err error) {
	// settleFor is the time in which workers that register together learn how many they are,
	// and so how seldom they need to be heard of.
	const settleFor = 90 * time.Second
	var list []*measure.Worker
	defer func() {
		for _, w := range list {
			err = errors.Join(err, w.Stop())
		}
	}()
	for range 100 {
		w, err := measure.StartWorker(ctx, r.dial, workers.Config{Concurrency: 4}, func(context.Context, *workers.RawItem) (any, error) { return nil, nil }, "idle")
		if err != nil {
			return err
		}
		list = append(list, w)
	}
	if err := sleep.For(ctx, min(settleFor, r.IdleFor)); err != nil {
		return err
	}
	messages := func() (n uint64) {
		for _, w := range list {
			s := w.Conn.Stats()
			n += s.InMsgs + s.OutMsgs
		}
		return n
	}
	before, began := messages(), time.Now()
	if err := sleep.For(ctx, r.IdleFor); err != nil {
		return err
	}
	r.t.row("messages of 100 idle workers", measure.PerSecond(int(messages()-before), began), "a second")
	return nil
}

// measureDisk measures the bytes in the data folder for each ended item, with an engine and a
// folder of its own. It is stopped first, so that nothing is left in memory.
func (r *rig) measureDisk(ctx context.Context) error {
	if r.Nodes > 1 {
		return nil // each node's folder is as one alone
	}
	alone, err := r.alone(ctx, "disk")
	if err == nil {
		alone.Items = min(r.Items, 50_000)
		q := alone.queue("disk", r.slots)
		_, err = alone.workOff(ctx, "", q, func() error { return alone.bulk(ctx, q, 0, alone.Items) })
	}
	if err = errors.Join(err, alone.stop()); err != nil {
		return err
	}
	log, store, err := alone.disk()
	r.t.row("disk an item until pruned, log", log, "bytes")
	r.t.row("disk an item until pruned, store", store, "bytes")
	r.t.row("disk an item until pruned, log and store", log+store, "bytes")
	return err
}

// alone starts an engine with a folder of its own, which writes no figures. It is to be stopped
// also when the start fails.
func (r *rig) alone(ctx context.Context, name string) (*rig, error) {
	alone := &rig{Options: r.Options, d: r.d, slots: r.slots, t: &table{w: io.Discard}, dir: filepath.Join(r.dir, name)}
	return alone, alone.start(ctx)
}

// disk returns the bytes in the data folder for each item, of a rig that has been stopped.
func (r *rig) disk() (log, store float64, err error) {
	err = filepath.WalkDir(r.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		path = filepath.ToSlash(path)
		switch bytes := float64(info.Size()) / float64(r.Items); {
		case strings.Contains(path, "/streams/WORK_EVENTS_"):
			log += bytes
		case strings.Contains(path, "/store/"):
			store += bytes
		}
		return nil
	})
	return log, store, err
}
