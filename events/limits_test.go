package events

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func (w *world) configure(edit func(*TypeSettings)) {
	w.t.Helper()
	set, _ := w.s.Settings("email")
	edit(&set)
	w.do(Configure{Type: "email", Source: SourceAPI, Settings: set})
}

func (w *world) refusal(code Code, c Command) *Error {
	w.t.Helper()
	_, err := w.try(c)
	var e *Error
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
	w.configure(func(s *TypeSettings) {
		s.MaxQueued = 4
		s.QueueSteps = []QueueStep{{Over: 1, MinPriority: 5}, {Over: 2, Sources: []string{"billing"}}}
	})
	low, high := PriorityLow, PriorityHigh
	first := w.submit(Submit{Priority: &low, DedupKey: "a", IdempotencyKey: "i"})
	w.refused(CodeQueueFull, w.item1(Submit{Priority: &low}))
	w.submit(Submit{Priority: &high, Delay: time.Hour})
	e := w.refusal(CodeQueueFull, w.item1(Submit{Priority: &high})) // the last step exceeded counts
	if e.RetryAfter != QueueFullRetryAfter || !strings.Contains(e.Message, "source") {
		t.Fatalf("%+v", e)
	}
	for range 2 {
		w.submit(Submit{Priority: &low, Provenance: Provenance{Source: "billing"}})
	}
	w.refused(CodeQueueFull, w.item1(Submit{Provenance: Provenance{Source: "billing"}}))
	// Repeats and merges are never refused for fullness.
	if d := w.do(w.item1(Submit{IdempotencyKey: "i"})); !d.Repeat || d.ID != first {
		t.Fatalf("%+v", d)
	}
	w.submit(Submit{DedupKey: "a"})
	w.claim(first, 1) // no longer waits
	w.submit(Submit{Provenance: Provenance{Source: "billing"}})
	w.readBack()
}

func TestGlobalQueueLimit(t *testing.T) {
	w := newWorld(t)
	w.s.SetLimits(Limits{MaxQueued: 2, QueueSteps: []QueueStep{{Over: 1, MinPriority: 6}}})
	high := PriorityHigh
	w.submit(Submit{Type: "call"})
	w.refused(CodeQueueFull, w.item1(Submit{}))
	id := w.submit(Submit{Priority: &high})
	if !w.s.QueueFull() {
		t.Fatal("two wait, of two")
	}
	w.refused(CodeQueueFull, w.item1(Submit{Priority: &high}))
	w.do(Cancel{ID: id})
	if w.s.QueueFull() {
		t.Fatal("one has gone")
	}
	w.submit(Submit{Priority: &high})
}

func TestRateLimitAtSubmit(t *testing.T) {
	w := newWorld(t)
	w.configure(func(s *TypeSettings) {
		s.Rates = []RateLimit{
			{Per: PerTenant, At: AtSubmit, N: 2, IntervalMS: 1000, Burst: 2},
			{Per: PerTenant, At: AtSubmit, N: 3, IntervalMS: 60_000},
		}
	})
	acme := func() Submit { return w.item1(Submit{Tenant: "acme", DedupKey: "x" + fmt.Sprint(w.ids)}) }
	w.do(acme())
	d := w.do(acme())
	e := w.refusal(CodeRateLimited, acme())
	if e.RetryAfter != 500*time.Millisecond {
		t.Fatalf("%+v", e)
	}
	w.submit(Submit{Tenant: "globex"})
	for range 10 {
		w.submit(Submit{}) // no tenant, no limit
	}
	if m := w.do(w.item1(Submit{Tenant: "acme", DedupKey: w.item(d.ID).DedupKey})); w.item(m.ID).State != StateMerged {
		t.Fatal("a merge was limited")
	}
	w.now = w.now.Add(e.RetryAfter - 1)
	w.refused(CodeRateLimited, acme())
	w.now = w.now.Add(1)
	w.do(acme())
	w.now = w.now.Add(time.Second)
	if e := w.refusal(CodeRateLimited, acme()); e.RetryAfter != 20*time.Second-1500*time.Millisecond {
		t.Fatalf("the longer window opens in %s", e.RetryAfter)
	}
	w.readBack()
}

