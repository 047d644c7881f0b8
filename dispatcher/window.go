package dispatcher

import "github.com/tidwall/btree"

// The sizes of a window: it is refilled by pages when it has run empty, and
// cut back to half when it would outgrow its bound.
const (
	windowMax  = 2048
	windowPage = 512
)

// window holds the first part of an ordered index in memory: every key of the
// index up to its horizon (or all of it, when complete). Keys behind the
// horizon are left to the index, so a window's size is bounded whatever the
// index holds.
type window[K any] struct {
	less     func(a, b K) bool
	set      *btree.BTreeG[K]
	horizon  K
	complete bool
	most     int // keys in memory: windowMax, or less
}

// newWindow returns a window that knows nothing yet: its first use pages the
// index in from the zero key.
func newWindow[K any](less func(a, b K) bool) *window[K] {
	return &window[K]{less: less, set: btree.NewBTreeGOptions(less, btree.Options{NoLocks: true, Degree: 16}), most: windowMax}
}

// insert adds a key that the index has (or is about to have). One behind the
// horizon is left to the index.
func (w *window[K]) insert(k K) {
	if !w.complete && w.less(w.horizon, k) {
		return
	}
	w.set.Set(k)
	if w.set.Len() > w.most {
		w.cut()
	}
}

// cut drops the last keys and moves the horizon back to what is left.
func (w *window[K]) cut() {
	for w.set.Len() > w.most/2 {
		w.set.PopMax()
	}
	w.horizon, _ = w.set.Max()
	w.complete = false
}

// page takes in the next keys of the index: those behind the horizon, up to
// and with last, of which some may not be wanted. end says that the index has
// none behind last.
func (w *window[K]) page(keys []K, last K, end bool) {
	for _, k := range keys {
		w.set.Set(k)
	}
	w.horizon, w.complete = last, end
}

func (w *window[K]) remove(k K) { w.set.Delete(k) }

func (w *window[K]) min() (K, bool) { return w.set.Min() }

// wantsPage reports whether the index must be read to know the first key.
func (w *window[K]) wantsPage() bool { return !w.complete && w.set.Len() == 0 }
