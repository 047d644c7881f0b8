package readyq

import "github.com/tidwall/btree"

// Sizes of a window: it is refilled by pages when it is empty, and cut to half when it
// would exceed its bound.
const (
	WindowMax  = 2048
	WindowPage = 512
)

// Window holds the first part of an ordered index in memory: every key of the index up to
// its horizon, or all of it when complete. Keys after the horizon are left to the index, so
// a window's size is bounded whatever the index holds.
type Window[K any] struct {
	less     func(a, b K) bool
	set      *btree.BTreeG[K]
	Horizon  K
	complete bool
	most     int // most keys in memory: WindowMax, or less
}

// NewWindow returns a window with nothing in memory: its first use pages the index in from
// the zero key.
func NewWindow[K any](less func(a, b K) bool) *Window[K] {
	return &Window[K]{less: less, set: btree.NewBTreeGOptions(less, btree.Options{NoLocks: true, Degree: 16}), most: WindowMax}
}

// Insert adds a key that the index has (or is about to have). A key after the horizon is
// left to the index.
func (w *Window[K]) Insert(k K) {
	if !w.complete && w.less(w.Horizon, k) {
		return
	}
	w.set.Set(k)
	if w.set.Len() > w.most {
		w.cut()
	}
}

// cut drops the last keys and moves the horizon back to what is left.
func (w *Window[K]) cut() {
	for w.set.Len() > w.most/2 {
		w.set.PopMax()
	}
	w.Horizon, _ = w.set.Max()
	w.complete = false
}

// Page takes in the next keys of the index: those after the horizon that are wanted, up to
// and including last. end says that the index has none after last.
func (w *Window[K]) Page(keys []K, last K, end bool) {
	for _, k := range keys {
		w.set.Set(k)
	}
	w.Horizon, w.complete = last, end
}

func (w *Window[K]) Remove(k K) { w.set.Delete(k) }

func (w *Window[K]) Min() (K, bool) { return w.set.Min() }

// WantsPage reports whether the index must be read to know the first key.
func (w *Window[K]) WantsPage() bool { return !w.complete && w.set.Len() == 0 }

// Len returns how many keys are in memory.
func (w *Window[K]) Len() int { return w.set.Len() }