func TestRateLimitAtDispatch(t *testing.T) {
	w := newWorld(t)
	w.configure(func(s *TypeSettings) {
		s.Rates = []RateLimit{{Per: PerType, At: AtDispatch, N: 1, IntervalMS: 1000}, {Per: PerTenant, At: AtDispatch, N: 1, IntervalMS: 10_000}}
	})
	a, b := w.submit(Submit{Tenant: "acme"}), w.submit(Submit{Tenant: "acme"})
	c := w.submit(Submit{Tenant: "globex"})
	run := w.claim(a, 1)
	claim := func(id ID, tok Token) Claim {
		return Claim{ID: id, Token: tok, Dispatched: tok, Worker: "w1", Start: true}
	}
	if e := w.refusal(CodeRateLimited, claim(c, 2)); e.RetryAfter != time.Second {
		t.Fatalf("%+v", e)
	}
	if e := w.refusal(CodeRateLimited, claim(b, 2)); e.RetryAfter != 10*time.Second {
		t.Fatalf("the last to open is told: %+v", e)
	}
	w.do(Release{Run: run}) // does not give the token back
	open, at, err := w.s.RatesOpen("email", "", 0, w.now)
	if err != nil || open || !at.Equal(w.now.Add(time.Second)) {
		t.Fatalf("%v %s %v", open, at, err)
	}
	w.now = at
	if open, _, _ := w.s.RatesOpen("email", "", 0, w.now); !open {
		t.Fatal("shut")
	}
	if open, at, _ := w.s.RatesOpen("email", "", 1, w.now); open || !at.IsZero() {
		t.Fatalf("one on its way takes the place: %v %s", open, at)
	}
	w.do(claim(c, 2))
	w.readBack()
}

func TestGroupCapacityAndPool(t *testing.T) {
	w := newWorld(t)
	w.s.SetLimits(Limits{Pools: map[string]Pool{"llm": {Slots: 2}}})
	w.configure(func(s *TypeSettings) { s.GroupCapacity, s.GroupBy = 1, PerLabel+"team" })
	set := DefaultTypeSettings()
	set.Pool = "nowhere"
	w.refused(CodeBadRequest, Configure{Type: "call", Source: SourceAPI, Settings: set})
	set.Pool = "llm"
	w.do(Configure{Type: "call", Source: SourceAPI, Settings: set})
	w.do(Configure{Type: "sms", Source: SourceAPI, Settings: set})
	red := map[string]string{"team": "red"}
	a, b := w.submit(Submit{Labels: red}), w.submit(Submit{Labels: red})
	if g := w.item(a).Group; g != "red" {
		t.Fatalf("group %q", g)
	}
	run := w.claim(a, 1)
	claim := Claim{ID: b, Token: 2, Dispatched: 2, Worker: "w1"}
	w.refused(CodeAtCapacity, claim)
	w.do(Complete{Run: run})
	w.do(claim)
	if n, _ := w.s.GroupRuns("email", "red"); n != 1 {
		t.Fatalf("%d run", n)
	}
	run = w.claim(w.submit(Submit{Type: "call"}), 3)
	w.claim(w.submit(Submit{Type: "sms"}), 4)
	third := w.submit(Submit{Type: "sms"})
	w.refused(CodeAtCapacity, Claim{ID: third, Token: 5, Dispatched: 5, Worker: "w1"})
	w.do(Fail{Run: run, Retryable: true})
	w.claim(third, 5)
	w.readBack()
}

