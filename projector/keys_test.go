package projector

import (
	"bytes"
	"cmp"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/projector/internal/layout"
)

func TestTextKeepsItsOrderAndEndsItself(t *testing.T) {
	text := rapid.Custom(func(t *rapid.T) string {
		return string(rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 2, 'a', 'b', 0xfe, 0xff}), 0, 6).Draw(t, "bytes"))
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := text.Draw(t, "a"), text.Draw(t, "b")
		ka, kb := layout.AppendText(nil, a), layout.AppendText(nil, b)
		if bytes.Compare(ka, kb) != cmp.Compare(a, b) {
			t.Fatalf("%q and %q change their order", a, b)
		}
		r := layout.KeyReader{B: append(ka, kb...)}
		if x, y := r.Text(), r.Text(); x != a || y != b || r.Err != nil || len(r.B) > 0 {
			t.Fatalf("%q %q became %q %q, %v", a, b, x, y, r.Err)
		}
	})
}

func TestTimeKeepsItsOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Int64().Draw(t, "a"), rapid.Int64().Draw(t, "b")
		if bytes.Compare(layout.AppendNanos(nil, a), layout.AppendNanos(nil, b)) != cmp.Compare(a, b) {
			t.Fatalf("%d and %d change their order", a, b)
		}
		r := layout.KeyReader{B: layout.AppendTime(nil, layout.FromNanos(a))}
		if r.Nanos() != a {
			t.Fatalf("%d is not read back", a)
		}
	})
	if !layout.FromNanos(layout.Nanos(time.Time{})).IsZero() {
		t.Fatal("the zero time is not read back")
	}
}

func TestAfter(t *testing.T) {
	for _, c := range []struct{ prefix, want string }{{"a", "b"}, {"a\xff", "b"}, {"\xff\xff", ""}, {"", ""}, {"a\x00", "a\x01"}} {
		if got := layout.After([]byte(c.prefix)); string(got) != c.want {
			t.Errorf("after %q comes %q, want %q", c.prefix, got, c.want)
		}
	}
}

// sample is an item with something in every field.
func sample(state events.ItemState) *events.Item {
	at := func(s int) time.Time { return time.Date(2026, 5, 6, 7, 8, s, 9, time.UTC) }
	return &events.Item{
		ID: events.ID{1, 2, 3, 15: 4}, Type: "email", State: state, Priority: 7, Attempt: 2, MaxAttempts: 3,
		Timeout: time.Minute, Worker: "w1", Token: 99, DedupKey: "d", IdempotencyKey: "i",
		Capabilities: []string{"gpu", "eu"}, Tenant: "t", Labels: map[string]string{"a": "1", "b": "2", "c": ""},
		Provenance: events.Provenance{Source: "s", Trigger: "tr"}, Trace: "00-1", Digest: "abc",
		MergedInto: events.ID{9}, MergedCount: 4, IntakeSeq: 12, MsgID: "m",
		CreatedAt: at(0), QueuedAt: at(1), OrderAt: at(2), AvailableAt: at(3), ClaimedAt: at(4), StartBy: at(5),
		StartedAt: at(6), Deadline: at(7), FinishedAt: at(8),
		Error: "e", Code: "c", Retryable: true, Reason: "r", HasResult: true, CreatedSeq: 5, BaseSeq: 7, Seq: 8, PrunedSeq: 9,
		Group: "g", DedupWindow: time.Hour, HoldsKey: true, ExpiresAt: at(9), WaitsFrom: at(11), Estimate: time.Minute, OwnAttempts: true, OwnTimeout: true, AttemptsBefore: 1, LeasesLost: 1, Spared: 1, Probe: true, HasCheckpoint: true,
		Progress: events.Progress{Percent: 40, Message: "half", At: at(10)}, Cause: "abc",
		Relations: &events.Relations{Parent: events.ID{7}, Spawn: 1, Waits: []events.ID{{8}, {9}}, Policy: events.AfterRun, Awaited: 2},
	}
}

