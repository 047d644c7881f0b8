package table

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"github.com/streamwright/streamwright/events"
)

// Sorted sorts dispatches by their tokens: nothing that is decided depends on the order of
// a map.
func Sorted(all []*Dispatch) []*Dispatch {
	slices.SortFunc(all, func(a, b *Dispatch) int { return cmp.Compare(a.Token, b.Token) })
	return all
}

// InOrder returns dispatches in the order of their tokens, and leaves out those that are
// removed meanwhile.
func InOrder(m map[events.Token]*Dispatch) iter.Seq[*Dispatch] {
	return func(yield func(*Dispatch) bool) {
		for _, tok := range slices.Sorted(maps.Keys(m)) {
			if d := m[tok]; d != nil && !yield(d) {
				return
			}
		}
	}
}
