package registry

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/leaks"
	"github.com/streamwright/streamwright/wire"
)

// No goroutine outlives a test.
func TestMain(m *testing.M) { leaks.Check(m) }

var rigStart = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// rig is a registry with a clock of its own.
type rig struct {
	*Registry
	t       *testing.T
	now     time.Time
	changes int
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, now: rigStart}
	r.Registry = New(time.Minute, func() { r.changes++ })
	return r
}

func (r *rig) register(id, session string, probe bool) error {
	err := r.Put(wire.Register{Worker: id, Session: session, Types: []string{"email"}, Slots: 3, Probe: probe}, r.now)
	return err
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// says is a heartbeat with the checks that fail.
func (r *rig) says(id string, failing ...wire.FailingCheck) wire.WorkerStatus {
	s, _ := r.Beat(&wire.Heartbeat{Register: wire.Register{Worker: id}, Health: &wire.Health{Failing: failing}})
	return s
}

// is holds a worker's status against what follows from it.
func (r *rig) is(id string, want wire.WorkerStatus) {
	r.t.Helper()
	var got wire.WorkerStatus
	for _, w := range r.List() {
		if w.Worker == id {
			got = w.Status
		}
	}
	if got != want {
		r.t.Errorf("%s is %q, not %q", id, got, want)
	}
	for _, seat := range r.Seats() {
		if takes := seat.Slots > 0; string(seat.Worker) == id && takes != (want == wire.WorkerActive) {
			r.t.Errorf("%s, which is %s, takes work: %t", id, got, takes)
		}
	}
}

var dbDown = wire.FailingCheck{Check: "db", Error: "refused"}

func TestStatusesOfAWorker(t *testing.T) {
	r := newRig(t)
	r.must(r.register("a", "1", false))
	r.must(r.register("b", "1", false))
	slots := func(want int) {
		t.Helper()
		if got, _ := r.Slots("email", ""); got != want {
			t.Errorf("%d slots, not %d", got, want)
		}
	}
	slots(6)
	before := r.changes
	r.says("a")
	if r.changes != before {
		t.Error("a heartbeat without news wakes the loop")
	}
	if s := r.says("a", dbDown); s != wire.WorkerUnhealthy || r.changes != before+1 {
		t.Errorf("%s after %d changes", s, r.changes-before)
	}
	r.is("a", wire.WorkerUnhealthy)
	slots(3)
	r.must(r.register("a", "1", false)) // every heartbeat does
	r.is("a", wire.WorkerUnhealthy)

	// Draining goes first, and stays.
	r.SetMarks(map[events.WorkerID]events.Drain{"a": {}})
	r.is("a", wire.WorkerDraining)
	r.says("a")
	r.is("a", wire.WorkerDraining)
	r.says("a", dbDown)
	r.is("a", wire.WorkerDraining)
	r.Remove("a", "1")
	r.is("a", "")

	r.says("b", dbDown)
	slots(0)
	r.says("b")
	r.is("b", wire.WorkerActive)
	slots(3)
}

func TestTheDeadAreShownForAWhile(t *testing.T) {
	r := newRig(t)
	r.must(r.register("a", "1", false))
	r.must(r.register("b", "1", false))
	r.now = r.now.Add(30 * time.Second)
	r.must(r.register("b", "1", false))
	r.now = r.now.Add(30 * time.Second)
	if next := r.Expire(r.now); !next.Equal(rigStart.Add(90 * time.Second)) {
		t.Errorf("the next is due at %s", next.Sub(rigStart))
	}
	r.is("a", wire.WorkerDead)
	r.is("b", wire.WorkerActive)
	if a := r.List()[0]; !a.DiedAt.Equal(r.now) || !a.LastSeen.Equal(rigStart) || a.Reason == "" {
		t.Errorf("%+v", a)
	}
	if n, w := r.Slots("email", ""); n != 3 || w != 1 || len(r.Able("email", "")) != 1 || r.Knows("a") {
		t.Errorf("the dead one still counts: %d slots of %d workers", n, w)
	}
	if err := r.Drainable("a"); events.CodeOf(err) != events.CodeNotFound || !strings.Contains(err.Error(), "dead") {
		t.Errorf("a dead one is drained: %v", err)
	}
	// Its id is free.
	r.must(r.register("a", "2", false))
	r.is("a", wire.WorkerActive)
	if n := len(r.List()); n != 2 {
		t.Errorf("%d workers are shown", n)
	}
	// One that says goodbye, dead or alive, is gone at once.
	r.now = r.now.Add(time.Minute)
	r.Expire(r.now)
	r.is("b", wire.WorkerDead)
	r.Remove("b", "other")
	r.is("b", wire.WorkerDead)
	r.Remove("b", "1")
	r.is("b", "")
	// The others are forgotten in time.
	next := r.Expire(r.now)
	if !next.Equal(r.now.Add(deadShown)) {
		t.Errorf("a is forgotten at %s", next.Sub(r.now))
	}
	before := r.changes
	r.Expire(next)
	if n := len(r.List()); n != 0 || r.changes != before+1 {
		t.Errorf("%d are still shown, after %d changes", n, r.changes-before)
	}
}

func TestTheDeadAreBounded(t *testing.T) {
	r := newRig(t)
	const more = 5
	for i := range MaxDeadWorkers + more {
		r.must(r.register(fmt.Sprintf("w%04d", i), "1", false))
		r.now = r.now.Add(time.Millisecond)
		if i == more-1 { // these die first
			r.Expire(r.now.Add(time.Minute))
			r.now = r.now.Add(time.Second)
		}
	}
	r.Expire(r.now.Add(2 * time.Minute))
	list := r.List()
	if len(list) != MaxDeadWorkers || list[0].Worker != fmt.Sprintf("w%04d", more) {
		t.Fatalf("%d are shown, the first is %s", len(list), list[0].Worker)
	}
}

func TestHealthIsBounded(t *testing.T) {
	r := newRig(t)
	r.must(r.register("a", "1", false))
	h := &wire.Heartbeat{Register: wire.Register{Worker: "a"}, Health: &wire.Health{CPU: 7, Load: -1}}
	for range 100 {
		h.Health.Failing = append(h.Health.Failing, wire.FailingCheck{Check: strings.Repeat("é", 500), Error: strings.Repeat("x", 5000)})
	}
	if s, _ := r.Beat(h); s != wire.WorkerUnhealthy {
		t.Errorf("it is %s", s)
	}
	got := r.List()[0]
	if f := got.Health.Failing; len(f) != wire.MaxFailingChecks || len(f[0].Check) > wire.MaxCheckName || len(f[0].Error) != wire.MaxCheckError {
		t.Errorf("%d checks are kept, the first of %d and %d bytes", len(f), len(f[0].Check), len(f[0].Error))
	}
	if got.Health.CPU != 1 || got.Health.Load != 0 || len(got.Reason) > wire.MaxFailingChecks*(wire.MaxCheckName+wire.MaxCheckError+4) {
		t.Errorf("%+v", got)
	}
	// A check with nothing to say fails as well.
	if s := r.says("a", wire.FailingCheck{}); s != wire.WorkerUnhealthy {
		t.Errorf("it is %s", s)
	}
}

func TestProbesMakeUnhealthyAndWell(t *testing.T) {
	r := newRig(t)
	r.must(r.register("a", "1", true))
	a := probeTarget{"a", "1"}
	fault := errors.New("no answer")
	r.probed(a, fault, 2, r.now)
	r.is("a", wire.WorkerActive)
	r.probed(a, nil, 2, r.now) // not in a row
	r.probed(a, fault, 2, r.now)
	r.is("a", wire.WorkerActive)
	if info, changed := r.probed(a, fault, 2, r.now); !changed || !strings.Contains(info.Reason, "no answer") {
		t.Errorf("%+v", info)
	}
	r.is("a", wire.WorkerUnhealthy)
	if _, changed := r.probed(a, fault, 2, r.now); changed {
		t.Error("a third failure changes it again")
	}
	// Its reason is that of the last probe.
	full := probeFault(&wire.Probed{Failing: []wire.FailingCheck{{Check: "disk", Error: "full"}}})
	if info, changed := r.probed(a, full, 2, r.now); !changed || !strings.Contains(info.Reason, "disk: full") || strings.Contains(info.Reason, "no answer") {
		t.Errorf("changed %t: %+v", changed, info)
	}
	// Heartbeats that say it is well do not make it so.
	r.must(r.register("a", "1", true))
	r.says("a")
	r.is("a", wire.WorkerUnhealthy)
	// What an earlier life of the id answers is not its answer.
	r.probed(probeTarget{"a", "0"}, nil, 2, r.now)
	r.is("a", wire.WorkerUnhealthy)
	r.probed(a, nil, 2, r.now)
	r.is("a", wire.WorkerActive)
	// Its own word counts too, whatever the probe says.
	r.says("a", dbDown)
	r.probed(a, nil, 2, r.now)
	r.is("a", wire.WorkerUnhealthy)
	// One that takes its offer back is no longer held to it.
	r.says("a")
	r.probed(a, fault, 2, r.now)
	r.probed(a, fault, 2, r.now)
	r.is("a", wire.WorkerUnhealthy)
	r.must(r.register("a", "1", false))
	r.is("a", wire.WorkerActive)
}

// Each worker is probed once in an interval, busy or not, and they are spread
// over it.
func TestProbesAreSpread(t *testing.T) {
	r := newRig(t)
	const n, interval = 1000, time.Minute
	for i := range n {
		r.must(r.register(fmt.Sprintf("w%d", i), "1", i%10 != 0))
		r.Beat(&wire.Heartbeat{Register: wire.Register{Worker: fmt.Sprintf("w%d", i)}, InFlight: make([]wire.RunRef, i%2)})
	}
	r.dueProbes(r.now, interval, n)
	probes, most := map[events.WorkerID]int{}, 0
	for range 3 * 60 {
		r.now = r.now.Add(time.Second)
		due, _ := r.dueProbes(r.now, interval, n)
		most = max(most, len(due))
		for _, d := range due {
			probes[d.worker]++
			r.probed(d, nil, 2, r.now)
		}
	}
	if len(probes) != n*9/10 {
		t.Errorf("%d workers were probed", len(probes))
	}
	for w, k := range probes {
		if k < 2 || k > 3 {
			t.Errorf("%s was probed %d times in 3 intervals", w, k)
		}
	}
	if most > 50 { // 15 in the mean
		t.Errorf("%d probes at once", most)
	}
}

func TestProbesUnderWayAreBounded(t *testing.T) {
	r := newRig(t)
	for i := range 10 {
		r.must(r.register(fmt.Sprintf("w%d", i), "1", true))
	}
	r.dueProbes(r.now, time.Second, 10)
	r.now = r.now.Add(time.Second)
	first, next := r.dueProbes(r.now, time.Second, 4)
	if len(first) != 4 || next.After(r.now) {
		t.Fatalf("%d probes, the next in %s", len(first), next.Sub(r.now))
	}
	if none, _ := r.dueProbes(r.now, time.Second, 0); len(none) != 0 {
		t.Fatalf("%d probes too many", len(none))
	}
	rest, _ := r.dueProbes(r.now, time.Second, 10)
	if len(rest) != 6 {
		t.Fatalf("%d probes, none being under way twice", len(rest))
	}
	r.abandonProbe(first[0]) // says nothing, and it is probed in its turn
	r.now = r.now.Add(time.Second)
	if again, _ := r.dueProbes(r.now, time.Second, 10); len(again) != 1 || again[0] != first[0] {
		t.Fatalf("%v", again)
	}
}

// Every worker hears every probe, and may answer first: the worker's own answer
// counts all the same.
func TestAnotherWorkersAnswerKeepsNobodysOut(t *testing.T) {
	var a probesAsked
	p := a.open("n", probeTarget{worker: "a", session: "1"})
	a.answered(wire.Probed{Worker: "a", Session: "another", Nonce: "n"})
	a.answered(wire.Probed{Worker: "b", Session: "1", Nonce: "n"})
	a.answered(wire.Probed{Worker: "a", Session: "1", Nonce: "x"})
	if len(p.answer) != 0 || !p.others.Load() {
		t.Fatalf("%d answers, others: %v", len(p.answer), p.others.Load())
	}
	a.answered(wire.Probed{Worker: "a", Session: "1", Nonce: "n"})
	a.answered(wire.Probed{Worker: "a", Session: "1", Nonce: "n"})
	if len(p.answer) != 1 {
		t.Fatalf("%d answers", len(p.answer))
	}
	a.close("n")
	a.answered(wire.Probed{Worker: "a", Session: "1", Nonce: "n"})
}

// Each worker that dies is told of once, one that unregisters is not.
func TestSilentWorkersAreToldOf(t *testing.T) {
	silent := 0
	r := New(time.Minute, func() {})
	r.Silent = func() { silent++ }
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, id := range []string{"a", "b", "c"} {
		if err := r.Put(wire.Register{Worker: id, Session: "1", Types: []string{"email"}, Slots: 1}, now); err != nil {
			t.Fatal(err)
		}
	}
	r.Remove("c", "")
	for _, after := range []time.Duration{59 * time.Second, 61 * time.Second, 2 * time.Minute, time.Hour} {
		r.Expire(now.Add(after))
		if want := map[bool]int{true: 2}[after > time.Minute]; silent != want {
			t.Errorf("after %v %d have been told of, want %d", after, silent, want)
		}
	}
}

// TestIdleWorkersRest follows 100 workers that have nothing: they send few heartbeats, and
// are dead no later than they should be.
func TestIdleWorkersRest(t *testing.T) {
	const gone = time.Minute
	r := New(gone, func() {})
	now := time.Unix(1_800_000_000, 0)
	if r.MayRest() != 0 {
		t.Error("no worker: want no rest")
	}
	beat := func(id, session string, idle time.Duration) {
		t.Helper()
		reg := wire.Register{Worker: id, Types: []string{"email"}, Slots: 1, Session: session}
		if err := r.Put(reg, now); err != nil {
			t.Fatal(err)
		}
		r.Beat(&wire.Heartbeat{Register: reg, Idle: events.DurationOf(idle.Truncate(time.Millisecond))})
	}
	for i := range 10 {
		beat(fmt.Sprintf("w%d", i), "s", 0)
	}
	if got := r.MayRest(); got != 0 {
		t.Errorf("10 workers: got %s, want no rest", got)
	}
	for i := range 100 {
		beat(fmt.Sprintf("w%d", i), "s", 0)
	}
	rest := r.MayRest()
	if rest < 70*time.Second || rest > 80*time.Second {
		t.Errorf("100 workers: got %s, want 70 to 80 s", rest)
	}
	beat("w0", "s", rest)
	now = now.Add(gone + rest/2)
	if r.Expire(now); !r.Knows("w0") || r.Knows("w1") {
		t.Errorf("after %s: want w0 alive, which may rest, and w1 dead", gone+rest/2)
	}
	now = now.Add(rest / 2)
	if r.Expire(now); r.Knows("w0") {
		t.Error("w0 was silent for longer than it said, and is not dead")
	}
	beat("w1", "s", time.Hour)
	now = now.Add(3 * gone)
	if r.Expire(now); r.Knows("w1") {
		t.Error("a worker may rest for as long as it likes")
	}
}

// TestIdOfAnIdleWorker takes the id of a worker that rests: it is asked first.
func TestIdOfAnIdleWorker(t *testing.T) {
	const gone, rest = time.Minute, time.Minute
	for _, answers := range []bool{true, false} {
		r := New(gone, func() {})
		asked := 0
		r.Ask = func(events.WorkerID) { asked++ }
		now := time.Unix(1_800_000_000, 0)
		put := func(session string) error {
			err := r.Put(wire.Register{Worker: "w", Types: []string{"email"}, Slots: 1, Session: session}, now)
			return err
		}
		if err := put("old"); err != nil {
			t.Fatal(err)
		}
		r.Beat(&wire.Heartbeat{Register: wire.Register{Worker: "w"}, Idle: events.DurationOf(rest)})
		now = now.Add(gone - time.Second)
		if put("new") == nil || asked != 0 {
			t.Fatalf("within %s: want the id refused, and nobody asked", gone)
		}
		now = now.Add(2 * time.Second)
		if put("new") == nil || asked != 1 {
			t.Fatalf("after %s: want the id refused, and the worker asked", gone)
		}
		if answers {
			if err := put("old"); err != nil {
				t.Fatal(err)
			}
		}
		now = now.Add(6 * time.Second)
		if err := put("new"); (err == nil) == answers {
			t.Errorf("answers %t: got %v", answers, err)
		}
	}
}

// A session that has unregistered does not come back by a late request, for as long as it
// is remembered; its worker does, in a session of its own.
func TestAnUnregisteredSessionStaysAway(t *testing.T) {
	r := newRig(t)
	r.must(r.register("a", "1", false))
	if !r.Leave("a", "1") {
		t.Error("the id is not free")
	}
	if err := r.register("a", "1", false); events.CodeOf(err) != events.CodeUnknownWorker {
		t.Errorf("a late request: %v", err)
	}
	r.is("a", "")
	r.must(r.register("b", "1", false)) // another's
	r.must(r.register("a", "2", false))
	if err := r.register("a", "1", false); events.CodeOf(err) != events.CodeWorkerIDInUse {
		t.Errorf("the old session, once there is a new one: %v", err)
	}
	for i := range 2 * MaxWorkers {
		r.Leave("c", fmt.Sprint(i))
	}
	if n := len(r.left.known); n != MaxWorkers || len(r.left.order) != MaxWorkers {
		t.Errorf("%d sessions are remembered, in a ring of %d", n, len(r.left.order))
	}
	r.Remove("a", "2") // by the engine: the worker may come back
	r.must(r.register("a", "2", false))
}
