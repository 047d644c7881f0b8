package core

import (
	"strings"
	"testing"

	"github.com/streamwright/streamwright/events"
)

// A mark holds until it is ended for a reason; both are told once.
func TestDrain(t *testing.T) {
	w := newWorld(t)
	began := w.s.DrainVersion()
	w.do(DrainWorker{Worker: "w1", Reason: "deploy", By: "ops"})
	if d := w.do(DrainWorker{Worker: "w1", Reason: "again"}); !d.Repeat {
		t.Fatalf("%+v", d)
	}
	if got := w.s.Drains()["w1"]; got != (events.Drain{At: w.now, Reason: "deploy", By: "ops"}) || w.s.DrainVersion() == began {
		t.Fatalf("%+v", got)
	}
	w.do(EndDrain{Worker: "w1", Reason: events.ReasonLeft})
	if d := w.do(EndDrain{Worker: "w1"}); !d.Repeat || len(w.s.Drains()) != 0 || len(w.log) != 2 {
		t.Fatalf("%+v, %d events", d, len(w.log))
	}
	w.readBack()
}

func TestDrainsAreBounded(t *testing.T) {
	w := newWorld(t)
	w.s.maxDrains = 2
	w.do(DrainWorker{Worker: "w1"})
	w.do(DrainWorker{Worker: "w2"})
	w.refused(events.CodeUnavailable, DrainWorker{Worker: "w3"})
	w.do(EndDrain{Worker: "w1"})
	w.do(DrainWorker{Worker: "w3"})
}

func TestRefusedDrains(t *testing.T) {
	w := newWorld(t)
	w.refused(events.CodeBadRequest, DrainWorker{Worker: "no worker"})
	w.refused(events.CodeTooLarge, DrainWorker{Worker: "w1", Reason: strings.Repeat("x", events.MaxNameLen+1)})
	w.refused(events.CodeBadRequest, EndDrain{Worker: "w1", Reason: "bored"})
	w.refused(events.CodeBadRequest, EndDrain{Worker: ""})
	for name, ev := range map[string]events.Event{
		"set twice":       {Kind: events.KindDrainSet, Worker: "w2", Body: &events.DrainSet{}},
		"never set":       {Kind: events.KindDrainEnded, Worker: "w3", Body: &events.DrainEnded{}},
		"kept beside one": {Kind: events.KindDrainEnded, Worker: "w2", Body: &events.DrainSet{}},
	} {
		w := newWorld(t)
		w.do(DrainWorker{Worker: "w2"})
		ev.Seq, ev.At = 2, w.now
		if err := w.s.Apply(ev); err == nil {
			t.Errorf("%s: applied", name)
		}
	}
	for _, ev := range []events.Event{{Kind: events.KindDrainSet, Body: &events.DrainSet{}, At: w.now}, {Kind: events.KindDrainEnded, Worker: "w1", Type: "email", Body: &events.DrainEnded{}, At: w.now}} {
		if err := ev.Check(); err == nil {
			t.Errorf("%+v is no event", ev)
		}
	}
}

// What can't have been decided in a round is refused.
func TestRefusedCarriesOfRejected(t *testing.T) {
	w := newWorld(t)
	w.refused(events.CodeWrongState, CarryRejected{})
	w.do(Own{Owner: "me"})
	w.do(BeginCut{})
	if d := w.do(CarryRejected{}); !d.Repeat {
		t.Fatalf("%+v", d)
	}
	w.refused(events.CodeWrongState, CarryRejected{Rejected: []events.KeptRejected{{Seq: w.s.Meta().RoundAt}}})
}
