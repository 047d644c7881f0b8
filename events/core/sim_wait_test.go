package core

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/streamwright/streamwright/events"
)

// waitCommand draws what concerns waits and signals, and brings items that far.
func (s *sim) waitCommand() Command {
	running := s.one("running", func(it *events.Item) bool { return it.State == events.StateRunning && !it.Worker.Ack() })
	r := s.run()
	if !running.IsZero() && s.chance("a current run", 90) {
		it := s.oracle.items[running].cur
		r = Run{ID: running, Token: it.Token, Worker: it.Worker}
	}
	switch pick(s, "wait step", 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 4, 4, 5, 5, 6, 6, 6) {
	case 0:
		return s.park(r)
	case 1:
		return s.send()
	case 2:
		ready := s.one("ready", func(it *events.Item) bool {
			return it.State == events.StateQueued && !it.AvailableAt.After(s.now) && it.Signals != nil
		})
		if ready.IsZero() {
			ready = s.one("any ready", func(it *events.Item) bool { return it.State == events.StateQueued && !it.AvailableAt.After(s.now) })
		}
		s.tokens++
		s.dispatch[ready] = events.NewToken(1, s.tokens)
		return Claim{ID: ready, Token: s.dispatch[ready], Worker: "w1", Start: true}
	case 3:
		return Complete{Run: r, Strict: s.chance("strict", 30)}
	case 5:
		return GiveToken{Run: r, Name: pick(s, "token name", "go", "pay"), Hash: s.aHash()}
	case 6:
		return s.present()
	}
	return Due{ID: s.one("waiting for its deadline", func(it *events.Item) bool { return it.Wait() != nil })}
}

func (s *sim) park(r Run) Command {
	w := events.WaitTerms{Then: pick(s, "then", events.WaitContinue, events.WaitContinue, events.WaitContinue, events.WaitFail, events.WaitComplete)}
	for _, name := range []string{"go", "stop", "pay"} {
		if s.chance("waits for "+name, 50) {
			w.Names = append(w.Names, name)
		}
	}
	w.All = len(w.Names) > 0 && s.chance("all", 40)
	if w.Then == events.WaitComplete {
		w.Result = json.RawMessage(pick(s, "wait result", "", `"late"`, "no"))
	}
	return Park{Run: r, Wait: w, For: pick(s, "wait for", time.Millisecond, time.Minute, time.Hour, 0)}
}

func (s *sim) send() Command {
	id := s.anID()
	if waits := s.one("waiting for a signal", func(it *events.Item) bool { return it.Wait() != nil }); !waits.IsZero() && s.chance("to one that waits", 60) {
		id = waits
	}
	c := Signal{ID: id, Name: pick(s, "signal name", "go", "stop", "pay", "other"), MsgID: pick(s, "signal id", "", "", "m1", "m2")}
	c.Payload = json.RawMessage(pick(s, "signal payload", "", "", `{"n": 1}`, `"<"`, "no"))
	return c
}

func (s *sim) aHash() string {
	return aTokenHash(pick(s, "token", 1, 2, 3))
}

// aTokenHash stands for the hash of a token.
func aTokenHash(n int) string { return fmt.Sprintf("%064x", n) }

// present presents a token, mostly one that there is.
func (s *sim) present() Command {
	c := PresentToken{ID: s.anID(), Hash: s.aHash()}
	if has := s.one("has a token", func(it *events.Item) bool { return len(s.letters.tokens[it.ID]) > 0 }); !has.IsZero() && s.chance("a token that there is", 90) {
		c.ID, c.Hash = has, pick(s, "which", slices.Sorted(maps.Keys(s.letters.tokens[has]))...)
	}
	if s.chance("an error", 30) {
		c.Error = &events.SignalError{Code: pick(s, "error code", "", "declined")}
	} else {
		c.Result = json.RawMessage(pick(s, "token result", "", `{"n": 1}`, "no"))
	}
	return c
}

