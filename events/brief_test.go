package events

import (
	"encoding/json"
	"testing"
	"time"
)

// What is brief says all that the event's JSON says but the document.
func TestBriefEvents(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	full := &Created{
		Params: json.RawMessage(`{"a":"<&>"}`), Priority: 3, MaxAttempts: 4, Timeout: Millis(5), DedupKey: "d<&>\u00fc", IdempotencyKey: "i", IdempotencyUntil: at,
		AvailableAt: at, Capabilities: []string{"gpu"}, Tenant: "acme", Labels: map[string]string{"a": "b"}, Provenance: Provenance{Source: "s"},
		Trace: "t", Digest: "x", Intake: Intake{Seq: 7, MsgID: "m", MsgIDUntil: at}, SubmitOptions: &SubmitOptions{Group: "g"},
	}
	for _, body := range []Body{&Created{}, full, &Completed{Duration: Millis(9)}, &Completed{Duration: Millis(9), Result: json.RawMessage(`[1]`)}, &Running{Deadline: at}} {
		ev := Event{Kind: body.Kind(), ID: ID{1}, Type: "email", At: at, Attempt: 2, Worker: "w", Body: body}
		whole, err := ev.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		brief, err := ev.AppendBrief([]byte("x"))
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]json.RawMessage{}
		if err := json.Unmarshal(whole, &want); err != nil {
			t.Fatal(err)
		}
		data := map[string]any{}
		if err := json.Unmarshal(want["data"], &data); err != nil {
			t.Fatal(err)
		}
		delete(data, "params")
		delete(data, "result")
		if want["data"], err = json.Marshal(data); err != nil {
			t.Fatal(err)
		}
		if a, b := sameJSON(t, want), sameJSON(t, json.RawMessage(brief[1:])); a != b {
			t.Errorf("%s: brief is %s, want %s", ev.Kind, b, a)
		}
	}
}

// sameJSON is v's JSON with its fields in order.
func sameJSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var x any
	if err := json.Unmarshal(data, &x); err != nil {
		t.Fatal(err)
	}
	if data, err = json.Marshal(x); err != nil {
		t.Fatal(err)
	}
	return string(data)
}
