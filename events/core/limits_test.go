package core

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/policy"
)

func (w *world) configure(edit func(*events.TypeSettings)) {
	w.t.Helper()
	set, _ := w.s.Settings("email")
	edit(&set)
	w.do(Configure{Type: "email", Source: events.SourceAPI, Settings: set})
}

func (w *world) refusal(code events.Code, c Command) *events.Error {
	w.t.Helper()
	_, err := w.try(c)
	var e *events.Error
	if !errors.As(err, &e) || e.Code != code {
		w.t.Fatalf("%T: got %v, want %s", c, err, code)
	}
	return e
}

func (w *world) item1(c Submit) Submit {
	c.Type, c.NewID = "email", w.newID()
	return c
}

func TestQueueLimits(t *testing.T) {
	w := newWorld(t)
	w.configure(func(s *events.TypeSettings) {
		s.MaxQueued = 4
		s.QueueSteps = []events.QueueStep{{Over: 1, MinPriority: 5}, {Over: 2, Sources: []string{"billing"}}}
	})
	low, high := events.PriorityLow, events.PriorityHigh
	first := w.submit(Submit{Priority: &low, DedupKey: "a", IdempotencyKey: "i"})
	w.refused(events.CodeQueueFull, w.item1(Submit{Priority: &low}))
	w.submit(Submit{Priority: &high, Delay: time.Hour})
	e := w.refusal(events.CodeQueueFull, w.item1(Submit{Priority: &high})) // the last step exceeded counts
	if e.RetryAfter != QueueFullRetryAfter || !strings.Contains(e.Message, "source") {
		t.Fatalf("%+v", e)
	}
	for range 2 {
		w.submit(Submit{Priority: &low, Provenance: events.Provenance{Source: "billing"}})
	}
	w.refused(events.CodeQueueFull, w.item1(Submit{Provenance: events.Provenance{Source: "billing"}}))
	// Repeats and merges are never refused for fullness.
	if d := w.do(w.item1(Submit{IdempotencyKey: "i"})); !d.Repeat || d.ID != first {
		t.Fatalf("%+v", d)
	}
	w.submit(Submit{DedupKey: "a"})
	w.claim(first, 1) // no longer waits
	w.submit(Submit{Provenance: events.Provenance{Source: "billing"}})
	w.readBack()
}

func TestGlobalQueueLimit(t *testing.T) {
	w := newWorld(t)
	w.s.SetLimits(events.Limits{MaxQueued: 2, QueueSteps: []events.QueueStep{{Over: 1, MinPriority: 6}}})
	high := events.PriorityHigh
	w.submit(Submit{Type: "call"})
	w.refused(events.CodeQueueFull, w.item1(Submit{}))
	id := w.submit(Submit{Priority: &high})
	if !w.s.QueueFull() {
		t.Fatal("two wait, of two")
	}
	w.refused(events.CodeQueueFull, w.item1(Submit{Priority: &high}))
	w.do(Cancel{ID: id})
	if w.s.QueueFull() {
		t.Fatal("one has gone")
	}
	w.submit(Submit{Priority: &high})
}

func TestRateLimitAtSubmit(t *testing.T) {
	w := newWorld(t)
	w.configure(func(s *events.TypeSettings) {
		s.Rates = []events.RateLimit{
			{Per: events.PerTenant, At: events.AtSubmit, N: 2, Interval: events.Millis(1000), Burst: 2},
			{Per: events.PerTenant, At: events.AtSubmit, N: 3, Interval: events.Millis(60_000)},
		}
	})
	acme := func() Submit { return w.item1(Submit{Tenant: "acme", DedupKey: "x" + fmt.Sprint(w.ids)}) }
	w.do(acme())
	d := w.do(acme())
	e := w.refusal(events.CodeRateLimited, acme())
	if e.RetryAfter != 500*time.Millisecond {
		t.Fatalf("%+v", e)
	}
	w.submit(Submit{Tenant: "globex"})
	for range 10 {
		w.submit(Submit{}) // no tenant, no limit
	}
	if m := w.do(w.item1(Submit{Tenant: "acme", DedupKey: w.item(d.ID).DedupKey})); w.item(m.ID).State != events.StateMerged {
		t.Fatal("a merge was limited")
	}
	w.now = w.now.Add(e.RetryAfter - 1)
	w.refused(events.CodeRateLimited, acme())
	w.now = w.now.Add(1)
	w.do(acme())
	w.now = w.now.Add(time.Second)
	if e := w.refusal(events.CodeRateLimited, acme()); e.RetryAfter != 20*time.Second-1500*time.Millisecond {
		t.Fatalf("the longer window opens in %s", e.RetryAfter)
	}
	w.readBack()
}

