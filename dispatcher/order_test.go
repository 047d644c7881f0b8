package dispatcher

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/streamwright/streamwright/dispatcher/readyq"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

func prio(p events.Priority) *events.Priority { return &p }

func (s *sim) expectOrder(got, want []events.ID) {
	s.t.Helper()
	if len(got) != len(want) {
		s.t.Fatalf("%d items came, want %d", len(got), len(want))
	}
	for i, id := range got {
		if id != want[i] {
			s.t.Fatalf("item %d is %s, want %s", i, id, want[i])
		}
	}
	s.check()
}

func TestPriorityThenFIFO(t *testing.T) {
	s := newSim(t, nil)
	var low, high []events.ID
	for range 3 {
		low = append(low, s.submit(core.Submit{Priority: prio(2)}).Decision.ID)
		s.tick(time.Second)
		high = append(high, s.submit(core.Submit{Priority: prio(8)}).Decision.ID)
		s.tick(time.Second)
	}
	s.register("w", 1, nil, "email")
	s.expectOrder(s.drain("email"), append(high, low...))
}

// An old item of a low priority overtakes a new one of a high priority when it
// has waited longer by the difference in priority times the age step, and not
// before.
func TestAgeing(t *testing.T) {
	for _, c := range []struct {
		wait     time.Duration
		oldFirst bool
	}{{599 * time.Second, false}, {601 * time.Second, true}} {
		s := newSim(t, nil)
		old := s.submit(core.Submit{Priority: prio(2)}).Decision.ID
		s.tick(c.wait)
		young := s.submit(core.Submit{Priority: prio(5)}).Decision.ID
		s.register("w", 1, nil, "email")
		want := []events.ID{young, old}
		if c.oldFirst {
			want = []events.ID{old, young}
		}
		s.expectOrder(s.drain("email"), want)
	}
}

func TestRetriedItemKeepsItsPlace(t *testing.T) {
	s := newSim(t, nil)
	first := s.submit(core.Submit{}).Decision.ID
	s.register("w", 1, nil, "email")
	m := s.take("email")
	s.begin(m)
	fail := m.report(wire.ReportFail)
	fail.RetryAfter = events.Millis(5000)
	s.granted(fail)
	s.reg.Remove("w", "")
	s.settle()
	var rest []events.ID
	for range 3 {
		rest = append(rest, s.submit(core.Submit{}).Decision.ID)
	}
	s.tick(6 * time.Second)
	s.register("w", 1, nil, "email")
	s.expectOrder(s.drain("email"), append([]events.ID{first}, rest...))
}

func TestRunNowAndReprioritise(t *testing.T) {
	s := newSim(t, nil)
	a := s.submit(core.Submit{Priority: prio(5)}).Decision.ID
	s.tick(time.Second)
	b := s.submit(core.Submit{Priority: prio(5)}).Decision.ID
	later := s.submit(core.Submit{Priority: prio(5), Delay: time.Hour}).Decision.ID
	s.tick(time.Second)
	c := s.submit(core.Submit{Priority: prio(5)}).Decision.ID
	s.do(core.Reschedule{ID: c, Priority: prio(9)}, core.Reschedule{ID: later, Now: true})
	s.register("w", 1, nil, "email")
	s.expectOrder(s.drain("email"), []events.ID{c, a, b, later})
}

func TestCapacityOfTypeAndEngine(t *testing.T) {
	s := newSim(t, func(c *Config) { c.MaxRunning = 5 })
	set := s.cfg.Defaults
	set.Capacity = 3
	s.do(core.Configure{Type: "email", Source: events.SourceAPI, Settings: set})
	s.register("w", 10, nil, "email", "sms")
	for range 10 {
		s.submit(core.Submit{Type: "email"})
	}
	if n := s.l.table.ByType["email"].All; n != 3 {
		t.Fatalf("%d e-mails are on their way: capacity 3", n)
	}
	for range 10 {
		s.submit(core.Submit{Type: "sms"})
	}
	if n := s.l.table.Total(); n != 5 {
		t.Fatalf("%d items are on their way: 5 at most", n)
	}
	set.Capacity = 5 // is used at once, without another event
	s.do(core.Configure{Type: "email", Source: events.SourceAPI, Settings: set})
	n := 0
	for s.l.table.Total() > 0 {
		n += len(s.drain("email")) + len(s.drain("sms"))
	}
	if n != 20 {
		t.Fatalf("%d items ran", n)
	}
	s.check()
}

