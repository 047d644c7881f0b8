package core

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/events"
)

// maxEvent bounds every event's JSON: a server that takes less in one message
// is refused at start.
const maxEvent = 2 << 20

func TestRejectedStaysInBounds(t *testing.T) {
	headers := map[string][]string{}
	for _, c := range "abcdefgh" {
		headers[string(c)+"\xff"] = []string{strings.Repeat("\x01", 4<<10)}
	}
	for name, r := range map[string]events.Rejected{
		"text":     {Text: strings.Repeat("é", events.MaxRejectedBytes)},
		"controls": {Text: strings.Repeat("\x00", events.MaxRejectedBytes), Headers: headers},
		"bytes":    {Bytes: make([]byte, 10*events.MaxRejectedBytes)},
		"no UTF-8": {Text: strings.Repeat("\xff", 10*events.MaxRejectedBytes)},
		"all": {Code: strings.Repeat("c", 1e6), Message: strings.Repeat("m", 1e6), Subject: strings.Repeat("s", 1e6),
			Intake: events.Intake{Seq: 1, MsgID: strings.Repeat("i", 1e6)}},
	} {
		w := newWorld(t)
		w.do(Reject{Type: `no "type"`, Rejected: r})
		w.readBack()
		data, err := w.log[0].AppendJSON(nil)
		if err != nil || len(data) > maxEvent/2 {
			t.Errorf("%s: %d bytes, %v", name, len(data), err)
		}
		if w.log[0].Type != "" {
			t.Errorf("%s: type %q would stand in the subject", name, w.log[0].Type)
		}
	}
}

func TestRejectedKeepsTheOriginal(t *testing.T) {
	w := newWorld(t)
	w.do(Reject{Type: "email", Rejected: events.Rejected{Code: "bad_params", Text: "é", Headers: map[string][]string{"Work-X": {"a", "b"}}, Intake: events.Intake{Seq: 3}}})
	w.do(Reject{Rejected: events.Rejected{Text: "\xff\x00"}})
	text, raw := w.log[0].Body.(*events.Rejected), w.log[1].Body.(*events.Rejected)
	if text.Text != "é" || text.Size != 2 || text.Truncated || !reflect.DeepEqual(text.Headers, map[string][]string{"Work-X": {"a", "b"}}) {
		t.Errorf("%+v", text)
	}
	if raw.Text != "" || string(raw.Bytes) != "\xff\x00" || raw.Truncated {
		t.Errorf("%+v", raw)
	}
	if m := w.s.Meta(); m.Rejected != 2 || m.IntakeSeq != 3 {
		t.Errorf("%+v", m)
	}
	w.readBack()
}

// What the log doesn't tell apart, the live state must not either.
func TestEmptyIsNone(t *testing.T) {
	w := newWorld(t)
	set := events.DefaultTypeSettings()
	set.PerPriority = map[events.Priority]events.PriorityOverride{}
	w.do(Configure{Type: "email", Source: events.SourceAPI, Settings: set})
	w.submit(Submit{Labels: map[string]string{}, Capabilities: []string{}})
	w.readBack()
}

func TestTheSubmittersMapIsNotKept(t *testing.T) {
	w := newWorld(t)
	labels := map[string]string{"a": "1"}
	id := w.submit(Submit{Labels: labels})
	labels["a"] = "2"
	if got := w.item(id).Labels["a"]; got != "1" {
		t.Fatalf("the item's label has become %s", got)
	}
}

func TestDigestIsOfWhatWasMeant(t *testing.T) {
	w := newWorld(t)
	id := w.newID()
	w.do(Submit{Type: "email", ID: id, Capabilities: []string{"b", "a", "b"}})
	if d := w.do(Submit{Type: "email", ID: id, Params: json.RawMessage(" null"), Capabilities: []string{"a", "b"}}); !d.Repeat {
		t.Fatalf("%+v", d)
	}
}

func TestConfigureChecksItsSource(t *testing.T) {
	w := newWorld(t)
	w.refused(events.CodeBadRequest, Configure{Type: "email", Source: "nowhere", Settings: events.DefaultTypeSettings()})
}
