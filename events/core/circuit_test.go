package core

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
)

// protect makes a world with a type and its settings.
func protect(t *testing.T, edit func(*events.TypeSettings)) *world {
	w := newWorld(t)
	set := events.DefaultTypeSettings()
	set.Backoff.Jitter = 0
	edit(&set)
	w.do(Configure{Type: "email", Source: events.SourceAPI, Settings: set})
	return w
}

// attempt runs an item once, by a worker, to a failure with a code, "" for none.
func (w *world) attempt(id events.ID, worker events.WorkerID, code string) {
	w.t.Helper()
	if it := w.item(id); it.AvailableAt.After(w.now) {
		w.now = it.AvailableAt
	}
	run := w.begin(id, worker)
	switch code {
	case "":
		w.do(Complete{Run: run})
	case events.FailLeaseExpired:
		w.do(ExpireLease{ID: id, Token: run.Token})
	default:
		w.do(Fail{Run: run, Code: code, Retryable: true, Random: 1 << 63})
	}
}

func (w *world) begin(id events.ID, worker events.WorkerID) Run {
	w.t.Helper()
	tok := events.NewToken(9, uint64(len(w.log)))
	w.do(Claim{ID: id, Token: tok, Worker: worker, Start: true})
	return Run{ID: id, Token: tok, Worker: worker}
}

func (w *world) circuit(want events.CircuitState) events.Circuit {
	w.t.Helper()
	info, _ := w.s.Type("email")
	if info.Circuit.State != want {
		w.t.Fatalf("the circuit is %s, not %s: %+v", info.Circuit.State, want, info.Circuit)
	}
	return info.Circuit
}

// The table of docs/guides/PROTECTION.md: how often an item is tried that always fails
// with one code, how long its second wait is, and what its timeout becomes.
func TestBuiltInCodes(t *testing.T) {
	for code, want := range map[string]struct {
		attempts events.Attempt
		wait     time.Duration // after the second attempt
		timeout  time.Duration // of the third
		reason   string
	}{
		events.FailTransient: {5, 2 * time.Second, 300 * time.Second, "exhausted"}, events.FailNetwork: {5, 2 * time.Second, 300 * time.Second, "exhausted"},
		events.FailUnavailable: {5, 2 * time.Second, 300 * time.Second, "exhausted"}, events.FailRateLimited: {5, 4 * time.Second, 300 * time.Second, "exhausted"},
		events.FailResource: {3, 2 * time.Second, 675 * time.Second, "exhausted"}, events.FailOutOfMemory: {3, 2 * time.Second, 675 * time.Second, "exhausted"},
		events.FailTimeout: {3, 2 * time.Second, 675 * time.Second, "exhausted"}, events.FailKilled: {3, 2 * time.Second, 675 * time.Second, "exhausted"},
		events.FailLeaseExpired: {3, 2 * time.Second, 300 * time.Second, "poisoned"},
		events.FailLogic:        {1, 0, 0, "not_retryable"}, events.FailInvalidInput: {1, 0, 0, "not_retryable"},
		events.FailError: {3, 2 * time.Second, 300 * time.Second, "exhausted"}, "of_the_handler": {3, 2 * time.Second, 300 * time.Second, "exhausted"},
	} {
		t.Run(code, func(t *testing.T) {
			w := protect(t, func(set *events.TypeSettings) {})
			id := w.submit(Submit{})
			for n := 1; !w.item(id).State.Terminal(); n++ {
				before := w.now
				w.attempt(id, "w", code)
				if it := w.item(id); n == 2 && (it.AvailableAt.Sub(w.now) != want.wait || it.Timeout != want.timeout) {
					t.Errorf("after two attempts it waits %s and may take %s, at %s", it.AvailableAt.Sub(w.now), it.Timeout, before)
				}
			}
			if it := w.item(id); it.Attempt != want.attempts || it.Reason != want.reason {
				t.Errorf("dead after %d attempts: %s", it.Attempt, it.Reason)
			}
			w.readBack()
		})
	}
}

