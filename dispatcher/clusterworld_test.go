package dispatcher

import (
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/dispatcher/ackmode"
	"github.com/streamwright/streamwright/dispatcher/natsio"
	"github.com/streamwright/streamwright/dispatcher/table"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// clusterWorld is what the nodes share beside the log: the streams of ack types and the
// intake, which are replicated.
type clusterWorld struct {
	*world
	c         *cluster
	intake    []*nats.Msg
	published []time.Time
}

const ackType = events.Type("thumb")

func newClusterWorld(c *cluster) *clusterWorld {
	w := &clusterWorld{world: newWorld(c.Now), c: c}
	w.purge, w.looked, w.acks.reads = func(uint64) error { return nil }, func() {}, true
	w.acks.msgs, w.acks.paused, w.acks.next = map[uint64]*ackSimMsg{}, map[events.Type]bool{}, 100
	c.After(0, w.watch)
	return w
}

// watch ends the leases of ack types that have run out.
func (w *clusterWorld) watch() {
	w.expireAcks()
	w.c.After(250*time.Millisecond, w.watch)
}

// nodeOut is the effects of one ownership of a node: they take their time, and may be lost.
type nodeOut struct {
	*world
	n   *clusterNode
	sig *natsio.Signals
}

var _ effects = (*nodeOut)(nil)

// Assign sends an item to its worker: the message may be late, be lost, or come twice.
func (o *nodeOut) Assign(d *table.Dispatch, it *events.Item, _ []byte, left *wire.Left) {
	c, n := o.n.c, o.n
	c.oracle.assigned(n, d, it)
	c.trace("n%d assigns %s to %s under %s", n.n, it.ID, d.Worker, d.Token)
	m := &simRun{worker: string(d.Worker), session: d.Session, id: it.ID, token: d.Token, typ: it.Type, attempt: int(it.Attempt), left: *left}
	from := n.at
	times := 1
	if !c.calm {
		times = []int{0, 2, 1}[min(c.rng.IntN(40), 2)]
	}
	for range times {
		delay := c.between(50*time.Microsecond, 500*time.Microsecond)
		if !c.calm && c.rng.IntN(30) == 0 {
			delay = c.between(0, 8*time.Second)
		}
		c.After(delay, func() {
			if c.log.Reaches(from, c.people.at(m.worker)) {
				c.people.receive(m)
			}
		})
	}
}

func (o *nodeOut) Control(events.WorkerID, wire.Control) {}

func (o *nodeOut) CutLog(below uint64) {
	if o.n.cutAt == 0 {
		o.n.cutAt = below
	}
}

func (o *nodeOut) LookAround() {
	c, l := o.n.c, o.n.l
	c.After(c.between(50*time.Microsecond, 500*time.Microsecond), func() {
		if at := c.log.Leader(); at >= 0 && l != nil && o.n.l == l && c.log.Reaches(o.n.at, at) {
			if _, changed := l.clock.Correct(c.at.Add(c.oracle.skew[at])); changed {
				o.sig.ClockChanged()
				o.n.kick()
			}
		}
	})
}

// reachAck has fn called at the dispatch stream. The engine tries again
// for as long as it owns.
func (o *nodeOut) reachAck(fn func()) {
	c := o.n.c
	c.After(c.between(50*time.Microsecond, 500*time.Microsecond), func() {
		switch lives := o.n.l != nil && o.n.sig == o.sig; {
		case c.log.Majority(o.n.at) && (c.calm || c.rng.IntN(100) > 0):
			o.world.signals = o.sig
			fn()
			if lives {
				o.n.kick()
			}
		case lives:
			c.After(time.Second, func() { o.reachAck(fn) })
		}
	})
}

func (o *nodeOut) PushAck(d *table.Dispatch, it *events.Item, params []byte) {
	c, n, sent := o.n.c, o.n, *d
	if at := n.l.pipe.appended; c.oracle.life(it.ID, at) == nil {
		c.failf("n%d sends %s to ack workers, which is not in the log at %d", n.n, it.ID, at)
	}
	c.trace("n%d sends %s to ack workers under %s", n.n, it.ID, d.Token)
	copied := *it
	o.reachAck(func() { o.world.PushAck(&sent, &copied, params) })
}

func (o *nodeOut) DeleteAck(seq uint64) { o.reachAck(func() { o.world.DeleteAck(seq) }) }

func (o *nodeOut) CleanAcks(floor uint64, ended []uint64) {
	ended = slices.Clone(ended)
	o.reachAck(func() { o.world.CleanAcks(floor, ended) })
}

func (o *nodeOut) EnsureAck(c ackmode.Consumer) {
	o.reachAck(func() { o.world.EnsureAck(c) })
}

func (o *nodeOut) WithdrawAcks(c ackmode.Consumer, waiting []natsio.Stored) {
	waiting = slices.Clone(waiting)
	o.reachAck(func() { o.world.WithdrawAcks(c, waiting) })
}

func (o *nodeOut) InspectAcks(c ackmode.Consumer, waiting []natsio.Stored) {
	waiting = slices.Clone(waiting)
	o.reachAck(func() {
		o.world.acks.paused[c.Type] = c.Paused // another owner may have changed it
		o.world.InspectAcks(c, waiting)
	})
}

func (o *nodeOut) LookUpAck(word ackmode.Word) {
	o.reachAck(func() { o.world.LookUpAck(word) })
}

// hearAll reads on in the stream that captures what ack workers say.
func (n *clusterNode) hearAll() {
	said := n.c.world.acks.said
	if !n.c.ack || n.l.closing || !n.c.log.Majority(n.at) {
		return
	}
	for range 16 {
		if n.heard == len(said) {
			if !n.level {
				n.level = true
				n.sig.AcksHeard()
			}
			return
		}
		n.sig.AckSignal(said[n.heard])
		n.heard++
	}
}
