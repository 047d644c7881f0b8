package dispatcher

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/streamwright/streamwright/dispatcher/lanes"
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
	s.expectOrder(s.drain("email", "w"), append(high, low...))
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
		s.expectOrder(s.drain("email", "w"), want)
	}
}

func TestRetriedItemKeepsItsPlace(t *testing.T) {
	s := newSim(t, nil)
	first := s.submit(core.Submit{}).Decision.ID
	s.register("w", 1, nil, "email")
	m := s.world.pull(lanes.Key{Type: "email", Name: ""})
	claim := wire.Report{ID: m.id.String(), Token: m.token.String(), Worker: "w", Event: wire.ReportClaim, Start: true}
	fail := claim
	fail.Event, fail.RetryAfterMS = wire.ReportFail, 5000
	s.report(claim, fail)
	delete(s.world.msgs, m.seq)
	s.reg.Remove("w", "")
	s.settle()
	var rest []events.ID
	for range 3 {
		rest = append(rest, s.submit(core.Submit{}).Decision.ID)
	}
	s.tick(6 * time.Second)
	s.register("w", 1, nil, "email")
	s.expectOrder(s.drain("email", "w"), append([]events.ID{first}, rest...))
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
	s.expectOrder(s.drain("email", "w"), []events.ID{c, a, b, later})
}

// What is dispatched already and not claimed is taken back when its order
// changes: its message is deleted and its token is stale.
func TestReprioritiseWhatIsDispatched(t *testing.T) {
	s := newSim(t, nil)
	s.register("w", 1, nil, "email")
	a := s.submit(core.Submit{}).Decision.ID
	b := s.submit(core.Submit{}).Decision.ID
	c := s.submit(core.Submit{}).Decision.ID
	old := s.l.table.Current(a)
	s.do(core.Reschedule{ID: a, Priority: prio(1)})
	if tok := s.l.table.Current(a); tok != 0 || len(s.world.msgs) != 2 {
		t.Fatalf("the item is still on its way under %s, %d messages", tok, len(s.world.msgs))
	}
	r := s.report(wire.Report{ID: a.String(), Token: old.String(), Worker: "w", Event: wire.ReportClaim})
	if r[0].Error == nil || r[0].Error.Code != events.CodeStaleToken {
		t.Fatalf("%+v", r[0])
	}
	s.expectOrder(s.drain("email", "w"), []events.ID{b, c, a})
}