// What is said more closely wins: the item's own values, the type's policy for
// the code, the type's values, the built-in policy, the default.
func TestExplicitValuesWin(t *testing.T) {
	attempts := func(n events.Attempt) func(*events.TypeSettings) {
		return func(set *events.TypeSettings) { set.MaxAttempts, set.MaxAttemptsSet = n, true }
	}
	timeout := func(d time.Duration) func(*events.TypeSettings) {
		return func(set *events.TypeSettings) {
			set.Timeout, set.TimeoutSet = events.DurationOf(d), true
		}
	}
	policy := func(code string, p events.CodePolicy) func(*events.TypeSettings) {
		return func(set *events.TypeSettings) { set.Codes = map[string]events.CodePolicy{code: p} }
	}
	priority := func(n events.Attempt, timeout events.Duration) func(*events.TypeSettings) {
		return func(set *events.TypeSettings) {
			set.PerPriority = map[events.Priority]events.PriorityOverride{events.PriorityDefault: {MaxAttempts: &n, Timeout: &timeout}}
		}
	}
	for name, c := range map[string]struct {
		set      []func(*events.TypeSettings)
		item     Submit
		code     string
		attempts events.Attempt
		timeout  time.Duration // of the last attempt
	}{
		"default":                        {code: events.FailError, attempts: 3, timeout: events.DefaultTimeout},
		"built-in":                       {code: events.FailTimeout, attempts: 3, timeout: 675 * time.Second},
		"built-in, more than default":    {code: events.FailNetwork, attempts: 5, timeout: events.DefaultTimeout},
		"item over built-in":             {item: Submit{MaxAttempts: 4, Timeout: 2 * time.Second}, code: events.FailTimeout, attempts: 4, timeout: 2 * time.Second},
		"item below built-in":            {item: Submit{MaxAttempts: 2}, code: events.FailNetwork, attempts: 2, timeout: events.DefaultTimeout},
		"item over the type's policy":    {set: []func(*events.TypeSettings){policy("x", events.CodePolicy{MaxAttempts: 5, TimeoutFactor: 2})}, item: Submit{MaxAttempts: 9, Timeout: time.Second}, code: "x", attempts: 9, timeout: time.Second},
		"the type's policy over its own": {set: []func(*events.TypeSettings){attempts(7), policy("x", events.CodePolicy{MaxAttempts: 5})}, code: "x", attempts: 5, timeout: events.DefaultTimeout},
		"the type's policy, silent":      {set: []func(*events.TypeSettings){attempts(7), policy(events.FailTimeout, events.CodePolicy{})}, code: events.FailTimeout, attempts: 7, timeout: events.DefaultTimeout},
		"type over built-in":             {set: []func(*events.TypeSettings){attempts(4), timeout(2 * time.Second)}, code: events.FailTimeout, attempts: 4, timeout: 2 * time.Second},
		"type chose the default":         {set: []func(*events.TypeSettings){attempts(events.DefaultMaxAttempts), timeout(events.DefaultTimeout)}, code: events.FailNetwork, attempts: 3, timeout: events.DefaultTimeout},
		"type chose before it was noted": {set: []func(*events.TypeSettings){func(set *events.TypeSettings) { set.MaxAttempts = 4 }}, code: events.FailNetwork, attempts: 4, timeout: events.DefaultTimeout},
		"priority over built-in":         {set: []func(*events.TypeSettings){priority(3, events.Millis(1000))}, code: events.FailTimeout, attempts: 3, timeout: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			w := protect(t, func(set *events.TypeSettings) {
				for _, f := range c.set {
					f(set)
				}
			})
			id := w.submit(c.item)
			for !w.item(id).State.Terminal() {
				w.attempt(id, "w", c.code)
				if it := w.item(id); it.MaxAttempts != c.attempts {
					t.Errorf("attempt %d of %d, want of %d", it.Attempt, it.MaxAttempts, c.attempts)
				}
			}
			if it := w.item(id); it.Attempt != c.attempts || it.Timeout != c.timeout {
				t.Errorf("%d attempts, the last of %s; want %d, %s", it.Attempt, it.Timeout, c.attempts, c.timeout)
			}
			w.readBack()
		})
	}
}

