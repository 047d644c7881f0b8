package core

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
)

// The largest event that can be decided, of each kind that has room.
func TestTheLargestEventsFitInAMessage(t *testing.T) {
	w := newWorld(t)
	long := func(n int) string { return strings.Repeat("\x01", n) } // 6 bytes each in JSON
	set := events.DefaultTypeSettings()
	set.MaxParams = events.MaxParamsCeiling
	set.PerPriority = map[events.Priority]events.PriorityOverride{}
	for p := range events.MaxPriority + 1 {
		timeout, n := events.DurationOf(events.MaxTimeout), events.Attempt(events.MaxAttemptsCeiling)
		set.PerPriority[p] = events.PriorityOverride{Timeout: &timeout, MaxAttempts: &n, Backoff: &events.Backoff{Initial: events.Millis(86_399_999), Factor: 1.0000000000000002, Max: events.Millis(86_400_000), Jitter: 0.12345678901234567}}
	}
	typ, worker := events.Type(strings.Repeat("t", events.MaxTypeLen)), events.WorkerID(strings.Repeat("w", events.MaxWorkerIDLen))
	w.do(Own{Owner: long(1 << 20), Version: long(1 << 20)})
	w.do(Configure{Type: typ, Source: events.SourceAPI, Settings: set})
	labels := map[string]string{}
	for i := range events.MaxLabels {
		labels[string(rune('A'+i))+long(events.MaxLabelLen-1)] = long(events.MaxLabelLen)
	}
	submit := Submit{
		Type: typ, Params: json.RawMessage(`"` + strings.Repeat("x", events.MaxParamsCeiling-2) + `"`),
		IdempotencyKey: long(events.MaxKeyLen), DedupKey: long(events.MaxKeyLen), Delay: events.MaxDelay, Tenant: long(events.MaxNameLen), Labels: labels,
		Capabilities: []string{strings.Repeat("a", events.MaxCapabilityLen), strings.Repeat("b", events.MaxCapabilityLen)},
		Provenance:   events.Provenance{Source: long(events.MaxNameLen), Trigger: long(events.MaxNameLen)}, Trace: long(events.MaxTraceLen),
		Intake: events.Intake{Seq: 1 << 63, MsgID: long(events.MaxKeyLen)}, ID: w.newID(),
	}
	id := w.do(submit).ID
	submit.ID, submit.NewID, submit.IdempotencyKey, submit.Intake = events.ID{}, w.newID(), "", events.Intake{}
	w.do(submit) // merged
	w.do(Reschedule{ID: id, Now: true})
	claim := func(tok events.Token) Run {
		w.do(Claim{ID: id, Token: tok, Worker: worker, Start: true})
		return Run{ID: id, Token: tok, Worker: worker}
	}
	w.do(Release{Run: claim(events.NewToken(1<<24-1, 1)), Reason: long(events.MaxNameLen)})
	w.do(Fail{Run: claim(events.NewToken(1<<24-1, 2)), Error: long(1 << 20), Code: long(events.MaxNameLen), Retryable: true})
	w.now = w.now.Add(48 * time.Hour)
	w.do(Fail{Run: claim(events.NewToken(1<<24-1, 3)), Error: long(1 << 20), Code: long(events.MaxNameLen)})
	other := w.submit(Submit{Type: typ})
	w.do(Claim{ID: other, Token: 4, Worker: worker, Start: true})
	w.do(Complete{Run: Run{ID: other, Token: 4, Worker: worker}, Result: json.RawMessage(`"` + strings.Repeat("x", events.MaxResultBytes-2) + `"`)})
	cancelled := w.submit(Submit{Type: typ})
	w.do(Cancel{ID: cancelled, Reason: long(events.MaxNameLen)})
	w.do(Replay{ID: cancelled, Reason: long(events.MaxNameLen), Params: submit.Params})
	w.do(Reject{Type: typ, Rejected: events.Rejected{Code: long(1 << 20), Message: long(1 << 20), Subject: long(1 << 20),
		Headers: map[string][]string{long(8 << 10): {long(8 << 9), long(8 << 20)}}, Text: long(1 << 20), Intake: events.Intake{Seq: 1 << 63}}})
	w.do(PurgeRejected{Seq: w.s.Meta().Applied, Type: typ, Reason: long(events.MaxNameLen)})
	w.now = w.now.Add(events.DefaultRetain) // the dead item stays, and is carried
	goldenRetention(w)
	w.holdBack(typ, worker, long(events.MaxNameLen))
	w.largestFlow(typ, long)
	largestSchedule(w, typ, long)
	largestNamespace(w, long)
	w.largestKept(worker, long(events.MaxNameLen))
	seen := map[events.Kind]int{}
	for i, data := range w.encoded() {
		seen[w.log[i].Kind] = max(seen[w.log[i].Kind], len(data))
	}
	raised, err := (&events.Event{Kind: events.KindFormatRaised, At: w.now, Body: &events.FormatRaised{Level: next, Version: long(events.MaxNameLen), By: long(events.MaxNameLen)}}).AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	seen[events.KindFormatRaised] = len(raised)
	for k := range events.Kind(events.NumKinds) {
		if knownKind(k) && (seen[k] == 0 || seen[k] > maxEvent) {
			t.Errorf("%s: %d bytes", k, seen[k])
		}
	}
	w.readBack()
	t.Log(seen)
}
