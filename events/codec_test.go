package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

// The largest event that can be decided, of each kind that has room.
func TestTheLargestEventsFitInAMessage(t *testing.T) {
	w := newWorld(t)
	long := func(n int) string { return strings.Repeat("\x01", n) } // 6 bytes each in JSON
	set := DefaultTypeSettings()
	set.MaxParams = MaxParamsCeiling
	set.PerPriority = map[Priority]PriorityOverride{}
	for p := range MaxPriority + 1 {
		ms, n := MaxTimeout.Milliseconds(), Attempt(MaxAttemptsCeiling)
		set.PerPriority[p] = PriorityOverride{TimeoutMS: &ms, MaxAttempts: &n, Backoff: &Backoff{InitialMS: 86_399_999, Factor: 1.0000000000000002, MaxMS: 86_400_000, Jitter: 0.12345678901234567}}
	}
	typ, worker := Type(strings.Repeat("t", MaxTypeLen)), WorkerID(strings.Repeat("w", MaxWorkerIDLen))
	w.do(Own{Owner: long(1 << 20), Version: long(1 << 20)})
	w.do(Configure{Type: typ, Source: SourceAPI, Settings: set})
	labels := map[string]string{}
	for i := range MaxLabels {
		labels[string(rune('A'+i))+long(MaxLabelLen-1)] = long(MaxLabelLen)
	}
	submit := Submit{
		Type: typ, Params: json.RawMessage(`"` + strings.Repeat("x", MaxParamsCeiling-2) + `"`),
		IdempotencyKey: long(MaxKeyLen), DedupKey: long(MaxKeyLen), Delay: MaxDelay, Tenant: long(MaxNameLen), Labels: labels,
		Capabilities: []string{strings.Repeat("a", MaxCapabilityLen), strings.Repeat("b", MaxCapabilityLen)},
		Provenance:   Provenance{Source: long(MaxNameLen), Trigger: long(MaxNameLen)}, Trace: long(MaxTraceLen),
		Intake: Intake{Seq: 1 << 63, MsgID: long(MaxKeyLen)}, ID: w.newID(),
	}
	id := w.do(submit).ID
	submit.ID, submit.NewID, submit.IdempotencyKey, submit.Intake = ID{}, w.newID(), "", Intake{}
	w.do(submit) // merged
	w.do(Reschedule{ID: id, Now: true})
	claim := func(tok Token) Run {
		w.do(Claim{ID: id, Token: tok, Dispatched: tok, Worker: worker, Start: true})
		return Run{ID: id, Token: tok, Worker: worker}
	}
	w.do(Release{Run: claim(NewToken(1<<24-1, 1)), Reason: long(MaxNameLen)})
	w.do(Fail{Run: claim(2), Error: long(1 << 20), Code: long(MaxNameLen), Retryable: true})
	w.now = w.now.Add(48 * time.Hour)
	w.do(Fail{Run: claim(3), Error: long(1 << 20), Code: long(MaxNameLen)})
	other := w.submit(Submit{Type: typ})
	w.do(Claim{ID: other, Token: 4, Dispatched: 4, Worker: worker, Start: true})
	w.do(Complete{Run: Run{ID: other, Token: 4, Worker: worker}, Result: json.RawMessage(`"` + strings.Repeat("x", MaxResultBytes-2) + `"`)})
	cancelled := w.submit(Submit{Type: typ})
	w.do(Cancel{ID: cancelled, Reason: long(MaxNameLen)})
	w.do(Replay{ID: cancelled, Reason: long(MaxNameLen), Params: submit.Params})
	w.do(Reject{Type: typ, Rejected: Rejected{Code: long(1 << 20), Message: long(1 << 20), Subject: long(1 << 20),
		Headers: map[string][]string{long(8 << 10): {long(8 << 9), long(8 << 20)}}, Text: long(1 << 20), Intake: Intake{Seq: 1 << 63}}})
	w.now = w.now.Add(DefaultRetain) // the dead item stays, and is carried
	goldenRetention(w)
	w.holdBack(typ, worker, long(MaxNameLen))
	w.largestFlow(typ, long)
	largestSchedule(w, typ, long)
	w.largestKept(worker, long(MaxNameLen))
	w.do(PurgeRejected{Seq: 1, Type: typ, Reason: long(MaxNameLen)})
	seen := map[Kind]int{}
	for i, data := range w.encoded() {
		seen[w.log[i].Kind] = max(seen[w.log[i].Kind], len(data))
	}
	for k := range Kind(NumKinds) {
		if knownKind(k) && (seen[k] == 0 || seen[k] > maxEvent) {
			t.Errorf("%s: %d bytes", k, seen[k])
		}
	}
	w.readBack()
	t.Log(seen)
}