func TestCapacityRaisedIsUsedAtOnce(t *testing.T) {
	s := newSim(t, nil)
	set := s.cfg.Defaults
	set.Capacity = 1
	s.do(core.Configure{Type: "email", Source: events.SourceAPI, Settings: set})
	s.register("w", 10, nil, "email")
	for range 4 {
		s.submit(core.Submit{})
	}
	set.Capacity = 3
	s.do(core.Configure{Type: "email", Source: events.SourceAPI, Settings: set})
	if n := s.l.table.Total(); n != 3 {
		t.Fatalf("%d are on their way", n)
	}
}

func TestAssignmentsFollowTheSlots(t *testing.T) {
	s := newSim(t, nil)
	for range 50 {
		s.submit(core.Submit{})
	}
	want := func(n int) {
		t.Helper()
		s.settle()
		if got := s.l.table.Total(); got != n || len(s.world.sent) != n {
			t.Fatalf("%d on their way, %d messages: want %d", got, len(s.world.sent), n)
		}
	}
	want(0)
	s.register("a", 2, nil, "email")
	want(2)
	s.register("b", 3, nil, "email")
	want(5)
	s.do(core.DrainWorker{Worker: "b"})
	for m := s.take("email"); m != nil; m = s.take("email") {
		s.begin(m)
		if m.worker == "b" {
			s.complete(m)
		}
	}
	want0 := func(n int) {
		t.Helper()
		if got := s.l.table.Total(); got != n {
			t.Fatalf("%d are running: want %d", got, n)
		}
	}
	want0(2) // nothing new for the one that drains
	s.register("c", 1, nil, "email")
	want0(3)
	s.check()
}

// A backlog far larger than a window comes out in exact order, and the loop
// holds a bounded part of it.
func TestLargeBacklogInOrder(t *testing.T) {
	slow(t)
	s := newSim(t, nil)
	const n = 10_000
	type placed struct {
		id events.ID
		p  events.Priority
	}
	var all []placed
	prios := []events.Priority{2, 5, 8}
	for i := range n / 100 {
		cmds := make([]core.Command, 100)
		for k := range cmds {
			p := prios[(i*7+k*3)%3]
			id := s.newID()
			cmds[k] = core.Submit{Type: "email", NewID: id, Priority: prio(p)}
			all = append(all, placed{id, p})
		}
		s.do(cmds...)
		s.tick(time.Millisecond)
	}
	slices.SortStableFunc(all, func(a, b placed) int { return cmp.Compare(b.p, a.p) })
	s.register("w", 400, nil, "email")
	want := make([]events.ID, n)
	for i, p := range all {
		want[i] = p.id
	}
	held := 0
	var got []events.ID
	for len(got) < n {
		for range 400 {
			m := s.take("email")
			if m == nil {
				break
			}
			s.run(m)
			got = append(got, m.id)
		}
		held = max(held, s.heldKeys())
	}
	if held > 3*readyq.WindowMax {
		t.Fatalf("%d keys in memory", held)
	}
	s.expectOrder(got, want)
}

func (s *sim) heldKeys() (n int) {
	return s.l.ready.Keys() + s.l.timers.Len()
}

func TestManyDelayedItemsDueAtOnce(t *testing.T) {
	slow(t)
	s := newSim(t, nil)
	const n = 5000
	var want []events.ID
	at := simStart.Add(time.Hour)
	for range n / 500 {
		cmds := make([]core.Command, 500)
		for k := range cmds {
			id := s.newID()
			cmds[k] = core.Submit{Type: "email", NewID: id, AvailableAt: at}
			want = append(want, id)
		}
		s.do(cmds...)
	}
	s.register("w", 100, nil, "email")
	s.tick(59 * time.Minute)
	if s.l.table.Total() != 0 {
		t.Fatal("some came too early")
	}
	if n := s.heldKeys(); n > 2*readyq.WindowMax {
		t.Fatalf("%d keys in memory", n)
	}
	s.tick(time.Minute)
	s.expectOrder(s.drain("email"), want)
}

