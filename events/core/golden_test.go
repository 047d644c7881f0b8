package core

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
)

var update = flag.Bool("update", false, "rewrite the golden log and state in testdata, and docs/reference/LIFECYCLE.md and docs/reference/EVENTS.md")

const (
	goldenLog   = "testdata/golden.jsonl" // an event a line, and an empty line between two frames
	goldenState = "testdata/golden_state.txt"
)

// goldenWorld lives through every kind of event that this program writes.
func goldenWorld(t *testing.T) *world {
	w := newWorld(t)
	tick := func(d time.Duration) { w.now = w.now.Add(d) }
	w.do(Own{Owner: "engine-1", Version: "1.0.0"})
	set := events.DefaultTypeSettings()
	timeout, high := events.DurationOf(time.Minute), events.PriorityHigh
	set.PerPriority = map[events.Priority]events.PriorityOverride{9: {Timeout: &timeout, Backoff: &events.Backoff{Initial: events.Millis(100), Factor: 1.5, Max: events.Millis(1000), Jitter: 0.1}}}
	w.do(Configure{Type: "email", Source: events.SourceFile, Settings: set})

	tick(time.Second) // all that a submission can say; fails twice, and is dead
	full := w.do(Submit{
		Type: "email", ID: w.newID(), Params: json.RawMessage(`{"to": "a <b>", "n": 1.50, "tags": ["é", "\u2028"]}`), Priority: &high,
		DedupKey: "person=kelly", IdempotencyKey: "order-17", Delay: 90 * time.Second, MaxAttempts: 2, Timeout: 45 * time.Second,
		Capabilities: []string{"smtp", "eu"}, Tenant: "acme", Labels: map[string]string{"team": "billing", "env": "test"},
		Provenance: events.Provenance{Source: "webhook", Trigger: "order.paid"}, Trace: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		Intake: events.Intake{Seq: 1, MsgID: "msg-1"},
	}).ID
	tick(time.Millisecond)
	w.submit(Submit{DedupKey: "person=kelly", Provenance: events.Provenance{Source: "heartbeat"}})
	tick(2 * time.Minute)
	w.do(Fail{Run: w.claim(full, events.NewToken(1, 1)), Error: "connection refused", Code: "network", Retryable: true, Random: 1 << 62})
	tick(time.Minute)
	w.do(Claim{ID: full, Token: events.NewToken(1, 2), Worker: "w2"})
	tick(10 * time.Millisecond)
	w.do(Start{Run: Run{ID: full, Token: events.NewToken(1, 2), Worker: "w2"}})
	tick(1500 * time.Millisecond)
	w.do(Fail{Run: Run{ID: full, Token: events.NewToken(1, 2), Worker: "w2"}, Error: "no such mailbox", Code: "bounce", Retryable: true})

	plain := w.submit(Submit{Type: "resize-image", Params: json.RawMessage(`"a.png"`)}) // of a new type
	tick(time.Second)
	w.do(Release{Run: w.claim(plain, events.NewToken(1, 3)), Reason: "shutdown"})
	w.do(Reschedule{ID: plain, Priority: &high, Delay: time.Hour})
	tick(time.Minute)
	w.do(Reschedule{ID: plain, Now: true})
	w.do(Own{Owner: "engine-1", Version: "1.0.0", Barrier: true})
	w.do(Claim{ID: plain, Token: events.NewToken(1, 4), Worker: "w1"})
	tick(events.StartWithin)
	w.do(Due{ID: plain})
	run := w.claim(plain, events.NewToken(1, 5))
	tick(250 * time.Millisecond)
	w.do(Complete{Run: run, Result: json.RawMessage(`{"width": 100, "note": "<ok>"}`)})
	w.do(Complete{Run: w.claim(w.submit(Submit{Type: "resize-image"}), events.NewToken(1, 6))})

	lost := w.submit(Submit{Type: "resize-image", IdempotencyKey: "once"})
	w.claim(lost, events.NewToken(1, 7))
	w.do(ExpireLease{ID: lost, Token: events.NewToken(1, 7)})
	w.claim(lost, events.NewToken(1, 8))
	w.do(Cancel{ID: lost, Reason: "superseded"})
	w.do(Cancel{ID: w.submit(Submit{Params: json.RawMessage(`[]`)})})
	w.do(Fail{Run: w.claim(w.submit(Submit{}), events.NewToken(1, 9)), Error: "no template", Code: "logic"})

	w.do(Submit{Type: "email", NewID: w.newID(), Params: json.RawMessage(`1`), IdempotencyKey: "order-17", Intake: events.Intake{Seq: 2}}) // a repeat
	w.do(Reject{Type: "email", Rejected: events.Rejected{Code: "bad_params", Message: "params are no JSON document", Subject: "work.submit.email",
		Headers: map[string][]string{"Work-Priority": {"high"}}, Text: "{to: kelly}", Intake: events.Intake{Seq: 3}}})
	w.do(Reject{Rejected: events.Rejected{Code: "bad_type", Message: "no type name", Subject: "work.submit.E-Mail", Bytes: []byte{0xff, 0x00}, Intake: events.Intake{Seq: 4}}})
	tick(25 * time.Hour) // keys have expired
	w.do(Own{Owner: "engine-2", Version: "1.0.1"})
	w.submit(Submit{DedupKey: "waits", Delay: 24 * time.Hour, Intake: events.Intake{Seq: 5, MsgID: "msg-1"}})
	goldenProtection(w)
	w.goldenFlow()
	goldenSchedules(w)
	goldenReplay(w)
	goldenRetention(w)
	goldenAck(w)
	goldenKeep(w)
	goldenRaised(w)
	goldenNamespaces(w)
	return w
}

