package retention

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// An item that has ended is kept for as long as its type says for its state, one that has not
// for good. The Retention wants to be woken when the next one is due.
func TestPrune(t *testing.T) {
	h := newHouse(t, nil)
	live := h.submit(core.Submit{})
	kept := map[events.ItemState]events.ID{}
	for _, s := range []events.ItemState{events.StateCompleted, events.StateDead, events.StateCancelled} {
		kept[s] = h.submit(core.Submit{})
		h.end(kept[s], s)
	}
	h.pass(2 * time.Second) // a first pass learns when they are due
	for _, step := range []struct {
		state events.ItemState
		due   time.Duration
	}{{events.StateCompleted, 10 * time.Second}, {events.StateDead, 20 * time.Second}, {events.StateCancelled, 30 * time.Second}} {
		if at := h.k.Wake(); !at.Equal(noon.Add(step.due)) {
			t.Fatalf("before a %s item is due it wakes at %s", step.state, at)
		}
		h.at = noon.Add(step.due - time.Nanosecond)
		if h.settle(); !h.there(kept[step.state]) || h.k.Status().Held != 0 {
			t.Fatalf("a %s item is gone too soon", step.state)
		}
		h.at = noon.Add(step.due)
		if h.settle(); h.there(kept[step.state]) {
			t.Fatalf("a %s item is kept for longer", step.state)
		}
	}
	h.pass(time.Hour)
	if s := h.k.Status(); !h.there(live) || s.Retained != 1 || s.Pruned != 3 || s.Held != 0 {
		t.Fatalf("%+v", s)
	}
	h.stands()
}

// What something refers to is looked at again, until it may be pruned.
func TestHeld(t *testing.T) {
	h := newHouse(t, nil)
	id := h.submit(core.Submit{Intake: events.Intake{Seq: 1, MsgID: "m", MsgIDUntil: noon.Add(events.MsgIDWindow)}})
	h.end(id, events.StateCompleted)
	h.pass(events.MsgIDWindow - time.Second)
	if s := h.k.Status(); !h.there(id) || s.Held != 1 {
		t.Fatalf("its message id is taken: %+v", s)
	}
	h.pass(2 * h.cfg.Sweep)
	if s := h.k.Status(); h.there(id) || s.Held != 0 {
		t.Fatalf("nothing refers to it: %+v", s)
	}
}

// All that is due is pruned, in turns that leave room in the batch for others, from lists
// that are longer than a page.
func TestPruneTakesItsShareOfABatch(t *testing.T) {
	h := newHouse(t, nil)
	const items = 2*retainPage + 30
	for range items {
		h.end(h.submit(core.Submit{}), events.StateCancelled)
	}
	h.at = noon.Add(time.Minute)
	turns := 0
	for ; h.k.Status().Pruned < items; turns++ {
		if at := h.k.Wake(); at.After(h.at) {
			t.Fatalf("%+v: it wakes at %s", h.k.Status(), at)
		}
		h.ok(h.k.Work(h.at))
		if n, _ := h.Size(); n == 0 || n > retainEvents+retainPage {
			t.Fatalf("a turn has %d events", n)
		}
		was := len(h.events)
		h.ok(h.k.Work(h.at)) // the batch has enough
		if len(h.events) != was && was >= retainEvents {
			t.Fatalf("a full batch of %d events got %d more", was, len(h.events)-was)
		}
		h.flush()
	}
	if turns < 2 {
		t.Fatalf("it took %d turns", turns)
	}
	h.stands()
}

