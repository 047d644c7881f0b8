package dispatcher

import (
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/dispatcher/ackmode"
	"github.com/streamwright/streamwright/dispatcher/lanes"
	"github.com/streamwright/streamwright/dispatcher/natsio"
	"github.com/streamwright/streamwright/dispatcher/table"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// clusterWorld is what the nodes share beside the log: the dispatch stream, on one server,
// in memory; and the intake, which is replicated.
type clusterWorld struct {
	*world
	c         *cluster
	home      int // the server that has the dispatch stream
	intake    []*nats.Msg
	published []time.Time
}

const nativeType = events.Type("thumb")

func newClusterWorld(c *cluster) *clusterWorld {
	w := &clusterWorld{world: newWorld(c.Now), c: c}
	w.purge, w.looked, w.native.reads = func(uint64) error { return nil }, func() {}, true
	w.native.msgs, w.native.paused, w.native.next = map[uint64]*nativeSimMsg{}, map[events.Type]bool{}, 100
	c.After(0, w.watch)
	return w
}

// watch ends leases that have run out, and gives the dispatch stream a new home when it has
// lost the old one.
func (w *clusterWorld) watch() {
	now := w.c.at
	for _, seq := range slices.Sorted(maps.Keys(w.msgs)) {
		if m := w.msgs[seq]; m.delivered && !m.expired && !m.expires.After(now) {
			m.expired = true
			for _, n := range w.c.nodes {
				if n.owns() && w.near(n.at) {
					n.sig.LeaseExpired(natsio.Expiry{ID: m.id, Token: m.token, Seq: m.seq})
					n.kick()
				}
			}
		}
	}
	w.expireNatives()
	w.c.After(250*time.Millisecond, w.watch)
}

// lose drops the dispatch stream.
func (w *clusterWorld) lose(home int) {
	w.c.trace("the dispatch stream is lost; it is on s%d now", home)
	clear(w.msgs)
	w.home = home
	for _, n := range w.c.nodes {
		if n.owns() {
			n.sig.DispatchLost()
			n.kick()
		}
	}
}

// near reports whether a server reaches the dispatch stream.
func (w *clusterWorld) near(at int) bool {
	return w.c.log.Reaches(at, w.home) && w.c.log.Reaches(w.home, at)
}

// adopt is what a new owner does with the dispatch stream.
func (w *clusterWorld) adopt(n *clusterNode, l *loop) {
	if !w.near(n.at) {
		return // it looks again with the next sweep
	}
	for _, seq := range slices.Sorted(maps.Keys(w.msgs)) {
		if m := w.msgs[seq]; !l.found(seq, m.id, m.token, m.lease) {
			delete(w.msgs, seq)
		}
	}
}

// nodeOut is the effects of one ownership of a node: they take their time, and may be lost.
type nodeOut struct {
	*world
	n   *clusterNode
	sig *natsio.Signals
}

var _ effects = (*nodeOut)(nil)

// reach has fn called at the dispatch stream, if that is within reach, else lost.
func (o *nodeOut) reach(fn, lost func()) {
	c := o.n.c
	d := c.between(50*time.Microsecond, 500*time.Microsecond)
	if !c.calm && c.rng.IntN(100) == 0 {
		d = c.between(0, 8*time.Second)
	}
	c.After(d, func() {
		switch {
		case !c.world.near(o.n.at) || !c.calm && c.rng.IntN(100) == 0:
			lost()
		default:
			fn()
		}
		if o.n.l != nil && o.n.sig == o.sig {
			o.n.kick()
		}
	})
}

func (o *nodeOut) Push(it *events.Item, params []byte, token events.Token, lease time.Duration, lane string) {
	o.n.c.oracle.pushed(o.n, it, token)
	if o.n.c.failure != nil {
		return
	}
	o.n.c.trace("n%d pushes %s under %s", o.n.n, it.ID, token)
	copied := *it
	o.reach(func() {
		o.world.signals = o.sig
		o.world.Push(&copied, params, token, lease, lane)
	}, func() {
		if o.n.c.rng.IntN(2) == 0 {
			o.sig.PushFailed(token) // else nothing is heard of it
		}
	})
}

// Assign sends an item to its worker's inbox: the message may be late, be lost, or come
// twice.
func (o *nodeOut) Assign(d *table.Dispatch, it *events.Item, _ []byte) {
	c, n := o.n.c, o.n
	c.oracle.assigned(n, d, it)
	c.trace("n%d assigns %s to %s under %s", n.n, it.ID, d.Worker, d.Token)
	m := &simMsg{id: it.ID, token: d.Token, attempt: int(it.Attempt)}
	worker, inbox, from := string(d.Worker), d.Inbox, n.at
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
			if c.log.Reaches(from, c.people.at(worker)) {
				c.people.receive(m, worker, inbox)
			}
		})
	}
}

