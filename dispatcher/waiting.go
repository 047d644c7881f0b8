package dispatcher

import (
	"github.com/streamwright/streamwright/dispatcher/readyq"
)

// waiting are the dispatches that nobody has claimed and that can be taken back:
// those of native workers can't. Owned by the loop.
type waiting struct {
	list []*dispatched
	// floor is at most the lowest rank of the list, so that most often one
	// comparison says that nothing gives way. It is exact after a scan.
	floor readyq.Rank
}

func (w *waiting) add(d *dispatched) {
	if len(w.list) == 0 || d.rank < w.floor {
		w.floor = d.rank
	}
	w.list = append(w.list, d)
	d.place = len(w.list)
}

// remove takes a dispatch out, if it is in.
func (w *waiting) remove(d *dispatched) {
	if d.place == 0 {
		return
	}
	last := len(w.list) - 1
	moved := w.list[last]
	w.list[d.place-1], moved.place = moved, d.place
	w.list[last] = nil
	w.list, d.place = w.list[:last], 0
}

// mayHave reports whether something of a rank below may be among them.
func (w *waiting) mayHave(below readyq.Rank) bool { return len(w.list) > 0 && w.floor < below }

// first returns the one that goes before all others by less, among those that
// match, nil for none. match is asked only about what would be the first.
func (w *waiting) first(less func(a, b *dispatched) bool, match func(*dispatched) (bool, error)) (first *dispatched, err error) {
	for i, d := range w.list {
		if i == 0 || d.rank < w.floor {
			w.floor = d.rank
		}
		if first != nil && !less(d, first) {
			continue
		}
		ok, err := match(d)
		if err != nil {
			return nil, err
		}
		if ok {
			first = d
		}
	}
	return first, nil
}
