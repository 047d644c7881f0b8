package command_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/wire/command"
)

const anID = "01JD3V6YB2M4C9W8ZK5T7QXRNE"

func freshID(at time.Time) events.ID {
	return events.ID(ulid.MustNew(ulid.Timestamp(at), ulid.DefaultEntropy()))
}

// wantRefused checks that err is an *events.Error of the code whose text says
// what to do.
func wantRefused(t *testing.T, err error, code events.Code, says string) {
	t.Helper()
	var e *events.Error
	if !errors.As(err, &e) || e.Code != code || !strings.Contains(e.Message, says) {
		t.Errorf("got %v, want %s saying %q", err, code, says)
	}
}

func TestSubmitCommandBounds(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	long := strings.Repeat("x", 2000)
	many := func(n int) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprint("c", i))
		}
		return out
	}
	manyLabels := map[string]string{}
	for i := range events.MaxLabels + 1 {
		manyLabels[fmt.Sprint(i)] = ""
	}
	for _, c := range []struct {
		name   string
		change func(*wire.Submit)
		code   events.Code
		says   string
	}{
		{"type", func(s *wire.Submit) { s.Type = "E Mail" }, events.CodeBadType, "a-z and 0-9"},
		{"no type", func(s *wire.Submit) { s.Type = "" }, events.CodeBadType, "type name"},
		{"params", func(s *wire.Submit) { s.Params = json.RawMessage("{to}") }, events.CodeBadParams, "byte 2"},
		{"params cut short", func(s *wire.Submit) { s.Params = json.RawMessage("[1,") }, events.CodeBadParams, "unexpected end"},
		{"params not UTF-8", func(s *wire.Submit) { s.Params = json.RawMessage("\"\xff\"") }, events.CodeBadParams, "UTF-8"},
		{"params size", func(s *wire.Submit) { s.Params = json.RawMessage(`"` + long + `"`) }, events.CodeTooLarge, "2002 bytes: at most 1000"},
		{"id", func(s *wire.Submit) { s.ID = "job-1" }, events.CodeBadID, "ULID"},
		{"id of zeros", func(s *wire.Submit) { s.ID = strings.Repeat("0", 26) }, events.CodeBadID, "zeros"},
		{"priority", func(s *wire.Submit) { p := wire.Priority(10); s.Priority = &p }, events.CodeBadPriority, "0 to 9"},
		{"negative priority", func(s *wire.Submit) { p := wire.Priority(-1); s.Priority = &p }, events.CodeBadPriority, "0 to 9"},
		{"beyond ten years", func(s *wire.Submit) { s.AvailableAt = now.AddDate(11, 0, 0) }, events.CodeBadTime, "ten years"},
		{"delay beyond ten years", func(s *wire.Submit) { s.Delay = events.Millis(events.MaxDelay.Milliseconds() + 1) }, events.CodeBadTime, "ten years"},
		{"delay overflowing", func(s *wire.Submit) { s.Delay = events.Millis(1<<63 - 1) }, events.CodeBadTime, "ten years"},
		{"negative delay", func(s *wire.Submit) { s.Delay = events.Millis(-1) }, events.CodeBadTime, "negative"},
		{"both times", func(s *wire.Submit) { s.Delay = events.Millis(1); s.AvailableAt = now }, events.CodeBadTime, "one of them"},
		{"attempts", func(s *wire.Submit) { s.MaxAttempts = 1001 }, events.CodeBadRequest, "1 to 1000"},
		{"negative attempts", func(s *wire.Submit) { s.MaxAttempts = -1 }, events.CodeBadRequest, "1 to 1000"},
		{"timeout", func(s *wire.Submit) { s.Timeout = events.Millis(events.MaxTimeout.Milliseconds() + 1) }, events.CodeBadTime, "720h"},
		{"negative timeout", func(s *wire.Submit) { s.Timeout = events.Millis(-1) }, events.CodeBadTime, "720h"},
		{"dedup key", func(s *wire.Submit) { s.DedupKey = long }, events.CodeTooLarge, "dedup_key has 2000 bytes"},
		{"idempotency key", func(s *wire.Submit) { s.IdempotencyKey = long }, events.CodeTooLarge, "idempotency_key"},
		{"key not UTF-8", func(s *wire.Submit) { s.DedupKey = "\xff" }, events.CodeBadRequest, "UTF-8"},
		{"source", func(s *wire.Submit) { s.Source = long }, events.CodeTooLarge, "source"},
		{"trigger", func(s *wire.Submit) { s.Trigger = long }, events.CodeTooLarge, "trigger"},
		{"tenant", func(s *wire.Submit) { s.Tenant = long }, events.CodeTooLarge, "tenant"},
		{"trace", func(s *wire.Submit) { s.Trace = long }, events.CodeTooLarge, "traceparent"},
		{"capability", func(s *wire.Submit) { s.Capabilities = []string{"a_b"} }, events.CodeBadRequest, "capability"},
		{"capability dash", func(s *wire.Submit) { s.Capabilities = []string{"a--b"} }, events.CodeBadRequest, "capability"},
		{"capability empty", func(s *wire.Submit) { s.Capabilities = []string{""} }, events.CodeBadRequest, "capability"},
		{"capabilities", func(s *wire.Submit) { s.Capabilities = many(17) }, events.CodeTooLarge, "at most 16"},
		{"capabilities together", func(s *wire.Submit) {
			s.Capabilities = []string{strings.Repeat("a", 63), strings.Repeat("b", 63), strings.Repeat("c", 63), "d"}
		}, events.CodeTooLarge, "together"},
		{"labels", func(s *wire.Submit) { s.Labels = manyLabels }, events.CodeTooLarge, "at most 32"},
		{"label key", func(s *wire.Submit) { s.Labels = map[string]string{long: ""} }, events.CodeTooLarge, "key"},
		{"label value", func(s *wire.Submit) { s.Labels = map[string]string{"k": long} }, events.CodeTooLarge, "label k"},
		{"label no key", func(s *wire.Submit) { s.Labels = map[string]string{"": "v"} }, events.CodeBadRequest, "key"},
		{"label key with =", func(s *wire.Submit) { s.Labels = map[string]string{"a=b": "v"} }, events.CodeBadRequest, "key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := wire.Submit{Type: "email", Params: json.RawMessage(`{"to":1}`)}
			if _, err := command.OfSubmit(s, freshID(now), 1000); err != nil {
				t.Fatalf("before the change: %v", err)
			}
			c.change(&s)
			_, err := command.OfSubmit(s, freshID(now), 1000)
			wantRefused(t, err, c.code, c.says)
		})
	}
}

