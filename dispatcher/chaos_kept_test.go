package dispatcher

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector/query"
	"github.com/streamwright/streamwright/wire"
)

// purgeRejected has one of the rejected submissions forgotten.
func (c *chaos) purgeRejected() {
	page, err := query.Of(c.store).Rejected(wire.ListRejected{Limit: 5})
	c.ok(err)
	if n := len(page.Rejected); n > 0 {
		r := page.Rejected[c.rng.IntN(n)]
		c.ask(func([]Outcome) {}, core.PurgeRejected{Seq: r.Seq, Type: events.Type(r.Type)})
	}
}

// holdBackSome pauses the type, for a time or until it is resumed, or marks a
// worker to drain, or ends one of those.
func (c *chaos) holdBackSome() {
	w := events.WorkerID(c.worker())
	cmd := []core.Command{
		core.PauseType{Type: "email", For: time.Duration(1+c.rng.IntN(60)) * time.Second},
		core.PauseType{Type: "email", Until: c.at.Add(time.Duration(1+c.rng.IntN(60)) * time.Second)},
		core.PauseType{Type: "email"},
		core.ResumeType{Type: "email"},
		core.ResumeType{Type: "email"},
		core.DrainWorker{Worker: w},
		core.EndDrain{Worker: w},
		core.EndDrain{Worker: w, Reason: events.ReasonLeft},
	}[c.rng.IntN(8)]
	c.ask(func([]Outcome) {}, cmd)
}

// letGo ends what holds work back for good; a pause with an end is left to it.
func (c *chaos) letGo() {
	if t, _ := c.l.state.Type("email"); t.Paused != nil && t.Paused.Until.IsZero() {
		c.do(core.ResumeType{Type: "email"})
	}
}

// heldAsTheLogSays holds at rest: nothing of a paused type is on its way, no pause
// is past its end, and the registry knows who is to drain.
func (c *chaos) heldAsTheLogSays() error {
	t, _ := c.l.state.Type("email")
	if p := t.Paused; p != nil && !p.Until.IsZero() && !p.Until.After(c.l.clock.Due()) {
		return fmt.Errorf("at %s a pause goes on that ended at %s", c.l.clock.Due(), p.Until)
	}
	if stopped := c.l.state.DispatchGate("email").Stopped; stopped != c.l.gates.stopped["email"] {
		return fmt.Errorf("held back: %v; the dispatcher thinks %v", stopped, !stopped)
	}
	marks := c.l.state.Drains()
	if !maps.Equal(c.reg.Marks(), marks) {
		return fmt.Errorf("to drain are %v; the registry thinks %v", marks, c.reg.Marks())
	}
	for _, w := range c.reg.List() {
		if _, marked := marks[events.WorkerID(w.Worker)]; w.DiedAt.IsZero() && marked != (w.Status == wire.WorkerDraining) {
			return fmt.Errorf("worker %s is %s, to drain: %v", w.Worker, w.Status, marked)
		}
	}
	return nil
}

// rejectedAsTheLogSays holds however often the log was cut: of what was ever
// rejected, what nobody has purged is kept, and found by its message.
func (c *chaos) rejectedAsTheLogSays() error {
	want, answers := map[events.Seq]uint64{}, map[uint64]events.Seq{}
	err := c.readAll(func(evs []events.Event) error {
		for _, ev := range evs {
			switch b := ev.Body.(type) {
			case *events.Rejected:
				answers[b.Intake.Seq] = ev.Seq
				if b.Of.IsZero() {
					want[ev.Seq] = b.Intake.Seq
				}
			case *events.RejectedPurged:
				delete(want, b.Seq)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	page, err := query.Of(c.store).Rejected(wire.ListRejected{Limit: 1000})
	if err != nil {
		return err
	}
	got := map[events.Seq]uint64{}
	for _, r := range page.Rejected {
		got[r.Seq] = r.IntakeSeq
	}
	if !maps.Equal(got, want) {
		return fmt.Errorf("the rejected submissions of events %v are kept, not %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
	for intake, seq := range answers {
		if at, _, found, err := query.Of(c.store).Answer(intake); err != nil || !found || at != seq {
			return fmt.Errorf("message %d was answered by event %d; the projection says %d, %v, %v", intake, seq, at, found, err)
		}
	}
	return nil
}

// carriedRejected is how many rejected submissions rounds have re-stated.
func (c *chaos) carriedRejected() (n int) {
	c.ok(c.readAll(func(evs []events.Event) error {
		for _, ev := range evs {
			if b, ok := ev.Body.(*events.Snapshot); ok {
				n += len(b.Rejected)
			}
		}
		return nil
	}))
	return n
}