// An item that fails with another code has that code's limit from then on, and
// is never shown with more attempts than its limit.
func TestLimitFollowsTheLastFailure(t *testing.T) {
	w := protect(t, func(*events.TypeSettings) {})
	id := w.submit(Submit{})
	for n, code := range []string{events.FailNetwork, events.FailNetwork, events.FailNetwork, events.FailNetwork} {
		w.attempt(id, "w", code)
		if it := w.item(id); it.Attempt != events.Attempt(n+1) || it.MaxAttempts != 5 {
			t.Errorf("attempt %d of %d", it.Attempt, it.MaxAttempts)
		}
	}
	w.attempt(id, "w", events.FailError)
	if it := w.item(id); it.State != events.StateDead || it.Attempt != 5 || it.MaxAttempts != 5 {
		t.Errorf("%s at attempt %d of %d", it.State, it.Attempt, it.MaxAttempts)
	}
	w.do(Replay{ID: id, MaxAttempts: 2})
	for !w.item(id).State.Terminal() {
		w.attempt(id, "w", events.FailNetwork)
	}
	if it := w.item(id); it.Attempt != 7 || it.MaxAttempts != 7 {
		t.Errorf("replayed for 2 attempts, dead at attempt %d of %d", it.Attempt, it.MaxAttempts)
	}
	w.do(Replay{ID: id})
	for !w.item(id).State.Terminal() {
		w.attempt(id, "w", events.FailNetwork)
	}
	if it := w.item(id); it.Attempt != 9 || it.MaxAttempts != 9 {
		t.Errorf("replayed again, dead at attempt %d of %d", it.Attempt, it.MaxAttempts)
	}
	w.readBack()
}

func TestRetryAfterWinsAndJitterIsRecorded(t *testing.T) {
	w := protect(t, func(set *events.TypeSettings) { set.Backoff.Jitter = 0.5 })
	id := w.submit(Submit{})
	w.do(Fail{Run: w.begin(id, "w"), Code: events.FailRateLimited, Retryable: true, RetryAfter: 7 * time.Second, Random: 1 << 63})
	if q := w.log[len(w.log)-1].Body.(*events.Queued); q.AvailableAt.Sub(w.now) != 7*time.Second || !q.Jitter.IsZero() {
		t.Errorf("queued %+v", q)
	}
	w.now = w.now.Add(7 * time.Second)
	w.do(Fail{Run: w.begin(id, "w"), Code: events.FailRateLimited, Retryable: true, Random: 1 << 63})
	// 2 s, twice that, and a quarter of it (half of the jitter's half) more.
	if q := w.log[len(w.log)-1].Body.(*events.Queued); q.AvailableAt.Sub(w.now) != 5*time.Second || q.Jitter != events.Millis(1000) {
		t.Errorf("queued %+v", q)
	}
	w.readBack()
}

func TestTheRatioOpensACircuit(t *testing.T) {
	w := protect(t, func(set *events.TypeSettings) {
		set.Circuit = events.CircuitSettings{Ratio: 0.5, Window: events.Millis(10_000), MinRuns: 4}
	})
	run := func(code string) { w.attempt(w.submit(Submit{}), "w", code) }
	run("x")
	run("x")
	run("x") // fewer than min_runs have ended
	w.circuit(events.CircuitShut)
	w.now = w.now.Add(10 * time.Second) // out of the window
	run("x")
	run("")
	run("")
	w.circuit(events.CircuitShut)
	w.now = w.now.Add(5 * time.Second) // the older half
	run("x")
	c := w.circuit(events.CircuitOpen)
	if b := w.log[len(w.log)-1].Body.(*events.CircuitOpened); b.Reason != events.ReasonRatio || b.Failed != 2 || b.Of != 4 || !c.Until.Equal(w.now.Add(events.DefaultCooldown)) {
		t.Errorf("%+v", b)
	}
	w.readBack()
}

// What is not retried speaks of the item, not of the type, unless it is asked
// for; what did not end says nothing.
func TestWhatCountsForACircuit(t *testing.T) {
	for _, all := range []bool{false, true} {
		w := protect(t, func(set *events.TypeSettings) {
			set.Circuit = events.CircuitSettings{Consecutive: 2, CountNoRetry: all}
		})
		a, b, c := w.submit(Submit{}), w.submit(Submit{}), w.submit(Submit{})
		w.attempt(a, "w", "x")
		w.do(Cancel{ID: w.begin(b, "w").ID})
		w.do(Release{Run: w.begin(c, "w")})
		w.circuit(events.CircuitShut)
		w.attempt(c, "w", events.FailLogic)
		want := events.CircuitShut
		if all {
			want = events.CircuitOpen
		}
		w.circuit(want)
		if !all { // nor does it end the row
			w.attempt(a, "w", events.FailLeaseExpired)
			w.circuit(events.CircuitOpen)
		}
	}
}

