package dispatcher

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/dispatcher/lanes"
	"github.com/streamwright/streamwright/dispatcher/readyq"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector"
	"github.com/streamwright/streamwright/wire"
)

// lanesOpen counts a type's open lanes with capabilities, and those that are
// looked at for its next item.
func (s *sim) lanesOpen(t events.Type) (named, busy int) {
	s.ok(s.l.ready.Prepare(t))
	for range s.l.ready.OpenLanes(t) {
		named++
	}
	lanes, _ := s.l.ready.BusyLanes(t)
	for range lanes {
		busy++
	}
	return named, busy
}

// namedConsumers counts the consumers of lanes with capabilities.
func (s *sim) namedConsumers() (n int) {
	for key := range s.world.consumers {
		if key.Name != "" {
			n++
		}
	}
	return n
}

// submitEach submits an item for each of the sets of capabilities.
func (s *sim) submitEach(sets [][]string) (ids []events.ID) {
	s.t.Helper()
	for chunk := range slices.Chunk(sets, 500) {
		cmds := make([]core.Command, 0, len(chunk))
		for _, caps := range chunk {
			id := s.newID()
			ids = append(ids, id)
			cmds = append(cmds, core.Submit{Type: "email", NewID: id, Capabilities: caps})
		}
		for _, o := range s.do(cmds...) {
			s.ok(o.Err)
		}
	}
	return ids
}

// madeUp are capabilities that nobody has.
func madeUp(n int) (sets [][]string) {
	for i := range n {
		sets = append(sets, []string{fmt.Sprintf("made-up-%d", i)})
	}
	return sets
}

// drainAll runs whatever is dispatched, one by one, until nothing is.
func (s *sim) drainAll(worker string) (order []events.ID) {
	s.t.Helper()
	for len(s.world.msgs) > 0 {
		var key lanes.Key
		seq := ^uint64(0)
		for _, m := range s.world.msgs {
			if m.seq < seq {
				seq, key = m.seq, m.key
			}
		}
		m := s.world.pull(key)
		if m == nil {
			s.t.Fatalf("message %d was delivered before", seq)
		}
		for _, r := range s.run(m, worker) {
			if !r.OK {
				s.t.Fatalf("%s: %+v", m.id, r.Error)
			}
		}
		delete(s.world.msgs, m.seq)
		order = append(order, m.id)
	}
	return order
}

// countedReads counts the entries read of the index, and the seeks.
type countedReads struct {
	readyq.Index
	n int
}

func (c *countedReads) EachReady(q projector.ReadyQueue, group string, behind projector.ReadyKey, fn func(projector.ReadyEntry) bool) error {
	c.n++
	return c.Index.EachReady(q, group, behind, func(e projector.ReadyEntry) bool {
		c.n++
		return fn(e)
	})
}

func (c *countedReads) ReadyGroups(q projector.ReadyQueue, behind string, fromStart bool, limit int) ([]projector.ReadyGroup, error) {
	groups, err := c.Index.ReadyGroups(q, behind, fromStart, limit)
	c.n += len(groups) + 1
	return groups, err
}

// Lanes that nobody serves take no memory and no consumer, and the other items
// of their type cost what they cost without them.
func TestMadeUpCapabilitiesCostNothing(t *testing.T) {
	slow(t)
	const lanes, plain = 20_000, 500
	cost := func(madeUpLanes int) (s *sim, ids []events.ID, reads, busy int) {
		s = newSim(t, nil)
		ids = s.submitEach(madeUp(madeUpLanes))
		s.register("w", 10, []string{"gpu"}, "email")
		index := &countedReads{Index: s.l.ready.Index}
		s.l.ready.Index = index
		s.submitEach(make([][]string, plain))
		if n := len(s.drainAll("w")); n != plain {
			t.Fatalf("%d of %d plain items came", n, plain)
		}
		_, busy = s.lanesOpen("email")
		return s, ids, index.n, busy
	}
	_, _, reads0, _ := cost(0)
	s, ids, reads, busy := cost(lanes)
	if reads > reads0 || busy > 1 {
		t.Fatalf("%d reads of the index and %d lanes to look at, %d and 1 without made-up capabilities", reads, busy, reads0)
	}
	if named, _ := s.lanesOpen("email"); named != 0 || s.l.ready.Named() != 0 || s.namedConsumers() != 0 || len(s.l.workforce.slots) > 2 || len(s.l.table.ByLane) > 1 {
		t.Fatalf("%d lanes, %d consumers, %d slots known", named, s.namedConsumers(), len(s.l.workforce.slots))
	}
	for chunk := range slices.Chunk(ids, 500) {
		cmds := make([]core.Command, len(chunk))
		for i, id := range chunk {
			cmds[i] = core.Cancel{ID: id}
		}
		s.do(cmds...)
	}
	if named, busy := s.lanesOpen("email"); named != 0 || busy > 1 {
		t.Fatalf("%d lanes are left, %d busy", named, busy)
	}
	s.check()
}