func TestSubmitCommandCarriesEverything(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	p, high := wire.Priority(8), events.PriorityHigh
	s := wire.Submit{
		Type: "email", Params: json.RawMessage(`[1]`), ID: strings.ToLower(anID), Priority: &p, DedupKey: "d", IdempotencyKey: "i",
		AvailableAt: now.AddDate(9, 0, 0), MaxAttempts: 4, Timeout: events.Millis(1500), Capabilities: []string{"gpu"},
		Source: "s", Trigger: "t", Tenant: "n", Labels: map[string]string{"k": "v,w"}, Trace: "00",
	}
	fresh := freshID(now)
	got, err := command.OfSubmit(s, fresh, 100)
	if err != nil {
		t.Fatal(err)
	}
	id, _ := events.ParseID(anID)
	want := core.Submit{
		Type: "email", Params: json.RawMessage(`[1]`), ID: id, NewID: fresh, Priority: &high, DedupKey: "d", IdempotencyKey: "i",
		AvailableAt: s.AvailableAt, MaxAttempts: 4, Timeout: 1500 * time.Millisecond, Capabilities: []string{"gpu"},
		Tenant: "n", Labels: map[string]string{"k": "v,w"}, Provenance: events.Provenance{Source: "s", Trigger: "t"}, Trace: "00",
	}
	if err := want.Check(100, now); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

func TestReportCommand(t *testing.T) {
	id, _ := events.ParseID(anID)
	no := false
	base := wire.Report{ID: anID, Token: "zz", Worker: "w1", Attempt: 2}
	run := core.Run{ID: id, Token: 35*36 + 35, Worker: "w1", Attempt: 2}
	with := func(change func(*wire.Report)) command.Report {
		r := base
		change(&r)
		return command.Report{Report: &r}
	}
	for _, c := range []struct {
		report command.Report
		want   core.Command
	}{
		{with(func(r *wire.Report) { r.Event = wire.ReportStart }), core.Start{Run: run}},
		{with(func(r *wire.Report) { r.Event, r.Result = wire.ReportComplete, json.RawMessage("{}") }),
			core.Complete{Run: run, Result: json.RawMessage("{}")}},
		{with(func(r *wire.Report) {
			r.Event, r.Error, r.RetryAfter = wire.ReportFail, strings.Repeat("é", events.MaxErrorText), events.Millis(5)
		}),
			core.Fail{Run: run, Error: strings.Repeat("é", events.MaxErrorText/2), Retryable: true, RetryAfter: 5 * time.Millisecond, Random: 7}},
		{with(func(r *wire.Report) { r.Event, r.Code, r.Retryable = wire.ReportFail, "no_such", &no }),
			core.Fail{Run: run, Code: "no_such", Random: 7}},
		{with(func(r *wire.Report) { r.Event, r.Reason = wire.ReportRelease, "shutdown" }), core.Release{Run: run, Reason: "shutdown"}},
	} {
		got, err := c.report.Command(7)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, %v\nwant %+v", c.report.Event, got, err, c.want)
		}
	}
	for name, c := range map[string]struct {
		report command.Report
		code   events.Code
	}{
		"event":    {with(func(r *wire.Report) { r.Event = "done" }), events.CodeBadRequest},
		"id":       {with(func(r *wire.Report) { r.ID = "" }), events.CodeBadID},
		"no token": {with(func(r *wire.Report) { r.Token = "" }), events.CodeBadRequest},
		"token":    {with(func(r *wire.Report) { r.Token = "-" }), events.CodeBadRequest},
		"worker":   {with(func(r *wire.Report) { r.Worker = "a b" }), events.CodeBadRequest},
		"attempt":  {with(func(r *wire.Report) { r.Attempt = -1 }), events.CodeBadRequest},
		"result":   {with(func(r *wire.Report) { r.Event, r.Result = wire.ReportComplete, json.RawMessage("x") }), events.CodeBadRequest},
		"result size": {with(func(r *wire.Report) {
			r.Event, r.Result = wire.ReportComplete, make([]byte, events.MaxResultBytes+1)
		}), events.CodeTooLarge},
		"retry after": {with(func(r *wire.Report) { r.Event, r.RetryAfter = wire.ReportFail, events.Millis(-1) }), events.CodeBadTime},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.report.Command(7)
			wantRefused(t, err, c.code, "")
		})
	}
}

