package core

import (
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
)

// A run lost with its worker in the first tenth of its timeout costs no attempt, and counts
// as a lost lease.
func TestLostEarly(t *testing.T) {
	w := newWorld(t)
	w.configure(func(s *events.TypeSettings) { s.PoisonAfter = 3 })
	tok := events.Token(0)
	lose := func(id events.ID, start bool, heard time.Duration) events.Item {
		t.Helper()
		w.now = w.now.Add(time.Hour) // any wait is over
		tok++
		w.do(Claim{ID: id, Token: tok, Dispatched: tok, Worker: "w", Start: start})
		c := ExpireLease{ID: id, Token: tok, Heard: w.now.Add(heard)}
		if heard < 0 {
			c.Heard = time.Time{}
		}
		w.now = w.now.Add(time.Minute)
		w.do(c)
		return w.item(id)
	}
	for name, c := range map[string]struct {
		start bool
		heard time.Duration
		costs events.Attempt
	}{
		"not started":          {false, 0, 0},
		"within a tenth":       {true, 10*time.Second - 1, 0},
		"after a tenth":        {true, 10 * time.Second, 1},
		"it was never heard":   {true, -1, 1},
		"heard when it starts": {true, 0, 0},
	} {
		id := w.submit(Submit{Type: "email", Timeout: 100 * time.Second, MaxAttempts: 2})
		if it := lose(id, c.start, c.heard); it.State != events.StateQueued || it.Attempt != c.costs || it.LeasesLost != 1 || !it.AvailableAt.IsZero() {
			t.Errorf("%s: %+v", name, it)
		}
		if _, err := w.try(Complete{Run: Run{ID: id, Token: tok, Worker: "w", Attempt: 1}}); events.CodeOf(err) != events.CodeWrongState {
			t.Errorf("%s: its worker completes it after all: %v", name, err)
		}
	}

	// One that kills workers dies of it, later each time.
	bomb := w.submit(Submit{Type: "email", Timeout: 100 * time.Second, MaxAttempts: 1})
	lose(bomb, true, 0)
	if it := lose(bomb, true, 0); it.State != events.StateQueued || it.Attempt != 0 || !it.AvailableAt.After(w.now) {
		t.Errorf("lost twice: %+v", it)
	}
	if it := lose(bomb, true, 0); it.State != events.StateDead || it.Reason != events.DeadPoisoned {
		t.Errorf("lost three times: %+v", it)
	}
	w.readBack()
}
