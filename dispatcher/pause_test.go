package dispatcher

import (
	"slices"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

// While new work is held, what runs is recorded and nothing is begun; afterwards
// all of it happens.
func TestHoldDispatch(t *testing.T) {
	h := newHarness(t, nil)
	h.register("w", 4, "email")
	parent, plain := h.submit("email"), h.submit("email")
	msgs := map[string]wire.Report{}
	for range 2 {
		m := h.pull("email")
		h.begin(m)
		r := reportOf(m, wire.ReportComplete)
		msgs[r.ID] = r
	}
	after := h.do(core.Submit{Type: "email", NewID: h.eng.NewID(), Params: []byte(`1`), After: []events.ID{plain}}).Decision.ID
	h.eng.HoldDispatch("there is no room", true)
	waits := h.submit("email")
	spawn := msgs[parent.String()]
	spawn.Event, spawn.Children = wire.ReportSpawn, []wire.Submit{{Type: "email", Params: []byte(`1`)}}
	if a := h.report(spawn)[0]; a.OK || a.Error.Code != events.CodeUnavailable {
		t.Errorf("a spawn with no room: %+v", a)
	}
	if a := h.report(msgs[plain.String()])[0]; !a.OK {
		t.Fatalf("a completion with no room: %+v", a.Error)
	}
	if st := h.item(plain).State; st != events.StateCompleted {
		t.Errorf("what ran is %s", st)
	}
	why, err := h.eng.Why(h.ctx(), waits)
	if err != nil || !slices.ContainsFunc(why.Reasons, func(o events.BlockReason) bool { return o.Code == events.WhyNoRoom }) {
		t.Errorf("why: %+v, %v", why.Reasons, err)
	}
	if st := h.item(after).State; st != events.StateWaiting {
		t.Errorf("what follows is %s", st)
	}
	if n := len(h.received("email")); n != 0 {
		t.Errorf("%d items were sent with no room", n)
	}
	h.eng.HoldDispatch("", false)
	if a := h.report(spawn)[0]; !a.OK {
		t.Errorf("a spawn with room: %+v", a.Error)
	}
	h.until("what follows is queued", func() bool { return h.item(after).State == events.StateQueued })
	h.pull("email")
}

// In a pause, a run may end in children: they wait as all else does.
func TestASpawnInAPause(t *testing.T) {
	h := newHarness(t, nil)
	h.register("w", 4, "email")
	parent := h.submit("email")
	m := h.pull("email")
	h.begin(m)
	h.eng.HoldDispatch("it is paused", false)
	spawn := reportOf(m, wire.ReportSpawn)
	spawn.Children = []wire.Submit{{Type: "email", Params: []byte(`1`)}}
	if a := h.report(spawn)[0]; !a.OK {
		t.Errorf("a spawn in a pause: %+v", a.Error)
	}
	if st := h.item(parent).State; st != events.StateWaiting {
		t.Errorf("the parent is %s", st)
	}
	if n := len(h.received("email")); n != 0 {
		t.Errorf("%d items were sent in a pause", n)
	}
	h.eng.HoldDispatch("", false)
	h.pull("email")
}

// Held schedules and retention wait without a turn of the loop, and do what was
// missed afterwards.
func TestHoldSchedulesAndRetention(t *testing.T) {
	s := newSim(t, nil)
	s.setSchedule(events.Schedule{Name: "often", Every: events.Millis(1000)})
	s.settle()
	s.l.halt.set(hold{why: "there is no room", full: true})
	s.l.retention.Ask(0) // a round of snapshots
	before := s.l.state.Meta().Applied
	s.at = s.at.Add(30 * time.Second)
	s.settle()
	if made, _ := s.fired(); len(made["often"]) != 0 || s.l.state.Meta().Round != 0 {
		t.Errorf("with no room: %d ticks, round %d", len(made["often"]), s.l.state.Meta().Round)
	}
	if now := s.l.state.Meta().Applied; now != before {
		t.Errorf("%d events with no room", now-before)
	}
	if wait := s.l.nextWake(); wait <= 0 {
		t.Error("the loop spins")
	}
	s.l.halt.set(hold{})
	s.settle()
	if made, _ := s.fired(); len(made["often"]) != 1 || s.l.state.Meta().Round == 0 {
		t.Errorf("with room: %d ticks, round %d", len(made["often"]), s.l.state.Meta().Round)
	}
}

// An ownership that ends while a round is to begin decides what it has taken, and makes no
// round.
func TestAnEndDoesNotWaitForARound(t *testing.T) {
	s := newSim(t, nil)
	s.l.retention.Ask(0)
	if !s.l.retention.Quiet() {
		t.Fatal("nothing is held back")
	}
	s.l.closing = true
	var out []Outcome
	s.ask(func(o []Outcome) { out = o }, core.Submit{Type: "email", NewID: s.newID()})
	s.settle()
	if len(out) != 1 || out[0].Err != nil || !s.l.idle() {
		t.Errorf("outcomes %v, idle %t", out, s.l.idle())
	}
}
