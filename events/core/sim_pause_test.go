package core

import (
	"reflect"
	"time"

	"github.com/streamwright/streamwright/events"
)

// fewDrains is MaxDrains for a sim: less than there are workers.
const fewDrains = 2

func (s *sim) pauseCommand(typ events.Type) Command {
	c := PauseType{Type: typ, Reason: pick(s, "reason", "", "provider down"), By: pick(s, "by", "", "ops")}
	switch s.drawn(4) {
	case 0:
		c.Until = s.now.Add(pick(s, "until", -time.Second, time.Second, time.Hour, 11*365*24*time.Hour))
	case 1:
		c.For = pick(s, "for", -time.Second, time.Nanosecond, time.Minute)
	}
	return c
}

// duePauseCommand ends the pause that ends next, in its time or not.
func (s *sim) duePauseCommand(typ events.Type) Command {
	t, at := s.oracle.NextPauseEnd()
	if at.IsZero() || s.chance("another", 30) {
		return DuePause{Type: typ}
	}
	if s.now.Before(at) && s.chance("in time", 80) {
		s.now = at
	}
	return DuePause{Type: t}
}

func (s *sim) drainCommand() Command {
	w := pick(s, "worker", events.WorkerID("w1"), "w2", "w3", "no worker")
	if s.chance("drain", 50) {
		return DrainWorker{Worker: w, Reason: pick(s, "reason", "", "deploy"), By: "ops"}
	}
	return EndDrain{Worker: w, Reason: pick(s, "why", "", events.ReasonLeft, events.ReasonUnseen, "bored")}
}

// checkPauses holds after every decision: what ends when follows from the types.
func (s *sim) checkPauses() {
	ends := map[events.Type]time.Time{}
	for name, e := range s.oracle.types {
		if p := e.info.Paused; p != nil && !p.Until.IsZero() {
			ends[name] = p.Until
			if !p.Until.After(p.At) {
				s.t.Fatalf("type %s: %+v", name, p)
			}
		}
	}
	for _, st := range []*State{s.live, s.oracle} {
		t, next := st.NextPauseEnd()
		if !reflect.DeepEqual(st.pauseEnds, ends) || !next.Equal(ends[t]) {
			s.t.Fatalf("pauses end %v, noted are %v, next %s at %v", ends, st.pauseEnds, t, next)
		}
		for _, at := range ends {
			if at.Before(next) {
				s.t.Fatalf("the next pause is said to end at %v, one ends at %v", next, at)
			}
		}
	}
}

func (s *sim) checkDrains() {
	if n := s.oracle.drains.len(); n > fewDrains || !reflect.DeepEqual(s.live.Drains(), s.oracle.Drains()) {
		s.t.Fatalf("drains: live %v, by the log %v", s.live.Drains(), s.oracle.Drains())
	}
}

// sameNotes holds for a state that has read the log: it knows what the live one
// knows beside what is kept.
func (s *sim) sameNotes(st *State) {
	if !reflect.DeepEqual(st.pauseEnds, s.oracle.pauseEnds) || !reflect.DeepEqual(st.circuits.open, s.oracle.circuits.open) || !reflect.DeepEqual(st.Drains(), s.oracle.Drains()) {
		s.t.Fatalf("noted in a replay: %v, %v, %v; live: %v, %v, %v", st.pauseEnds, st.circuits.open, st.Drains(), s.oracle.pauseEnds, s.oracle.circuits.open, s.oracle.Drains())
	}
}
