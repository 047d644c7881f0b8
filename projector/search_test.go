package projector

import (
	"testing"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector/internal/layout"
)

// What ends with an item is all that finds it.
func TestPrunedItemsLeaveTheTermIndex(t *testing.T) {
	live := openMem(t)
	s := newSim(t, 9, live)
	s.run(800, 20)
	for id, it := range s.items() {
		if it.State.Terminal() {
			s.do(core.Purge{ID: id})
		}
	}
	s.project()
	left := map[events.ID]bool{}
	for _, it := range s.items() {
		left[it.ID] = true
	}
	entries := 0
	err := live.lookup(func(v layout.View) error {
		return v.Scan([]byte{layout.PrefixTerm}, []byte{layout.PrefixTerm}, func(key, _ []byte) (bool, error) {
			entries++
			if id := events.ID(key[len(key)-16:]); !left[id] {
				t.Errorf("%s, which is gone", layout.DescribeKey(key))
			}
			return true, nil
		})
	})
	if err != nil || entries == 0 || len(left) == 0 {
		t.Errorf("%d entries of %d items, %v", entries, len(left), err)
	}
}
