package core

import (
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
)

// After the clock was set back, waits and runs go by the time that has passed; moments that
// somebody named stay. To ask again changes nothing.
func TestRecount(t *testing.T) {
	w := newWorld(t)
	right := w.now
	w.do(Own{Owner: "o"})
	before := w.submit(Submit{Type: "email", Delay: time.Hour})
	w.now = right.Add(2 * time.Hour)
	named := w.submit(Submit{Type: "email", AvailableAt: right.Add(3 * time.Hour)})
	delayed := w.submit(Submit{Type: "email", Delay: time.Hour})
	put := w.submit(Submit{Type: "email", AvailableAt: right.Add(9 * time.Hour)})
	w.do(Reschedule{ID: put, Delay: 2 * time.Hour})
	raised := w.submit(Submit{Type: "email", Delay: time.Hour})
	nine := events.Priority(9)
	w.do(Reschedule{ID: raised, Priority: &nine})
	first := w.submit(Submit{Type: "email"})
	behind := w.submit(Submit{Type: "email", Delay: time.Hour, After: []events.ID{first}})
	w.do(Claim{ID: first, Token: 1, Worker: "w", Start: true})
	retried := w.submit(Submit{Type: "email"})
	w.do(Claim{ID: retried, Token: 2, Worker: "w", Start: true})
	w.now = w.now.Add(10 * time.Minute) // of the wrong clock, and elapsed
	w.do(Fail{Run: Run{ID: retried, Token: 2, Worker: "w"}, Retryable: true, RetryAfter: time.Minute})
	run := w.item(first)

	w.now = right.Add(10 * time.Minute)
	w.do(Own{Owner: "o", Clock: &AcceptClock{At: w.now, By: "ops"}})
	for again := range 2 {
		for _, id := range []events.ID{before, named, delayed, put, raised, first, behind, retried} {
			if d := w.do(Recount{ID: id}); again == 1 && !d.Repeat {
				t.Errorf("asked again: %+v", d.Events)
			}
		}
		w.now = w.now.Add(time.Second)
	}
	w.do(Complete{Run: Run{ID: first, Token: 1, Worker: "w"}})
	w.followUps()
	for _, c := range []struct {
		what string
		id   events.ID
		due  time.Duration
	}{
		{"delayed before", before, time.Hour}, {"a named moment", named, 3 * time.Hour}, {"delayed", delayed, time.Hour}, {"put off", put, 2 * time.Hour},
		{"raised", raised, time.Hour}, {"behind another", behind, time.Hour}, {"a retry", retried, 11 * time.Minute},
	} {
		if it := w.item(c.id); it.State != events.StateQueued || it.AvailableAt.Sub(right) != c.due {
			t.Errorf("%s: %s, due in %s, want %s", c.what, it.State, it.AvailableAt.Sub(right), c.due)
		}
	}
	ended := w.item(first)
	if by := run.Deadline.Sub(ended.Deadline); by != 2*time.Hour || run.StartedAt.Sub(ended.StartedAt) != by {
		t.Errorf("the run's deadline has moved by %s: %+v", by, ended)
	}
}