// A worker that comes later gets what waits for it, in the order of all of it,
// also after a takeover.
func TestWorkerComesLateForItsLanes(t *testing.T) {
	slow(t)
	for _, restart := range []bool{false, true} {
		s := newSim(t, nil)
		s.register("plain", 1, nil, "email")
		s.submitEach(madeUp(3000))
		var want []events.ID
		for i := range 40 {
			s.tick(time.Second)
			caps := [][]string{{"made-up-7"}, {"gpu"}, {"eu", "gpu"}, {"eu"}}[i%4]
			want = append(want, s.submit(core.Submit{Capabilities: caps}).Decision.ID)
		}
		s.tick(time.Second)
		urgent := s.submit(core.Submit{Capabilities: []string{"eu", "gpu"}, Priority: new(events.MaxPriority)}).Decision.ID
		if restart {
			s.crash()
		}
		s.register("late", 1, []string{"gpu", "eu", "made-up-7"}, "email")
		if named, _ := s.lanesOpen("email"); named != 4 {
			t.Fatalf("%d lanes are open", named)
		}
		// Two are on their way in each lane: what is counted is the order in which
		// the engine sends, lane by lane.
		got := s.drainAll("late")
		first := slices.IndexFunc(got, func(id events.ID) bool {
			return s.item(id).CreatedSeq > s.item(want[0]).CreatedSeq-1 && len(s.item(id).Capabilities) > 0
		})
		if first < 0 || len(got) != 42 { // the first of madeUp's lane 7, too
			t.Fatalf("%d items came", len(got))
		}
		for _, lane := range []string{"gpu", "eu_gpu", "eu", "made-up-7"} {
			var sent, should []events.ID
			for _, id := range got {
				if s.item(id).Lane() == lane && id != urgent {
					sent = append(sent, id)
				}
			}
			for _, id := range want {
				if s.item(id).Lane() == lane {
					should = append(should, id)
				}
			}
			if lane == "made-up-7" {
				sent = sent[1:]
			}
			s.expectOrder(sent, should)
		}
		if at := slices.Index(got, urgent); at > prefetch {
			t.Fatalf("the urgent item was the %dth", at+1)
		}
		s.check()
	}
}

// With room for one at a time, items of several lanes go in their order.
func TestOrderAcrossLanes(t *testing.T) {
	s := newSim(t, func(c *Config) { c.MaxRunning = 1 })
	var want []events.ID
	for i := range 60 {
		s.tick(time.Second)
		want = append(want, s.submit(core.Submit{Capabilities: [][]string{nil, {"gpu"}, {"eu", "gpu"}, {"eu"}}[i*7%4]}).Decision.ID)
	}
	s.submitEach(madeUp(500))
	s.register("w", 5, []string{"gpu", "eu"}, "email")
	s.expectOrder(s.drainAll("w"), want)
	s.check()
}