// No window lets more through than N and the burst; what is refused opens at
// the time that the refusal names, and not before.
func TestRateLimitsAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := RateLimit{N: rapid.IntRange(1, 7).Draw(t, "n"), IntervalMS: rapid.SampledFrom([]int64{1, 3, 1000}).Draw(t, "interval"),
			Burst: rapid.IntRange(0, 9).Draw(t, "burst")}
		now, tat, m := time.Unix(1000, 0), time.Time{}, &rateModel{}
		for range rapid.IntRange(1, 60).Draw(t, "tries") {
			now = now.Add(time.Duration(rapid.Int64Range(0, r.IntervalMS*int64(time.Millisecond)).Draw(t, "pass") / rapid.Int64Range(1, 20).Draw(t, "part")))
			at, ok := r.take(tat, now, 0)
			if !ok {
				if _, early := r.take(tat, at.Add(-1), 0); early {
					t.Fatalf("open before %s", at)
				}
				now = at
				if at, ok = r.take(tat, now, 0); !ok {
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

// A limit at dispatch whose burst is not set never lets more than N begin in
// any interval, and lets N-N/20 begin in each when as many as may do.
func TestNoMoreThanNBegin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := RateLimit{At: AtDispatch, N: rapid.IntRange(1, 200).Draw(t, "n"), IntervalMS: 1000}
		now, tat := time.Unix(1000, 0), time.Time{}
		var begun []time.Time
		for range 3 * r.N {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(2*r.step())).Draw(t, "pass")))
			at, ok := r.take(tat, now, 0)
			if !ok {
				now = at
				at, _ = r.take(tat, now, 0)
			}
			tat, begun = at, append(begun, now)
			if n := len(begun) - 1 - r.N; n >= 0 && now.Sub(begun[n]) < time.Second {
				t.Fatalf("%d began within %s", r.N+1, now.Sub(begun[n]))
			}
		}
	})
	for _, n := range []int{1, 5, 19, 20, 100, 1000} {
		r := RateLimit{At: AtDispatch, N: n, IntervalMS: 1000}
		now, tat, count := time.Unix(1000, 0), time.Time{}, 0
		for end := now.Add(10 * time.Second); now.Before(end); {
			at, ok := r.take(tat, now, 0)
			if !ok {
				now = at
				continue
			}
			tat = at
			count++
		}
		if least := 10 * (n - n/20); count < least || count > 10*n {
			t.Errorf("%d/s: %d in ten seconds, want %d to %d", n, count, least, 10*n)
		}
	}
}

// What fits behind those on their way fits whenever those come through.
func TestRatesAheadAreKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := RateLimit{N: rapid.IntRange(1, 5).Draw(t, "n"), IntervalMS: 1000, Burst: rapid.IntRange(1, 9).Draw(t, "burst")}
		now := time.Unix(1000, 0)
		tat := now.Add(time.Duration(rapid.IntRange(-1000, 5000).Draw(t, "tat")) * time.Millisecond)
		n := 0
		for ; n < 20; n++ {
			if _, ok := r.take(tat, now, n); !ok {
				break
			}
		}
		for range n {
			now = now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "pass")) * time.Millisecond)
			at, ok := r.take(tat, now, 0)
			if !ok {
				t.Fatalf("one of %d that were let on their way is refused", n)
			}
			tat = at
		}
	})
}

func TestLimitSettingsReportEveryFault(t *testing.T) {
	s := DefaultTypeSettings()
	s.MaxQueued, s.GroupCapacity, s.PoolWeight, s.Pool, s.GroupBy = -1, -1, MaxPoolWeight+1, "No pool", "label:a=b"
	s.QueueSteps = []QueueStep{{Over: 5, MinPriority: 1}, {Over: 5, Sources: []string{""}}, {Over: 9}}
	s.Rates = []RateLimit{{Per: "x", At: "y", N: 1, IntervalMS: 1}, {Per: PerType, At: AtSubmit}, {Per: PerType, At: AtSubmit, N: 5000, IntervalMS: 1},
		{Per: PerLabel + "k", At: AtDispatch, N: 1, IntervalMS: 5, Burst: -1}, {Per: PerLabel + "k", At: AtDispatch, N: 1, IntervalMS: 5},
		{Per: PerType, At: AtSubmit, N: 1, IntervalMS: MaxRateInterval.Milliseconds(), Burst: MaxRateN}}
	err := s.Validate()
	if err == nil {
		t.Fatal("valid")
	}
	for _, part := range []string{"max_queued is", "group_capacity is", "pool_weight is", "pool is", "group_by is", "queue_steps[1].over", "queue_steps[1].sources",
		"queue_steps[2] says nothing", "rates[0].per is", "rates[0].at is", "rates[1].interval_ms", "rates[2].n is", "rates[3].burst", "rates[3].per is",
		"rates[4] has the per", "rates[5].burst"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%s is not reported in:\n%v", part, err)
		}
	}
	l := Limits{MaxQueued: -1, QueueSteps: []QueueStep{{}}, Pools: map[string]Pool{"A": {}}}
	err = l.Validate()
	for _, part := range []string{"max_queued is", "queue_steps[0] says", "pool is", "slots is"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s is not reported in: %v", part, err)
		}
	}
}