func (w *world) encoded() [][]byte {
	lines := make([][]byte, len(w.log))
	for i := range w.log {
		data, err := w.log[i].AppendJSON(nil)
		if err != nil {
			w.t.Fatal(err)
		}
		lines[i] = data
	}
	return lines
}

// text is the log as text: an event a line, and an empty line between two frames.
func (w *world) text() []byte {
	var sb bytes.Buffer
	for i, data := range w.encoded() {
		if i > 0 && w.log[i].Seq.Frame() != w.log[i-1].Seq.Frame() {
			sb.WriteByte('\n')
		}
		sb.Write(append(data, '\n'))
	}
	return sb.Bytes()
}

// line is an event in a log's text.
type line struct {
	seq  events.Seq
	data []byte
}

// apply applies the event to a state.
func (l line) apply(s *State) (events.Event, error) {
	ev, err := events.DecodeEvent(l.data)
	if err != nil {
		return ev, err
	}
	ev.Seq = l.seq
	return ev, s.Apply(ev)
}

// readText reads a file with a log's text.
func readText(t *testing.T, path string) (lines []line) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	frame := uint64(1)
	for text := range bytes.SplitSeq(bytes.TrimSpace(data), []byte("\n")) {
		last := len(lines) - 1
		switch {
		case len(text) == 0:
			frame++
		case last < 0 || lines[last].seq.Frame() < frame:
			lines = append(lines, line{events.SeqOf(frame, 0), text})
		default:
			lines = append(lines, line{lines[last].seq + 1, text})
		}
	}
	return lines
}

// golden compares content with a committed file, or writes it.
func golden(t *testing.T, path string, content []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	had, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; write it with: go test ./events/core -update", err)
	}
	if line, a, b := firstDifference(had, content); line > 0 {
		t.Fatalf("%s is stale from line %d on:\nhas   %.400s\nwants %.400s\nIf that is meant, rewrite it with: go test ./events/core -update", path, line, a, b)
	}
}

// firstDifference returns the number of the first line in which a and b
// differ, 0 for none.
func firstDifference(a, b []byte) (line int, in, other []byte) {
	x, y := bytes.Split(a, []byte("\n")), bytes.Split(b, []byte("\n"))
	for i := range max(len(x), len(y)) {
		in, other = nil, nil
		if i < len(x) {
			in = x[i]
		}
		if i < len(y) {
			other = y[i]
		}
		if !bytes.Equal(in, other) || i >= len(x) || i >= len(y) {
			return i + 1, in, other
		}
	}
	return 0, nil, nil
}

