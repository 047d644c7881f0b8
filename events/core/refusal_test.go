package core

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/streamwright/streamwright/events"
)

func TestRefusedSubmissions(t *testing.T) {
	prio := events.MaxPriority + 1
	many := map[string]string{}
	for i := range events.MaxLabels + 1 {
		many[fmt.Sprint(i)] = ""
	}
	long := strings.Repeat("x", events.MaxKeyLen+1)
	for name, c := range map[string]struct {
		code events.Code
		cmd  Submit
	}{
		"type":            {events.CodeBadType, Submit{Type: "E-Mail"}},
		"priority":        {events.CodeBadPriority, Submit{Priority: &prio}},
		"params":          {events.CodeBadParams, Submit{Params: []byte("hello")}},
		"large params":    {events.CodeTooLarge, Submit{Params: []byte(`"` + strings.Repeat("x", events.MaxParamsBytes) + `"`)}},
		"both times":      {events.CodeBadTime, Submit{Delay: 1, AvailableAt: time.Unix(1, 0)}},
		"negative delay":  {events.CodeBadTime, Submit{Delay: -1}},
		"long delay":      {events.CodeBadTime, Submit{Delay: events.MaxDelay + 1}},
		"longest delay":   {events.CodeBadTime, Submit{Delay: 1<<63 - 1}},
		"far time":        {events.CodeBadTime, Submit{AvailableAt: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}},
		"dedup key":       {events.CodeTooLarge, Submit{DedupKey: long}},
		"idempotency key": {events.CodeTooLarge, Submit{IdempotencyKey: long}},
		"message id":      {events.CodeTooLarge, Submit{Intake: events.Intake{Seq: 1, MsgID: long}}},
		"tenant":          {events.CodeBadRequest, Submit{Tenant: "\xff"}},
		"source":          {events.CodeTooLarge, Submit{Provenance: events.Provenance{Source: long}}},
		"trace":           {events.CodeTooLarge, Submit{Trace: long}},
		"capability":      {events.CodeBadRequest, Submit{Capabilities: []string{"GPU"}}},
		"capabilities":    {events.CodeTooLarge, Submit{Capabilities: make([]string, events.MaxCapabilities+1)}},
		"lane":            {events.CodeTooLarge, Submit{Capabilities: []string{strings.Repeat("a", 63), strings.Repeat("b", 63), strings.Repeat("c", 63)}}},
		"labels":          {events.CodeTooLarge, Submit{Labels: many}},
		"label name":      {events.CodeBadRequest, Submit{Labels: map[string]string{"a=b": ""}}},
		"label value":     {events.CodeTooLarge, Submit{Labels: map[string]string{"a": long}}},
		"timeout":         {events.CodeBadTime, Submit{Timeout: time.Microsecond}},
		"long timeout":    {events.CodeBadTime, Submit{Timeout: events.MaxTimeout + 1}},
		"attempts":        {events.CodeBadRequest, Submit{MaxAttempts: events.MaxAttemptsCeiling + 1}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if c.cmd.Type == "" {
				c.cmd.Type = "email"
			}
			c.cmd.NewID = w.newID()
			w.refused(c.code, c.cmd)
			if len(w.log) != 0 {
				t.Fatal("it left events")
			}
		})
	}
}

func TestTooManyTypes(t *testing.T) {
	w := newWorld(t)
	for i := range events.MaxTypes {
		w.do(Define{Type: events.Type(fmt.Sprint("t", i))})
	}
	w.refused(events.CodeTooManyTypes, Define{Type: "more"})
	w.refused(events.CodeTooManyTypes, Submit{Type: "more", NewID: w.newID()})
	w.submit(Submit{Type: "t0"})
	if d := w.do(Define{Type: "t0"}); !d.Repeat {
		t.Fatalf("%+v", d)
	}
	if n := len(w.s.TypeNames()); n != events.MaxTypes {
		t.Fatalf("%d types", n)
	}
}

// Maps have no order, refusals must have one.
func TestRefusalsAreTheSameEachTime(t *testing.T) {
	w := newWorld(t)
	set := events.DefaultTypeSettings()
	set.PerPriority = map[events.Priority]events.PriorityOverride{}
	labels := map[string]string{}
	for i := range events.Priority(9) {
		n := events.Attempt(-1)
		set.PerPriority[i] = events.PriorityOverride{MaxAttempts: &n}
		labels[fmt.Sprint("=", i)] = ""
	}
	for _, c := range []Command{Submit{Type: "email", NewID: w.newID(), Labels: labels}, Configure{Type: "email", Source: events.SourceAPI, Settings: set}} {
		_, first := w.try(c)
		for range 50 {
			if _, err := w.try(c); err == nil || err.Error() != first.Error() {
				t.Fatalf("%T: %v, then %v", c, first, err)
			}
		}
	}
}