func TestDelayOfWhatIsDispatched(t *testing.T) {
	s := newSim(t, nil)
	s.register("w", 1, nil, "email")
	a := s.submit(core.Submit{}).Decision.ID
	s.do(core.Reschedule{ID: a, Delay: time.Minute})
	if got := s.drain("email", "w"); len(got) != 0 {
		t.Fatal("it ran before its time")
	}
	s.tick(time.Minute)
	s.expectOrder(s.drain("email", "w"), []events.ID{a})
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
	if n := s.l.table.ByType["email"]; n != 3 {
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
		n += len(s.drain("email", "w")) + len(s.drain("sms", "w"))
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

func TestWindowFollowsTheSlots(t *testing.T) {
	s := newSim(t, nil)
	for range 50 {
		s.submit(core.Submit{})
	}
	want := func(n int) {
		t.Helper()
		s.settle()
		if got := s.l.table.Total(); got != n || len(s.world.msgs) != n {
			t.Fatalf("%d on their way, %d messages: want %d", got, len(s.world.msgs), n)
		}
	}
	want(0)
	s.register("a", 2, nil, "email")
	want(4)
	s.register("b", 3, nil, "email")
	want(10)
	s.do(core.DrainWorker{Worker: "b"})
	want(10) // over the window, until some have run
	s.do(core.DrainWorker{Worker: "a"})
	want(0) // withdrawn: nobody is left to pull them
	s.register("c", 1, nil, "email")
	want(2)
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
			m := s.world.pull(lanes.Key{Type: "email", Name: ""})
			if m == nil {
				break
			}
			s.run(m, "w")
			delete(s.world.msgs, m.seq)
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
	s.expectOrder(s.drain("email", "w"), want)
}

// A worker that was there before a lane hears of it, and one that comes later
// finds it.
func TestLanesAndWorkersFindEachOther(t *testing.T) {
	s := newSim(t, nil)
	s.register("plain", 5, nil, "email")
	s.register("gpu", 5, []string{"cuda", "gpu"}, "email")
	id := s.submit(core.Submit{Capabilities: []string{"gpu"}}).Decision.ID
	if fmt.Sprint(s.world.told) != `[lane "gpu" of email is made: its workers are told to register again]` {
		t.Fatalf("told: %q", s.world.told)
	}
	if m := s.world.pull(lanes.Key{Type: "email", Name: ""}); m != nil {
		t.Fatal("an item with capabilities came by the shared lane")
	}
	if m := s.world.pull(lanes.Key{Type: "email", Name: "gpu"}); m == nil || m.id != id {
		t.Fatalf("%+v", m)
	}
	other := s.submit(core.Submit{Capabilities: []string{"fpga"}}).Decision.ID
	if len(s.world.told) != 1 || s.l.table.Current(other) != 0 {
		t.Fatal("a lane that nobody serves was made")
	}
	s.register("late", 1, []string{"fpga"}, "email")
	j := answerTo(s, func(l *loop) (served, error) { return l.workforce.served("email", lanes.Offer{"fpga"}) })
	s.settle()
	if r := <-j.out; !slices.Equal(r.value.lanes, []string{"", "fpga"}) {
		t.Fatalf("%+v", r)
	}
	if m := s.world.pull(lanes.Key{Type: "email", Name: "fpga"}); m == nil || m.id != other {
		t.Fatalf("%+v", m)
	}
}

// A claim and a cancel that become durable together: the slot is the worker's
// until it lets go, and the worker is told.
func TestCancelInTheBatchOfTheClaim(t *testing.T) {
	s := newSim(t, nil)
	s.register("w", 1, nil, "email")
	id := s.submit(core.Submit{}).Decision.ID
	m := s.world.pull(lanes.Key{Type: "email", Name: ""})
	claim := wire.Report{ID: id.String(), Token: m.token.String(), Worker: "w", Event: wire.ReportClaim, Start: true}
	s.l.queues.urgent.jobs = append(s.l.queues.urgent.jobs,
		&reportJob{reports: []wire.Report{claim}, done: func([]wire.Reported) {}},
		&commandJob{cmds: []core.Command{core.Cancel{ID: id}}, done: func([]Outcome) {}})
	s.settle()
	if s.l.table.Total() != 1 || fmt.Sprint(s.world.told) != "[w is told to cancel 1]" {
		t.Fatalf("%d slots taken, told: %v", s.l.table.Total(), s.world.told)
	}
	claim.Event = wire.ReportFail
	s.report(claim)
	if s.l.table.Total() != 0 {
		t.Fatal("the slot did not come back")
	}
}

// What is taken back while a claim of it is being appended stays claimed.
func TestRegistryChangesInTheBatchOfTheClaim(t *testing.T) {
	s := newSim(t, nil)
	s.register("w", 1, nil, "email")
	id := s.submit(core.Submit{}).Decision.ID
	m := s.world.pull(lanes.Key{Type: "email", Name: ""})
	claim := wire.Report{ID: id.String(), Token: m.token.String(), Worker: "w", Event: wire.ReportClaim, Start: true}
	s.steps = func() int { return 1 }
	s.l.queues.urgent.jobs = append(s.l.queues.urgent.jobs, &reportJob{reports: []wire.Report{claim}, done: func([]wire.Reported) {}})
	s.ok(s.l.step()) // decided, and not appended yet
	s.reg.Remove("w", "")
	s.ok(s.l.onSignals())
	s.steps = nil
	s.settle()
	if s.world.msgs[m.seq] == nil || s.l.table.Current(id) != m.token || s.item(id).State != events.StateRunning {
		t.Fatal("the claimed run has lost its message or its slot")
	}
	s.ok(s.consistent())
}

// Pushes that fail are not tried again at once, and those that nobody answers
// are found.
func TestPushesThatFail(t *testing.T) {
	s := newSim(t, nil)
	s.register("w", 5, nil, "email")
	s.world.down = true
	for range 5 {
		s.submit(core.Submit{})
	}
	s.tick(10 * time.Second)
	if s.world.pushes > 200 {
		t.Fatalf("%d pushes in 10 s", s.world.pushes)
	}
	s.world.down, s.world.silent = false, true
	s.tick(3 * time.Second)
	s.world.silent = false
	s.tick(pushTimeout + maxHold)
	if n := len(s.drain("email", "w")); n != 5 {
		t.Fatalf("%d of 5 items came", n)
	}
	s.check()
}

// Many items are dispatched in steps, between which the loop takes what waits for
// it: a question is answered while most are still to be dispatched.
func TestDispatchingGoesInSteps(t *testing.T) {
	s := newSim(t, nil)
	const types, slots = 4, 500
	for i := range types * 2 * slots {
		s.submit(core.Submit{Type: events.Type(fmt.Sprintf("t%d", i%types)), Tenant: fmt.Sprintf("tenant-%d", i%300)})
	}
	asked, answered, pushes := false, 0, 0
	s.onStage = func(stage string) {
		if stage != "decide" {
			return
		}
		if n := s.world.pushes - pushes; n > maxStepPushes {
			t.Errorf("%d items were dispatched in one step", n)
		}
		if pushes = s.world.pushes; pushes > 0 && !asked {
			asked = true
			j := &commandJob{cmds: []core.Command{core.Define{Type: "asked"}}, done: func([]Outcome) { answered = s.world.pushes }}
			s.l.queues.urgent.jobs = append(s.l.queues.urgent.jobs, j)
		}
	}
	var names []string
	for i := range types {
		names = append(names, fmt.Sprintf("t%d", i))
	}
	s.register("w", slots, nil, names...)
	s.settle()
	if s.world.pushes != types*2*slots {
		t.Fatalf("%d items were dispatched", s.world.pushes)
	}
	if answered == 0 || answered > 8*maxStepPushes {
		t.Fatalf("the question was answered after %d items", answered)
	}
}
