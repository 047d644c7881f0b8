package wire

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/streamwright/streamwright/events"
)

var quickTexts = rapid.OneOf(rapid.StringMatching(`[A-Za-z0-9 _.-]{0,12}`), rapid.SampledFrom([]string{"", "a\"b", "a\\b", "<b>&", "ü", "\n", "a\x7f", "\xff", "claim", "complete"}))

func drawReport(t *rapid.T) Report {
	r := Report{
		ID: quickTexts.Draw(t, "id"), Token: quickTexts.Draw(t, "token"), Worker: quickTexts.Draw(t, "worker"), Session: quickTexts.Draw(t, "session"),
		Event: quickTexts.Draw(t, "event"), Attempt: rapid.IntRange(-1, 1000).Draw(t, "attempt"), Start: rapid.Bool().Draw(t, "start"), Reason: quickTexts.Draw(t, "reason"),
	}
	switch rapid.IntRange(0, 12).Draw(t, "more") {
	case 0:
		r.Result = json.RawMessage(`{"a":[1,"<"]}`)
	case 1:
		r.Error, r.Code, r.Retryable, r.RetryAfterMS = "e", "c", new(bool), 3
	case 2:
		r.Percent, r.Message, r.DelayMS = 3, "m", 4
	case 3:
		r.Checkpoint = json.RawMessage(`1`)
	case 4:
		r.Children, r.Continuation, r.ChildPolicy = []Submit{{Type: "t"}}, &ContinueWith{Name: "n"}, "p"
	}
	return r
}

// Quick or not, reports and their answers are what encoding/json makes of them.
func TestQuickReports(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		reports := make([]Report, rapid.IntRange(1, 4).Draw(t, "n"))
		for i := range reports {
			reports[i] = drawReport(t)
		}
		got, err := EncodeReports(nil, reports)
		if err != nil {
			t.Fatal(err)
		}
		var want bytes.Buffer
		enc := json.NewEncoder(&want)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(reports); err != nil {
			t.Fatal(err)
		}
		if w := bytes.TrimSpace(want.Bytes()); !bytes.Equal(got, w) {
			t.Fatalf("have %s\nwant %s", got, w)
		}
		var slow []Report
		if err := json.Unmarshal(got, &slow); err != nil {
			t.Fatal(err)
		}
		if quick, ok := DecodeReports(got); ok && !reflect.DeepEqual(quick, slow) {
			t.Fatalf("%s: have %+v, want %+v", got, quick, slow)
		}
	})
}

func TestQuickReported(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		answers := make([]Reported, rapid.IntRange(1, 4).Draw(t, "n"))
		for i := range answers {
			answers[i] = Reported{
				OK: rapid.Bool().Draw(t, "ok"), Attempt: rapid.IntRange(-1, 5).Draw(t, "attempt"), TimeoutMS: rapid.Int64Range(-1, 1<<50).Draw(t, "timeout"),
				State: events.ItemState(rapid.IntRange(0, events.NumStates-1).Draw(t, "state")), Position: Position(quickTexts.Draw(t, "position")),
				Deadline: rapid.SampledFrom([]time.Time{{}, time.Unix(1, 5).UTC(), time.Unix(1e9, 0).UTC(), time.Unix(9, 0).In(time.FixedZone("x", 3600))}).Draw(t, "deadline"),
			}
			switch rapid.IntRange(0, 9).Draw(t, "more") {
			case 0:
				answers[i].Error = &Error{Code: "c", Message: "<m>"}
			case 1:
				answers[i].Checkpoint = json.RawMessage(`{"a":"<"}`)
			case 2:
				answers[i].Continuation = &Continuation{Name: "n", Children: json.RawMessage(`[]`)}
			}
		}
		got, err := EncodeReported(nil, answers)
		if err != nil {
			t.Fatal(err)
		}
		want, err := json.Marshal(answers)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("have %s\nwant %s", got, want)
		}
		var slow []Reported
		if err := json.Unmarshal(got, &slow); err != nil {
			t.Fatal(err)
		}
		if quick, ok := DecodeReported(nil, got); ok && !reflect.DeepEqual(quick, slow) {
			t.Fatalf("%s: have %+v, want %+v", got, quick, slow)
		}
	})
}

// What nearly all reports are is read quickly, and what is cut off or is changed
// in any place either not at all, or as encoding/json reads it.
func TestQuickReportsAreQuick(t *testing.T) {
	reports := []Report{
		{ID: "01J", Token: "1-2", Worker: "w", Session: "s", Event: ReportClaim, Attempt: 1, Start: true},
		{ID: "01K", Token: "1-3", Worker: "w", Session: "s", Event: ReportComplete},
		{ID: "01L", Token: "1-4", Worker: "w", Event: ReportRelease, Reason: "no_slot"},
	}
	data, err := EncodeReports(nil, reports)
	if err != nil {
		t.Fatal(err)
	}
	got, ok := DecodeReports(data)
	if !ok || !reflect.DeepEqual(got, reports) {
		t.Fatalf("read as %+v, %v", got, ok)
	}
	answers := []Reported{{OK: true, Attempt: 1, Deadline: time.Unix(1e9, 5).UTC(), TimeoutMS: 300, State: events.StateRunning, Position: "12"}, {}}
	said, err := EncodeReported(nil, answers)
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := DecodeReported(nil, said); !ok || !reflect.DeepEqual(got, answers) {
		t.Fatalf("read as %+v, %v", got, ok)
	}
	for i := range data {
		same(t, data[:i])
		for _, c := range []byte(`"\,}]0 x` + "\x00\xff") {
			changed := bytes.Clone(data)
			changed[i] = c
			same(t, changed)
		}
	}
}

func same(t *testing.T, data []byte) {
	t.Helper()
	quick, ok := DecodeReports(data)
	if !ok {
		return
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	var slow []Report
	if err := d.Decode(&slow); err != nil || !reflect.DeepEqual(quick, slow) {
		t.Fatalf("%q is read as %+v, want %+v, %v", data, quick, slow, err)
	}
}

var sinkReports []Report

func BenchmarkDecodeReports(b *testing.B) {
	reports := make([]Report, 50)
	for i := range reports {
		reports[i] = Report{ID: "01JABCDEFGHJKMNPQRSTVWXYZ0", Token: "1-2000", Worker: "host-1-abcdef", Session: "01JABCDEFGHJKMNPQRSTVWXYZ1", Event: ReportClaim, Attempt: 1, Start: true}
	}
	data, err := EncodeReports(nil, reports)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("quick", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			sinkReports, _ = DecodeReports(data)
		}
	})
	b.Run("json", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			_ = json.Unmarshal(data, &sinkReports)
		}
	})
}