// A round begins with a batch of its own, when the log has grown enough; carries what is
// older; and has the log cut once its end is on disk. The rest of the log stands alone.
func TestRound(t *testing.T) {
	h := newHouse(t, func(c *Config) { c.CutEvents = 60 })
	var ids []events.ID
	for i := range 10 {
		id := h.submit(core.Submit{Params: json.RawMessage(`{"n":1}`)})
		if ids = append(ids, id); i%2 == 0 {
			h.end(id, []events.ItemState{events.StateCompleted, events.StateDead}[i%4/2])
		}
	}
	h.do(core.Reject{Type: "email", Rejected: events.Rejected{Code: "bad_params", Message: "no", Text: "{", Intake: events.Intake{Seq: 9}}})
	h.at = h.at.Add(2 * time.Second)
	h.settle()
	if s := h.k.Status(); s.Phase != "" || s.Events >= 60 {
		t.Fatalf("there is nothing to cut yet: %+v", s)
	}
	for h.k.Status().Events < 60 {
		p := events.Priority(h.ids % 10)
		h.ids++
		h.do(core.Reschedule{ID: ids[9], Priority: &p})
	}
	h.at = h.at.Add(2 * h.cfg.Sweep)
	var phases []string
	for was := events.Seq(0); was != h.appended; {
		was = h.appended
		h.work()
		if p := h.k.Status().Phase; len(phases) == 0 || phases[len(phases)-1] != p {
			phases = append(phases, p)
		}
	}
	if fmt.Sprint(phases) != "[begun carrying syncing]" && fmt.Sprint(phases) != "[begun syncing]" {
		t.Fatalf("phases %q", phases)
	}
	if at := h.k.Wake(); !at.Equal(h.at.Add(syncWithin)) || len(h.cuts) > 0 {
		t.Fatalf("it wakes at %s, cuts %v", at, h.cuts)
	}
	h.at = h.at.Add(syncWithin - time.Nanosecond)
	if h.settle(); len(h.cuts) > 0 {
		t.Fatal("the log is cut before the round's end is on disk")
	}
	h.at = h.at.Add(time.Nanosecond)
	h.settle()
	if s := h.k.Status(); s.Phase != "cutting" || s.First != events.SeqOf(1, 0) {
		t.Fatalf("%+v", s)
	}
	all := h.k.Status().Events
	h.cut()
	tip, err := h.log.Last(context.Background())
	h.ok(err)
	s := h.k.Status()
	if s.Phase != "" || s.First.Frame() != tip.First || tip.First == 1 || s.Events >= all || s.CutAt.IsZero() {
		t.Fatalf("%+v, the log begins at %d", s, tip.First)
	}
	h.stands()
	h.takeOver()
	if s := h.k.Status(); s.First.Frame() != tip.First || s.Phase != "syncing" {
		t.Fatalf("after a takeover: %+v", s)
	}
	if h.pass(syncWithin - time.Nanosecond); len(h.cuts) > 0 {
		t.Fatal("after a takeover the log is cut before its end is surely on disk")
	}
	h.pass(time.Nanosecond)
	h.settle()
	h.cut() // again, as it is not known that it was
	if s := h.k.Status(); s.First.Frame() != tip.First || s.Phase != "" {
		t.Fatalf("after a takeover: %+v", s)
	}
	h.stands()
}

// Whatever is decided during rounds, and however the log and the projection lag behind, each
// round ends, and what is left of the log gives the live store.
func TestRoundsWhileItemsMove(t *testing.T) {
	rounds := 0
	for seed := range uint64(5) {
		h := newHouse(t, nil)
		rng := rand.New(rand.NewPCG(seed, 1))
		var ids []events.ID
		step := func() {
			h.ids++
			sub := core.Submit{Type: "email", NewID: h.newID(), Params: json.RawMessage(fmt.Sprintf("%d", h.ids)), DedupKey: []string{"", "", "a", "b"}[rng.IntN(4)]}
			if n := len(ids); n > 0 && rng.IntN(2) == 0 {
				sub.After, sub.AfterPolicy = []events.ID{ids[max(0, n-1-rng.IntN(5))]}, events.AfterRun
			}
			var c core.Command = sub
			if len(ids) < 5 || rng.IntN(3) == 0 {
				ids = append(ids, sub.NewID)
			} else if id := ids[rng.IntN(len(ids))]; rng.IntN(8) == 0 {
				c = core.Reject{Type: "email", Rejected: events.Rejected{Code: "bad_params", Message: "no", Text: "{", Intake: events.Intake{Seq: uint64(h.ids)}}}
			} else {
				it, err := h.state.Item(id)
				h.ok(err)
				switch p := events.Priority(rng.IntN(10)); {
				case it == nil:
					return
				case it.State == events.StateRunning && rng.IntN(2) == 0:
					c = core.Complete{Run: core.Run{ID: id, Token: it.Token, Worker: "w"}, Result: json.RawMessage(`1`)}
				case it.State == events.StateRunning:
					c = core.Fail{Run: core.Run{ID: id, Token: it.Token, Worker: "w"}, Error: "broken", Retryable: rng.IntN(2) == 0}
				case it.State == events.StateQueued && rng.IntN(2) == 0:
					c = core.Claim{ID: id, Token: events.NewToken(h.state.Meta().Epoch, uint64(h.ids)), Worker: "w", Start: true}
				case it.State == events.StateDead:
					c = core.Replay{ID: id, Params: json.RawMessage(`"new"`)}
				case rng.IntN(4) == 0:
					c = core.Cancel{ID: id}
				default:
					c = core.Reschedule{ID: id, Priority: &p}
				}
			}
			if len(h.rest) == 0 { // nothing is decided in the middle of a decision
				_, err := h.Decide(c)
				h.ok(err)
				for _, id := range h.state.TakeFollowUps() {
					_, err := h.Decide(core.FollowUp{ID: id})
					h.ok(err)
				}
			}
		}
		for range 600 {
			if len(h.rest) == 0 {
				h.ok(h.k.Work(h.clock.Now()))
			}
			if !h.k.Quiet() {
				step()
			}
			if rng.IntN(3) == 0 {
				h.append()
			}
			if rng.IntN(6) == 0 {
				h.project()
			}
			if rng.IntN(20) == 0 {
				h.k.Ask(0)
			}
			if h.at = h.at.Add(time.Duration(rng.IntN(300)) * time.Millisecond); len(h.cuts) > 0 {
				h.flush()
				h.cut()
				h.stands()
				rounds++
			}
		}
		h.flush()
		if h.k.Status().Phase != "" {
			if h.pass(2 * syncWithin); len(h.cuts) != 1 {
				t.Fatalf("seed %d: the round does not end: %+v", seed, h.k.Status())
			}
			h.cut()
		}
		h.stands()
	}
	if rounds < 20 {
		t.Fatalf("only %d rounds came to their end", rounds)
	}
}

