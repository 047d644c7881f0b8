package core

import (
	"time"

	"github.com/streamwright/streamwright/events"
)

// goldenRetention lives through a round of snapshots, and prunes items.
func goldenRetention(w *world) {
	w.now = w.now.Add(time.Hour)
	w.do(BeginCut{})
	var ids []events.ID
	pruned := map[events.ID]bool{}
	for _, ev := range w.log {
		if ev.Kind == events.KindCreated {
			ids = append(ids, ev.ID)
		}
	}
	for i, id := range ids {
		it, err := w.s.Item(id)
		if err != nil {
			w.t.Fatal(err)
		}
		if why, _, err := w.s.Prunable(it, w.now); err == nil && why == "" && i%2 == 0 {
			w.do(Prune{ID: id})
			pruned[id] = true
		}
	}
	for _, id := range ids {
		if !pruned[id] {
			history, merged := w.known(id)
			w.do(Carry{ID: id, History: history, Merged: merged})
		}
	}
	w.do(EndCut{})
}

// known is what a projection of the log so far holds beside an item.
func (w *world) known(id events.ID) ([]events.StoredEvent, []events.MergedEntry) {
	base := newMapBase()
	s := w.reader(base)
	for _, ev := range w.log {
		if err := s.Apply(ev); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := base.write(s.TakeChanges()); err != nil {
		w.t.Fatal(err)
	}
	return base.history[id], base.mergedInto(id)
}
