package command_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/wire/command"
)

// maxErrorText bounds what an error may quote of its input, in bytes.
const maxErrorText = 4096

// checkRefusal fails unless err is an *events.Error with a code and a text of
// a bounded length.
func checkRefusal(t *testing.T, err error) {
	t.Helper()
	var e *events.Error
	if !errors.As(err, &e) || e.Code == "" || e.Code == events.CodeInternal || e.Message == "" {
		t.Fatalf("%v is no refusal with a code and a text", err)
	}
	if len(e.Message) > maxErrorText {
		t.Fatalf("the error text has %d bytes: %.200q", len(e.Message), e.Message)
	}
}

// headerOf reads lines "Name: value" as a NATS header, whatever they hold.
func headerOf(text string) map[string][]string {
	h := map[string][]string{}
	for line := range strings.SplitSeq(text, "\n") {
		if name, value, ok := strings.Cut(line, ":"); ok {
			value = strings.TrimPrefix(value, " ")
			h[name] = append(h[name], value)
		}
	}
	return h
}

// FuzzSubmission publishes a message with any subject, headers and body. It is
// refused with a code, or gives a command within its bounds that the message
// which Headers makes of it gives as well.
func FuzzSubmission(f *testing.F) {
	f.Add("work.submit.email", "Work-Priority: high\nWork-Labels: a=b,c=d", []byte(`{"to":"x"}`))
	f.Add("work.intake.0.email", "work-priority: 9\nWORK-ID: 01JD3V6YB2M4C9W8ZK5T7QXRNE\nWork-Delay: 90s\nWork-Dedup-Key: k\nWork-Dedup-Policy: defer\nWork-Dedup-Window: 1h", []byte("1"))
	f.Add("work.submit.email", "Work-After: 01JD3V6YB2M4C9W8ZK5T7QXRNE, 01JD3V6YB2M4C9W8ZK5T7QXRNF\nWork-After-Policy: dead\nWork-Expires-At: 2030-01-31T08:00:00+02:00", []byte("null"))
	f.Add("work.submit.email", "Work-Capabilities: gpu,eu\nWork-Capabilities: big\nWork-Tenant: acme\ntraceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", []byte(""))
	f.Add("work.submit.email", "Status: 404\nNats-Stream: WORK_EVENTS_0", []byte(`{"stream":"WORK_EVENTS_0", "seq":1}`))
	f.Add("work.submit.a.b", "Work-Nonsense: 1\nWork-Max-Attempts: 99999999999999999999\nWork-Timeout: -1s", []byte("\xff{"))
	f.Add("work.submit.email", "Work-Available-At: 9999-12-31T23:59:59.999999999Z\nWork-Timeout: 1ns", []byte("[]"))
	id := events.ID{1}
	f.Fuzz(func(t *testing.T, subject, headers string, body []byte) {
		h := headerOf(headers)
		s, err := wire.ParseSubmission(subject, h, body, wire.Default)
		if err != nil {
			checkRefusal(t, err)
			return
		}
		if string(s.Params) != string(body) {
			t.Fatalf("the body %q became the params %q", body, s.Params)
		}
		cmd, err := command.OfSubmit(s, id, 1000)
		if err != nil {
			checkRefusal(t, err)
			return
		}
		checkCommand(t, &cmd)
		again, err := s.Headers()
		if err != nil {
			checkRefusal(t, err)
			return
		}
		back, err := wire.ParseSubmission("work.submit."+s.Type, again, body, wire.Default)
		if err != nil {
			t.Fatalf("%q\ngives the headers %q, which are refused: %v", headers, again, err)
		}
		same, err := command.OfSubmit(back, id, 1000)
		if err != nil || !alike(same, cmd) {
			t.Fatalf("%q gives\n%+v, its own headers %q\n%+v, %v", headers, cmd, again, same, err)
		}
	})
}

// alike compares commands by their JSON, in which times of one moment are one.
func alike(a, b core.Submit) bool {
	if !a.AvailableAt.Equal(b.AvailableAt) || !a.ExpiresAt.Equal(b.ExpiresAt) {
		return false
	}
	b.AvailableAt, b.ExpiresAt = a.AvailableAt, a.ExpiresAt
	return reflect.DeepEqual(a, b)
}

func checkCommand(t *testing.T, c *core.Submit) {
	t.Helper()
	if _, err := events.ParseType(string(c.Type)); err != nil {
		t.Fatalf("a command of the type %q: %v", c.Type, err)
	}
	if len(c.Params) > 0 && !json.Valid(c.Params) {
		t.Fatalf("a command with the params %q", c.Params)
	}
	for name, n := range map[string][2]int{
		"dedup key": {len(c.DedupKey), events.MaxKeyLen}, "idempotency key": {len(c.IdempotencyKey), events.MaxKeyLen},
		"source": {len(c.Provenance.Source), events.MaxNameLen}, "trigger": {len(c.Provenance.Trigger), events.MaxNameLen},
		"tenant": {len(c.Tenant), events.MaxNameLen}, "capabilities": {len(c.Capabilities), events.MaxCapabilities},
		"after": {len(c.After), events.MaxAfter}, "attempts": {int(c.MaxAttempts), events.MaxAttemptsCeiling},
	} {
		if n[0] > n[1] {
			t.Fatalf("a command whose %s is %d, beyond %d", name, n[0], n[1])
		}
	}
	if c.Timeout < 0 || c.Timeout > events.MaxTimeout || c.Delay < 0 || c.Delay > events.MaxDelay {
		t.Fatalf("a command with the timeout %v and the delay %v", c.Timeout, c.Delay)
	}
	for _, s := range []string{c.DedupKey, c.IdempotencyKey, c.Tenant, c.Provenance.Source, c.Provenance.Trigger, c.Trace} {
		if !utf8.ValidString(s) {
			t.Fatalf("a command with the text %q", s)
		}
	}
}

// FuzzReports makes a command of each report of an array, or refuses it with a code.
func FuzzReports(f *testing.F) {
	f.Add([]byte(`[{"id":"01JD3V6YB2M4C9W8ZK5T7QXRNE","token":"1","worker":"w1","event":"claim"}]`))
	f.Add([]byte(`[{"id":"01JD3V6YB2M4C9W8ZK5T7QXRNE","token":"1","worker":"c","event":"fail","error":"<&>","retry_after_ms":-5,"retryable":false}]`))
	f.Add([]byte(`[{"id":"01JD3V6YB2M4C9W8ZK5T7QXRNE","token":"1","worker":"c","event":"spawn","children":[{"type":"a","params":1}],"continuation":{"name":"x"},"child_policy":"fail"}]`))
	f.Add([]byte(`[{"id":"01JD3V6YB2M4C9W8ZK5T7QXRNE","token":"1","worker":"c","event":"progress","percent":101,"message":"m","checkpoint":{"a":1}}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var list []wire.Report
		if json.Unmarshal(data, &list) != nil {
			return
		}
		for _, r := range command.Reports(list) {
			err := r.Prepare(func() events.ID { return events.ID{1} }, 1000)
			if err == nil {
				_, err = r.Command(1)
			}
			if err != nil {
				checkRefusal(t, err)
			}
		}
	})
}
