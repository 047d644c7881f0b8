package core

import (
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
)

func (w *world) paused(t events.Type) *events.Pause {
	info, _ := w.s.Type(t)
	return info.Paused
}

// A pause with an end ends by itself, then and not before, whatever it was told
// meanwhile; and it is one decision, recorded.
func TestPauseEndsByItself(t *testing.T) {
	w := newWorld(t)
	w.do(Define{Type: "email"})
	begin := w.now
	w.do(PauseType{Type: "email", Reason: "down", By: "ops", For: 2 * time.Hour})
	if typ, at := w.s.NextPauseEnd(); typ != "email" || !at.Equal(begin.Add(2*time.Hour)) {
		t.Fatalf("%s %v", typ, at)
	}
	w.now = begin.Add(time.Hour)
	if d := w.do(DuePause{Type: "email"}); !d.Repeat {
		t.Fatalf("it ended early: %+v", d)
	}
	if d := w.do(PauseType{Type: "email", Until: begin.Add(2 * time.Hour)}); !d.Repeat {
		t.Fatalf("the same end made an event: %+v", d)
	}
	w.do(PauseType{Type: "email", By: "kelly", Until: begin.Add(3 * time.Hour)})
	if p := *w.paused("email"); p != (events.Pause{At: begin, Reason: "down", By: "kelly", Until: begin.Add(3 * time.Hour), UntilSet: begin.Add(time.Hour)}) {
		t.Fatalf("%+v", p)
	}
	id := w.submit(Submit{Type: "email"})
	it := w.item(id)
	why := Explain(w.s, &it, w.now)
	if len(why) != 1 || why[0].Code != events.WhyPaused || !why[0].Until.Equal(begin.Add(3*time.Hour)) || !strings.Contains(why[0].Message, "ends by itself at "+begin.Add(3*time.Hour).Format(time.RFC3339)) {
		t.Fatalf("%+v", why)
	}
	w.now = begin.Add(3 * time.Hour)
	w.do(DuePause{Type: "email"})
	last := w.log[len(w.log)-1]
	if b, ok := last.Body.(*events.Resumed); !ok || b.Reason != events.ReasonUntil || w.paused("email") != nil {
		t.Fatalf("%+v %+v", last, w.paused("email"))
	}
	if _, at := w.s.NextPauseEnd(); !at.IsZero() {
		t.Fatalf("another end at %v", at)
	}
	w.readBack()
}

// A pause without an end holds until somebody ends it, also in place of one with
// an end.
func TestPauseLosesItsEnd(t *testing.T) {
	w := newWorld(t)
	w.do(Define{Type: "email"})
	w.do(PauseType{Type: "email", For: time.Hour})
	w.do(PauseType{Type: "email"})
	if _, at := w.s.NextPauseEnd(); !at.IsZero() {
		t.Fatalf("it ends at %v", at)
	}
	w.now = w.now.Add(48 * time.Hour)
	if d := w.do(DuePause{Type: "email"}); !d.Repeat || w.paused("email") == nil {
		t.Fatalf("it ended by itself: %+v", d)
	}
	w.do(PauseType{Type: "email", For: time.Hour})
	w.do(ResumeType{Type: "email", By: "ops"})
	if _, at := w.s.NextPauseEnd(); !at.IsZero() || w.paused("email") != nil {
		t.Fatalf("it ends at %v", at)
	}
}

func TestRefusedPauses(t *testing.T) {
	w := newWorld(t)
	w.do(Define{Type: "email"})
	w.refused(events.CodeBadTime, PauseType{Type: "email", Until: w.now})
	w.refused(events.CodeBadTime, PauseType{Type: "email", For: -time.Second})
	w.refused(events.CodeBadTime, PauseType{Type: "email", For: time.Second, Until: w.now.Add(time.Second)})
	w.refused(events.CodeBadTime, PauseType{Type: "email", For: events.MaxDelay + time.Second})
	w.refused(events.CodeNotFound, DuePause{Type: "other"})
	if len(w.log) > 1 { // the type's definition
		t.Fatalf("they left events: %+v", w.log)
	}
}
