package table

import (
	"github.com/streamwright/streamwright/dispatcher/readyq"
)

// Waiting holds the unclaimed dispatches that can be taken back; those of native workers
// can't.
type Waiting struct {
	list []*Dispatch
	// floor is no higher than the lowest rank in the list, so that most often one
	// comparison shows that nothing gives way. It is exact after a scan.
	floor readyq.Rank
}

func (w *Waiting) add(d *Dispatch) {
	if len(w.list) == 0 || d.Rank < w.floor {
		w.floor = d.Rank
	}
	w.list = append(w.list, d)
	d.place = len(w.list)
}

// remove removes a dispatch, if it is in the list.
func (w *Waiting) remove(d *Dispatch) {
	if d.place == 0 {
		return
	}
	last := len(w.list) - 1
	moved := w.list[last]
	w.list[d.place-1], moved.place = moved, d.place
	w.list[last] = nil
	w.list, d.place = w.list[:last], 0
}

// Len returns how many there are.
func (w *Waiting) Len() int { return len(w.list) }

// MayHave reports whether the list may have a dispatch of a rank lower than below.
func (w *Waiting) MayHave(below readyq.Rank) bool { return len(w.list) > 0 && w.floor < below }

// First returns the first dispatch by less among those that match, nil for none. match is
// called only for dispatches that would be the first.
func (w *Waiting) First(less func(a, b *Dispatch) bool, match func(*Dispatch) (bool, error)) (first *Dispatch, err error) {
	for i, d := range w.list {
		if i == 0 || d.Rank < w.floor {
			w.floor = d.Rank
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
