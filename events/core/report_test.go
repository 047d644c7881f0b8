package core

import (
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
)

// A worker that got no reply asks again, with the same fields, and must get
// the same answer.
func TestRepeatedReportsGetTheSameAnswer(t *testing.T) {
	for name, report := range map[string]func(Run) Command{
		"release":  func(r Run) Command { return Release{Run: r} },
		"fail":     func(r Run) Command { return Fail{Run: r, Error: "e", Retryable: true} },
		"dead":     func(r Run) Command { return Fail{Run: r, Error: "e", Code: "logic"} },
		"complete": func(r Run) Command { return Complete{Run: r} },
	} {
		w := newWorld(t)
		id := w.submit(Submit{})
		run := w.claim(id, 1)
		run.Attempt = 1
		w.do(report(run))
		if d := w.do(report(run)); !d.Repeat || len(d.Events) != 0 {
			t.Errorf("%s: %+v", name, d)
		}
		run.Attempt = 2
		w.refused(events.CodeWrongAttempt, report(run))
	}
}

// Only what ended the run is a repeat of it: a worker whose lease was lost
// must hear that its report counts for nothing.
func TestReportsOfARunThatEndedOtherwise(t *testing.T) {
	for name, c := range map[string]struct {
		end    func(*world, Run)
		report func(Run) Command
	}{
		"fail after lease":    {func(w *world, r Run) { w.do(ExpireLease{ID: r.ID, Token: r.Token}) }, func(r Run) Command { return Fail{Run: r, Retryable: true} }},
		"release after lease": {func(w *world, r Run) { w.do(ExpireLease{ID: r.ID, Token: r.Token}) }, func(r Run) Command { return Release{Run: r} }},
		"fail after release":  {func(w *world, r Run) { w.do(Release{Run: r}) }, func(r Run) Command { return Fail{Run: r, Retryable: true} }},
		"release after fail":  {func(w *world, r Run) { w.do(Fail{Run: r, Retryable: true}) }, func(r Run) Command { return Release{Run: r} }},
		"start after fail":    {func(w *world, r Run) { w.do(Fail{Run: r, Retryable: true}) }, func(r Run) Command { return Start{Run: r} }},
		"fail after timeout": {func(w *world, r Run) {
			w.now = w.now.Add(events.DefaultTimeout)
			w.do(Due{ID: r.ID})
		}, func(r Run) Command { return Fail{Run: r} }},
		"fail after cancel":      {func(w *world, r Run) { w.do(Cancel{ID: r.ID}) }, func(r Run) Command { return Fail{Run: r} }},
		"complete after release": {func(w *world, r Run) { w.do(Release{Run: r}) }, func(r Run) Command { return Complete{Run: r} }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			run := w.claim(w.submit(Submit{}), 1)
			c.end(w, run)
			w.refused(events.CodeWrongState, c.report(run))
		})
	}
}

// A token serves once, and none serves that is older than one that the item has run under.
func TestATokenIsClaimedOnce(t *testing.T) {
	w := newWorld(t)
	id := w.submit(Submit{})
	w.do(Release{Run: w.claim(id, 1)})
	w.refused(events.CodeStaleToken, Claim{ID: id, Token: 1, Worker: "w1"})
	w.claim(id, 2)
	w.do(ExpireLease{ID: id, Token: 2})
	w.refused(events.CodeStaleToken, Claim{ID: id, Token: 2, Worker: "w1"})
	w.refused(events.CodeStaleToken, Claim{ID: id, Token: 1, Worker: "w1"})
}

func TestClaimedItemsShowNoOldReason(t *testing.T) {
	w := newWorld(t)
	id := w.submit(Submit{})
	w.do(Release{Run: w.claim(id, 1), Reason: "shutdown"})
	w.claim(id, 2)
	if it := w.item(id); it.Reason != "" {
		t.Fatalf("it runs, and its reason is %q", it.Reason)
	}
}

func TestAClaimOfAnItemThatIsPutOff(t *testing.T) {
	w := newWorld(t)
	id := w.submit(Submit{})
	w.do(Reschedule{ID: id, Delay: time.Hour})
	w.refused(events.CodeStaleToken, Claim{ID: id, Token: 1, Worker: "w1"})
	w.now = w.now.Add(time.Hour)
	w.claim(id, 1)
}
