package readyq

import (
	"fmt"
	"testing"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector/ready"
)

// countedIndex counts what is read of the index: entries, and seeks.
type countedIndex struct {
	Index
	entries, seeks int
}

func (c *countedIndex) EachReady(q ready.Queue, group string, behind ready.Key, fn func(ready.Entry) bool) error {
	c.seeks++
	return c.Index.EachReady(q, group, behind, func(e ready.Entry) bool {
		c.entries++
		return fn(e)
	})
}

func (c *countedIndex) ReadyGroups(q ready.Queue, behind string, fromStart bool, limit int) ([]ready.Group, error) {
	groups, err := c.Index.ReadyGroups(q, behind, fromStart, limit)
	c.seeks += len(groups) + 1
	return groups, err
}

// What an item costs to find is the same whether there are few groups or more
// than fit in memory, and does not grow with what is dispatched already: counted
// are the entries read, the seeks, and the items read ahead.
func TestWhatATurnCosts(t *testing.T) {
	slow(t)
	for _, c := range []struct {
		groups, each, turns   int
		entries, seeks, ahead float64 // at most, for each item taken
	}{
		{groups: 1, each: 4000, turns: 4000, entries: 1.2, seeks: 0.1, ahead: 1.2},
		{groups: 3, each: 2000, turns: 6000, entries: 1.2, seeks: 0.1, ahead: 1.2},
		{groups: 300, each: 20, turns: 3000, entries: 2.5, seeks: 0.3, ahead: 1.2},
		{groups: 1000, each: 20, turns: 6000, entries: 1.5, seeks: 0.4, ahead: 1.2},
		{groups: 5000, each: 4, turns: 5000, entries: 1.2, seeks: 1.2, ahead: 1.2},
	} {
		t.Run(fmt.Sprint(c.groups, " groups"), func(t *testing.T) {
			w := newRingWorld(t)
			var items []*events.Item
			for range c.each {
				for g := range c.groups {
					items = append(items, w.item(fmt.Sprintf("g%05d", g)))
				}
			}
			w.put(items...)
			w.open()
			index, ahead := &countedIndex{Index: w.store}, 0
			w.r.Index = index
			asked := map[events.ID]bool{}
			w.r.Prefetch = func(keys []ready.Key) error {
				ahead += len(keys)
				for _, k := range keys {
					asked[k.ID] = true
				}
				return nil
			}
			missed := 0
			for range c.turns {
				_, id, ok := w.next()
				if !ok {
					t.Fatal("nothing is left")
				}
				if !asked[id] {
					missed++
				}
			}
			per := func(n int) float64 { return float64(n) / float64(c.turns) }
			t.Logf("for each item: %.2f entries, %.2f seeks, %.2f items read ahead; %d not", per(index.entries), per(index.seeks), per(ahead), missed)
			if per(index.entries) > c.entries || per(index.seeks) > c.seeks || per(ahead) > c.ahead {
				t.Errorf("for each item: %.2f entries, %.2f seeks, %.2f items read ahead; want at most %.2f, %.2f, %.2f", per(index.entries), per(index.seeks), per(ahead), c.entries, c.seeks, c.ahead)
			}
			if missed > c.turns/50 {
				t.Errorf("%d of %d items were not read ahead", missed, c.turns)
			}
		})
	}
}

// A page reads on where the last ended, and no further than to the last key that
// it wants: so what is dispatched and still in the index is not read again.
func TestAPageDoesNotReadWhatIsDispatched(t *testing.T) {
	w := newRingWorld(t)
	var items []*events.Item
	for range 40 * WindowPage {
		items = append(items, w.item(""))
	}
	w.put(items...)
	w.open()
	index := &countedIndex{Index: w.store}
	w.r.Index = index
	for dispatched := 0; dispatched < len(items); dispatched += WindowPage {
		before := index.entries
		for range WindowPage {
			if _, _, ok := w.next(); !ok {
				t.Fatalf("nothing is left after %d", dispatched)
			}
		}
		if n := index.entries - before; n > WindowPage {
			t.Fatalf("with %d dispatched, a page of %d read %d entries", dispatched, WindowPage, n)
		}
	}
}

// While new groups come that the index does not show yet, the ring still goes
// round: those whose turn is next are not the ones that make room.
func TestARingThatOverflowsGoesOn(t *testing.T) {
	slow(t)
	w := newRingWorld(t)
	const groups = 3000
	var items []*events.Item
	for range 3 {
		for g := range groups {
			items = append(items, w.item(fmt.Sprintf("g%05d", 2*g)))
		}
	}
	w.put(items...)
	w.open()
	for g := range groups {
		w.pending = append(w.pending, core.ItemChange{New: w.item(fmt.Sprintf("g%05d", 2*g+1))})
	}
	count := map[string]int{}
	for range len(items) + groups {
		got, _, ok := w.next()
		if !ok {
			t.Fatalf("nothing is left after %d groups", len(count))
		}
		count[got]++
	}
	for g := range 2 * groups {
		if n, want := count[fmt.Sprintf("g%05d", g)], 3-2*(g%2); n != want {
			t.Fatalf("group %d had %d turns of %d", g, n, want)
		}
	}
}
