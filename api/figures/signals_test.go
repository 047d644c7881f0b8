package figures

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// What waits for each signal is counted exactly, through changes, loads and what changes in the
// midst of them; the oldest within the Precision.
func TestAwaited(t *testing.T) {
	for seed := range uint64(30) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		f, now := newRig(), start
		var items []*events.Item
		seq := events.Seq(0)
		change := func() {
			now = now.Add(time.Duration(rnd.Int64N(int64(time.Minute))))
			seq++
			c := &core.Changes{Meta: events.Meta{Applied: seq, LastAt: now}}
			for range rnd.IntN(8) {
				if n := len(items); n > 0 && rnd.IntN(3) == 0 {
					i := rnd.IntN(n)
					gone := *items[i]
					gone.State = events.StateQueued
					c.Items = append(c.Items, core.ItemChange{Old: items[i], New: &gone})
					items = slices.Delete(items, i, i+1)
					continue
				}
				names := []string{"paid", "sent", "approved"}[:1+rnd.IntN(3)]
				it := &events.Item{Type: "order", State: events.StateWaiting, Signals: &events.Signals{Wait: &events.Wait{WaitTerms: events.WaitTerms{Names: names}, Since: now}}}
				items = append(items, it)
				c.Items = append(c.Items, core.ItemChange{Old: &events.Item{Type: "order", State: events.StateRunning}, New: it})
			}
			f.Feed(c)
		}
		load := func() {
			if err := f.LoadAwaited(now, func(begin func(events.Seq), count func(*events.Item) error) error {
				begin(seq)
				seen := slices.Clone(items)
				for i, it := range seen {
					if i == len(seen)/2 {
						change()
						change()
					}
					if err := count(it); err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		change()
		if got := f.Awaited(now); got != nil {
			t.Fatalf("before the first load: %+v", got)
		}
		load()
		for range 200 {
			if change(); rnd.IntN(20) == 0 {
				load()
			}
			got := map[string]Awaited{}
			for _, w := range f.Awaited(now) {
				got[w.Signal] = w
			}
			for _, name := range []string{"paid", "sent", "approved"} {
				n, oldest := int64(0), time.Duration(0)
				for _, it := range items {
					if slices.Contains(it.Wait().Names, name) {
						n, oldest = n+1, max(oldest, now.Sub(it.Wait().Since))
					}
				}
				// In the midst of a load, up to two minutes pass.
				w, slack := got[name], Resolution+max(oldest, 2*time.Minute)/Precision*2
				if w.Items != n || w.Oldest < oldest-slack || w.Oldest > oldest+slack {
					t.Fatalf("seed %d: %s: %+v, want %d, %s", seed, name, w, n, oldest)
				}
			}
		}
	}
}

// However many names there are, so many are counted apart, and none is lost.
func TestAwaitedNamesAreBounded(t *testing.T) {
	f := newRig()
	if err := f.LoadAwaited(start, func(begin func(events.Seq), _ func(*events.Item) error) error { begin(1); return nil }); err != nil {
		t.Fatal(err)
	}
	const n = 2 * MaxAwaited
	waiting := func(i int) *events.Item {
		return &events.Item{Type: "order", State: events.StateWaiting, Signals: &events.Signals{Wait: &events.Wait{WaitTerms: events.WaitTerms{Names: []string{fmt.Sprint(i)}}, Since: start}}}
	}
	come, gone := &core.Changes{Meta: events.Meta{Applied: 2, LastAt: start}}, &core.Changes{Meta: events.Meta{Applied: 3, LastAt: start}}
	for i := range n {
		it := waiting(i)
		come.Items, gone.Items = append(come.Items, core.ItemChange{New: it}), append(gone.Items, core.ItemChange{Old: it})
	}
	f.Feed(come)
	count := func() (all int64) {
		list := f.Awaited(start)
		if len(list) != MaxAwaited+1 {
			t.Fatalf("%d are counted apart", len(list))
		}
		for _, w := range list {
			all += w.Items
		}
		return all
	}
	if got := count(); got != n {
		t.Errorf("%d wait, want %d", got, n)
	}
	f.Feed(gone)
	if got := count(); got != 0 {
		t.Errorf("%d wait, though none does", got)
	}
}
