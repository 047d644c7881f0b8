package core

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
)

// crowd is a base with many completed items, and no end to its ids.
type crowd struct{ *mapBase }

func (c crowd) Item(id events.ID) (*events.Item, error) {
	return &events.Item{ID: id, Type: "email", State: events.StateCompleted}, nil
}

func crowdID(n int) events.ID {
	var id events.ID
	binary.BigEndian.PutUint64(id[8:], uint64(n)+1)
	return id
}

func TestRefusedCommandsDoNotFillMemory(t *testing.T) {
	s, err := NewState(crowd{newMapBase()})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 2 * CacheItems {
		if _, err := Decide(s, Cancel{ID: crowdID(n)}, time.Unix(1, 0)); !errors.Is(err, &events.Error{Code: events.CodeWrongState}) {
			t.Fatal(err)
		}
	}
	if items, _ := s.InMemory(); items > CacheItems+1 {
		t.Fatalf("%d items in memory, the bound is %d", items, CacheItems)
	}
}

func TestWhatIsProjectedLeavesMemory(t *testing.T) {
	w := newWorld(t)
	base := newMapBase()
	w.s, _ = NewState(base)
	doc := []byte(`"` + strings.Repeat("x", 64<<10) + `"`)
	for n := range 2 * CacheBytes / len(doc) {
		w.submit(Submit{Params: doc, IdempotencyKey: time.Duration(n).String()})
	}
	if _, bytes := w.s.InMemory(); bytes < 3*CacheBytes/2 {
		t.Fatalf("only %d bytes in memory before anything is projected", bytes)
	}
	first := w.log[1].ID
	if err := base.write(w.s.TakeChanges()); err != nil {
		t.Fatal(err)
	}
	w.s.Projected(w.s.Meta().Applied)
	if _, bytes := w.s.InMemory(); bytes > CacheBytes {
		t.Fatalf("%d bytes in memory, the bound is %d", bytes, CacheBytes)
	}
	if n := len(w.s.keys.m); n != 0 {
		t.Fatalf("%d keys in memory", n)
	}
	w.state(first, events.StateQueued)
	if p, err := w.s.Params(first); err != nil || len(p) != len(doc) {
		t.Fatalf("params of an evicted item: %d bytes, %v", len(p), err)
	}
}

// Whatever has happened to an item, its params can be read.
func TestParamsOfWhatIsNotProjected(t *testing.T) {
	w := newWorld(t)
	id := w.submit(Submit{Params: []byte("17")})
	w.do(Complete{Run: w.claim(id, 1)})
	if p, err := w.s.Params(id); err != nil || string(p) != "17" {
		t.Fatalf("%q, %v", p, err)
	}
}

func TestTimeDoesNotGoBack(t *testing.T) {
	w := newWorld(t)
	w.submit(Submit{IdempotencyKey: "k"})
	w.now = w.now.Add(-time.Hour)
	id := w.submit(Submit{})
	if it := w.item(id); !it.CreatedAt.Equal(w.log[0].At) {
		t.Fatalf("created at %s, after an event of %s", it.CreatedAt, w.log[0].At)
	}
}

