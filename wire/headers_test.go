package wire_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

func TestParseSubmissionReadsEverything(t *testing.T) {
	header := map[string][]string{
		"Work-Id":              {"01JD3V6YB2M4C9W8ZK5T7QXRNE"},
		"Work-Priority":        {"high"},
		"Work-Dedup-Key":       {"a=b,c"},
		"Work-Idempotency-Key": {"once"},
		"work-delay":           {"1500µs"}, // any case; rounded up
		"Work-Max-Attempts":    {"7"},
		"Work-Timeout":         {"2m"},
		"Work-Capabilities":    {"gpu, big", "eu"},
		"Work-Source":          {"cron"},
		"Work-Trigger":         {"nightly"},
		"Work-Tenant":          {"acme"},
		"Work-Labels":          {"k=v, url=http://x?a=b"},
		"Traceparent":          {"00-1-2-01"},
		"Nats-Msg-Id":          {"left alone"},
		"X-Other":              {"left alone"},
	}
	high := wire.Priority(8)
	want := wire.Submit{
		Type: "email", Params: json.RawMessage(`{"to":1}`), ID: "01JD3V6YB2M4C9W8ZK5T7QXRNE",
		Priority: &high, DedupKey: "a=b,c", IdempotencyKey: "once", Delay: events.Millis(2), MaxAttempts: 7,
		Timeout: events.Millis(120_000), Capabilities: []string{"gpu", "big", "eu"}, Source: "cron", Trigger: "nightly",
		Tenant: "acme", Labels: map[string]string{"k": "v", "url": "http://x?a=b"}, Trace: "00-1-2-01",
	}
	for _, subject := range []string{"work.submit.email", "work.intake.0.email", "work.intake.12.email"} {
		got, err := wire.ParseSubmission(subject, header, []byte(`{"to":1}`), wire.Default)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v\nwant %+v", subject, got, err, want)
		}
	}
}

func TestParseSubmissionRefuses(t *testing.T) {
	one := func(name, value string) map[string][]string { return map[string][]string{name: {value}} }
	for _, c := range []struct {
		name    string
		subject string
		header  map[string][]string
		code    events.Code
		says    string
	}{
		{"no type", "work.submit.", nil, events.CodeBadType, "work.submit.*"},
		{"other prefix", "job.submit.email", nil, events.CodeBadType, "work.submit.*"},
		{"prefix run on", "works.submit.email", nil, events.CodeBadType, ""},
		{"intake without type", "work.intake.0", nil, events.CodeBadType, ""},
		{"nothing", "work.submit.email", nil, events.CodeBadRequest, "null"},
		{"a server's status, stored", "work.intake.0.email", one("Nats-Pending-Messages", "1"), events.CodeBadRequest, "null"},
		{"unknown header", "work.submit.email", one("Work-Prioritty", "1"), events.CodeBadHeader, "Work-Priority"},
		{"header of a later version", "work.submit.email", one("Work-Verify-By", "x"), events.CodeBadHeader, `"Work-Verify-By" is unknown`},
		{"dispatch header", "work.submit.email", one("Work-Token", "x"), events.CodeBadHeader, "unknown"},
		{"twice", "work.submit.email", map[string][]string{"Work-Source": {"a", "b"}}, events.CodeBadHeader, "once"},
		{"priority", "work.submit.email", one("Work-Priority", "10"), events.CodeBadPriority, "0 to 9"},
		{"time", "work.submit.email", one("Work-Available-At", "tomorrow"), events.CodeBadTime, "RFC 3339"},
		{"delay", "work.submit.email", one("Work-Delay", "10"), events.CodeBadTime, "90s"},
		{"negative delay", "work.submit.email", one("Work-Delay", "-1s"), events.CodeBadTime, "90s"},
		{"timeout", "work.submit.email", one("Work-Timeout", "soon"), events.CodeBadTime, "Work-Timeout"},
		{"attempts", "work.submit.email", one("Work-Max-Attempts", "0"), events.CodeBadHeader, "1 to 1000"},
		{"attempts no number", "work.submit.email", one("Work-Max-Attempts", "many"), events.CodeBadHeader, "1 to 1000"},
		{"label", "work.submit.email", one("Work-Labels", "a=b,c"), events.CodeBadHeader, "key=value"},
		{"label without key", "work.submit.email", one("Work-Labels", "=c"), events.CodeBadHeader, "key=value"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := wire.ParseSubmission(c.subject, c.header, nil, wire.Default)
			wantRefused(t, err, c.code, c.says)
		})
	}
}

