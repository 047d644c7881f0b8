package layout

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/streamwright/streamwright/events"
)

// A history leaves out what is kept beside the item.
func TestHistoryHasNoDocuments(t *testing.T) {
	for _, body := range []events.Body{
		&events.Queued{Reason: "continuation", Outcomes: []byte(`["secret"]`)}, &events.Checkpointed{Checkpoint: []byte(`"secret"`)},
		&events.Created{Params: []byte(`"secret"`)}, &events.Completed{Result: []byte(`"secret"`)},
	} {
		data, err := AppendHistory(nil, &events.Event{Kind: events.KindQueued, At: time.Unix(1, 0), Body: body})
		if err != nil || len(data) == 0 || bytes.Contains(data, []byte("secret")) {
			t.Errorf("%T: %s, %v", body, data, err)
		}
	}
}

func TestHeldKeysAreReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := events.HeldKey{Ref: events.KeyRef{Kind: events.KeyIdempotency, Type: "email", Key: "k"}, ID: events.ID{rapid.Byte().Draw(t, "id")},
			N: rapid.Int64().Draw(t, "n"), Digest: rapid.StringN(0, 9, -1).Draw(t, "digest")}
		if rapid.Bool().Draw(t, "ends") {
			h.Until = time.Unix(0, rapid.Int64Min(NoTime+1).Draw(t, "until")).UTC()
		}
		data := AppendHeld(nil, h)
		if got, err := DecodeHeld(h.Ref, data); err != nil || got != h {
			t.Fatalf("%+v, %v, want %+v", got, err, h)
		}
		if _, err := DecodeHeld(h.Ref, data[:31]); !errors.Is(err, ErrRecord) {
			t.Fatalf("a part of it is read: %v", err)
		}
	})
}

// An event is read back from a history, its documents left out.
func TestHistoryIsReadBack(t *testing.T) {
	id, at := events.ID{1, 2}, time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	for _, ev := range []events.Event{
		{Kind: events.KindQueued, Body: &events.Queued{Reason: "released", AvailableAt: at.Add(time.Hour)}},
		{Kind: events.KindFailed, Attempt: 2, Worker: "w", Body: &events.Failed{Error: "broken", Code: "io"}},
		{Kind: events.KindReplayed, Body: &events.Replayed{Params: []byte(`1`)}},
		{Kind: events.KindReplayed, Body: &events.Replayed{}},
	} {
		ev.At, ev.ID, ev.Type, ev.Seq = at, id, "email", 7
		record, err := AppendHistory(nil, new(ev))
		if err != nil {
			t.Fatal(err)
		}
		h, err := DecodeHistory(id, "email", 7, record)
		if err != nil || h.Seq != 7 || h.ID != id.String() || h.Type != "email" || h.Kind != ev.Kind || !h.At.Equal(at) || h.Attempt != int(ev.Attempt) || h.Worker != string(ev.Worker) {
			t.Errorf("%s: %+v, %v", ev.Kind, h, err)
		}
		r, is := ev.Body.(*events.Replayed)
		if got := ReplacesParams(h.Data); got != (is && r.Params != nil) {
			t.Errorf("%s: it replaces params: %v", h.Data, got)
		}
		if is {
			continue
		}
		if body, err := events.DecodeBody(h.Kind, h.Data); err != nil || !reflect.DeepEqual(body, ev.Body) {
			t.Errorf("%s: %+v, %v", ev.Kind, body, err)
		}
	}
	for _, bad := range []string{"", "\xff\xff", "{"} {
		if h, err := DecodeHistory(id, "email", 7, []byte(bad)); !errors.Is(err, ErrRecord) {
			t.Errorf("%q is read as %+v, %v", bad, h, err)
		}
	}
}

func TestNumbers(t *testing.T) {
	if n, err := DecodeUint(AppendUint(nil, 1<<40+7)); n != 1<<40+7 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if id, err := DecodeID([]byte("0123456789abcdef")); id != events.ID([]byte("0123456789abcdef")) || err != nil {
		t.Errorf("%s, %v", id, err)
	}
	for n := range 20 {
		if _, err := DecodeUint(make([]byte, n)); (err == nil) != (n == 8) {
			t.Errorf("a number of %d bytes: %v", n, err)
		}
		if _, err := DecodeID(make([]byte, n)); (err == nil) != (n == 16) {
			t.Errorf("an id of %d bytes: %v", n, err)
		}
	}
}

// Programs from before there were levels read the record of level 1, and no other.
func TestMetaIsReadBack(t *testing.T) {
	for _, level := range []int{0, 1, 2, 9} {
		m := events.Meta{Applied: 7, Events: 3, Epoch: 2, Level: level}
		data, err := json.Marshal(StoredMeta(m))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := DecodeMeta(data); err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%s: %+v, %v", data, got, err)
		}
		var old events.Meta
		if err := json.Unmarshal(data, &old); (err == nil) != (level <= 1) {
			t.Errorf("level %d: a program without levels reads %s: %v", level, data, err)
		}
	}
	for _, bad := range []string{"", "[", "[2]", `[2,{"level":1}]`, `[2,{}]`, "7"} {
		if m, err := DecodeMeta([]byte(bad)); !errors.Is(err, ErrRecord) {
			t.Errorf("%s is read as %+v, %v", bad, m, err)
		}
	}
}

func TestWholeTo(t *testing.T) {
	m := events.Meta{SetBackAt: 9, SetBackTo: time.Unix(100, 0)}
	if WholeTo(m, time.Unix(99, 0)) != 0 || WholeTo(m, m.SetBackTo) != 9 || WholeTo(events.Meta{}, time.Unix(1, 0)) != 0 {
		t.Error("the events before a clock was set back are not of its past")
	}
}

func TestRejectedIsReadBack(t *testing.T) {
	rec := RejectedRecord{Type: "email", At: time.Unix(1, 0).UTC(), Size: 9, Body: &events.Rejected{Code: "bad_params", Message: "no"}}
	data, err := json.Marshal(rec)
	if err != nil {
		t.Fatal(err)
	}
	if seq, got, err := DecodeRejected(AppendRejectedKey(nil, 5), data); seq != 5 || !reflect.DeepEqual(got, rec) || err != nil {
		t.Errorf("event %d: %+v, %v", seq, got, err)
	}
	answer, err := json.Marshal(AnswerRecord{Seq: 3, Of: events.ID{4}})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := DecodeAnswer(AppendAnswerKey(nil, 6), answer); got != (events.KeptAnswer{Intake: 6, Seq: 3, Of: events.ID{4}}) || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	for _, key := range [][]byte{{PrefixRejected}, AppendRejectedKey(nil, 5)} {
		if _, _, err := DecodeRejected(key, []byte("{")); !errors.Is(err, ErrRecord) {
			t.Errorf("%q: %v", key, err)
		}
		if _, err := DecodeAnswer(key, []byte("{")); !errors.Is(err, ErrRecord) {
			t.Errorf("%q: %v", key, err)
		}
	}
}