// Items with capabilities go to a worker that has them, whether it was there before or comes
// later.
func TestLanesAndWorkersFindEachOther(t *testing.T) {
	s := newSim(t, nil)
	s.register("plain", 5, nil, "email")
	s.register("gpu", 5, []string{"cuda", "gpu"}, "email")
	id := s.submit(core.Submit{Capabilities: []string{"gpu"}}).Decision.ID
	if m := s.take("email"); m == nil || m.id != id || m.worker != "gpu" {
		t.Fatalf("%+v", m)
	}
	other := s.submit(core.Submit{Capabilities: []string{"fpga"}}).Decision.ID
	if s.l.table.Current(other) != 0 {
		t.Fatal("an item that nobody serves was sent")
	}
	s.register("late", 1, []string{"fpga"}, "email")
	if m := s.take("email"); m == nil || m.id != other || m.worker != "late" {
		t.Fatalf("%+v", m)
	}
}

// A cancel that becomes durable together with the claim: what was not sent never is. After
// it was sent, the slot is the worker's until it lets go, and the worker is told.
func TestCancelInTheBatchOfTheClaim(t *testing.T) {
	s := newSim(t, nil)
	s.register("w", 1, nil, "email")
	s.steps = func() int { return 0 }
	id := s.newID()
	s.ask(func([]Outcome) {}, core.Submit{Type: "email", NewID: id}, core.Define{Type: "other"})
	s.ok(s.l.step()) // decided, and not appended yet
	s.ask(func([]Outcome) {}, core.Cancel{ID: id})
	s.steps = nil
	s.settle()
	if s.item(id).State != events.StateCancelled || s.l.table.Total() != 0 || len(s.world.sent) != 0 {
		t.Fatalf("%s, %d slots taken, %d sent", s.item(id).State, s.l.table.Total(), len(s.world.sent))
	}
	id = s.submit(core.Submit{}).Decision.ID
	m := s.take("email")
	s.begin(m)
	s.do(core.Cancel{ID: id})
	if s.l.table.Total() != 1 || fmt.Sprint(s.world.told) != "[w is told to cancel 1]" {
		t.Fatalf("%d slots taken, told: %v", s.l.table.Total(), s.world.told)
	}
	s.report(m.report(wire.ReportFail))
	if s.l.table.Total() != 0 {
		t.Fatal("the slot did not come back")
	}
	s.check()
}

// A worker that leaves while a claim for it is being appended: the item goes to another, and
// is sent once.
func TestRegistryChangesInTheBatchOfTheClaim(t *testing.T) {
	s := newSim(t, nil)
	s.register("w", 1, nil, "email")
	s.steps = func() int { return 0 }
	id := s.newID()
	s.ask(func([]Outcome) {}, core.Submit{Type: "email", NewID: id})
	s.ok(s.l.step()) // decided, and not appended yet
	s.reg.Remove("w", "")
	s.ok(s.l.onSignals())
	s.steps = nil
	s.settle()
	s.register("v", 1, nil, "email")
	if m := s.take("email"); m == nil || m.worker != "v" || m.id != id || m.attempt != 1 {
		t.Fatalf("%+v", m)
	}
	s.ok(s.consistent())
}

// Many items are dispatched in steps, between which the loop takes what waits for
// it: a question is answered while most are still to be dispatched.
func TestDispatchingGoesInSteps(t *testing.T) {
	s := newSim(t, nil)
	const types, slots = 4, 1000
	for i := range types * slots {
		s.submit(core.Submit{Type: events.Type(fmt.Sprintf("t%d", i%types)), Tenant: fmt.Sprintf("tenant-%d", i%300)})
	}
	asked, answered, pushes := false, 0, 0
	s.onStage = func(stage string) {
		if stage != "decide" {
			return
		}
		if n := len(s.l.pipe.building.granted); n > maxStepPushes {
			t.Errorf("%d items were dispatched in one step", n)
		}
		if pushes = s.world.pushes; pushes > 0 && !asked {
			asked = true
			answerTo(s, func(*loop) (struct{}, error) { answered = s.world.pushes; return struct{}{}, nil })
		}
	}
	var names []string
	for i := range types {
		names = append(names, fmt.Sprintf("t%d", i))
	}
	for i := range types {
		s.steps = func() int { return 0 }
		s.register(fmt.Sprintf("w%d", i), slots, nil, names...)
	}
	s.steps = nil
	s.settle()
	if s.world.pushes != types*slots {
		t.Fatalf("%d items were dispatched", s.world.pushes)
	}
	if answered == 0 || answered > 8*maxStepPushes {
		t.Fatalf("the question was answered after %d items", answered)
	}
}