// round takes a round up to where its begin is projected and one batch of it is decided.
func (h *house) round() {
	h.t.Helper()
	h.k.Ask(0)
	for range 10 {
		if h.work(); h.k.phase == carries {
			return
		}
	}
	h.t.Fatalf("no round: %+v", h.k.Status())
}

// An item that the projection never has keeps a round from its end for a time only: then
// nothing else is decided until it is carried.
func TestQuiet(t *testing.T) {
	h := newHouse(t, nil)
	hot, p := h.submit(core.Submit{}), events.Priority(3)
	h.k.Ask(0)
	if !h.k.Quiet() {
		t.Fatal("a round that is to begin with a batch of its own lets others into it")
	}
	h.work()
	touch := func() { // something of the item is always on its way to the projection
		t.Helper()
		p = 7 - p
		_, err := h.Decide(core.Reschedule{ID: hot, Priority: &p})
		h.ok(err)
		h.ok(h.k.Work(h.clock.Now()))
	}
	begun := h.at
	if touch(); h.k.Quiet() {
		t.Fatal("it does not wait for the projection")
	}
	if at := h.k.Wake(); at.After(begun.Add(carryPatience)) || !at.After(begun) {
		t.Fatalf("it wakes at %s", at)
	}
	h.at = begun.Add(carryPatience - time.Nanosecond)
	if touch(); h.k.Quiet() {
		t.Fatal("it does not wait for long enough")
	}
	h.at = begun.Add(carryPatience)
	if touch(); !h.k.Quiet() {
		t.Fatal("others are decided, and the round never ends")
	}
	h.flush()
	if h.settle(); h.k.Quiet() || h.k.Status().Phase != "syncing" {
		t.Fatalf("once it is projected: %+v", h.k.Status())
	}
}

// stops are what keeps a Retention from work, by name.
var stops = map[string]func(h *house, on bool){
	"halted": func(h *house, on bool) { h.halted = on },
	"doubtful": func(h *house, on bool) {
		if h.server = 0; on {
			h.server = -2 * clock.MaxBehind
		}
		h.clock.Correct(h.at.Add(h.server))
		if h.clock.Doubtful() != on {
			h.t.Fatalf("the clock is doubtful: %v", !on)
		}
	},
}

// Rejected submissions are re-stated page by page, in as many batches as they need.
func TestRoundWithPagesOfRejected(t *testing.T) {
	h := newHouse(t, nil)
	text := strings.Repeat("x", 8<<10)
	for i := range uint64(3 * retainBytes / len(text)) {
		h.do(core.Reject{Type: "email", Rejected: events.Rejected{Code: "bad_params", Message: "no", Text: text, Intake: events.Intake{Seq: i + 1}}})
	}
	h.round()
	h.pass(2 * syncWithin)
	h.cut()
	h.stands()
}

// A round that keeps others waiting does not do so while the clock is implausible, or once
// the engine halts, as nothing would end it.
func TestQuietEnds(t *testing.T) {
	for name, stop := range stops {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, nil)
			h.submit(core.Submit{})
			h.round()
			h.k.round.quiet = true
			stop(h, true)
			h.ok(h.k.Work(h.clock.Now()))
			if h.k.Quiet() {
				t.Fatal("others still wait")
			}
		})
	}
}

