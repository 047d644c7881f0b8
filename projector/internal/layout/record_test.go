package layout

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
)

// sample is an item with something in every field.
func sample(state events.ItemState) *events.Item {
	at := func(s int) time.Time { return time.Date(2026, 5, 6, 7, 8, s, 9, time.UTC) }
	return &events.Item{
		ID: events.ID{1, 2, 3, 15: 4}, Type: "email", State: state, Priority: 7, Attempt: 2, MaxAttempts: 3,
		Timeout: time.Minute, Worker: "w1", Token: 99, DedupKey: "d", IdempotencyKey: "i",
		Capabilities: []string{"gpu", "eu"}, Tenant: "t", Labels: map[string]string{"a": "1", "b": "2", "c": ""},
		Provenance: events.Provenance{Source: "s", Trigger: "tr"}, SubmittedBy: "ada", Trace: "00-1", Digest: "abc",
		MergedInto: events.ID{9}, MergedCount: 4, IntakeSeq: 12, MsgID: "m",
		CreatedAt: at(0), QueuedAt: at(1), OrderAt: at(2), AvailableAt: at(3), ClaimedAt: at(4), StartBy: at(5),
		StartedAt: at(6), Deadline: at(7), FinishedAt: at(8),
		Error: "e", Code: "c", Retryable: true, Reason: "r", HasResult: true, CreatedSeq: 5, BaseSeq: 7, Seq: 8, PrunedSeq: 9,
		Group: "g", DedupWindow: time.Hour, HoldsKey: true, ExpiresAt: at(9), WaitsFrom: at(11), Estimate: time.Minute, OwnAttempts: true, OwnTimeout: true, AttemptsBefore: 1, LeasesLost: 1, Spared: 1, Probe: true, HasCheckpoint: true,
		Progress: events.Progress{Percent: 40, Message: "half", At: at(10)}, Cause: "abc",
		Relations: &events.Relations{Parent: events.ID{7}, Spawn: 1, Waits: []events.ID{{8}, {9}}, Policy: events.AfterRun, Awaited: 2},
		Signals: &events.Signals{Last: 3, Unread: 2, Bytes: 70, Asked: 1, Wait: &events.Wait{
			WaitTerms: events.WaitTerms{Names: []string{"a", "b"}, All: true, Until: at(12), Delayed: true, Then: events.WaitComplete, Result: []byte(`{"late":true}`)},
			Since:     at(5), Ended: events.WaitSignalled, Taken: []int{2, 3},
			Ask: &events.Asked{Number: 1, Title: "Pay?", Choices: []events.Choice{events.ChoiceApprove}, Who: events.Answerers{Users: []string{"ada"}}, RemindEvery: events.Millis(1000), RemindAt: at(13), Reminded: 1, RemindMost: 2},
		}},
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
		data := AppendItem(nil, it)
		got, err := DecodeItem(it.ID, data)
		if err != nil || !reflect.DeepEqual(got, it) {
			t.Fatalf("read back (%v):\n%+v\nwant\n%+v", err, got, it)
		}
		for range 20 { // maps are walked in random order
			if !bytes.Equal(AppendItem(nil, it), data) {
				t.Fatal("the same item gives different bytes")
			}
		}
	}
}

func TestDamagedRecords(t *testing.T) {
	data := AppendItem(nil, sample(events.StateQueued))
	for n := range data {
		if it, err := DecodeItem(events.ID{}, data[:n]); err == nil {
			t.Fatalf("%d of %d bytes were read as %+v", n, len(data), it)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		bad := bytes.Clone(data)
		for range 1 + rng.IntN(3) {
			bad[rng.IntN(len(bad))] = byte(rng.UintN(256))
		}
		_, _ = DecodeItem(events.ID{}, bad) // whatever it says, it must not panic
	}
	newer := bytes.Clone(data)
	newer[0] = RecordVersion + 1
	if _, err := DecodeItem(events.ID{}, newer); err == nil || !strings.Contains(err.Error(), "newer program") {
		t.Fatalf("a newer record: %v", err)
	}
}

func BenchmarkItemRecord(b *testing.B) {
	it := sample(events.StateRunning)
	data := AppendItem(nil, it)
	b.Run("encode", func(b *testing.B) {
		b.ReportMetric(float64(len(data)), "bytes")
		for b.Loop() {
			data = AppendItem(data[:0], it)
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := DecodeItem(it.ID, data); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("json", func(b *testing.B) {
		for b.Loop() {
			if _, err := json.Marshal(it); err != nil {
				b.Fatal(err)
			}
		}
	})
}