// A worker whose capabilities have more sets than may be open at once serves all
// of them in the end, and never has more of them open.
func TestMoreLanesThanMayBeOpen(t *testing.T) {
	s := newSim(t, nil)
	has := make([]string, events.MaxCapabilities)
	for i := range has {
		has[i] = fmt.Sprintf("c%02d", i)
	}
	sets := subsets(3*lanes.MaxPerType+7, has)
	s.register("w", 5, has, "email")
	ids := s.submitEach(append(sets, sets...))
	s.submitEach(madeUp(200))
	waits := 0
	for _, id := range ids {
		for _, o := range s.why(id) {
			if o.Code == events.WhyLanesFull {
				waits++
			}
		}
	}
	if waits != len(ids)-2*lanes.MaxPerType {
		t.Fatalf("%d of %d items are said to wait for a lane", waits, len(ids))
	}
	done := 0
	for range 100 {
		if named, _ := s.lanesOpen("email"); named > lanes.MaxPerType || s.namedConsumers() > lanes.MaxPerType || s.l.ready.Named() != named {
			t.Fatalf("%d lanes are open, %d counted, %d consumers", named, s.l.ready.Named(), s.namedConsumers())
		}
		done += len(s.drainAll("w"))
		s.tick(readyq.LookForRoom)
	}
	if done != len(ids) {
		t.Fatalf("%d of %d items came", done, len(ids))
	}
	// Nothing is left to do: the lanes are closed by and by.
	s.tick(readyq.LaneIdle + 3*s.cfg.Sweep)
	if named, busy := s.lanesOpen("email"); named != 0 || busy > 1 || s.namedConsumers() != 0 {
		t.Fatalf("%d lanes are left, %d busy, %d consumers", named, busy, s.namedConsumers())
	}
	s.check()
}

// why asks why an item does not run.
func (s *sim) why(id events.ID) []events.BlockReason {
	s.t.Helper()
	j := answerTo(s, func(l *loop) (whyAnswer, error) { return l.why(id) })
	s.settle()
	return (<-j.out).value.reply.Reasons
}

// A lane is closed with its last worker, its run goes on, and its consumer is
// removed when that has ended.
func TestLaneIsClosedWithItsLastWorker(t *testing.T) {
	s := newSim(t, nil)
	s.register("w", 1, []string{"gpu"}, "email")
	first := s.submit(core.Submit{Capabilities: []string{"gpu"}}).Decision.ID
	second := s.submit(core.Submit{Capabilities: []string{"gpu"}}).Decision.ID
	m := s.world.pull(lanes.Key{Type: "email", Name: "gpu"})
	claim := wire.Report{ID: first.String(), Token: m.token.String(), Worker: "w", Event: wire.ReportClaim, Start: true}
	if r := s.report(claim); !r[0].OK {
		t.Fatalf("%+v", r)
	}
	s.reg.Remove("w", "")
	s.settle()
	if named, _ := s.lanesOpen("email"); named != 0 || s.namedConsumers() != 1 {
		t.Fatalf("%d lanes, %d consumers", named, s.namedConsumers())
	}
	claim.Event = wire.ReportComplete
	if r := s.report(claim); !r[0].OK {
		t.Fatalf("%+v", r)
	}
	delete(s.world.msgs, m.seq)
	s.tick(s.cfg.Sweep)
	if s.namedConsumers() != 0 {
		t.Fatal("the consumer is left")
	}
	s.register("next", 1, []string{"gpu"}, "email")
	s.expectOrder(s.drainAll("next"), []events.ID{second})
	s.check()
}

// A consumer that an earlier owner has left is removed, unless a worker that is
// there serves its lane.
func TestConsumersOfBefore(t *testing.T) {
	w := newWorld(nil)
	for i := range 1000 {
		w.consumers[lanes.Key{Type: "email", Name: fmt.Sprintf("made-up-%d", i)}] = true
	}
	w.consumers[lanes.Key{Type: "email", Name: "gpu"}] = true
	w.consumers[lanes.Key{Type: "email", Name: ""}] = true
	w.consumers[lanes.Key{Type: "nobody-knows", Name: ""}] = true
	s := newSim(t, nil)
	w.now, s.world.consumers = s.now, w.consumers
	s.submit(core.Submit{})
	s.register("w", 1, []string{"gpu"}, "email")
	s.tick(s.cfg.Sweep)
	if len(w.consumers) != 2 || !w.consumers[lanes.Key{Type: "email", Name: "gpu"}] || !w.consumers[lanes.Key{Type: "email", Name: ""}] {
		t.Fatalf("%d consumers are left", len(w.consumers))
	}
}

