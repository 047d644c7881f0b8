package core

import (
	"slices"
	"strings"
	"time"

	"github.com/streamwright/streamwright/events"
)

// goldenKeep lives through what outlives a cut and ends by itself: pauses with an
// end, workers marked to drain, and a round that re-states what was rejected.
func goldenKeep(w *world) {
	tick := func(d time.Duration) { w.now = w.now.Add(d) }
	tick(time.Hour)
	w.do(PauseType{Type: "charge", Reason: "maintenance", By: "ops", For: 2 * time.Hour})
	tick(time.Minute)
	w.do(PauseType{Type: "charge", By: "kelly", Until: w.now.Add(time.Hour)}) // sooner
	w.do(DrainWorker{Worker: "host-71", Reason: "new kernel", By: "ops"})
	w.do(DrainWorker{Worker: "host-72", By: "ops"})
	w.do(DrainWorker{Worker: "host-73"})
	w.do(EndDrain{Worker: "host-71", By: "ops"})
	w.do(EndDrain{Worker: "host-73", Reason: events.ReasonLeft})
	tick(time.Hour)
	w.do(DuePause{Type: "charge"})
	w.do(PauseType{Type: "charge", Until: w.now.Add(24 * time.Hour)})

	reject := func(r events.Rejected, seq uint64) events.Seq {
		r.Intake.Seq = seq
		w.do(Reject{Type: "email", Rejected: r})
		return w.s.Meta().Applied
	}
	reject(events.Rejected{Code: "bad_params", Message: "params are no JSON document", Subject: "work.submit.email", Headers: map[string][]string{"Work-Priority": {"high"}}, Text: "{to: kelly}"}, 6)
	purged := reject(events.Rejected{Code: "bad_params", Message: "params are no JSON document", Bytes: []byte{0xff, 0x00}}, 7)
	w.do(PurgeRejected{Seq: purged, Type: "email"})
	reject(events.Rejected{Code: "duplicate", Message: "it repeats an item", Of: w.newID()}, 8)
	goldenRound(w)
	reject(events.Rejected{Code: "bad_header", Message: "no such header"}, 9)
	w.do(Define{Type: "emial"})
	w.do(ForgetType{Type: "emial"})
}

// goldenRound is a round that re-states what was rejected; the items, which
// goldenRetention carries, are left out.
func goldenRound(w *world) {
	base := w.base()
	w.do(BeginCut{})
	begin := w.s.Meta().RoundAt
	rejected, answers := base.keptBefore(begin)
	w.do(CarryRejected{Rejected: rejected, Answers: answers})
	kept := &events.RejectedKept{From: begin, Answers: begin}
	if len(rejected) > 0 {
		kept.From = rejected[0].Seq
	}
	if len(answers) > 0 {
		kept.Answers = answers[0].Seq
	}
	w.do(EndCut{Kept: kept})
}

// base is a projection of the log so far.
func (w *world) base() *mapBase {
	w.t.Helper()
	return w.baseFrom(0)
}

// baseFrom is a projection of the log from an event on.
func (w *world) baseFrom(first events.Seq) *mapBase {
	w.t.Helper()
	base := newMapBase()
	s := w.reader(base)
	begin := slices.IndexFunc(w.log, func(ev events.Event) bool { return ev.Seq >= first })
	if counts, err := s.Frame(first.Frame(), 0, uint64(begin)); !counts || err != nil {
		w.t.Fatal(counts, err)
	}
	for _, ev := range w.log[begin:] {
		if err := s.Apply(ev); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := base.write(s.TakeChanges()); err != nil {
		w.t.Fatal(err)
	}
	return base
}

// largestKept makes the largest events of what outlives a cut.
func (w *world) largestKept(worker events.WorkerID, text string) {
	w.do(DrainWorker{Worker: worker, Reason: text, By: text})
	w.do(EndDrain{Worker: worker, By: text})
	long := events.Type(strings.Repeat("z", events.MaxTypeLen))
	w.do(Define{Type: long})
	w.do(ForgetType{Type: long})
	for i := range uint64(8) { // each as large as it can be: a byte takes six in JSON
		w.do(Reject{Rejected: events.Rejected{Code: text, Message: strings.Repeat("\x01", events.MaxErrorText), Subject: strings.Repeat("\x01", events.MaxKeyLen),
			Headers: map[string][]string{"a": {strings.Repeat("\x01", events.MaxRejectedHeaders-9)}}, Text: strings.Repeat("\x01", events.MaxRejectedBytes), Intake: events.Intake{Seq: 1<<63 + 1 + i}}})
	}
	w.do(BeginCut{})
	rejected, answers := w.base().keptBefore(w.s.Meta().RoundAt)
	w.do(CarryRejected{Rejected: rejected, Answers: answers})
}