func TestATrialFreesItsPlace(t *testing.T) {
	w := protect(t, func(set *events.TypeSettings) {
		set.Circuit = events.CircuitSettings{Consecutive: 1, Probes: 2, Cooldown: events.Millis(1000), MaxCooldown: events.Millis(3000)}
	})
	ids := []events.ID{}
	for range 5 {
		ids = append(ids, w.submit(Submit{}))
	}
	old := w.begin(ids[4], "w") // begun before it opens
	w.attempt(ids[0], "w", "x")
	refused := func(id events.ID, code events.Code) {
		t.Helper()
		w.refused(code, Claim{ID: id, Token: 77, Worker: "w"})
	}
	refused(ids[1], events.CodeCircuitOpen)
	w.do(Complete{Run: old}) // says nothing of now
	w.circuit(events.CircuitOpen)
	w.now = w.now.Add(time.Second)
	if w.do(DueCircuit{Type: "email"}); w.circuit(events.CircuitHalfOpen).Probing != 0 {
		t.Fatal("something tries it already")
	}
	first, second := w.begin(ids[1], "w"), w.begin(ids[2], "w")
	refused(ids[3], events.CodeCircuitOpen)
	w.do(Release{Run: first})
	first = w.begin(ids[1], "w")
	w.do(Complete{Run: second})
	w.circuit(events.CircuitHalfOpen)
	w.do(Fail{Run: first, Code: "x", Retryable: true})
	if c := w.circuit(events.CircuitOpen); c.Opens != 2 || !c.Until.Equal(w.now.Add(2*time.Second)) {
		t.Errorf("opened again: %+v", c)
	}
	w.now = w.now.Add(2 * time.Second)
	w.do(DueCircuit{Type: "email"})
	w.attempt(ids[1], "w", "")
	w.attempt(ids[3], "w", "")
	w.circuit(events.CircuitShut)
	w.readBack()
}

// A worker is left out when it fails what others complete, and only then.
func TestTheCircuitOfAWorker(t *testing.T) {
	w := protect(t, func(set *events.TypeSettings) { set.MaxAttempts = 100 })
	w.s.SetLimits(events.Limits{WorkerCircuit: events.CircuitSettings{Consecutive: 3, Probes: 1, Cooldown: events.Millis(1000)}})
	a, b, c, d := w.submit(Submit{}), w.submit(Submit{}), w.submit(Submit{}), w.submit(Submit{})
	state := func(want events.CircuitState) {
		t.Helper()
		if got := w.s.WorkerCircuit("bad"); got.State != want {
			t.Fatalf("the worker's circuit is %s, not %s: %+v", got.State, want, got)
		}
	}
	for range 5 {
		w.attempt(a, "bad", "x") // one item, whose fault it may be
	}
	w.attempt(b, "bad", events.FailLogic) // counts too; the item is dead
	w.attempt(c, "bad", "x")
	state(events.CircuitShut) // nobody has completed anything
	w.attempt(d, "good", "")
	state(events.CircuitShut)
	w.attempt(a, "bad", "x")
	state(events.CircuitOpen)
	e := w.submit(Submit{})
	_, err := w.try(Claim{ID: e, Token: 7, Worker: "bad"})
	if refusal := (*events.Error)(nil); !errors.As(err, &refusal) || refusal.Code != events.CodeCircuitOpen || refusal.RetryAfter != time.Second {
		t.Errorf("its claim: %+v", err)
	}
	w.attempt(e, "good", "")
	w.attempt(a, "good", "")
	w.now = w.s.WorkerCircuit("bad").Until
	w.do(DueCircuit{Worker: "bad"})
	w.attempt(c, "bad", "")
	if w.s.workers.len() != 0 {
		t.Errorf("after a success these are remembered: %v", w.s.workers.keys())
	}
	w.readBack()
}

// Beyond the bound the worker that has failed longest ago is forgotten.
func TestTheCircuitsOfWorkersAreBounded(t *testing.T) {
	w := protect(t, func(set *events.TypeSettings) { set.MaxAttempts = 1 })
	for n := range events.MaxWorkerCircuits + 2 {
		w.attempt(w.submit(Submit{}), events.WorkerID(fmt.Sprintf("w%04d", n)), "x")
		w.now = w.now.Add(time.Millisecond)
	}
	if n := w.s.workers.len(); n != events.MaxWorkerCircuits || w.s.workers.get("w0001") != nil || w.s.workers.get("w0002") == nil {
		t.Errorf("%d workers are remembered, from %s on", n, w.s.workers.keys()[0])
	}
}