func TestSettingsReportEveryFault(t *testing.T) {
	bad := events.Attempt(0)
	s := events.TypeSettings{PerPriority: map[events.Priority]events.PriorityOverride{11: {Timeout: new(events.Duration), MaxAttempts: &bad, Backoff: &events.Backoff{Jitter: 2}}}, Backoff: events.Backoff{Initial: events.Millis(-1), Max: events.Millis(-2), Factor: 0}}
	err := s.Validate()
	if err == nil {
		t.Fatal("valid")
	}
	for _, name := range []string{"capacity", "lease_ms", "timeout_ms", "max_attempts", "age_step_ms", "max_params_bytes", "backoff.initial_ms",
		"backoff.max_ms", "backoff.factor", "priority 11: priority", "priority 11: timeout_ms", "priority 11: max_attempts", "priority 11: backoff.jitter"} {
		if !strings.Contains(err.Error(), name+" is ") {
			t.Errorf("%s is not reported in:\n%v", name, err)
		}
	}
	if err := events.DefaultTypeSettings().Validate(); err != nil {
		t.Error(err)
	}
}

// A base that can't be read is no refusal, whatever the command.
func TestErrorsOfTheBase(t *testing.T) {
	broken := errors.New("disk on fire")
	base := &brokenBase{mapBase: newMapBase()}
	s, err := NewState(base)
	if err != nil {
		t.Fatal(err)
	}
	base.err = broken
	id := crowdID(1)
	run := Run{ID: id, Token: 1, Worker: "w1"}
	for _, c := range []Command{
		Submit{Type: "email", ID: id}, Submit{Type: "email", NewID: id, IdempotencyKey: "k"}, Submit{Type: "email", NewID: id, DedupKey: "k"},
		Claim{ID: id, Token: 1}, Start{Run: run}, Complete{Run: run}, Fail{Run: run}, Release{Run: run},
		ExpireLease{ID: id}, Due{ID: id}, Cancel{ID: id}, Reschedule{ID: id},
	} {
		var refused *events.Error
		if _, err := Decide(s, c, time.Unix(1, 0)); !errors.Is(err, broken) || errors.As(err, &refused) {
			t.Errorf("%T: %v", c, err)
		}
	}
	if _, err := s.Params(id); !errors.Is(err, broken) {
		t.Error(err)
	}
	for _, k := range []events.Kind{events.KindCreated, events.KindCancelled} {
		if err := s.Apply(events.Event{Seq: nextFrame(s), Kind: k, ID: id, Type: "email", Body: sampleBody(k)}); !errors.Is(err, broken) || errors.Is(err, events.ErrCorrupt) {
			t.Errorf("%s: %v", k, err)
		}
	}
	if _, err := NewState(base); !errors.Is(err, broken) {
		t.Error(err)
	}
}

type brokenBase struct {
	*mapBase
	err error
}

func (b *brokenBase) Meta() (events.Meta, error)                              { return events.Meta{}, b.err }
func (b *brokenBase) Item(events.ID) (*events.Item, error)                    { return nil, b.err }
func (b *brokenBase) Document(events.DocKind, events.ID) ([]byte, error)      { return nil, b.err }
func (b *brokenBase) Key(r events.KeyRef) (h events.HeldKey, _ bool, _ error) { return h, false, b.err }

func TestFifoIsAQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var f fifo[int]
		var model []int
		for i, push := range rapid.SliceOf(rapid.Bool()).Draw(t, "pushes") {
			if push {
				f.push(i)
				model = append(model, i)
			} else if len(model) > 0 {
				f.pop()
				model = model[1:]
			}
			v, ok := f.peek()
			if f.len() != len(model) || ok != (len(model) > 0) || ok && v != model[0] {
				t.Fatalf("%d of %d, first %d %v, want %v", f.len(), len(model), v, ok, model)
			}
		}
	})
}

func TestLanes(t *testing.T) {
	for want, caps := range map[string][]string{"": nil, "gpu": {"gpu", "gpu"}, "big-mem_gpu": {"gpu", "big-mem"}} {
		if got := (&events.Item{Capabilities: caps}).Lane(); got != want {
			t.Errorf("lane of %v is %q, want %q", caps, got, want)
		}
	}
}