func TestApplyRefusesWhatWasNeverDecided(t *testing.T) {
	w := newWorld(t)
	id := w.submit(Submit{})
	w.do(Own{Owner: "a"})
	next := nextFrame(w.s)
	for name, ev := range map[string]events.Event{
		"an old sequence":     {Seq: 1, Kind: events.KindCancelled, ID: id, Type: "email", Body: &events.Cancelled{}},
		"no payload":          {Seq: next, Kind: events.KindSpawned, ID: id, Type: "email"},
		"another payload":     {Seq: next, Kind: events.KindClaimed, ID: id, Type: "email", Body: &events.Cancelled{}},
		"another type":        {Seq: next, Kind: events.KindCancelled, ID: id, Type: "call", Body: &events.Cancelled{}},
		"no such item":        {Seq: next, Kind: events.KindCancelled, ID: crowdID(1), Type: "email", Body: &events.Cancelled{}},
		"created again":       {Seq: next, Kind: events.KindCreated, ID: id, Type: "email", Body: &events.Created{}},
		"an old epoch":        {Seq: next, Kind: events.KindOwned, Body: &events.Owned{}},
		"the same epoch anew": {Seq: next, Kind: events.KindOwned, Body: &events.Owned{Epoch: 1, Owner: "b"}},
	} {
		s, _ := NewState(Empty{})
		for _, ev := range w.log {
			if err := s.Apply(ev); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Apply(ev); !errors.Is(err, events.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A key that has changed since stays in memory when the older change is
// projected: the base has the older holder.
func TestAKeyChangedSinceStaysInMemory(t *testing.T) {
	w := newWorld(t)
	base := newMapBase()
	w.s, _ = NewState(base)
	first := w.submit(Submit{DedupKey: "k"})
	taken := w.s.TakeChanges()
	w.do(Cancel{ID: first})
	second := w.submit(Submit{DedupKey: "k"})
	if err := base.write(taken); err != nil {
		t.Fatal(err)
	}
	w.s.Projected(taken.Meta.Applied)
	if into := w.item(w.submit(Submit{DedupKey: "k"})).MergedInto; into != second {
		t.Fatalf("merged into %s, want %s", into, second)
	}
}

// InMemory is how many items and bytes of params the State holds.
func (s *State) InMemory() (items, bytes int) { return len(s.items), s.cacheBytes }

// A frame of an owner that was succeeded is passed over, and one before which events are
// missing is corrupt.
func TestFrame(t *testing.T) {
	w := newWorld(t)
	w.do(Own{Owner: "a"})
	w.do(Own{Owner: "b"})
	n := w.s.Meta().Events
	if n != uint64(len(w.log)) {
		t.Fatalf("%d events are counted of %d", n, len(w.log))
	}
	for name, c := range map[string]struct {
		epoch  events.Epoch
		before uint64
		counts bool
		err    error
	}{
		"the next":                          {2, n, true, nil},
		"a new owner's":                     {3, n, true, nil},
		"an earlier owner's":                {1, n, false, nil},
		"an earlier owner's, counted so":    {1, n - 1, false, nil},
		"one behind another that is lost":   {2, n + 1, false, events.ErrCorrupt},
		"one that does not know the others": {2, n - 1, false, events.ErrCorrupt},
	} {
		w.s.newest = 0 // no other case was read before
		if counts, err := w.s.Frame(9, c.epoch, c.before); counts != c.counts || !errors.Is(err, c.err) {
			t.Errorf("%s: %t, %v", name, counts, err)
		}
	}
	s, err := NewState(Empty{})
	if err != nil {
		t.Fatal(err)
	}
	if counts, err := s.Frame(9, 1, 1000); !counts || err != nil || s.Meta().Events != 1000 {
		t.Fatalf("the first of a log that was cut: %t, %v, %+v", counts, err, s.Meta())
	}
}

// The frames that are passed over are known from the cut on, however the log is read: from
// its beginning, or from the cut.
func TestStaleFramesAreKnown(t *testing.T) {
	w := newWorld(t)
	w.do(Own{Owner: "a"})
	w.do(Own{Owner: "b"})
	w.do(BeginCut{})
	begin := 2 * w.s.Meta().RoundAt.Frame()
	w.do(EndCut{})
	w.do(Own{Owner: "c"})
	// In this log each decision's frame has an even sequence. An earlier owner's is in front of
	// each from the third on.
	read := func(from uint64) events.Meta {
		s, err := NewState(Empty{})
		if err != nil {
			t.Fatal(err)
		}
		epoch := events.Epoch(2)
		for n, ev := range w.log {
			seq := 2 * ev.Seq.Frame()
			if seq < from {
				continue
			}
			if b, ok := ev.Body.(*events.Owned); ok {
				epoch = b.Epoch
			}
			if ev.Seq.Index() == 0 {
				if seq > max(from, 4) {
					if counts, err := s.Frame(seq-1, 1, 0); counts || err != nil {
						t.Fatal(seq, counts, err)
					}
				}
				if counts, err := s.Frame(seq, epoch, uint64(n)); !counts || err != nil {
					t.Fatal(seq, counts, err)
				}
			}
			ev.Seq = events.SeqOf(seq, ev.Seq.Index())
			if err := s.Apply(ev); err != nil {
				t.Fatal(err)
			}
		}
		return s.Meta()
	}
	whole, cut := read(1), read(begin)
	if want := []uint64{begin + 1, begin + 3}; !slices.Equal(whole.Stale, want) || !slices.Equal(cut.Stale, want) {
		t.Fatalf("the log gives %d, and from the cut on %d, want %d", whole.Stale, cut.Stale, want)
	}
	for seq := begin; seq < begin+6; seq++ {
		if got := whole.PassesOver(seq, 1); got != (seq != begin && seq != begin+2 && seq != begin+4) {
			t.Errorf("frame %d: %t", seq, got)
		}
	}
}
