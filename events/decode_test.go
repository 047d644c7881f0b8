package events

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events/quickjson/quicktest"
)

// codecEvents are events of every kind that has a payload, empty and full.
func codecEvents() []Event {
	at := time.Date(2025, 1, 2, 3, 4, 5, 678900000, time.UTC)
	id := ID{1, 2, 3, 15: 9}
	until := at.Add(time.Hour)
	bodies := []Body{
		&Created{Params: json.RawMessage(`null`)},
		&Created{Params: json.RawMessage(`{"a": [1, {"b":"}\"]"}], "c" : "ü<>&"}`), Priority: 9, MaxAttempts: 3, Timeout: Millis(300000),
			DedupKey: "a<b>&c", IdempotencyKey: "i", IdempotencyUntil: until, AvailableAt: until,
			Capabilities: []string{"gpu", "x,y]"}, Tenant: "té", Labels: map[string]string{"k": "v}", "a": "<"},
			Provenance: Provenance{Source: "s", Trigger: "t\n"}, Trace: "00-1", Digest: "d", Intake: Intake{Seq: 7, MsgID: "m", MsgIDUntil: until}},
		&Created{Params: json.RawMessage(`"text"`), Intake: Intake{Seq: 1 << 62}, Tenant: `quote " and \ `},
		&Merged{Into: id, Reason: "dedup"},
		&Queued{Reason: "submitted", OrderAt: at}, &Queued{Reason: "re\x00try", OrderAt: at, AvailableAt: until},
		&Claimed{Token: NewToken(3, 99), StartBy: until},
		&Running{}, &Running{Deadline: until},
		&Completed{Duration: Millis(12)}, &Completed{Duration: Millis(-1), Result: json.RawMessage(`[true, {"x":1e9}]`)},
		&Failed{Error: "line\nline", Code: "error", Retryable: true, Duration: Millis(5)},
		&Dead{Reason: "exhausted", Attempts: 3, Error: "e", Code: "c"},
		&Cancelled{Reason: "cancelled", WasRunning: true},
		&Released{Reason: "released"},
		&Rescheduled{Priority: 1, OrderAt: at, AvailableAt: until},
		&Replayed{Priority: 7, MaxAttempts: 5, OrderAt: at, Reason: "r"}, &Replayed{OrderAt: at, Params: json.RawMessage(`{"a":1}`)},
		&CauseNoted{Cause: "abc", Why: CauseNew, Count: 1, Window: 1, Reason: "exhausted", Error: "e", Example: id},
		&RejectedPurged{Seq: 7, Reason: "purged"}, &TypeForgotten{Reason: ReasonIdle},
		&Rejected{Code: "bad_params", Message: "m", Headers: map[string][]string{"A": {"b"}}, Bytes: []byte{0, 255}, Size: 2, Intake: Intake{Seq: 3}},
		&Owned{Epoch: 4, Owner: "o", Version: "v", Barrier: true},
		&TypeConfigured{Source: "file", Settings: DefaultTypeSettings()},
		&Queued{Reason: "continuation", OrderAt: at, Outcomes: json.RawMessage(`[{"id":"x","result":{"a":[1]}}]`)},
		&Waiting{Reason: "defer", For: []ID{id}, Behind: id, Left: 1}, &Waiting{Reason: "after", Ended: id},
		&Spawned{Spawn: 1, Children: []ID{id, id}, Existing: []ID{id}, Continues: true, Continuation: "gather", ChildPolicy: ChildContinue, Duration: Millis(9)},
		&Snoozed{AvailableAt: until, Reason: "later"}, &Progressed{Percent: 50, Message: "half"},
		&Checkpointed{Checkpoint: json.RawMessage(`{"at":1}`)},
		&Cancelled{Reason: "superseded", By: id}, &Dead{Reason: "child_dead", By: id},
	}
	var evs []Event
	for i, b := range bodies {
		e := Event{Kind: b.Kind(), ID: id, Type: "email-x", At: at, Body: b}
		if i%2 == 0 {
			e.Attempt, e.Worker, e.At = 2, "worker-1.a", at.Truncate(time.Second)
		}
		evs = append(evs, e)
	}
	return append(evs,
		Event{Kind: KindOwned, At: at, Body: &Owned{Epoch: 1}},
		Event{Kind: KindPruned, ID: id, Type: "email", At: at, Body: &Pruned{Reason: "retention"}})
}

// TestOwnFormIsDecodedTheQuickWay keeps the quick way from falling out of use
// by a change of the encoding.
func TestOwnFormIsDecodedTheQuickWay(t *testing.T) {
	for _, e := range codecEvents() {
		data, err := e.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		general, err := decodeAny(data)
		if err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		if own, ok := new(Decoder).quick(data); ok && !reflect.DeepEqual(own, general) {
			t.Errorf("%s:\nquick   %+v\ngeneral %+v", data, own, general)
		} else if !ok && e.Body != nil {
			t.Errorf("not decoded the quick way: %s", data)
		}
		again, err := general.AppendJSON(nil)
		if err != nil || !bytes.Equal(again, data) {
			t.Errorf("encoded again: %v\n%s\n%s", err, data, again)
		}
	}
}

// TestMutatedEventsDecodeAlike changes events at random: what the quick way
// accepts, the general way reads the same.
func TestMutatedEventsDecodeAlike(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	evs := codecEvents()
	accepted := 0
	for range 40_000 {
		data, err := evs[r.IntN(len(evs))].AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 1 + r.IntN(2) {
			data = quicktest.Damage(r, data)
		}
		if alike(t, data) {
			accepted++
		}
	}
	if accepted < 200 {
		t.Errorf("only %d mutations were accepted at all", accepted)
	}
}

// alike fails if the quick way reads data otherwise than the general way.
func alike(t *testing.T, data []byte) bool {
	own, ok := new(Decoder).quick(data)
	if !ok {
		return false
	}
	general, err := decodeAny(data)
	if err != nil {
		t.Fatalf("the quick way accepts %q, the general way: %v", data, err)
	}
	if !reflect.DeepEqual(own, general) {
		t.Fatalf("%q:\nquick   %+v\ngeneral %+v", data, own, general)
	}
	return true
}

func FuzzDecodeEvent(f *testing.F) {
	for _, e := range codecEvents() {
		data, err := e.AppendJSON(nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) { alike(t, data) })
}

// TestMaxJSONIsABound: a frame has room for what was counted so.
func TestMaxJSONIsABound(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	evs := codecEvents()
	for k := range Kind(NumKinds) {
		for range 200 {
			e := Event{Kind: k, ID: ID{1}, Type: "email", At: time.Date(2026, 1, 2, 3, 4, 5, 678900001, time.UTC), Attempt: 1 << 62, Worker: "worker-1", Body: newBody(k)}
			if e.Body != nil {
				quicktest.Fill(r, e.Body)
			}
			evs = append(evs, e)
		}
	}
	written := 0
	for _, e := range evs {
		if data, err := e.AppendJSON(nil); err == nil {
			if written++; len(data) > e.MaxJSON() {
				t.Errorf("%d bytes, more than %d: %s", len(data), e.MaxJSON(), data)
			}
		}
	}
	if written < len(evs)/2 {
		t.Errorf("only %d of %d events could be written", written, len(evs))
	}
	usual := Event{Kind: KindQueued, ID: ID{1}, Type: "email", At: evs[0].At, Body: &Queued{Reason: "submitted", OrderAt: evs[0].At}}
	if n := usual.MaxJSON(); n > 400 {
		t.Errorf("a usual event counts %d bytes", n)
	}
}
