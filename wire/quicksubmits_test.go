package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/streamwright/streamwright/events"
)

func drawSubmit(t *rapid.T) Submit {
	doc := rapid.SampledFrom([]json.RawMessage{nil, []byte(`{}`), []byte(`null`), []byte(`{"to":"x","n":[1,2.5e3,-0]}`), []byte(` { "a" : "<b>" } `), []byte("\"\u2028ü\""), []byte(`"\ud800\n"`), []byte(`{"type":"x"}`), []byte(`{`), []byte("\"\xff\"")})
	s := Submit{
		Type: quickTexts.Draw(t, "type"), Params: doc.Draw(t, "params"), ID: quickTexts.Draw(t, "id"), Tenant: quickTexts.Draw(t, "tenant"), DedupKey: quickTexts.Draw(t, "dedup"),
	}
	at := rapid.SampledFrom([]time.Time{time.Unix(1, 5).UTC(), time.Unix(9, 0).In(time.FixedZone("x", 3600)), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)})
	number := rapid.Int64Range(-2, 1<<53)
	for range rapid.IntRange(0, 3).Draw(t, "more") {
		switch rapid.IntRange(0, 9).Draw(t, "field") {
		case 0:
			s.Priority = new(Priority(rapid.IntRange(-1, 10).Draw(t, "priority")))
		case 1:
			s.AvailableAt, s.DelayMS = at.Draw(t, "at"), number.Draw(t, "delay")
		case 2:
			s.MaxAttempts, s.TimeoutMS = int(number.Draw(t, "attempts")), number.Draw(t, "timeout")
		case 3:
			s.Capabilities = rapid.SliceOfN(quickTexts, 0, 2).Draw(t, "capabilities")
		case 4:
			s.Labels = rapid.MapOfN(quickTexts, quickTexts, 0, 3).Draw(t, "labels")
		case 5:
			s.Source, s.Trigger, s.Trace = quickTexts.Draw(t, "source"), quickTexts.Draw(t, "trigger"), quickTexts.Draw(t, "trace")
		case 6:
			s.After, s.AfterPolicy = rapid.SliceOfN(quickTexts, 0, 2).Draw(t, "after"), events.AfterPolicy(quickTexts.Draw(t, "policy"))
		case 7:
			s.DedupPolicy, s.DedupWindowMS = events.DedupPolicy(quickTexts.Draw(t, "policy")), new(number.Draw(t, "window"))
		case 8:
			s.ExpiresAt, s.Batch, s.EstimatedDurationMS = at.Draw(t, "expires"), quickTexts.Draw(t, "batch"), number.Draw(t, "estimate")
		case 9:
			s.IdempotencyKey = quickTexts.Draw(t, "idempotency")
		}
	}
	return s
}

// Written quickly, a submission is what encoding/json makes of it, and so it is read.
func TestQuickSubmits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []json.RawMessage
		for range rapid.IntRange(1, 4).Draw(t, "n") {
			s := drawSubmit(t)
			want, wantErr := json.Marshal(&s)
			got, err := AppendSubmit(nil, &s)
			if (err != nil) != (wantErr != nil) || err == nil && !bytes.Equal(got, want) {
				t.Fatalf("have %s, %v\nwant %s, %v", got, err, want, wantErr)
			}
			if err == nil {
				all = append(all, got)
				sameSubmits(t, got)
			}
		}
		data, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		sameSubmits(t, data)
		nice := new(bytes.Buffer)
		if err := json.Indent(nice, data, "\n", "\t"); err != nil {
			t.Fatal(err)
		}
		sameSubmits(t, nice.Bytes())
	})
}

// sameSubmits fails if data is read quickly, and otherwise than by encoding/json.
func sameSubmits(t interface{ Fatalf(string, ...any) }, data []byte) (quick bool) {
	list, array, ok := DecodeSubmits(data)
	if !ok {
		return false
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	var slow []Submit
	var err error
	if array {
		err = d.Decode(&slow)
	} else {
		slow = make([]Submit, 1)
		err = d.Decode(&slow[0])
	}
	if err == nil {
		if _, end := d.Token(); !errors.Is(end, io.EOF) {
			t.Fatalf("%q has something behind its end", data)
		}
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
	{`{"priority":"high"}`, false},
	{`{"priority":1.0}`, false},
	{`{"delay_ms":-1}`, false},
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

func FuzzQuickSubmits(f *testing.F) {
	for _, seed := range submitSeeds {
		f.Add([]byte(seed.data))
	}
	f.Fuzz(func(t *testing.T, data []byte) { sameSubmits(t, data) })
}

func TestQuickSubmitted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		answers := make([]Submitted, rapid.IntRange(1, 4).Draw(t, "n"))
		for i := range answers {
			answers[i] = Submitted{
				ID: quickTexts.Draw(t, "id"), State: events.ItemState(rapid.IntRange(0, events.NumStates-1).Draw(t, "state")), Repeat: rapid.Bool().Draw(t, "repeat"),
				MergedInto: rapid.SampledFrom([]string{"", "01JD3V6YB2M4C9W8ZK5T7QXRNE"}).Draw(t, "merged"), Position: Position(quickTexts.Draw(t, "position")),
				Raised: rapid.Bool().Draw(t, "raised"), ContentDiffers: rapid.Bool().Draw(t, "differs"),
				NotRaised: rapid.SampledFrom([]events.ItemState{events.StateNone, events.StateRunning}).Draw(t, "not raised"),
			}
			switch rapid.IntRange(0, 5).Draw(t, "error") {
			case 0:
				answers[i].Error = &Error{Code: "c", Message: "<m>\"\n", RetryAfterMS: 5}
			case 1:
				answers[i] = Submitted{Error: &Error{Code: "c", Message: "ü"}}
			}
		}
		got, err := EncodeSubmitted(nil, answers)
		if err != nil {
			t.Fatal(err)
		}
		want, err := json.Marshal(answers)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("have %s\nwant %s, %v", got, want, err)
		}
		sameSubmitted(t, got)
	})
}

func sameSubmitted(t interface{ Fatalf(string, ...any) }, data []byte) (quick bool) {
	list, ok := DecodeSubmitted(data, 3)
	if !ok {
		return false
	}
	var slow []Submitted
	if err := json.Unmarshal(data, &slow); err != nil || !reflect.DeepEqual(list, slow) {
		t.Fatalf("%q is read as %+v, want %+v, %v", data, list, slow, err)
	}
	return true
}

func TestQuickSubmittedIsQuick(t *testing.T) {
	const data = `[{"id":"01JD","state":"queued","position":"12"},{"error":{"code":"bad_type","message":"\u003cx\u003e"}},{"id":"01JE","state":"merged","merged_into":"01JD","repeat":true,"position":"12"}]`
	if !sameSubmitted(t, []byte(data)) {
		t.Fatal("not read quickly")
	}
	for i := range len(data) {
		sameSubmitted(t, []byte(data[:i]))
		for _, c := range []byte("\"\\,}]0 nx\x00\xff") {
			b := []byte(data)
			b[i] = c
			sameSubmitted(t, b)
		}
	}
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
