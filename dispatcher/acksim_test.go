package dispatcher

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// TestAckChaos has ack workers do everything that they may, while what
// they say is lost, pushes fail, types pause, the protocol changes, and the
// process ends at any stage. Every item must come to its end, none may complete
// that no worker has acked, and none twice.
func TestAckChaos(t *testing.T) {
	slow(t)
	for seed := range seeds(40) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { ackChaos(t, rand.New(rand.NewPCG(seed, 4))) })
	}
}

type ackRun struct {
	*sim
	rnd   *rand.Rand
	ids   []events.ID
	acked map[events.ID]bool
	held  []uint64 // delivered
	most  int
	told  []mailTold
	over  map[uint64]bool // messages whose ack was captured before the server was last killed
}

func ackChaos(t *testing.T, rnd *rand.Rand) {
	r := &ackRun{rnd: rnd, acked: map[events.ID]bool{}, most: 1 + rnd.IntN(4)}
	r.sim = newSim(t, func(c *Config) { c.Sweep, c.Gone = 10*time.Second, time.Minute })
	r.choose = rnd.IntN
	r.steps = func() int { return rnd.IntN(12) - 1 }
	r.configure(events.ProtocolAck)
	for range 150 {
		r.act()
		r.check()
	}
	// At last all is well, and what is left gets done.
	r.steps = nil
	r.world.down, r.world.acks.deaf, r.world.acks.quiet = false, false, false
	r.do(core.ResumeType{Type: "thumb"})
	r.configure(events.ProtocolAck)
	for range 400 {
		r.tick(7 * time.Second)
		for r.pull() {
		}
		for _, seq := range r.held {
			r.answer(seq, core.AckDone, 0)
		}
		r.held = nil
		r.settle()
		r.check()
		if r.done() {
			break
		}
	}
	for _, id := range r.ids {
		if it := r.known(id); it != nil && !it.State.Terminal() {
			t.Fatalf("%s never came to an end: %+v, dispatched %+v", id, it, r.l.table.ByID[id])
		}
	}
	r.tick(3 * time.Minute)
	if len(r.world.acks.msgs) > 0 || len(r.l.table.Acks) > 0 || len(r.l.table.BySeq) > 0 {
		for _, m := range r.world.acks.msgs {
			t.Errorf("left over: message %+v of %+v", m, r.known(m.id))
		}
		for _, d := range r.l.table.Acks {
			t.Errorf("left over: dispatch %+v", d)
		}
		t.FailNow()
	}
	r.completions()
	r.sim.check()
}

func (r *ackRun) configure(p events.Protocol) {
	set := r.cfg.Defaults
	set.Protocol, set.Capacity, set.MaxAttempts, set.PoisonAfter, set.Lease = p, r.most, 50, 50, events.Millis(20_000)
	r.do(core.Configure{Type: "thumb", Source: events.SourceAPI, Settings: set})
}

// known is an item, nil if its submission was lost with a process.
func (r *ackRun) known(id events.ID) *events.Item {
	it, err := r.l.state.Item(id)
	r.ok(err)
	return it
}

func (r *ackRun) done() bool {
	for _, id := range r.ids {
		if it := r.known(id); it != nil && !it.State.Terminal() {
			return false
		}
	}
	return true
}

// answer has a worker say something of a message.
func (r *ackRun) answer(seq uint64, kind core.AckSignal, delay time.Duration) {
	if m := r.world.acks.msgs[seq]; m != nil && !m.over && kind == core.AckDone {
		r.acked[m.id] = true
	}
	r.world.ackAnswer(seq, kind, delay)
}

func (r *ackRun) act() {
	n := &r.world.acks
	switch r.rnd.IntN(18) {
	case 0, 1, 2:
		id := r.newID()
		c := core.Submit{Type: "thumb", NewID: id, ID: id}
		if r.rnd.IntN(2) == 0 {
			c.Signal = &core.FirstSignal{Name: "go", MsgID: id.String() + "/1"}
		}
		cmds := []core.Command{c, c}[:1+r.rnd.IntN(2)]
		for i, o := range r.do(cmds...) {
			if events.CodeOf(o.Err) != events.CodeUnavailable {
				r.told = append(r.told, mailTold{cmd: cmds[i], err: o.Err, now: r.l.pipe.appended})
			}
		}
		r.ids = append(r.ids, id)
	case 3, 4, 5:
		r.pull()
	case 6, 7, 8, 9:
		if len(r.held) > 0 {
			i := r.rnd.IntN(len(r.held))
			kind := []core.AckSignal{core.AckSeen, core.AckDone, core.AckDone, core.AckNak, core.AckTerm}[r.rnd.IntN(5)]
			r.answer(r.held[i], kind, time.Duration(r.rnd.IntN(3))*time.Second)
			if kind != core.AckSeen {
				r.held = slices.Delete(r.held, i, i+1)
			}
			r.settle()
		}
	case 10, 11:
		r.tick(time.Duration(r.rnd.IntN(15)) * time.Second)
	case 12:
		n.deaf = !n.deaf && r.rnd.IntN(3) == 0
	case 13:
		r.world.down = !r.world.down && r.rnd.IntN(3) == 0
		n.quiet = !n.quiet && r.rnd.IntN(3) == 0
	case 14:
		if r.rnd.IntN(2) == 0 {
			r.do(core.PauseType{Type: "thumb"})
		} else {
			r.do(core.ResumeType{Type: "thumb"})
		}
	case 15:
		switch r.rnd.IntN(4) {
		case 0:
			r.configure(events.ProtocolOffer)
		case 1:
			if len(r.ids) > 0 {
				r.do(core.Cancel{ID: r.ids[r.rnd.IntN(len(r.ids))]})
			}
		default:
			r.configure(events.ProtocolAck)
		}
	case 16:
		r.crash()
	case 17:
		r.over = maps.Clone(n.acked)
		n.kill(func() bool { return r.rnd.IntN(2) == 0 })
		r.crash()
	}
}

// pull has a worker take a message, and reports whether there was one. None
// comes whose ack a server that was killed had captured.
func (r *ackRun) pull() bool {
	r.t.Helper()
	seq, m := r.world.ackPull("thumb")
	if seq == 0 {
		return false
	}
	if r.over[seq] {
		r.t.Fatalf("message %d of %s was acked, and delivered again", seq, m.id)
	}
	r.held = append(r.held, seq)
	return true
}

// check holds at all times: no more are with workers than may be, and what has
// completed was acked.
func (r *ackRun) check() {
	r.t.Helper()
	if n := r.l.table.ByType["thumb"].All; n > r.most {
		r.t.Fatalf("%d are on their way, of at most %d", n, r.most)
	}
	for _, id := range r.ids {
		if it := r.known(id); it != nil && it.State == events.StateCompleted && !r.acked[id] {
			r.t.Fatalf("%s has completed, and no worker has acked it", id)
		}
	}
}

// completions holds what the log has at the end.
func (r *ackRun) completions() {
	r.t.Helper()
	n, letters := map[events.ID]int{}, newMail()
	for _, ev := range r.events() {
		r.ok(letters.event(ev))
		if ev.Kind == events.KindCompleted {
			n[ev.ID]++
		}
	}
	for id, k := range n {
		if k != 1 {
			r.t.Fatalf("%s has completed %d times", id, k)
		}
	}
	for _, a := range r.told {
		r.ok(letters.judge(a))
	}
	r.ok(letters.atEnd(r.l.state))
}
