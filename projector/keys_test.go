package projector

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/projector/internal/layout"
)

// sample is an item with something in every field by which it is indexed.
func sample(state events.ItemState) *events.Item {
	at := func(s int) time.Time { return time.Date(2026, 5, 6, 7, 8, s, 9, time.UTC) }
	return &events.Item{
		ID: events.ID{1, 2, 3, 15: 4}, Type: "email", State: state, Priority: 7, Attempt: 2, Worker: "w1", DedupKey: "d", Capabilities: []string{"gpu", "eu"},
		Tenant: "t", Labels: map[string]string{"a": "1", "b": "2", "c": ""}, Provenance: events.Provenance{Source: events.SourceSchedule, Trigger: "nightly"},
		MergedInto: events.ID{9}, IntakeSeq: 12, CreatedAt: at(0), QueuedAt: at(1), OrderAt: at(2), AvailableAt: at(3), StartBy: at(5), Deadline: at(7), FinishedAt: at(8),
		Error: "e", Code: "c", CreatedSeq: 5, Seq: 8, Group: "g", ExpiresAt: at(9), Estimate: time.Minute, Cause: "abc",
		Relations: &events.Relations{Parent: events.ID{7}, Spawn: 1, Waits: []events.ID{{8}, {9}}, Policy: events.AfterRun, Awaited: 2},
	}
}

// Each index has an item exactly when it should.
func TestIndexesOfEachState(t *testing.T) {
	const list, ready, timer, worker, intake, child, follow, dead = 'l', 'q', 't', 'w', 'n', 'c', 'u', 'z'
	base := []byte{list, intake, child}
	want := map[events.ItemState][]byte{
		events.StateQueued:    {list, ready, timer, intake, timer, child},
		events.StateClaimed:   {list, timer, worker, intake, timer, child},
		events.StateRunning:   {list, timer, worker, intake, child},
		events.StateWaiting:   {list, intake, timer, child},
		events.StateCompleted: {list, intake, child, follow},
		events.StateDead:      {list, intake, child, follow, dead},
		events.StateCancelled: {list, intake, child, follow},
		events.StateMerged:    {list, intake, child, follow},
	}
	var set indexSet
	for s := events.StateCreated; s < events.NumStates; s++ {
		it := sample(s)
		if it.Attempt = 0; s == events.StateClaimed {
			it.Attempt = 1 // not started yet, so that it can expire
		}
		r := *it.Relations
		r.Spawns = 0
		it.Relations = &r
		set.fill(it)
		var got []byte
		for _, e := range set.entries {
			if e.key != nil {
				got = append(got, e.key[0])
				if d := layout.DescribeKey(e.key); strings.Contains(d, "no known kind") {
					t.Errorf("%s: %s", s, d)
				}
			}
		}
		w := want[s]
		if w == nil {
			w = base
		}
		if !bytes.Equal(got, w) {
			t.Errorf("a %s item is in the indexes %q, want %q", s, got, w)
		}
	}
	bare := &events.Item{ID: events.ID{1}, Type: "email", State: events.StateQueued}
	set.fill(bare)
	if set.entries[1].key == nil || set.entries[1].value != nil || set.entries[2].key != nil || set.entries[4].key != nil {
		t.Errorf("an item that is available at once, not from the intake: %q", set.entries)
	}
	if set.fill(nil); slices.ContainsFunc(set.entries[:], func(e indexEntry) bool { return e.key != nil }) {
		t.Error("no item has entries")
	}
}

// Applying the differences between versions of an item leaves the entries of
// the last version, and never sets a key that is there.
func TestIndexDifferences(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		store := map[string]string{}
		del := func(k []byte) {
			if _, ok := store[string(k)]; !ok {
				t.Fatalf("deletes %s, which is not there", layout.DescribeKey(k))
			}
			delete(store, string(k))
		}
		set := func(k, v []byte) {
			if _, ok := store[string(k)]; ok {
				t.Fatalf("sets %s twice", layout.DescribeKey(k))
			}
			store[string(k)] = string(v)
		}
		var old, now indexSet
		var o ops
		var prev *events.Item
		for i := range rapid.IntRange(1, 12).Draw(t, "versions") {
			it := sample(events.ItemState(rapid.IntRange(1, events.NumStates-1).Draw(t, "state")))
			it.Seq = events.Seq(i/2 + 1) // now and then the same
			it.Priority = events.Priority(rapid.IntRange(0, 1).Draw(t, "priority"))
			it.Worker = events.WorkerID(rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "worker"))
			it.Relations = &events.Relations{}
			for _, of := range rapid.SliceOfNDistinct(rapid.ByteRange(1, 4), 0, 3, rapid.ID[byte]).Draw(t, "waits") {
				it.Relations.Waits = append(it.Relations.Waits, events.ID{of})
			}
			it.AvailableAt = rapid.SampledFrom([]time.Time{{}, it.AvailableAt, it.QueuedAt}).Draw(t, "available")
			it.ExpiresAt = rapid.SampledFrom([]time.Time{{}, it.AvailableAt, it.QueuedAt, it.StartBy}).Draw(t, "expires")
			it.Labels = rapid.SampledFrom([]map[string]string{nil, {"a": "1"}, {"a": "1", "b": "1"}, {"a": "2"}}).Draw(t, "labels")
			it.Error = rapid.SampledFrom([]string{"", "one two", "two three two", "code"}).Draw(t, "error")
			it.Code = rapid.SampledFrom([]string{"", "code_one"}).Draw(t, "code")
			it.DedupKey = rapid.SampledFrom([]string{"", "code"}).Draw(t, "dedup")
			old.fill(prev)
			now.fill(it)
			diffIndexes(&old, &now, &o)
			o.each(del, set)
			o.reset()
			want := map[string]string{}
			for _, e := range now.entries {
				if e.key != nil {
					want[string(e.key)] = string(e.value)
				}
			}
			for _, key := range now.terms {
				want[string(key)] = ""
			}
			for _, of := range now.waits {
				want[string(append(layout.IDKey(layout.PrefixWaiter, of), it.ID[:]...))] = ""
			}
			if !reflect.DeepEqual(store, want) {
				t.Fatalf("have %q, want %q", store, want)
			}
			prev = it
		}
	})
}