// A spawn waits for a rate that lets it pass later, and is refused for good if none ever does.
func TestASpawnAndARate(t *testing.T) {
	w := newWorld(t)
	w.configure(func(s *events.TypeSettings) {
		s.Rates = []events.RateLimit{{Per: events.PerTenant, At: events.AtSubmit, N: 3, Interval: events.Millis(60_000), Burst: 2}}
	})
	children := func(tenants ...string) (list []Submit) {
		for _, tenant := range tenants {
			list = append(list, w.item1(Submit{Tenant: tenant}))
		}
		return list
	}
	run := w.run(w.submit(Submit{Type: "crawl", Tenant: "acme"}))
	w.refused(events.CodeTooLarge, Spawn{Run: run, Children: children("", "globex", "acme", "")})
	w.spawn(Spawn{Run: run, Children: children("", "globex", "acme", "globex")})
	run = w.run(w.submit(Submit{Type: "crawl"}))
	if e := w.refusal(events.CodeRateLimited, Spawn{Run: run, Children: children("acme", "acme")}); e.RetryAfter != 20*time.Second {
		t.Errorf("%+v", e)
	}
	w.now = w.now.Add(40 * time.Second)
	w.spawn(Spawn{Run: run, Children: children("acme", "acme")})
	w.readBack()
}

func TestRateLimitAtDispatch(t *testing.T) {
	w := newWorld(t)
	w.configure(func(s *events.TypeSettings) {
		s.Rates = []events.RateLimit{{Per: events.PerType, At: events.AtDispatch, N: 1, Interval: events.Millis(1000)}, {Per: events.PerTenant, At: events.AtDispatch, N: 1, Interval: events.Millis(10_000)}}
	})
	a, b := w.submit(Submit{Tenant: "acme"}), w.submit(Submit{Tenant: "acme"})
	c := w.submit(Submit{Tenant: "globex"})
	run := w.claim(a, 1)
	claim := func(id events.ID, tok events.Token) Claim {
		return Claim{ID: id, Token: tok, Worker: "w1", Start: true}
	}
	if e := w.refusal(events.CodeRateLimited, claim(c, 2)); e.RetryAfter != time.Second {
		t.Fatalf("%+v", e)
	}
	if e := w.refusal(events.CodeRateLimited, claim(b, 2)); e.RetryAfter != 10*time.Second {
		t.Fatalf("the last to open is told: %+v", e)
	}
	w.do(Release{Run: run}) // does not give the token back
	open, at, err := w.s.RatesAllow("email", "", 0, w.now)
	if err != nil || open || !at.Equal(w.now.Add(time.Second)) {
		t.Fatalf("%v %s %v", open, at, err)
	}
	w.now = at
	if open, _, _ := w.s.RatesAllow("email", "", 0, w.now); !open {
		t.Fatal("shut")
	}
	if open, at, _ := w.s.RatesAllow("email", "", 1, w.now); open || !at.IsZero() {
		t.Fatalf("one on its way takes the place: %v %s", open, at)
	}
	w.do(claim(c, 2))
	w.readBack()
}

func TestGroupCapacityAndPool(t *testing.T) {
	w := newWorld(t)
	w.s.SetLimits(events.Limits{Pools: map[string]events.Pool{"llm": {Slots: 2}}})
	w.configure(func(s *events.TypeSettings) { s.GroupCapacity, s.GroupBy = 1, events.PerLabel+"team" })
	set := events.DefaultTypeSettings()
	set.Pool = "nowhere"
	w.refused(events.CodeBadRequest, Configure{Type: "call", Source: events.SourceAPI, Settings: set})
	set.Pool = "llm"
	w.do(Configure{Type: "call", Source: events.SourceAPI, Settings: set})
	w.do(Configure{Type: "sms", Source: events.SourceAPI, Settings: set})
	red := map[string]string{"team": "red"}
	a, b := w.submit(Submit{Labels: red}), w.submit(Submit{Labels: red})
	if g := w.item(a).Group; g != "red" {
		t.Fatalf("group %q", g)
	}
	run := w.claim(a, 1)
	claim := Claim{ID: b, Token: 2, Worker: "w1"}
	w.refused(events.CodeAtCapacity, claim)
	w.do(Complete{Run: run})
	w.do(claim)
	if n, _ := w.s.GroupRuns("email", "red"); n != 1 {
		t.Fatalf("%d run", n)
	}
	run = w.claim(w.submit(Submit{Type: "call"}), 3)
	w.claim(w.submit(Submit{Type: "sms"}), 4)
	third := w.submit(Submit{Type: "sms"})
	w.refused(events.CodeAtCapacity, Claim{ID: third, Token: 5, Worker: "w1"})
	w.do(Fail{Run: run, Retryable: true})
	w.claim(third, 5)
	w.readBack()
}

