package dispatcher

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/streamwright/streamwright/dispatcher/lanes"
	"github.com/streamwright/streamwright/dispatcher/readyq"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector/ready"
)

// lanesOpen counts a type's open lanes with capabilities, and those that are
// looked at for its next item.
func (s *sim) lanesOpen(t events.Type) (named, busy int) {
	lanes, _ := s.l.ready.BusyLanes(t)
	for range lanes {
		busy++
	}
	return s.l.ready.Named(), busy
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

// countedReads counts the entries read of the index, and the seeks.
type countedReads struct {
	readyq.Index
	n int
}

func (c *countedReads) EachReady(q ready.Queue, group string, behind ready.Key, fn func(ready.Entry) bool) error {
	c.n++
	return c.Index.EachReady(q, group, behind, func(e ready.Entry) bool {
		c.n++
		return fn(e)
	})
}

func (c *countedReads) ReadyGroups(q ready.Queue, behind string, fromStart bool, limit int) ([]ready.Group, error) {
	groups, err := c.Index.ReadyGroups(q, behind, fromStart, limit)
	c.n += len(groups) + 1
	return groups, err
}

// Lanes that nobody serves take no memory, and the other items
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
		if n := len(s.drain("")); n != plain {
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
	if named, _ := s.lanesOpen("email"); named != 0 {
		t.Fatalf("%d lanes", named)
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
		got := s.drain("")
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
		if at := slices.Index(got, urgent); at > 1 { // one was sent when its lane was found
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
	s.expectOrder(s.drain(""), want)
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
	if waits != len(ids)-2*lanes.MaxPerType-5 {
		t.Fatalf("%d of %d items are said to wait for a lane", waits, len(ids))
	}
	done := 0
	for range 100 {
		if named, _ := s.lanesOpen("email"); named > lanes.MaxPerType {
			t.Fatalf("%d lanes are open", named)
		}
		done += len(s.drain(""))
		s.tick(readyq.LookForRoom)
	}
	if done != len(ids) {
		t.Fatalf("%d of %d items came", done, len(ids))
	}
	// Nothing is left to do: the lanes are closed by and by.
	s.tick(readyq.LaneIdle + 3*s.cfg.Sweep)
	if named, busy := s.lanesOpen("email"); named != 0 || busy > 1 {
		t.Fatalf("%d lanes are left, %d busy", named, busy)
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

// A lane is closed with its last worker, and its run goes on.
func TestLaneIsClosedWithItsLastWorker(t *testing.T) {
	s := newSim(t, nil)
	s.register("w", 2, []string{"gpu"}, "email")
	s.submit(core.Submit{Capabilities: []string{"gpu"}})
	s.begun("email")
	s.register("w", 1, []string{"gpu"}, "email")
	second := s.submit(core.Submit{Capabilities: []string{"gpu"}}).Decision.ID
	s.reg.Remove("w", "")
	s.settle()
	if named, _ := s.lanesOpen("email"); named != 0 {
		t.Fatalf("%d lanes", named)
	}
	s.register("next", 1, []string{"gpu"}, "email")
	s.expectOrder(s.drain(""), []events.ID{second})
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