func (o *nodeOut) Control(events.WorkerID, wire.Control) {}

func (o *nodeOut) DeleteMsg(seq uint64) {
	o.reach(func() { o.world.DeleteMsg(seq) }, func() {})
}

func (o *nodeOut) EnsureConsumer(key lanes.Key, lease time.Duration, _ bool) {
	o.reach(func() { o.world.EnsureConsumer(key, lease, false) }, func() {})
}

func (o *nodeOut) FindConsumers() {
	o.reach(func() {
		o.world.signals = o.sig
		o.world.FindConsumers()
	}, func() {})
}

func (o *nodeOut) CutLog(below uint64) {
	if o.n.cutAt == 0 {
		o.n.cutAt = below
	}
}

func (o *nodeOut) LookAround(live map[events.Token]bool, newest events.Token) {
	c, l := o.n.c, o.n.l
	live = maps.Clone(live)
	o.reach(func() {
		if at := c.log.Leader(); at >= 0 && l != nil {
			if _, changed := l.clock.Correct(c.at.Add(c.oracle.skew[at])); changed {
				o.sig.ClockChanged()
			}
		}
		o.world.LookAround(live, newest)
	}, func() {})
}

func (o *nodeOut) Inspect(key lanes.Key, waiting []natsio.Stored) {
	waiting = slices.Clone(waiting)
	o.reach(func() {
		o.world.signals = o.sig
		o.world.Inspect(key, waiting)
	}, func() {})
}

// reachNative has fn called at the native stream, which is replicated. The engine tries again
// for as long as it owns.
func (o *nodeOut) reachNative(fn func()) {
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
			c.After(time.Second, func() { o.reachNative(fn) })
		}
	})
}

func (o *nodeOut) PushNative(it *events.Item, params []byte, token events.Token, lease time.Duration) {
	c, n := o.n.c, o.n
	if at := n.l.pipe.appended; c.oracle.life(it.ID, at) == nil {
		c.failf("n%d sends %s to native workers, which is not in the log at %d", n.n, it.ID, at)
	}
	c.trace("n%d sends %s to native workers under %s", n.n, it.ID, token)
	copied := *it
	o.reachNative(func() { o.world.PushNative(&copied, params, token, lease) })
}

func (o *nodeOut) DeleteNative(seq uint64) { o.reachNative(func() { o.world.DeleteNative(seq) }) }

func (o *nodeOut) CleanNative(floor uint64, ended []uint64) {
	ended = slices.Clone(ended)
	o.reachNative(func() { o.world.CleanNative(floor, ended) })
}

func (o *nodeOut) EnsureNative(c ackmode.Consumer) {
	o.reachNative(func() { o.world.EnsureNative(c) })
}

func (o *nodeOut) WithdrawNative(c ackmode.Consumer, waiting []natsio.Stored) {
	waiting = slices.Clone(waiting)
	o.reachNative(func() { o.world.WithdrawNative(c, waiting) })
}

func (o *nodeOut) InspectNative(c ackmode.Consumer, waiting []natsio.Stored) {
	waiting = slices.Clone(waiting)
	o.reachNative(func() {
		o.world.native.paused[c.Type] = c.Paused // another owner may have changed it
		o.world.InspectNative(c, waiting)
	})
}

func (o *nodeOut) LookUpNative(word ackmode.Word) {
	o.reachNative(func() { o.world.LookUpNative(word) })
}

// hearNatives reads on in the stream that captures what native workers say.
func (n *clusterNode) hearNatives() {
	said := n.c.world.native.said
	if !n.c.native || n.l.closing || !n.c.log.Majority(n.at) {
		return
	}
	for range 16 {
		if n.heard == len(said) {
			if !n.level {
				n.level = true
				n.sig.NativeHeard()
			}
			return
		}
		n.sig.AckSignal(said[n.heard])
		n.heard++
	}
}
