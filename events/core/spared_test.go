package core

import (
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
)

// lose ends a run of an item by its lease: its worker was last heard so long after it
// started it, or never if that is negative.
func (w *world) lose(id events.ID, start bool, heard time.Duration) events.Item {
	w.t.Helper()
	w.now = w.now.Add(time.Hour) // any wait is over
	tok := w.item(id).Token + 1
	w.do(Claim{ID: id, Token: tok, Worker: "w", Start: start})
	c := ExpireLease{ID: id, Token: tok, Heard: w.now.Add(heard), Heartbeat: 2 * time.Second}
	if heard < 0 {
		c.Heard = time.Time{}
	}
	w.now = w.now.Add(time.Minute)
	w.do(c)
	return w.item(id)
}

// A run lost with its worker early in its timeout raises the limit by one; the
// attempts are numbered on.
func TestEarlyLossIsSpared(t *testing.T) {
	for name, c := range map[string]struct {
		start          bool
		timeout, heard time.Duration
		limit          events.Attempt
	}{
		"not started":                        {false, 100 * time.Second, -1, 3},
		"within a tenth":                     {true, 100 * time.Second, 8 * time.Second, 3},
		"perhaps after a tenth":              {true, 100 * time.Second, 8*time.Second + 1, 2},
		"before its first heartbeat":         {true, 100 * time.Second, 0, 3},
		"a heartbeat is longer than a tenth": {true, 19 * time.Second, 0, 2},
		"not heard by this owner":            {true, 100 * time.Second, -1, 2},
	} {
		w := newWorld(t)
		id := w.submit(Submit{Type: "email", Timeout: c.timeout, MaxAttempts: 2})
		it := w.lose(id, c.start, c.heard)
		if it.State != events.StateQueued || it.Attempt != 1 || it.MaxAttempts != c.limit || it.LeasesLost != 1 || !it.AvailableAt.IsZero() {
			t.Errorf("%s: %+v", name, it)
		}
		for n := it.Attempt + 1; n <= c.limit; n++ {
			w.state(id, events.StateQueued)
			w.now = w.now.Add(time.Hour)
			w.attempt(id, "w", "x")
			if got := w.item(id).Attempt; got != n {
				t.Errorf("%s: attempt %d follows %d", name, got, n-1)
			}
		}
		if it := w.item(id); it.State != events.StateDead || it.Reason != events.DeadExhausted {
			t.Errorf("%s: after attempt %d of %d it is %s", name, it.Attempt, it.MaxAttempts, it.State)
		}
		w.readBack()
	}
}

// The clock was set back during a run: how long it took can't be told.
func TestLossAfterTheClockWasSetBackIsNotSpared(t *testing.T) {
	w := newWorld(t)
	id := w.submit(Submit{Type: "email", Timeout: time.Hour, MaxAttempts: 2})
	w.claim(id, 5)
	w.do(ExpireLease{ID: id, Token: 5, Heard: w.item(id).StartedAt.Add(-time.Minute)})
	if it := w.item(id); it.Attempt != 1 || it.MaxAttempts != 2 || it.Spared != 0 {
		t.Errorf("%+v", it)
	}
}

// However large poison_after is, an item whose workers die early does not run for ever.
func TestSparedAttemptsAreBounded(t *testing.T) {
	for _, c := range []struct {
		attempts     events.Attempt
		poison, runs int
		reason       string
	}{
		{1, 1000, 1, events.DeadExhausted},
		{2, 1000, 3, events.DeadExhausted},
		{3, 1000, 5, events.DeadExhausted},
		{3, 3, 3, events.DeadPoisoned},
		{1, 2, 1, events.DeadExhausted},
	} {
		w := newWorld(t)
		w.configure(func(s *events.TypeSettings) { s.PoisonAfter = c.poison })
		id := w.submit(Submit{Type: "email", Timeout: 100 * time.Second, MaxAttempts: c.attempts})
		runs := 0
		for w.item(id).State == events.StateQueued {
			if it := w.lose(id, runs%2 == 0, 0); int(it.Attempt) != runs+1 || it.Attempt > it.MaxAttempts {
				t.Fatalf("run %d is attempt %d of %d", runs+1, it.Attempt, it.MaxAttempts)
			}
			runs++
		}
		if it := w.item(id); runs != c.runs || it.State != events.StateDead || it.Reason != c.reason {
			t.Errorf("%d attempts, poison_after %d: %s, %s after %d runs", c.attempts, c.poison, it.State, it.Reason, runs)
		}
		// A replay begins anew: as many attempts, as many spared.
		w.do(Replay{ID: id})
		if it := w.item(id); it.MaxAttempts-it.Attempt != c.attempts || it.Spared != 0 || it.LeasesLost != 0 {
			t.Errorf("after a replay: %+v", it)
		}
		for again := 1; w.item(id).State == events.StateQueued; again++ {
			if w.lose(id, true, 0); again > c.runs {
				t.Fatalf("replayed, it runs more than %d times", c.runs)
			}
		}
		w.readBack()
	}
}

// A limit that only one code has counts each spared run once.
func TestSparedAttemptsCountForEachCode(t *testing.T) {
	w := newWorld(t)
	w.configure(func(s *events.TypeSettings) {
		s.Codes = map[string]events.CodePolicy{"once": {MaxAttempts: 1}, events.FailLeaseExpired: {MaxAttempts: 4}}
	})
	id := w.submit(Submit{Type: "email", Timeout: 100 * time.Second})
	w.lose(id, true, 0)
	w.now = w.now.Add(time.Hour)
	w.attempt(id, "w", "once")
	if it := w.item(id); it.State != events.StateDead || it.Attempt != 2 || it.MaxAttempts != 2 {
		t.Errorf("%+v", it)
	}
}

// The worker of a run that is lost can't report it any more, whatever it counted for.
func TestReportAfterSparedRun(t *testing.T) {
	w := newWorld(t)
	id := w.submit(Submit{Type: "email", Timeout: 100 * time.Second, MaxAttempts: 2})
	w.lose(id, true, 0)
	r := Run{ID: id, Token: w.item(id).Token, Worker: "w", Attempt: 1}
	w.refused(events.CodeWrongState, Complete{Run: r})
	w.refused(events.CodeWrongState, Release{Run: r})
}