func TestDecodeRefuses(t *testing.T) {
	const item = `"id":"01KDYAK43G0000000000000001","type":"email","at":"2026-01-02T03:04:05Z"`
	for name, c := range map[string]struct {
		data string
		want error
	}{
		"nothing":           {``, ErrCorrupt},
		"no JSON":           {`{`, ErrCorrupt},
		"no version":        {`{"kind":"running",` + item + `,"data":{}}`, ErrCorrupt},
		"a newer version":   {`{"v":2,"kind":"running",` + item + `,"data":{}}`, ErrNewer},
		"an unknown kind":   {`{"v":1,"kind":"sung",` + item + `,"data":{}}`, ErrCorrupt},
		"no data":           {`{"v":1,"kind":"running",` + item + `}`, ErrCorrupt},
		"data of a kind":    {`{"v":1,"kind":"claimed",` + item + `,"data":{"token":[]}}`, ErrCorrupt},
		"no id":             {`{"v":1,"kind":"running","type":"email","at":"2026-01-02T03:04:05Z","data":{}}`, ErrCorrupt},
		"no type":           {`{"v":1,"kind":"running","id":"01KDYAK43G0000000000000001","at":"2026-01-02T03:04:05Z","data":{}}`, ErrCorrupt},
		"a type's quote":    {`{"v":1,"kind":"rejected","type":"a\"b","at":"2026-01-02T03:04:05Z","data":{}}`, ErrCorrupt},
		"a worker's quote":  {`{"v":1,"kind":"running",` + item + `,"worker":"\\","data":{}}`, ErrCorrupt},
		"a negative run":    {`{"v":1,"kind":"running",` + item + `,"attempt":-1,"data":{}}`, ErrCorrupt},
		"no params":         {`{"v":1,"kind":"created",` + item + `,"data":{}}`, ErrCorrupt},
		"priority 10":       {`{"v":1,"kind":"created",` + item + `,"data":{"params":1,"priority":10}}`, ErrCorrupt},
		"a year before 0":   {`{"v":1,"kind":"running",` + item + `,"data":{"deadline":"0000-01-01T00:00:00+23:00"}}`, ErrCorrupt},
		"a tx of none":      {`{"v":1,"kind":"running",` + item + `,"tx":{"n":1,"of":0},"data":{}}`, ErrCorrupt},
		"a tx of too many":  {`{"v":1,"kind":"running",` + item + `,"tx":{"n":1,"of":1001},"data":{}}`, ErrCorrupt},
		"a tx out of order": {`{"v":1,"kind":"running",` + item + `,"tx":{"n":0,"of":2},"data":{}}`, ErrCorrupt},
	} {
		if _, err := DecodeEvent([]byte(c.data)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := DecodeEvent([]byte(`{"v":1,"kind":"running",` + item + `,"new":1,"data":{"newer":[]}}`)); err != nil {
		t.Errorf("unknown fields: %v", err)
	}
}

// Whatever decodes can be encoded again, and is then read as the same.
func FuzzRoundTrip(f *testing.F) {
	log, err := os.ReadFile(goldenLog)
	if err != nil {
		f.Fatal(err)
	}
	for _, line := range bytes.Split(bytes.TrimSpace(log), []byte("\n")) {
		f.Add(line)
	}
	f.Add([]byte(`{"v":1,"kind":"spawned","id":"01KDYAK43G0000000000000001","type":"email","at":"0001-01-01T00:00:00+01:00"}`))
	f.Add([]byte(`{"v":1,"kind":"queued","id":"01kdyak43g0000000000000001","type":"email","at":"2026-01-02T03:04:05Z","data":{"reason":"\u2028\"","order_at":"2026-01-02T03:04:05+02:00"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		ev, err := DecodeEvent(data)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNewer) {
				t.Fatalf("neither corrupt nor newer: %v", err)
			}
			return
		}
		once, err := ev.AppendJSON(nil)
		if err != nil {
			t.Fatalf("decoded and not encoded: %v", err)
		}
		back, err := DecodeEvent(once)
		if err != nil {
			t.Fatalf("%s\nis encoded as\n%s\nand that is not decoded: %v", data, once, err)
		}
		twice, err := back.AppendJSON(nil)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%v\n%s\n%s", err, once, twice)
		}
		third, err := DecodeEvent(twice)
		if err != nil || !reflect.DeepEqual(back, third) {
			t.Fatalf("%v\n%+v\n%+v", err, back, third)
		}
	})
}
