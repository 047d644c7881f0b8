package wire

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
)

// sameSubmits fails if data is read quickly, and otherwise than by encoding/json.
func sameSubmits(t interface{ Fatalf(string, ...any) }, data []byte) (quick bool) {
	list, array, ok := DecodeSubmits(data)
	if !ok {
		return false
	}
	var slow []Submit
	var err error
	if array {
		err = ReadStrict(data, &slow)
	} else {
		slow = make([]Submit, 1)
		err = ReadStrict(data, &slow[0])
	}
	if err != nil || !reflect.DeepEqual(list, slow) {
		t.Fatalf("%q is read as %+v, want %+v, %v", data, list, slow, err)
	}
	return true
}

var submitSeeds = []struct {
	data  string
	quick bool
}{
	{`[{"type":"email","params":{"to":"x"},"id":"01JD3V6YB2M4C9W8ZK5T7QXRNE"},{"type":"email"},{"type":"other","params":null}]`, true},
	{`{"type":"email","params":[1,{"type":2}]}`, true},
	{" [ { \"params\" : \"ü\\n\" ,\n\"type\" : \"e\" , \"priority\" : 7 } , { } ] ", true},
	{`{"labels":{"a":"b"},"capabilities":["x","y"],"after":[],"available_at":"2030-01-31T08:00:00+02:00","dedup_key":"\u00e9<"}`, true},
	{`{"type":"a","tenant":"t","batch":"b","estimated_duration_ms":5,"dedup_window_ms":0,"delay_ms":3,"max_attempts":2,"timeout_ms":1000}`, true},
	{`{"type":"a","type":"b"}`, false},
	{`{"labels":{"a":"b"},"labels":{"c":"d"}}`, false},
	{`{"type":"a","nonsense":1}`, false},
	{`{"TYPE":"a"}`, false},
	{`{"type":null}`, false},
	{`{"labels":null}`, false},
	{`{"priority":"high"}`, true},
	{`{"priority":1.0}`, false},
	{`{"delay_ms":-1}`, true},
	{`{"delay_ms":01}`, false},
	{`{"delay_ms":9223372036854775808}`, false},
	{`{"type":1}`, false},
	{`{"available_at":"tomorrow"}`, false},
	{`{"type":"a"} x`, false},
	{`[{"type":"a"},]`, false},
	{`[]`, false},
	{"{\"type\":\"\xff\"}", false},
	{``, false},
}

// The forms that most clients write are read quickly; cut off or changed anywhere, they
// are read as encoding/json reads them, or left to it.
func TestQuickSubmitsAreQuick(t *testing.T) {
	for _, seed := range submitSeeds {
		if quick := sameSubmits(t, []byte(seed.data)); quick != seed.quick {
			t.Errorf("%s is read quickly: %v", seed.data, quick)
		}
		for i := range seed.data {
			sameSubmits(t, []byte(seed.data[:i]))
			for _, c := range []byte("\"\\,:{}[]0 -nx\x00\xff") {
				b := []byte(seed.data)
				b[i] = c
				sameSubmits(t, b)
			}
		}
	}
	most := "[" + strings.Repeat(`{"type":"a"},`, events.MaxSubmitBatch-1) + `{"type":"a"}]`
	if !sameSubmits(t, []byte(most)) {
		t.Error("the largest array is not read quickly")
	}
	if sameSubmits(t, []byte(strings.Replace(most, "[", `[{},`, 1))) {
		t.Error("too large an array is read quickly")
	}
}

func FuzzSubmits(f *testing.F) {
	for _, seed := range submitSeeds {
		f.Add([]byte(seed.data))
	}
	f.Fuzz(func(t *testing.T, data []byte) { sameSubmits(t, data) })
}

// Lists are read as they were written, and the answers to a submission by who asked for
// as many.
func TestLists(t *testing.T) {
	reports := []Report{
		{ID: "01J", Token: "1-2", Worker: "w", Session: "s", Event: ReportStart, Attempt: 1, Start: true},
		{ID: "01K", Token: "1-3", Worker: "w", Session: "s", Event: ReportComplete, Result: json.RawMessage(`{ "a": "<b>" }`)},
		{ID: "01L", Token: "1-4", Worker: "w", Event: ReportFail, Error: "line\n<b>", Retryable: new(false)},
		{ID: "01M", Token: "1-5", Worker: "w", Event: ReportSpawn, ReportFlow: ReportFlow{Children: []Submit{{Type: "t"}, {Type: "u"}}, Continuation: &ContinueWith{Name: "n"}}},
	}
	data, err := EncodeReports(nil, reports)
	if got, ok := DecodeReports(data); err != nil || !ok || !reflect.DeepEqual(got, reports) {
		t.Errorf("%s is read as %+v, %v", data, got, ok)
	}
	reported := []Reported{
		{OK: true, Attempt: 1, Deadline: time.Unix(1e9, 5).UTC(), Timeout: events.Millis(300), State: events.StateRunning, Position: "12"}, {},
		{Error: &Error{Code: "c", Message: "<m>", RetryAfter: events.Millis(5)}},
	}
	data, err = EncodeReported(nil, reported)
	if got, ok := DecodeReported(nil, data); err != nil || !ok || !reflect.DeepEqual(got, reported) {
		t.Errorf("%s is read as %+v, %v", data, got, ok)
	}
	submitted := []Submitted{{ID: "01JD", State: events.StateQueued, Position: "12"}, {Error: &Error{Code: "c", Message: "m"}}, {ID: "01JE", State: events.StateMerged, MergedInto: "01JD", Repeat: true}}
	data, err = EncodeSubmitted(nil, submitted)
	if got, ok := DecodeSubmitted(data, 3); err != nil || !ok || !reflect.DeepEqual(got, submitted) {
		t.Errorf("%s is read as %+v, %v", data, got, ok)
	}
	if _, ok := DecodeSubmitted(data, 2); ok {
		t.Error("three answers are read as two")
	}
	if _, ok := DecodeReports([]byte("[]")); ok {
		t.Error("no reports are read")
	}
	if _, err := EncodeReports(nil, []Report{{Result: json.RawMessage(`{`)}}); err == nil {
		t.Error("a result that is no JSON is sent")
	}
}

var sinkReports []Report

func BenchmarkDecodeReports(b *testing.B) {
	reports := make([]Report, 50)
	for i := range reports {
		reports[i] = Report{ID: "01JABCDEFGHJKMNPQRSTVWXYZ0", Token: "1-2000", Worker: "host-1-abcdef", Session: "01JABCDEFGHJKMNPQRSTVWXYZ1", Event: ReportStart, Attempt: 1, Start: true}
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

func BenchmarkSubmits(b *testing.B) {
	list := make([]Submit, 100)
	for i := range list {
		list[i] = Submit{Type: "email", ID: "01JD3V6YB2M4C9W8ZK5T7QXRNE", Params: json.RawMessage(`{"body":"` + strings.Repeat("x", 200) + `"}`)}
	}
	data, err := json.Marshal(list)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("write", func(b *testing.B) {
		b.ReportAllocs()
		var buf []byte
		for b.Loop() {
			buf = buf[:0]
			for i := range list {
				buf, _ = AppendSubmit(buf, &list[i])
			}
		}
	})
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			DecodeSubmits(data)
		}
	})
	b.Run("json-write", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = json.Marshal(list)
		}
	})
	b.Run("json-read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var list []Submit
			_ = json.Unmarshal(data, &list)
		}
	})
}