func TestRescheduleAndCancelCommands(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	p, nine := wire.Priority(9), events.MaxPriority
	id, _ := events.ParseID(anID)
	got, err := command.OfReschedule(wire.Reschedule{ID: anID, Priority: &p, Now: true}, now)
	if want := (core.Reschedule{ID: id, Priority: &nine, Now: true}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	for name, r := range map[string]wire.Reschedule{
		"now and later": {ID: anID, Now: true, Delay: events.Millis(5)},
		"too late":      {ID: anID, AvailableAt: now.AddDate(20, 0, 0)},
	} {
		_, err := command.OfReschedule(r, now)
		t.Run(name, func(t *testing.T) { wantRefused(t, err, events.CodeBadTime, "") })
	}
	_, err = command.OfReschedule(wire.Reschedule{ID: anID}, now)
	wantRefused(t, err, events.CodeBadRequest, "nothing to change")
	if c, err := command.OfCancel(wire.Cancel{ID: anID, Reason: "r"}); err != nil || c.ID != id || c.Reason != "r" {
		t.Errorf("got %+v, %v", c, err)
	}
	_, err = command.OfCancel(wire.Cancel{ID: "?"})
	wantRefused(t, err, events.CodeBadID, "ULID")
}

// What the engine would refuse is refused before it gets to its loop, with the same
// code: both go by one check.
func TestSubmitCommandChecksAsTheCoreDoes(t *testing.T) {
	for name, s := range map[string]wire.Submit{
		"nesting": {Type: "email", Params: json.RawMessage(strings.Repeat("[", events.MaxJSONDepth+1) + strings.Repeat("]", events.MaxJSONDepth+1))},
		"timeout": {Type: "email", Timeout: events.Millis(events.MaxTimeout.Milliseconds() + 1)},
		"endless": {Type: "email", Timeout: events.Millis(1 << 62)},
		"ancient": {Type: "email", Delay: events.Millis(-1 << 62)},
	} {
		_, err := command.OfSubmit(s, events.ID{}, events.MaxParamsCeiling)
		want := events.CodeBadTime
		if name == "nesting" {
			want = events.CodeBadParams
		}
		if events.CodeOf(err) != want {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
	}
}

// A priority is a number or a word in JSON, as in headers and on the command
// line.
func TestPriorityInJSON(t *testing.T) {
	for text, want := range map[string]int{`0`: 0, `9`: 9, `"high"`: 8, `"Medium"`: 5, `"low"`: 2, `"7"`: 7} {
		var s wire.Submit
		if err := json.Unmarshal([]byte(`{"type":"email","priority":`+text+`}`), &s); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		c, err := command.OfSubmit(s, events.ID{1}, 1000)
		if err != nil || c.Priority == nil || int(*c.Priority) != want {
			t.Errorf("%s is %v, %v", text, c.Priority, err)
		}
		if out, err := json.Marshal(s.Priority); err != nil || string(out) != string(rune('0'+want)) {
			t.Errorf("%s is written as %s, %v", text, out, err)
		}
	}
	for _, text := range []string{`"urgent"`, `""`, `1.5`, `true`, `[1]`, `10`, `-1`, `99999999999999999999`} {
		var s wire.Submit
		err := json.Unmarshal([]byte(`{"type":"email","priority":`+text+`}`), &s)
		if err == nil {
			_, err = command.OfSubmit(s, events.ID{1}, 1000)
		}
		var refused *events.Error
		if !errors.As(err, &refused) || refused.Code != events.CodeBadPriority {
			t.Errorf("%s: %v", text, err)
		}
	}
	var s wire.Submit
	if err := json.Unmarshal([]byte(`{"priority":null}`), &s); err != nil || s.Priority != nil {
		t.Errorf("null: %v, %v", s.Priority, err)
	}
}

func BenchmarkParsePlainSubmission(b *testing.B) {
	body := []byte(`{"to":"someone@example.org","subject":"a subject of some length","n":123456}`)
	id := events.ID{1}
	b.ReportAllocs()
	for b.Loop() {
		s, err := wire.ParseSubmission("work.intake.0.email", nil, body, wire.Default)
		if err == nil {
			_, err = command.OfSubmit(s, id, events.MaxParamsBytes)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