// subsets are sets of capabilities, each another part of all of them.
func subsets(n int, all []string) (sets [][]string) {
	for set := 1; set <= n; set++ {
		var caps []string
		for bit, c := range all {
			if set>>bit&1 == 1 {
				caps = append(caps, c)
			}
		}
		sets = append(sets, caps)
	}
	return sets
}

// A submitter asks for more sets of capabilities than a stream may have
// consumers, made-up ones and all that a worker has: workers register all the
// same, and get what they can run.
func TestRegisterAfterManySetsOfCapabilities(t *testing.T) {
	h := newHarness(t, nil)
	all := []string{"c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9", "d0"}
	for chunk := range slices.Chunk(append(madeUp(1100), subsets(1100, all)...), 100) {
		var cmds []core.Command
		for _, caps := range chunk {
			cmds = append(cmds, core.Submit{Type: "email", NewID: h.eng.NewID(), Capabilities: caps})
		}
		if _, err := h.eng.all(h.ctx(), cmds); err != nil {
			t.Fatal(err)
		}
	}
	r, err := h.eng.Register(h.ctx(), wire.Register{Pull: true, Worker: "capable", Types: []string{"email"}, Slots: 2, Capabilities: all})
	if err != nil || len(r.Consumers["email"]) < 2 {
		t.Fatalf("%d consumers, %v", len(r.Consumers["email"]), err)
	}
	if m := h.pull(r.Consumers["email"][1]); m.Headers().Get(wire.HeaderType) != "email" {
		t.Fatalf("%v", m.Headers())
	}
	for i := range 20 {
		h.register(fmt.Sprintf("plain-%d", i), 1, fmt.Sprintf("type-%d", i))
	}
	if n := h.consumers(); n > 21+lanes.MaxPerType {
		t.Fatalf("%d consumers", n)
	}
	if err := h.eng.Unregister(h.ctx(), wire.Unregister{Worker: "capable", Session: r.Session}); err != nil {
		t.Fatal(err)
	}
	h.until("the consumers of lanes without a worker are removed", func() bool { return h.consumers() <= 22 })
}

// consumers counts those of the dispatch stream.
func (h *harness) consumers() int {
	h.t.Helper()
	s, err := h.js.Stream(h.ctx(), "WORK_DISPATCH")
	if err != nil {
		h.t.Fatal(err)
	}
	return s.CachedInfo().State.Consumers
}

// A dispatch stream that is full of an earlier version's consumers is cleared,
// and the workers that were refused register.
func TestDispatchStreamFullOfConsumers(t *testing.T) {
	h := newHarness(t, nil)
	h.stopEngine()
	if err := h.js.DeleteStream(h.ctx(), "WORK_DISPATCH"); err != nil {
		t.Fatal(err)
	}
	const room = 30
	_, err := h.js.CreateStream(h.ctx(), jetstream.StreamConfig{Name: "WORK_DISPATCH", Subjects: []string{"work.lane.>"}, Storage: jetstream.MemoryStorage,
		Retention: jetstream.WorkQueuePolicy, MaxConsumers: room, AllowDirect: true})
	if err != nil {
		t.Fatal(err)
	}
	for i := range room {
		lane := fmt.Sprintf("made-up-%d", i)
		if _, err := h.js.CreateConsumer(h.ctx(), "WORK_DISPATCH", jetstream.ConsumerConfig{Durable: wire.Consumer("email", lane),
			FilterSubject: "work.lane.email." + lane, AckPolicy: jetstream.AckExplicitPolicy}); err != nil {
			t.Fatal(err)
		}
	}
	h.startEngine()
	_, err = h.eng.Register(h.ctx(), wire.Register{Pull: true, Worker: "w", Types: []string{"email"}, Slots: 1})
	if events.CodeOf(err) != events.CodeUnavailable || !strings.Contains(err.Error(), "consumers") {
		t.Fatalf("%v", err)
	}
	h.until("the worker registers", func() bool {
		_, err := h.eng.Register(h.ctx(), wire.Register{Pull: true, Worker: "w", Types: []string{"email"}, Slots: 1})
		return err == nil
	})
}
