package events

import (
	"strings"
	"testing"
)

// A mark holds until it is ended for a reason; both are told once.
func TestDrain(t *testing.T) {
	w := newWorld(t)
	began := w.s.DrainVersion()
	w.do(DrainWorker{Worker: "w1", Reason: "deploy", By: "ops"})
	if d := w.do(DrainWorker{Worker: "w1", Reason: "again"}); !d.Repeat {
		t.Fatalf("%+v", d)
	}
	if got := w.s.Drains()["w1"]; got != (Drain{At: w.now, Reason: "deploy", By: "ops"}) || w.s.DrainVersion() == began {
		t.Fatalf("%+v", got)
	}
	w.do(EndDrain{Worker: "w1", Reason: ReasonLeft})
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
	w.refused(CodeUnavailable, DrainWorker{Worker: "w3"})
	w.do(EndDrain{Worker: "w1"})
	w.do(DrainWorker{Worker: "w3"})
}

func TestRefusedDrains(t *testing.T) {
	w := newWorld(t)
	w.refused(CodeBadRequest, DrainWorker{Worker: "no worker"})
	w.refused(CodeTooLarge, DrainWorker{Worker: "w1", Reason: strings.Repeat("x", MaxNameLen+1)})
	w.refused(CodeBadRequest, EndDrain{Worker: "w1", Reason: "bored"})
	w.refused(CodeBadRequest, EndDrain{Worker: ""})
	for name, ev := range map[string]Event{
		"set twice":       {Kind: KindDrainSet, Worker: "w2", Body: &DrainSet{}},
		"never set":       {Kind: KindDrainEnded, Worker: "w3", Body: &DrainEnded{}},
		"kept beside one": {Kind: KindDrainEnded, Worker: "w2", Body: &DrainSet{}},
	} {
		w := newWorld(t)
		w.do(DrainWorker{Worker: "w2"})
		ev.Seq, ev.At = 2, w.now
		if err := w.s.Apply(ev); err == nil {
			t.Errorf("%s: applied", name)
		}
	}
	for _, ev := range []Event{{Kind: KindDrainSet, Body: &DrainSet{}, At: w.now}, {Kind: KindDrainEnded, Worker: "w1", Type: "email", Body: &DrainEnded{}, At: w.now}} {
		if err := ev.check(); err == nil {
			t.Errorf("%+v is no event", ev)
		}
	}
}

// What can't have been decided in a round is refused.
func TestRefusedCarriesOfRejected(t *testing.T) {
	w := newWorld(t)
	w.refused(CodeWrongState, CarryRejected{})
	w.do(Own{Owner: "me"})
	w.do(BeginCut{})
	if d := w.do(CarryRejected{}); !d.Repeat {
		t.Fatalf("%+v", d)
	}
	w.refused(CodeWrongState, CarryRejected{Rejected: []KeptRejected{{Seq: w.s.Meta().RoundAt}}})
}
