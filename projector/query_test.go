package projector

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector/internal/layout"
	"github.com/streamwright/streamwright/projector/query"
	"github.com/streamwright/streamwright/projector/ready"
)

// Every query answers as a look at all items would.
func TestQueriesAgainstAllItems(t *testing.T) {
	slow(t)
	for _, seed := range []uint64{1, 2, 3, 4} {
		live := openMem(t)
		s := newSim(t, seed, live)
		s.run(1500, 40)
		all := s.items()
		if err := live.Flush(); err != nil { // read tables, not memtables
			t.Fatal(err)
		}
		checkItems(t, live, all)
		checkReady(t, live, all)
		checkTimers(t, live, all)
		checkHolders(t, live, all)
	}
}

func checkItems(t *testing.T, live *Store, all map[events.ID]*events.Item) {
	t.Helper()
	for id, want := range all {
		got, err := live.Item(id)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("item (%v)\n%+v\nwant\n%+v", err, got, want)
		}
		if want.IntakeSeq > 0 {
			if by, ok, err := live.ByIntake(want.IntakeSeq); by != id || !ok || err != nil {
				t.Fatalf("intake %d: %s %v %v", want.IntakeSeq, by, ok, err)
			}
		}
		full, ok, err := query.Of(live).Full(id)
		if !ok || err != nil || !json.Valid(full.Params) || (full.Result != nil) != want.HasResult || len(full.MergedProvenance) != want.MergedCount {
			t.Fatalf("full: %+v, %v, %v", full, ok, err)
		}
		if want.HasResult && want.Reason != "children" && string(full.Result) != `{"ok":  true}` {
			t.Fatalf("the result is %s", full.Result)
		}
		checkHistory(t, live, want)
	}
	if it, err := live.Item(events.ID{1}); it != nil || err != nil {
		t.Fatalf("unknown item: %v, %v", it, err)
	}
	if _, ok, err := query.Of(live).Full(events.ID{1}); ok || err != nil {
		t.Fatalf("unknown item: %v, %v", ok, err)
	}
	if h, err := query.Of(live).History(events.ID{1}); h != nil || err != nil {
		t.Fatalf("unknown item: %v, %v", h, err)
	}
	if _, ok, err := live.ByIntake(1 << 40); ok || err != nil {
		t.Fatalf("unknown message: %v, %v", ok, err)
	}
}

// checkHistory walks an item's history along the transition table.
func checkHistory(t *testing.T, live *Store, it *events.Item) {
	t.Helper()
	history, err := query.Of(live).History(it.ID)
	if err != nil {
		t.Fatal(err)
	}
	var state events.ItemState
	var last events.Seq
	for _, h := range history {
		next, ok := events.Next(state, h.Kind)
		if !ok || h.Seq <= last || h.ID != it.ID.String() || h.Type != string(it.Type) || h.At.IsZero() {
			t.Fatalf("history of %s at %s: %+v", it.ID, state, h)
		}
		if bytes.Contains(h.Data, []byte(`"params"`)) || bytes.Contains(h.Data, []byte(`"result"`)) {
			t.Fatalf("%s has a document in it: %s", h.Kind, h.Data)
		}
		state, last = next, h.Seq
	}
	if state != it.State || last > it.Seq {
		t.Fatalf("the history of %s leads to %s, the item is %s", it.ID, state, it.State)
	}
}

func checkReady(t *testing.T, live *Store, all map[events.ID]*events.Item) {
	t.Helper()
	type groupOf struct {
		q     ready.Queue
		group string
	}
	want, queued, types := map[groupOf][]ready.Entry{}, map[ready.Queue]bool{}, map[events.Type]bool{}
	for _, it := range all {
		types[it.Type] = true
		if it.State == events.StateQueued {
			q := ready.Queue{Type: it.Type, Lane: it.Lane(), Priority: it.Priority}
			queued[q] = true
			want[groupOf{q, it.Group}] = append(want[groupOf{q, it.Group}], ready.Entry{Key: ready.KeyOf(it), AvailableAt: it.AvailableAt})
		}
	}
	queues := readyQueues(t, live, slices.Collect(maps.Keys(types))...)
	if len(queues) != len(queued) {
		t.Fatalf("%d queues, want %d", len(queues), len(queued))
	}
	groups := []groupOf{}
	for _, q := range queues {
		for _, name := range readyGroups(t, live, q) {
			groups = append(groups, groupOf{q, name})
		}
	}
	if len(groups) != len(want) {
		t.Fatalf("%d groups, want %d", len(groups), len(want))
	}
	for _, g := range groups {
		q, w := g.q, want[g]
		slices.SortFunc(w, func(a, b ready.Entry) int { return a.Compare(b.Key) })
		var got []ready.Entry
		var behind ready.Key
		for {
			page, err := readyPage(live, q, g.group, behind, 3)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			got = append(got, page...)
			behind = page[len(page)-1].Key
		}
		if !reflect.DeepEqual(got, w) {
			t.Fatalf("queue %v:\n%v\nwant\n%v", q, got, w)
		}
	}
}

func checkTimers(t *testing.T, live *Store, all map[events.ID]*events.Item) {
	t.Helper()
	var want, got []TimerEntry
	for _, it := range all {
		for _, k := range TimerKeysOf(it) {
			if k != (TimerKey{}) {
				want = append(want, TimerEntry{k, it.State})
			}
		}
	}
	slices.SortFunc(want, func(a, b TimerEntry) int { return a.Compare(b.TimerKey) })
	var behind TimerKey
	for {
		page, err := live.Timers(behind, 7)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		got = append(got, page...)
		behind = page[len(page)-1].TimerKey
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("timers:\n%v\nwant\n%v", got, want)
	}
}

