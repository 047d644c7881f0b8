package playground

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

func begin(t *testing.T) *Session {
	t.Helper()
	s, err := New()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// do executes commands that must not be refused, and returns the last reply.
func do(t *testing.T, s *Session, lines ...string) (r Reply) {
	t.Helper()
	for _, line := range lines {
		if r = s.Do(line); r.Refused != "" {
			t.Fatalf("%s: %s", line, r.Refused)
		}
	}
	return r
}

// kinds lists the kinds of a reply's events, with the number of the item behind it.
func kinds(t *testing.T, s *Session, r Reply) string {
	t.Helper()
	var out []string
	for _, line := range r.Events {
		ev, err := events.DecodeEvent([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		name := ev.Kind.String()
		if n := slices.Index(s.items, ev.ID) + 1; n > 0 {
			name = fmt.Sprintf("%s %d", name, n)
		}
		out = append(out, name)
	}
	return strings.Join(out, ", ")
}

func wants(t *testing.T, s *Session, line, events string) {
	t.Helper()
	if got := kinds(t, s, do(t, s, line)); got != events {
		t.Errorf("%s gives %q, not %q", line, got, events)
	}
}

// refuses checks that a command is refused with a code, and changes nothing.
func refuses(t *testing.T, s *Session, line string, code events.Code) {
	t.Helper()
	before, err := s.Digest()
	if err != nil {
		t.Fatal(err)
	}
	r := s.Do(line)
	if !strings.HasPrefix(r.Refused, string(code)+":") {
		t.Errorf("%s gives %q, not %s", line, r.Refused, code)
	}
	if r.View.Digest != before {
		t.Errorf("%s is refused, and has changed the state", line)
	}
}

func TestRetries(t *testing.T) {
	s := begin(t)
	do(t, s, `type email {"max_attempts":2,"backoff":{"initial_ms":10000,"factor":2,"max_ms":60000,"jitter":0}}`)
	wants(t, s, "submit email", "created 1, queued 1, claimed 1, running 1")
	wants(t, s, `fail {"code":"network"}`, "failed 1, queued 1")
	wants(t, s, "advance 9s", "")
	wants(t, s, "advance 1s", "claimed 1, running 1")
	wants(t, s, "fail 1", "failed 1, dead 1, cause_noted")
	wants(t, s, "submit email", "created 2, queued 2, claimed 2, running 2")
	wants(t, s, `fail 2 {"code":"logic"}`, "failed 2, dead 2, cause_noted")
	wants(t, s, `submit email {"timeout_ms":5000,"max_attempts":1}`, "created 3, queued 3, claimed 3, running 3")
	wants(t, s, "advance 1m", "failed 3, dead 3, cause_noted")
}

func TestPoison(t *testing.T) {
	s := begin(t)
	do(t, s, `type convert {"max_attempts":10,"poison_after":2}`, "submit convert")
	wants(t, s, "lose", "failed 1, queued 1, claimed 1, running 1")
	wants(t, s, "lose", "failed 1, dead 1, cause_noted")
	refuses(t, s, "lose 1", events.CodeWrongState)
}

func TestPriorities(t *testing.T) {
	s := begin(t)
	do(t, s, "slots 1", "submit email", "submit email", `submit email {"priority":9}`, "submit invoice")
	wants(t, s, "complete", "completed 1, claimed 3, running 3")
	wants(t, s, "complete", "completed 3, claimed 2, running 2") // submitted before 4, of another type
	wants(t, s, "complete", "completed 2, claimed 4, running 4")
	// An item that has waited for long enough goes before a newer one of a higher priority.
	do(t, s, `type email {"age_step_ms":10000}`, `submit email {"priority":5}`, "advance 11s", `submit email {"priority":6}`)
	wants(t, s, "complete", "completed 4, claimed 5, running 5")
}

func TestLimits(t *testing.T) {
	s := begin(t)
	do(t, s, `type email {"capacity":1}`, "submit email")
	wants(t, s, "submit email", "created 2, queued 2")
	wants(t, s, "submit invoice", "type_configured, created 3, queued 3, claimed 3, running 3")
	wants(t, s, "complete", "completed 1, claimed 2, running 2")

	s = begin(t)
	do(t, s, "slots 10", `type email {"rates":[{"per":"type","at":"dispatch","n":1,"interval_ms":5000}]}`, "submit email")
	wants(t, s, "submit email", "created 2, queued 2")
	wants(t, s, "advance 4s", "")
	wants(t, s, "advance next", "claimed 2, running 2")
	do(t, s, `type email {"max_queued":1}`, "submit email")
	refuses(t, s, "submit email", events.CodeQueueFull)

	s = begin(t)
	do(t, s, "slots 10", `type email {"group_capacity":1}`, `submit email {"tenant":"a"}`)
	wants(t, s, `submit email {"tenant":"a"}`, "created 2, queued 2")
	wants(t, s, `submit email {"tenant":"b"}`, "created 3, queued 3, claimed 3, running 3")
	wants(t, s, "complete 1", "completed 1, claimed 2, running 2")
}

func TestCircuit(t *testing.T) {
	s := begin(t)
	do(t, s, `type email {"circuit":{"consecutive":2,"cooldown_ms":30000,"probes":1}}`, "submit email", "submit email", "submit email", `fail {"code":"logic"}`)
	do(t, s, `fail {"retry_after_ms":1000}`)
	r := do(t, s, `fail {"retry_after_ms":1000}`)
	if got := kinds(t, s, r); got != "failed 3, queued 3, circuit_opened" {
		t.Error(got)
	}
	if got := r.View.Held["email"]; got != "circuit open for another 30s" {
		t.Errorf("email is %q", got)
	}
	wants(t, s, "advance 29s", "")
	wants(t, s, "advance 1s", "circuit_half_opened, claimed 2, running 2") // one probe
	wants(t, s, "complete", "completed 2, circuit_closed, claimed 3, running 3")
	wants(t, s, "pause email", "paused")
	wants(t, s, "submit email", "created 4, queued 4")
	wants(t, s, "resume email", "resumed, claimed 4, running 4")
}

func TestDedup(t *testing.T) {
	s := begin(t)
	do(t, s, "slots 0", `submit email {"dedup_key":"a"}`)
	r := do(t, s, `submit email {"dedup_key":"a","priority":8}`)
	if got := kinds(t, s, r); got != "created 2, merged 2, rescheduled 1" {
		t.Error(got)
	}
	if it := r.View.Items[1]; it.State != "merged" || it.Note != "into 1" {
		t.Errorf("%+v", it)
	}
	wants(t, s, `submit email {"dedup_key":"a","dedup_policy":"supersede"}`, "created 3, cancelled 1, queued 3")
}

func TestRefused(t *testing.T) {
	s := begin(t)
	do(t, s, "submit email")
	for line, code := range map[string]events.Code{
		"": events.CodeBadRequest, "jump": events.CodeBadRequest, "submit Bad": events.CodeBadType, `submit email {"prio":1}`: events.CodeBadRequest,
		"complete 9": events.CodeNotFound, "advance": events.CodeBadTime, "advance -1s": events.CodeBadTime, "slots many": events.CodeBadRequest,
		`type email {"capacity":-1}`: events.CodeBadRequest, `type email {"codes":{"x":1}}`: events.CodeBadRequest, "cancel x": events.CodeNotFound,
	} {
		refuses(t, s, line, code)
	}
}

// A session ends at its bounds, and does not grow beyond them.
func TestBounds(t *testing.T) {
	s := begin(t)
	s.slots = 0
	for range MaxItems {
		if err := s.do("submit email"); err != nil {
			t.Fatal(err)
		}
	}
	refuses(t, s, "submit email", events.CodeTooLarge)
	s.slots = MaxSlots
	for range MaxLog {
		if s.do("pause email") != nil || s.do("resume email") != nil {
			break
		}
	}
	refuses(t, s, "pause email", events.CodeTooLarge)
	if len(s.log) > MaxLog+2*MaxItems {
		t.Errorf("the log has %d events", len(s.log))
	}
}

// The digest is of the log: the live state is the one that its replay gives, item by item.
func TestTheLogGivesTheLiveState(t *testing.T) {
	s := begin(t)
	for _, line := range script(7, 300) {
		_ = s.do(line) // some are refused
	}
	replayed, err := core.NewState(core.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range s.log {
		ev, err := events.DecodeEvent(e.line)
		if err != nil {
			t.Fatal(err)
		}
		ev.Seq = e.seq
		if err := replayed.Apply(ev); err != nil {
			t.Fatal(err)
		}
	}
	for n, id := range s.items {
		live, _ := s.state.Item(id) // an empty base has no errors
		again, _ := replayed.Item(id)
		a, _ := json.Marshal(live)
		b, _ := json.Marshal(again)
		if string(a) != string(b) {
			t.Errorf("item %d is\n%s, its replay\n%s", n+1, a, b)
		}
	}
}