func TestParseSubmissionKeepsWhatItCouldRead(t *testing.T) {
	s, err := wire.ParseSubmission("work.submit.email", map[string][]string{
		"Work-Priority": {"99"}, "Work-Id": {"01JD3V6YB2M4C9W8ZK5T7QXRNE"}, "Work-Nonsense": {"1"},
	}, []byte("x"), wire.Default)
	if err == nil || s.Type != "email" || s.ID == "" || string(s.Params) != "x" {
		t.Errorf("got %+v, %v", s, err)
	}
	for range 20 { // whatever the map's order, the same error is told
		_, again := wire.ParseSubmission("work.submit.email", map[string][]string{"Work-Priority": {"99"}, "Work-Nonsense": {"1"}}, nil, wire.Default)
		if again.Error() != err.Error() {
			t.Fatalf("got %v, then %v", err, again)
		}
	}
}

func TestHeadersRefuseWhatTheyCannotCarry(t *testing.T) {
	for name, s := range map[string]wire.Submit{
		"line break":    {DedupKey: "a\nb"},
		"blank":         {Source: " a"},
		"comma":         {Labels: map[string]string{"k": "a,b"}},
		"empty element": {Capabilities: []string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.Headers()
			wantRefused(t, err, events.CodeBadHeader, "submit")
		})
	}
}

// FuzzHeaders: whatever Headers accepts, ParseSubmission reads back; and
// nothing makes either of them panic.
func FuzzHeaders(f *testing.F) {
	f.Add("email", "01JD3V6YB2M4C9W8ZK5T7QXRNE", 5, "d", "i", int64(1e18), int64(0), 3, int64(5), "gpu", "k", "v")
	f.Add("x", "", -1, "a b", "", int64(0), int64(77), 0, int64(0), "", "k=", "v,")
	f.Fuzz(func(t *testing.T, typ, id string, prio int, dedup, idem string, at, delay int64, attempts int, timeout int64, capability, k, v string) {
		s := wire.Submit{Type: typ, Params: json.RawMessage("1"), ID: id, DedupKey: dedup, IdempotencyKey: idem, Source: dedup, Trace: idem}
		if prio >= 0 && prio <= 9 {
			s.Priority = (*wire.Priority)(&prio)
		}
		if at > 0 {
			s.AvailableAt = time.Unix(0, at).UTC()
		}
		s.Delay, s.Timeout, s.MaxAttempts = events.Millis(max(delay, 0)%1e12), events.Millis(max(timeout, 0)%1e12), max(attempts, 0)
		if capability != "" {
			s.Capabilities = []string{capability}
		}
		if k != "" && !strings.Contains(k, "=") && strings.TrimSpace(k) == k && strings.TrimSpace(v) == v {
			s.Labels = map[string]string{k: v}
		}
		h, err := s.Headers()
		if err != nil || typ == "" || strings.ContainsAny(typ, ".") {
			_, _ = wire.ParseSubmission(typ, h, nil, wire.Default)
			return
		}
		got, err := wire.ParseSubmission("work.submit."+typ, h, []byte("1"), wire.Default)
		if err != nil || !reflect.DeepEqual(got, s) {
			t.Fatalf("got %+v, %v\nwant %+v", got, err, s)
		}
	})
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
