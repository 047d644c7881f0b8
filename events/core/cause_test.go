package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/policy"
)

// noted are the cause_noted events of a run of deaths.
func (w *world) die(typ events.Type, text string) []events.CauseNoted {
	w.t.Helper()
	id := w.submit(Submit{Type: typ, MaxAttempts: 1})
	w.ids++
	run := w.claim(id, events.NewToken(7, w.ids))
	var noted []events.CauseNoted
	for _, ev := range w.do(Fail{Run: run, Error: text, Code: "c"}).Events {
		if b, ok := ev.Body.(*events.CauseNoted); ok {
			noted = append(noted, *b)
		}
	}
	return noted
}

func TestCausesAreNotedWhenNewAndWhenTheyGrow(t *testing.T) {
	w := newWorld(t)
	says := map[int]string{}
	for i := 1; i <= 120; i++ {
		w.now = w.now.Add(time.Second)
		for _, n := range w.die("email", fmt.Sprintf("attempt %d failed", i)) {
			says[i] += n.Why
			if n.Count != int64(i) || n.Window != int64(i) {
				t.Errorf("death %d says %+v", i, n)
			}
		}
	}
	if fmt.Sprint(says) != "map[1:new 10:growing 100:growing]" {
		t.Errorf("noted: %v", says)
	}
	w.now = w.now.Add(policy.CauseWindow) // another window
	for i := 1; i <= 10; i++ {
		if n := w.die("email", "attempt 1 failed"); len(n) != i/10 {
			t.Errorf("death %d of the second window: %+v", i, n)
		}
	}
	c, known := w.s.Cause(policy.CauseOf("email", "not_retryable", "c", "attempt 1 failed"))
	if !known || c.Count != 130 || c.Dead != 130 || c.Window != 10 {
		t.Errorf("%v %+v", known, c)
	}
}

func TestCausesAreBounded(t *testing.T) {
	w := newWorld(t)
	w.s.causes.max = 2
	keys := map[string]bool{}
	word := func(i int) string { return strings.Repeat("x", i) }
	for i := 1; i <= 4; i++ { // the third and the fourth share a place
		w.die("email", word(i))
	}
	w.die("call", word(1))
	for _, k := range w.s.causes.keys() {
		keys[k] = true
	}
	if len(keys) != 4 || !keys["other-email"] || !keys["other-call"] {
		t.Fatalf("causes: %v", keys)
	}
	if c, _ := w.s.Cause("other-email"); c.Count != 2 || c.Dead != 2 {
		t.Errorf("the type's other cause: %+v", c)
	}
	first := policy.CauseOf("email", "not_retryable", "c", word(1))
	it := w.dead(first)
	w.do(Replay{ID: it})
	if c, _ := w.s.Cause(first); c.Dead != 0 || c.Count != 1 {
		t.Fatalf("after its replay: %+v", c)
	}
	w.die("email", word(9)) // takes the place of the one that nothing is dead of
	if _, known := w.s.Cause(first); known {
		t.Error("a cause that nothing is dead of has kept its place")
	}
	if c, known := w.s.Cause(policy.CauseOf("email", "not_retryable", "c", word(9))); !known || c.Dead != 1 {
		t.Errorf("%v %+v", known, c)
	}
}

// dead is an item that is dead of a cause.
func (w *world) dead(cause string) events.ID {
	w.t.Helper()
	for id, e := range w.s.items {
		if e.cur.Cause == cause {
			return id
		}
	}
	w.t.Fatalf("nothing is dead of %s", cause)
	return events.ID{}
}

func TestOldCausesAreForgotten(t *testing.T) {
	w := newWorld(t)
	w.die("email", "a")
	key := policy.CauseOf("email", "not_retryable", "c", "a")
	w.now = w.now.Add(policy.CauseKeep)
	if _, known := w.s.Cause(key); !known {
		t.Fatal("a cause that something is dead of was forgotten")
	}
	w.do(Replay{ID: w.dead(key)})
	if _, known := w.s.Cause(key); known {
		t.Error("an old cause that nothing is dead of is still known")
	}
	if n := w.die("email", "a"); len(n) != 1 || n[0].Why != events.CauseNew {
		t.Errorf("it has come back, and %+v is noted", n)
	}
}