func checkHolders(t *testing.T, live *Store, all map[events.ID]*events.Item) {
	t.Helper()
	for state := events.StateCreated; state < events.NumStates; state++ {
		n := 0
		err := live.InState(state, func(it *events.Item) error {
			if n++; !reflect.DeepEqual(it, all[it.ID]) || it.State != state {
				t.Fatalf("in state %s: %+v", state, it)
			}
			return nil
		})
		want := 0
		for _, it := range all {
			if it.State == state {
				want++
			}
		}
		if n != want || err != nil {
			t.Fatalf("%d in state %s, want %d (%v)", n, state, want, err)
		}
	}
	for _, w := range []events.WorkerID{"w0", "w1", "w2", "w3", "w"} {
		got, err := heldBy(live, w)
		var want []*events.Item
		for _, it := range all {
			if it.Worker == w && (it.State == events.StateClaimed || it.State == events.StateRunning) {
				want = append(want, it)
			}
		}
		slices.SortFunc(want, func(a, b *events.Item) int { return bytes.Compare(a.ID[:], b.ID[:]) })
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("held by %s: %v (%v), want %v", w, got, err, want)
		}
	}
}

// heldBy are the items that the index says a worker holds, in order of id.
func heldBy(s *Store, w events.WorkerID) (held []*events.Item, err error) {
	prefix := layout.AppendWorkerPrefix(nil, w)
	err = s.Snapshot(func(v layout.View) error {
		return v.Scan(prefix, prefix, func(key, _ []byte) (bool, error) {
			it, err := v.Indexed(key, len(prefix))
			held = append(held, it)
			return true, err
		})
	})
	return held, err
}

// A key exists until its time has come, for lookups and digests alike, and is
// removed from disk some time later.
func TestKeysExpire(t *testing.T) {
	live := openMem(t)
	s := newSim(t, 1, live)
	id := s.submit(core.Submit{Type: "email", IdempotencyKey: "once", DedupKey: "one"})
	s.project()
	once := events.KeyRef{Kind: events.KeyIdempotency, Type: "email", Key: "once"}
	one := events.KeyRef{Kind: events.KeyDedup, Type: "email", Key: "one"}
	if h, has, err := live.Key(once); !has || h.ID != id || h.Ref != once || err != nil {
		t.Fatalf("%+v %v %v", h, has, err)
	}
	const keys = PurgePerCommit + 100
	for i := range keys {
		s.submit(core.Submit{Type: "email", IdempotencyKey: "k" + strings.Repeat("x", i%7) + events.Seq(i).String()})
	}
	s.project()
	s.now = s.now.Add(events.IdempotencyWindow)
	later := s.submit(core.Submit{Type: "email"})
	s.project()
	if h, has, err := live.Key(once); has || err != nil {
		t.Fatalf("expired, and still there: %+v, %v", h, err)
	}
	if h, has, err := live.Key(one); !has || h.ID != id || err != nil {
		t.Fatalf("a key that does not expire: %+v %v %v", h, has, err)
	}
	if n := expiringOnDisk(t, live); n != keys+1-PurgePerCommit {
		t.Fatalf("%d expired keys on disk", n)
	}
	same(t, live, replayed(t, s.log, s.log.last()))
	s.submit(core.Submit{Type: "email", IdempotencyKey: "once"})
	s.do(core.Cancel{ID: later})
	s.project()
	if n := expiringOnDisk(t, live); n != 1 {
		t.Fatalf("%d expiring keys on disk", n)
	}
	if _, has, err := live.Key(once); !has || err != nil {
		t.Fatalf("a key held anew: %v, %v", has, err)
	}
	same(t, live, replayed(t, s.log, s.log.last()))
}

func expiringOnDisk(t *testing.T, s *Store) (n int) {
	t.Helper()
	err := s.Snapshot(func(v layout.View) error {
		return v.Expiries(layout.ClockEvents, layout.NoTime, func(events.HeldKey, []byte) (bool, error) {
			n++
			return true, nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestOptions(t *testing.T) {
	err := Options{CacheBytes: 1, MemTableBytes: 5, FlushEvents: -1, FlushEvery: -1}.Validate()
	for _, name := range []string{"CacheBytes", "MemTableBytes", "FlushEvents", "FlushEvery"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not complained about: %v", name, err)
		}
	}
	if _, err := Open(t.TempDir(), Options{FlushEvents: -1}); err == nil {
		t.Error("bad options were accepted")
	}
}

// An item is found from the moment that it is committed, whatever its id is,
// also in a store that has been opened anew.
func TestItemsWithAnyID(t *testing.T) {
	dir := t.TempDir()
	live, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := newSim(t, 1, live)
	now := s.newID()
	ids := []events.ID{now, {15: 1}, {0: 0x7f, 15: 1}, {0: 0x10}, {0: 0x7f, 15: 2}}
	for i, id := range ids {
		if it, err := live.Item(id); it != nil || err != nil {
			t.Fatalf("%s is there already: %v", id, err)
		}
		s.submit(core.Submit{Type: "email", ID: id})
		s.project()
		if i == 2 {
			if err := live.Close(); err != nil {
				t.Fatal(err)
			}
			if live, err = Open(dir, Options{}); err != nil {
				t.Fatal(err)
			}
			s.store = live
			s.restate(live)
		}
		for _, id := range ids[:i+1] {
			if it, err := live.Item(id); it == nil || err != nil {
				t.Fatalf("%s is not there: %v", id, err)
			}
		}
	}
	if err := live.Close(); err != nil {
		t.Fatal(err)
	}
}
