package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
)

func TestForgetType(t *testing.T) {
	w := newWorld(t)
	w.refused(events.CodeWrongState, ForgetType{Type: "never-seen"})
	id := w.submit(Submit{Type: "email"})
	w.refused(events.CodeWrongState, ForgetType{Type: "email"})
	w.do(Cancel{ID: id})
	w.refused(events.CodeWrongState, ForgetType{Type: "email"}) // its history is still there
	w.now = w.now.Add(10 * 24 * time.Hour)
	w.do(Prune{ID: id})
	w.do(ForgetType{Type: "email"})
	if _, known := w.s.Type("email"); known {
		t.Fatal("it is still known")
	}
	w.state(w.submit(Submit{Type: "email"}), events.StateQueued) // and is known again
	set := events.DefaultTypeSettings()
	set.Capacity = 7
	w.do(Configure{Type: "set", Source: events.SourceAPI, Settings: set})
	w.do(Define{Type: "paused"})
	w.do(PauseType{Type: "paused"})
	w.do(SetSchedule{Schedule: events.Schedule{Name: "daily", Type: "scheduled", Every: events.Millis(60_000), Anchor: w.now, Next: w.now.Add(time.Hour), Source: events.SourceAPI}})
	w.do(Define{Type: "scheduled"})
	for _, name := range []events.Type{"set", "paused", "scheduled"} {
		w.refused(events.CodeWrongState, ForgetType{Type: name})
	}
	w.readBack()
}

// 900 misspelt types lock nobody out.
func TestRoomForTypesComesBack(t *testing.T) {
	w := newWorld(t)
	for i := range events.MaxTypes {
		w.do(Define{Type: events.Type(fmt.Sprint("misspelt-", i))})
	}
	w.refused(events.CodeTooManyTypes, Submit{Type: "email", NewID: w.newID()})
	w.do(ForgetType{Type: "misspelt-7"})
	w.submit(Submit{Type: "email"})
	if n := len(w.s.TypeNames()); n != events.MaxTypes {
		t.Fatalf("%d types", n)
	}
	w.readBack()
}

func TestTypesThatAreNotAllowed(t *testing.T) {
	w := newWorld(t)
	known := w.submit(Submit{Type: "invoice"})
	w.s.SetLimits(events.Limits{Types: map[events.Type]bool{"email": true}})
	w.refused(events.CodeTypeNotAllowed, Submit{Type: "emial", NewID: w.newID()})
	w.refused(events.CodeTypeNotAllowed, Submit{Type: "invoice", NewID: w.newID()})
	w.refused(events.CodeTypeNotAllowed, Define{Type: "emial"})
	w.refused(events.CodeTypeNotAllowed, Configure{Type: "emial", Source: events.SourceAPI, Settings: events.DefaultTypeSettings()})
	w.submit(Submit{Type: "email"})
	w.do(Complete{Run: w.run(known)}) // what was accepted goes on
	d := w.do(Reject{Type: "emial", Rejected: events.Rejected{Code: string(events.CodeTypeNotAllowed), Message: "m", Subject: "work.submit.emial"}})
	if d.Events[0].Type != "" { // or each name would be a subject of its own
		t.Fatalf("%+v", d.Events[0])
	}
	w.readBack()
}

// An operator removes a type that nothing uses, whatever is set for it. What uses
// it is said.
func TestRemoveType(t *testing.T) {
	w := newWorld(t)
	w.refused(events.CodeNotFound, RemoveType{Type: "never-seen"})
	w.refused(events.CodeBadType, RemoveType{Type: "No Type"})
	set := events.DefaultTypeSettings()
	set.Circuit.Consecutive = 1
	w.do(Configure{Type: "emial", Source: events.SourceAPI, Settings: set})
	id := w.submit(Submit{Type: "emial", MaxAttempts: 1})
	w.do(Fail{Run: w.claim(id, events.NewToken(1, 1)), Error: "no server", Code: "network", Retryable: true})
	w.do(PauseType{Type: "emial", For: time.Hour})
	if d, err := Decide(w.s, RemoveType{Type: "emial"}, w.now); events.CodeOf(err) != events.CodeWrongState || !strings.Contains(err.Error(), "1 dead") {
		t.Fatalf("%+v %v", d, err)
	}
	w.do(Purge{ID: id})
	w.do(SetSchedule{Schedule: events.Schedule{Name: "daily", Type: "emial", Every: events.Millis(60_000), Anchor: w.now, Next: w.now.Add(time.Hour), Source: events.SourceAPI}})
	if d, err := Decide(w.s, RemoveType{Type: "emial"}, w.now); events.CodeOf(err) != events.CodeWrongState || !strings.Contains(err.Error(), "schedule daily") {
		t.Fatalf("%+v %v", d, err)
	}
	w.do(RemoveSchedule{Name: "daily", Source: events.SourceAPI})
	if _, at := w.s.NextCircuit(); at.IsZero() {
		t.Fatal("its circuit is not open: the test shows nothing")
	}
	w.do(RemoveType{Type: "emial"})
	if _, known := w.s.Type("emial"); known {
		t.Fatal("it is still known")
	}
	if ref, at := w.s.NextCircuit(); !at.IsZero() {
		t.Fatalf("the circuit of %v is left", ref)
	}
	if typ, at := w.s.NextPauseEnd(); !at.IsZero() {
		t.Fatalf("the pause of %v is left", typ)
	}
	w.refused(events.CodeNotFound, RemoveType{Type: "emial"})
	set.Protocol = events.ProtocolAck
	w.do(Configure{Type: "ack", Source: events.SourceAPI, Settings: set})
	w.refused(events.CodeWrongState, RemoveType{Type: "ack"})
	w.state(w.submit(Submit{Type: "emial"}), events.StateQueued) // and is as if it had never been
	if info, _ := w.s.Type("emial"); info.Source != events.SourceDefault || info.Paused != nil || info.Circuit.State != events.CircuitShut {
		t.Fatalf("%+v", info)
	}
	w.readBack()
}
