package bench

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
)

// diskItems is the most items by which measureDisk measures.
const diskItems = 50_000

// measureDisk is (i): the bytes in the data folder for each ended item, with an engine and a
// folder of its own. It is stopped first, so that nothing is left in memory.
func (r *rig) measureDisk(ctx context.Context) (err error) {
	if r.o.Nodes > 1 {
		return nil // each node's folder is as one alone
	}
	items := min(r.o.Items, diskItems)
	alone := &rig{o: r.o, d: r.d, t: &table{w: r.t.w, json: r.t.json, of: r.d}, password: r.password}
	dir := filepath.Join(r.dir, "disk")
	if err := alone.start(ctx, dir); err != nil {
		return err
	}
	err = alone.workOff(ctx, items)
	if err = errors.Join(err, alone.stop()); err != nil {
		return err
	}
	log, store, all := 0.0, 0.0, 0.0
	for _, part := range []struct {
		glob string
		sum  *float64
	}{{filepath.Join(dir, "jetstream", "*", "streams", "WORK_EVENTS_*"), &log}, {filepath.Join(dir, "store"), &store}, {dir, &all}} {
		found, err := filepath.Glob(part.glob)
		if err != nil || len(found) == 0 {
			return errors.Join(err, errors.New("there is nothing at "+part.glob))
		}
		for _, f := range found {
			n, err := bytesIn(f)
			if err != nil {
				return err
			}
			*part.sum += float64(n) / float64(items)
		}
	}
	r.t.row("(i) disk an item, log", log, "bytes", 0)
	r.t.row("(i) disk an item, store", store, "bytes", 0)
	r.t.row("(i) disk an item, log and store", log+store, "bytes", 0)
	r.t.row("(i) disk an item, the whole data folder", all, "bytes", 0)
	return nil
}

// workOff submits items while a worker runs, and waits until all are completed.
func (r *rig) workOff(ctx context.Context, items int) error {
	stop, err := r.worker(ctx, r.o.Slots, "disk", nothing)
	if err != nil {
		return err
	}
	if err := r.submitAll(ctx, "disk", items, nil); err != nil {
		return err
	}
	if _, err := r.completed(ctx, "disk", items); err != nil {
		return err
	}
	return stop()
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