// letter is a signal as the log alone tells of it.
type letter struct {
	number      int
	name, msgID string
}

// letters holds what each item's mailbox must hold, from the events alone: boxes has the
// signals, taken those that a wait has taken.
type letters struct {
	boxes map[events.ID][]letter
	taken map[events.ID][]int
	// tokens has the number of the signal that each token has become, 0 for none yet.
	tokens map[events.ID]map[string]int
}

func (l *letters) apply(ev events.Event) {
	switch b := ev.Body.(type) {
	case *events.Created:
		delete(l.boxes, ev.ID)
		delete(l.taken, ev.ID)
		delete(l.tokens, ev.ID)
	case *events.TokenGiven:
		if l.tokens[ev.ID] == nil {
			l.tokens[ev.ID] = map[string]int{}
		}
		l.tokens[ev.ID][b.Hash] = 0
	case *events.Signalled:
		if b.Token != "" {
			if l.tokens[ev.ID][b.Token] != 0 {
				panic("a token was presented twice")
			}
			l.tokens[ev.ID][b.Token] = b.Number
		}
		l.boxes[ev.ID] = append(l.boxes[ev.ID], letter{b.Number, b.Name, b.MsgID})
	case *events.Queued:
		if b.Reason == string(events.WaitSignalled) || b.Reason == string(events.WaitTimedOut) {
			l.taken[ev.ID] = b.Signals
		}
	case *events.Parked, *events.Completed:
		l.settle(ev.ID)
	case *events.Spawned:
		if b.Part == 0 && !b.Batch {
			l.settle(ev.ID)
		}
	}
}

// settle lets go of what a run that has ended with an outcome was given.
func (l *letters) settle(id events.ID) {
	l.boxes[id] = slices.DeleteFunc(l.boxes[id], func(s letter) bool { return slices.Contains(l.taken[id], s.number) })
	delete(l.taken, id)
}

// checkMailboxes: each signal that was accepted is kept until the outcome of a run that
// was given it, is counted, and no item waits for what has come.
func (s *sim) checkMailboxes() {
	for id, e := range present(s.oracle) {
		it := e.cur
		box, err := s.oracle.mailbox(it)
		s.must(err)
		var got []letter
		bytes := 0
		for i := range box.Unread {
			l := &box.Unread[i]
			got = append(got, letter{l.Number, l.Name, l.MsgID})
			bytes += l.Size()
		}
		if !slices.Equal(got, s.letters.boxes[id]) {
			s.t.Fatalf("the mailbox of %s holds %v, want %v", id, got, s.letters.boxes[id])
		}
		tokens, open := map[string]int{}, 0
		for _, t := range box.Tokens {
			tokens[t.Hash] = t.Signal
			if t.Signal == 0 {
				open++
			}
		}
		if !maps.Equal(tokens, s.letters.tokens[id]) || it.Signals != nil && it.Signals.Tokens != open {
			s.t.Fatalf("the tokens of %s are %v, and it counts %+v; want %v", id, box.Tokens, it.Signals, s.letters.tokens[id])
		}
		if sig := it.Signals; sig != nil && (sig.Unread != len(got) || sig.Bytes != bytes) {
			s.t.Fatalf("%s counts %+v, and holds %d signals of %d bytes", id, sig, len(got), bytes)
		}
		if w := it.Wait(); w != nil {
			if taken, whole := takes(&w.WaitTerms, box.Unread); whole {
				s.t.Fatalf("%s waits for %v, and signals %v have come", id, w.Names, taken)
			}
			if w.Until.IsZero() {
				s.t.Fatalf("%s waits for ever: %+v", id, w)
			}
		}
		for i := range box.Unread {
			if id := box.Unread[i].MsgID; id != "" && slices.ContainsFunc(box.Unread[:i], func(l events.Signal) bool { return l.MsgID == id }) {
				s.t.Fatalf("message %s has come twice: %v", id, got)
			}
		}
	}
}