// While the clock is implausible, or the engine halts, nothing is begun, and nobody has to
// wait.
func TestNothingIsBegun(t *testing.T) {
	for name, stop := range stops {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, nil)
			h.end(h.submit(core.Submit{}), events.StateCompleted)
			h.k.Ask(0)
			stop(h, true)
			h.at = h.at.Add(time.Minute)
			for range 5 {
				if at := h.k.Wake(); !at.IsZero() || h.k.Quiet() {
					t.Fatalf("it wakes at %s, quiet: %v", at, h.k.Quiet())
				}
				h.ok(h.k.Work(h.clock.Now()))
				if n, _ := h.Size(); n != 0 {
					t.Fatalf("%d events", n)
				}
			}
			stop(h, false)
			h.pass(2 * syncWithin)
			h.cut()
			if s := h.k.Status(); s.Pruned != 1 || s.Retained != 0 {
				t.Fatalf("then: %+v", s)
			}
		})
	}
}

// A cut, which frees room, goes on in an engine that halts.
func TestACutGoesOnWhileHalted(t *testing.T) {
	h := newHouse(t, nil)
	h.submit(core.Submit{})
	h.round()
	h.settle()
	h.halted = true
	h.pass(syncWithin)
	h.settle()
	h.cut()
	if at := h.k.Wake(); !at.IsZero() {
		t.Fatalf("it wakes at %s", at)
	}
}

// A cut without an answer is asked for again, and one of another round counts for nothing.
func TestACutIsAskedForAgain(t *testing.T) {
	h := newHouse(t, nil)
	h.submit(core.Submit{})
	h.round()
	h.late = true
	if h.pass(time.Minute); len(h.cuts) != 0 {
		t.Fatal("the log is cut before the round's end is durable")
	}
	h.late = false
	h.settle()
	h.pass(syncWithin)
	h.settle()
	h.k.CutDone(h.k.round.began.Frame() - 1)
	if h.k.Status().Phase != "cutting" || len(h.cuts) != 1 {
		t.Fatalf("%+v, cuts %v", h.k.Status(), h.cuts)
	}
	h.pass(CutTimeout + recutAfter - time.Second)
	if h.settle(); len(h.cuts) != 1 {
		t.Fatalf("cuts %v: it does not wait for an answer", h.cuts)
	}
	h.pass(time.Second)
	if h.settle(); len(h.cuts) != 2 || h.cuts[0] != h.cuts[1] {
		t.Fatalf("cuts %v", h.cuts)
	}
	h.cuts = h.cuts[1:]
	h.cut()
	h.pass(time.Hour)
	if len(h.cuts) != 0 {
		t.Fatal("what is cut is cut again")
	}
}

// A round that can't go on is given up, with a word about it; the next one is whole.
func TestARoundIsGivenUp(t *testing.T) {
	h := newHouse(t, nil)
	h.submit(core.Submit{})
	h.k.Ask(0)
	h.work()
	h.do(core.Own{Owner: "another"}) // an epoch ends the round under way
	h.settle()
	if s := h.k.Status(); s.Phase != "" || h.errors == 0 || h.k.Quiet() {
		t.Fatalf("%+v, %d errors", s, h.errors)
	}
	h.round()
	h.pass(2 * syncWithin)
	h.cut()
	h.stands()
}

// Ask begins a round, unless one is under way or the log begins after the position already.
func TestAsk(t *testing.T) {
	h := newHouse(t, nil)
	h.submit(core.Submit{})
	h.round()
	h.k.Ask(0)
	if s := h.k.Status(); s.Phase != "carrying" {
		t.Fatalf("a round is under way: %+v", s)
	}
	h.pass(2 * syncWithin)
	h.cut()
	first := h.k.Status().First
	if h.k.Ask(first - 1); h.k.Status().Phase != "" {
		t.Fatal("the log begins after that already")
	}
	if h.k.Ask(first); h.k.Status().Phase != "begun" {
		t.Fatalf("the log does not begin after that: %+v", h.k.Status())
	}
	h.pass(2 * syncWithin)
	h.cut()
	h.takeOver() // the cut may not have been done, for all that it knows
	if h.k.Ask(0); h.k.Status().Phase != "begun" || !h.k.Quiet() {
		t.Fatalf("after a takeover: %+v", h.k.Status())
	}
	h.pass(2 * syncWithin)
	h.cut()
	h.stands()
}