func TestItemRecordHoldsEveryField(t *testing.T) {
	full := sample(events.StateRunning)
	v := reflect.ValueOf(*full)
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Fatalf("the sample lacks %s: add it here and to the record (with a new version)", v.Type().Field(i).Name)
		}
	}
	for _, it := range []*events.Item{full, {ID: full.ID}, {ID: full.ID, CreatedAt: full.CreatedAt, FinishedAt: full.CreatedAt.Add(-time.Hour)}} {
		data := layout.AppendItem(nil, it)
		got, err := layout.DecodeItem(it.ID, data)
		if err != nil || !reflect.DeepEqual(got, it) {
			t.Fatalf("read back (%v):\n%+v\nwant\n%+v", err, got, it)
		}
		for range 20 { // maps are walked in random order
			if !bytes.Equal(layout.AppendItem(nil, it), data) {
				t.Fatal("the same item gives different bytes")
			}
		}
	}
}

func TestDamagedRecords(t *testing.T) {
	data := layout.AppendItem(nil, sample(events.StateQueued))
	for n := range data {
		if it, err := layout.DecodeItem(events.ID{}, data[:n]); err == nil {
			t.Fatalf("%d of %d bytes were read as %+v", n, len(data), it)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		bad := bytes.Clone(data)
		for range 1 + rng.IntN(3) {
			bad[rng.IntN(len(bad))] = byte(rng.UintN(256))
		}
		_, _ = layout.DecodeItem(events.ID{}, bad) // whatever it says, it must not panic
	}
	newer := bytes.Clone(data)
	newer[0] = layout.RecordVersion + 1
	if _, err := layout.DecodeItem(events.ID{}, newer); err == nil || !strings.Contains(err.Error(), "newer program") {
		t.Fatalf("a newer record: %v", err)
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

func TestEveryKeyHasADescription(t *testing.T) {
	id := events.ID{7}
	ref := events.KeyRef{Kind: events.KeyDedup, Type: "email", Key: "k\x00"}
	keys := map[string][]byte{
		"the partition's record":                                            layout.MetaKey(layout.MetaState),
		"the last event's checksum":                                         layout.MetaKey(layout.MetaChecksum),
		"the log's identity":                                                layout.MetaKey(layout.MetaIdentity),
		"type email":                                                        layout.AppendTypeKey(nil, "email"),
		"item " + id.String():                                               layout.IDKey(layout.PrefixItem, id),
		"params of item " + id.String():                                     layout.IDKey(layout.PrefixParams, id),
		"result of item " + id.String():                                     layout.IDKey(layout.PrefixResult, id),
		"event 3 in the history of item " + id.String():                     layout.AppendSeqKey(nil, layout.PrefixHistory, id, 3),
		"submission merged into item " + id.String() + " by event 3":        layout.AppendSeqKey(nil, layout.PrefixMerged, id, 3),
		`dedup key "k\x00" of type email`:                                   layout.AppendHeldKey(nil, ref),
		`expiry at 1970-01-01T00:00:01Z of dedup key "k\x00" of type email`: layout.AppendExpiryKey(nil, time.Unix(1, 0), ref),
		"intake message 9":                                                  layout.AppendIntakeKey(nil, 9),
		"rejected submission of event 9":                                    layout.AppendRejectedKey(nil, 9),
		"what intake message 9 became":                                      layout.AppendAnswerKey(nil, 9),
		"the book of rejected submissions":                                  layout.MetaKey(layout.MetaRejected),
		"item " + id.String() + ` among those with label region="eu\x00", event 4`:      layout.AppendListPlace(layout.AppendTerm(nil, layout.TermLabel, "eu\x00", "region"), layout.ListPlace{Seq: 4, ID: id}),
		"item " + id.String() + ` among those with the word "refused", event 4`:         layout.AppendListPlace(layout.AppendTerm(nil, layout.TermWord, "refused"), layout.ListPlace{Seq: 4, ID: id}),
		"item " + id.String() + " among those with parent " + id.String() + ", event 4": layout.AppendListPlace(layout.AppendTerm(nil, layout.TermParent, string(id[:])), layout.ListPlace{Seq: 4, ID: id}),
		"item " + id.String() + ` among those with schedule "nightly", event 4`:         layout.AppendListPlace(layout.AppendTerm(nil, layout.TermSchedule, "nightly"), layout.ListPlace{Seq: 4, ID: id}),
		"item " + id.String() + ` among those that are dead of cause "c"`:               layout.AppendDeadKey(nil, &events.Item{ID: id, Cause: "c"}),
	}
	for want, key := range keys {
		if got := layout.DescribeKey(key); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	for _, key := range []string{"", "x", "i123", "m", "mz", "l"} {
		if got := layout.DescribeKey([]byte(key)); !strings.Contains(got, "key") {
			t.Errorf("%q: %s", key, got)
		}
	}
}