// The scenario still writes the committed log, byte for byte: a change of
// format or of a decision is seen here.
func TestGoldenLogIsStillWritten(t *testing.T) {
	w := goldenWorld(t)
	golden(t, goldenLog, w.text())
	seen := map[events.Kind]bool{}
	for _, ev := range w.log {
		seen[ev.Kind] = true
	}
	for k := range events.Kind(events.NumKinds) {
		if newBody(k) != nil && !seen[k] && k != events.KindFormatRaised { // that is in goldenNext
			t.Errorf("the golden log has no %s", k)
		}
	}
}

// The committed log still replays to the committed state.
func TestGoldenLogStillReplays(t *testing.T) {
	if *update {
		TestGoldenLogIsStillWritten(t)
	}
	base := newMapBase()
	s, err := NewState(base)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range readText(t, goldenLog) {
		if _, err := l.apply(s); err != nil {
			t.Fatalf("event %d: %v", l.seq, err)
		}
	}
	if err := base.write(s.TakeChanges()); err != nil {
		t.Fatal(err)
	}
	golden(t, goldenState, []byte(readable(base)))
}

// readable is the base's content, a field a line, those that are zero left out.
func readable(b *mapBase) string {
	var sb strings.Builder
	section := func(title string, v any) {
		fmt.Fprintf(&sb, "%s\n", title)
		fields(&sb, reflect.ValueOf(v))
		sb.WriteByte('\n')
	}
	section("partition", b.meta)
	for _, name := range slices.Sorted(maps.Keys(b.types)) {
		section("type "+string(name), b.types[name])
	}
	ids := slices.SortedFunc(maps.Keys(b.items), func(x, y events.ID) int { return strings.Compare(x.String(), y.String()) })
	for _, id := range ids {
		section("item "+id.String(), *b.items[id])
		for i, name := range []string{"params", "result", "checkpoint", "outcomes"} {
			if doc := b.docs[docRef{events.DocKinds[i], id}]; doc != nil {
				fmt.Fprintf(&sb, "  %-8s %s\n", name, doc)
			}
		}
		sb.WriteString("  history ")
		for _, ev := range b.history[id] {
			fmt.Fprintf(&sb, " %d:%s", ev.Seq, storedKind(ev))
		}
		sb.WriteString("\n\n")
	}
	keys := []string{}
	for _, k := range b.keys {
		keys = append(keys, "key "+dumpKey(k))
	}
	slices.Sort(keys)
	for _, kind := range slices.Sorted(maps.Keys(b.records)) {
		for _, key := range slices.Sorted(maps.Keys(b.records[kind])) {
			fmt.Fprintf(&sb, "record %c %s %s\n", kind, key, b.records[kind][key].Data)
		}
	}
	sb.WriteString(strings.Join(keys, "\n") + "\n")
	for _, seq := range slices.Sorted(maps.Keys(b.rejected)) {
		r := b.rejected[seq]
		fmt.Fprintf(&sb, "rejected %d: intake message %d of type %q: %s\n", seq, r.Body.Intake.Seq, r.Type, r.Body.Code)
	}
	for _, n := range slices.Sorted(maps.Keys(b.answers)) {
		fmt.Fprintf(&sb, "answer %+v\n", b.answers[n])
	}
	for _, m := range b.merged {
		fmt.Fprintf(&sb, "merged %s into %s at %s by event %d from %+v\n", m.ID, m.Into, m.At.Format(time.RFC3339Nano), m.Seq, m.Provenance)
	}
	return sb.String()
}

func fields(sb *strings.Builder, v reflect.Value) {
	for i := range v.NumField() {
		f := v.Field(i)
		if f.IsZero() {
			continue
		}
		value := f.Interface()
		switch x := value.(type) {
		case time.Time:
			value = x.Format(time.RFC3339Nano)
		case events.TypeSettings:
			data, err := json.Marshal(x)
			if err != nil {
				data = []byte(err.Error())
			}
			value = string(data)
		case events.Circuit:
			data, _ := json.Marshal(x) // all fields are plain
			value = string(data)
		case *events.Relations:
			value = fmt.Sprintf("%+v", *x)
		case *events.Pause:
			value = fmt.Sprintf("%+v", *x)
		}
		fmt.Fprintf(sb, "  %-14s %v\n", v.Type().Field(i).Name, value)
	}
}