// A capacity that was made smaller holds for what was dispatched before; an ack run, which
// is no claim, is recorded all the same.
func TestCapacityAtTheClaim(t *testing.T) {
	w := newWorld(t)
	w.configure(func(s *events.TypeSettings) { s.Capacity = 2 })
	first, second := w.claim(w.submit(Submit{}), 1), w.claim(w.submit(Submit{}), 2)
	third := w.submit(Submit{})
	claim := Claim{ID: third, Token: 3, Worker: "w1"}
	w.refused(events.CodeAtCapacity, claim)
	w.configure(func(s *events.TypeSettings) { s.Capacity = 1 })
	w.do(Complete{Run: first})
	w.refused(events.CodeAtCapacity, claim)
	w.do(Fail{Run: second, Retryable: true})
	w.do(claim)
	if it := w.item(third); it.Attempt != 1 {
		t.Fatalf("refused claims count as attempts: it is at %d", it.Attempt)
	}
	w.configure(func(s *events.TypeSettings) { s.Protocol = events.ProtocolAck })
	w.do(AckRun{ID: second.ID, Token: 4, Dispatched: 4, Word: AckSeen})
	if it := w.item(second.ID); it.State != events.StateRunning {
		t.Fatalf("the ack run was forgotten: %s", it.State)
	}
	w.readBack()
}

// No window lets more through than N and the burst; what is refused opens at
// the time that the refusal names, and not before.
func TestRateLimitsAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := events.RateLimit{N: rapid.IntRange(1, 7).Draw(t, "n"), Interval: events.Millis(rapid.SampledFrom([]int64{1, 3, 1000}).Draw(t, "interval")),
			Burst: rapid.IntRange(0, 9).Draw(t, "burst")}
		now, tat, m := time.Unix(1000, 0), time.Time{}, &rateModel{}
		for range rapid.IntRange(1, 60).Draw(t, "tries") {
			now = now.Add(time.Duration(rapid.Int64Range(0, r.Interval.Milliseconds()*int64(time.Millisecond)).Draw(t, "pass") / rapid.Int64Range(1, 20).Draw(t, "part")))
			at, ok := policy.Take(r, tat, now, 0)
			if !ok {
				if _, early := policy.Take(r, tat, at.Add(-1), 0); early {
					t.Fatalf("open before %s", at)
				}
				now = at
				if at, ok = policy.Take(r, tat, now, 0); !ok {
					t.Fatalf("still shut at %s", now)
				}
			}
			tat = at
			if err := m.allowed(r, now); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestLimitSettingsReportEveryFault(t *testing.T) {
	s := events.DefaultTypeSettings()
	s.MaxQueued, s.GroupCapacity, s.PoolWeight, s.Pool, s.GroupBy = -1, -1, events.MaxPoolWeight+1, "No pool", "label:a=b"
	s.AssignBy = "least_busy"
	s.QueueSteps = []events.QueueStep{{Over: 5, MinPriority: 1}, {Over: 5, Sources: []string{""}}, {Over: 9}}
	s.Rates = []events.RateLimit{{Per: "x", At: "y", N: 1, Interval: events.Millis(1)}, {Per: events.PerType, At: events.AtSubmit}, {Per: events.PerType, At: events.AtSubmit, N: 5000, Interval: events.Millis(1)},
		{Per: events.PerLabel + "k", At: events.AtDispatch, N: 1, Interval: events.Millis(5), Burst: -1}, {Per: events.PerLabel + "k", At: events.AtDispatch, N: 1, Interval: events.Millis(5)},
		{Per: events.PerType, At: events.AtSubmit, N: 1, Interval: events.DurationOf(events.MaxRateInterval), Burst: events.MaxRateN}}
	err := s.Validate()
	if err == nil {
		t.Fatal("valid")
	}
	for _, part := range []string{"max_queued is", "group_capacity is", "pool_weight is", "pool is", "group_by is", "assign_by is", "queue_steps[1].over", "queue_steps[1].sources",
		"queue_steps[2] says nothing", "rates[0].per is", "rates[0].at is", "rates[1].interval_ms", "rates[2].n is", "rates[3].burst", "rates[3].per is",
		"rates[4] has the per", "rates[5].burst"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%s is not reported in:\n%v", part, err)
		}
	}
	l := events.Limits{MaxQueued: -1, QueueSteps: []events.QueueStep{{}}, Pools: map[string]events.Pool{"A": {}}}
	err = l.Validate()
	for _, part := range []string{"max_queued is", "queue_steps[0] says", "pool is", "slots is"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s is not reported in: %v", part, err)
		}
	}
}