func TestPauses(t *testing.T) {
	w := newWorld(t)
	w.refused(events.CodeNotFound, ResumeType{Type: "email"})
	w.refused(events.CodeBadType, PauseType{Type: "E Mail"})
	w.refused(events.CodeBadType, PauseType{Type: events.BatchType})
	if d := w.do(PauseType{Type: "email", Reason: "maintenance"}); len(d.Events) != 2 { // before its first item
		t.Errorf("a pause of a new type is %d events", len(d.Events))
	}
	if !w.do(PauseType{Type: "email", Reason: "other"}).Repeat {
		t.Error("a second pause is no repeat")
	}
	id := w.submit(Submit{})
	w.refused(events.CodePaused, Claim{ID: id, Token: 7, Worker: "w"})
	w.refused(events.CodeNotFound, ResumeType{Type: "sms"})
	w.refused(events.CodeBadType, PauseType{Type: "Bad Type"})
	w.refused(events.CodeBadRequest, ResetCircuit{})
	w.refused(events.CodeBadRequest, DueCircuit{Type: "email", Worker: "w"})
	w.do(ResumeType{Type: "email"})
	if !w.do(ResumeType{Type: "email"}).Repeat {
		t.Error("a second resume is no repeat")
	}
	w.attempt(id, "w", "")
	w.readBack()
}

func TestPoison(t *testing.T) {
	w := protect(t, func(set *events.TypeSettings) { set.MaxAttempts, set.PoisonAfter = 10, 2 })
	id := w.submit(Submit{MaxAttempts: 10})
	w.attempt(id, "w", "x")
	w.attempt(id, "w", events.FailLeaseExpired)
	w.attempt(id, "w", "x") // other ends do not end the count
	w.state(id, events.StateQueued)
	w.attempt(id, "w", events.FailLeaseExpired)
	if it := w.item(id); it.State != events.StateDead || it.Reason != "poisoned" || it.LeasesLost != 2 {
		t.Errorf("%s %s after %d lost leases", it.State, it.Reason, it.LeasesLost)
	}
}

func TestProtectionSettingsAreChecked(t *testing.T) {
	for name, edit := range map[string]func(*events.TypeSettings){
		"poison":         func(s *events.TypeSettings) { s.PoisonAfter = -1 },
		"code's name":    func(s *events.TypeSettings) { s.Codes = map[string]events.CodePolicy{"": {}} },
		"attempts":       func(s *events.TypeSettings) { s.Codes = map[string]events.CodePolicy{"x": {MaxAttempts: 1001}} },
		"delay factor":   func(s *events.TypeSettings) { s.Codes = map[string]events.CodePolicy{"x": {DelayFactor: 101}} },
		"timeout factor": func(s *events.TypeSettings) { s.Codes = map[string]events.CodePolicy{"x": {TimeoutFactor: 0.5}} },
		"timeout max": func(s *events.TypeSettings) {
			s.Codes = map[string]events.CodePolicy{"x": {TimeoutMax: events.Millis(-1)}}
		},
		"ratio":       func(s *events.TypeSettings) { s.Circuit.Ratio = 1.1 },
		"consecutive": func(s *events.TypeSettings) { s.Circuit.Consecutive = -1 },
		"probes":      func(s *events.TypeSettings) { s.Circuit.Probes = events.MaxCircuitProbes + 1 },
		"cool-downs": func(s *events.TypeSettings) {
			s.Circuit.Cooldown, s.Circuit.MaxCooldown = events.Millis(10), events.Millis(5)
		},
	} {
		set := events.DefaultTypeSettings()
		if edit(&set); set.Validate() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for _, c := range []events.CircuitSettings{{Consecutive: 1}, {Consecutive: events.MaxWorkerFailures + 1}, {Consecutive: 5, Ratio: 0.5}} {
		if c.ValidateWorker() == nil {
			t.Errorf("%+v: accepted for workers", c)
		}
	}
	if err := events.DefaultWorkerCircuit().ValidateWorker(); err != nil {
		t.Error(err)
	}
}
