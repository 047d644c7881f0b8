package clustertest

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/internal/need"
)

// kinds are the two ways to run a cluster.
var kinds = map[string]func(t *testing.T, d disks) *cluster{"plain": newPlain, "embedded": newEmbedded}

// each runs a scenario in each kind of cluster, under load, and checks
// everything after it.
func each(t *testing.T, scenario func(*cluster, *load)) {
	t.Helper()
	eachOn(t, disks{}, scenario)
}

// eachOn does so on other disks.
func eachOn(t *testing.T, d disks, scenario func(*cluster, *load)) {
	t.Helper()
	if testing.Short() {
		t.Skip("it takes a minute, and -short is set")
	}
	for kind, start := range kinds {
		t.Run(kind, func(t *testing.T) {
			seed := newSeed(t)
			c := start(t, d)
			l := newLoad(c, seed)
			l.start()
			l.moves(100)
			scenario(c, l)
			l.moves(100)
			l.check()
		})
	}
}

func newSeed(t *testing.T) uint64 {
	t.Helper()
	seed, err := strconv.ParseUint(os.Getenv("CLUSTERTEST_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64N(1_000_000)
	}
	t.Logf("CLUSTERTEST_SEED=%d", seed)
	return seed
}

// moves waits until so many more items are accepted and so many runs have begun.
func (l *load) moves(n int) {
	l.t.Helper()
	accepted, runs := l.counts()
	began := time.Now()
	for {
		a, r := l.counts()
		if a >= accepted+n && r >= runs+int64(n) {
			l.t.Logf("%s: %d accepted, %d runs: %d more of each took %s", time.Now().UTC().Format("15:04:05.000"), a, r, n, time.Since(began).Round(time.Millisecond))
			return
		}
		if time.Since(began) > finishWithin {
			l.t.Fatalf("stuck: nothing is broken any more, but in %s only %d items were accepted and %d runs began", finishWithin, a-accepted, r-runs)
		}
		l.c.revive()
		pause(l.t.Context(), 20*time.Millisecond)
	}
}

// The owner is killed, and started again, amid items.
func TestOwnerKilled(t *testing.T) {
	each(t, func(c *cluster, l *load) {
		for range 3 {
			owner := c.owner()
			owner.kill()
			l.moves(50)
			owner.start()
			l.moves(50)
		}
	})
}

// The owner is paused for longer than its lease, and finds out that it is
// another's.
func TestOwnerPaused(t *testing.T) {
	each(t, func(c *cluster, l *load) {
		for _, d := range []time.Duration{2 * time.Second, pauseFor()} {
			owner := c.owner()
			owner.pause()
			pause(t.Context(), d)
			owner.resume()
			l.moves(100)
		}
	})
}

// pauseFor is how long an owner is paused: 40 s in the long set.
func pauseFor() time.Duration {
	if longFor() > 0 {
		return 40 * time.Second
	}
	return 15 * time.Second
}

// The owner's machine is cut off from everybody else, and comes back.
func TestOwnerCutOff(t *testing.T) {
	each(t, func(c *cluster, l *load) {
		owner := c.owner()
		c.isolate(owner.name, append(c.places(), outside))
		l.moves(50)
		c.net.heal()
		l.moves(100)
	})
}

// Every node is stopped and started again, one after another.
func TestRollingRestart(t *testing.T) {
	each(t, func(c *cluster, l *load) {
		for _, n := range c.nodes {
			n.stop()
			n.start()
			l.moves(100)
		}
	})
}

// Somebody else's file takes the last byte of a disk: of a node that the work can do
// without, and of the one that decides, which hands the log over. The others go on; whoever
// asks is told why; and a node that has room again goes on, too.
func TestFullDisk(t *testing.T) {
	eachOn(t, disks{bytes: smallDisk}, func(c *cluster, l *load) {
		spare, owner := c.spareServer(), c.owner()
		spare.disk.Fill(t, 0)
		c.failedWrite(spare)
		l.moves(200)
		if spare.engine {
			c.says(spare, "disk_low")
		}
		c.roomAgain(spare)
		l.moves(100)

		owner.disk.Fill(t, 0)
		c.says(owner, "disk_low")
		need.Eventually(c.t, "a node with room owns the log", func() bool { return c.owner() != owner })
		l.moves(100)
		if c.own {
			c.failedWrite(owner)
		}
		c.roomAgain(owner)
		l.moves(100)
		if c.own {
			return
		}
		leader := c.leader()
		leader.disk.Fill(t, 0)
		c.failedWrite(leader)
		l.moves(100)
		c.roomAgain(leader)
	})
}

// spareServer returns a node with a NATS server that neither leads the log nor owns it.
func (c *cluster) spareServer() *node {
	c.t.Helper()
	leader, owner := c.leader(), c.owner()
	for _, n := range c.natsNodes() {
		if n != leader && n != owner {
			return n
		}
	}
	c.t.Fatal("there is no third node")
	return nil
}

// says waits until a node's health has a status.
func (c *cluster) says(n *node, status string) {
	c.t.Helper()
	need.Eventually(c.t, n.name+" says "+status, func() bool { return c.health(n).Status == status })
}

// failedWrite waits until a node's NATS server has met its full disk.
func (c *cluster) failedWrite(n *node) {
	c.t.Helper()
	c.logs(n, "no space left on device")
}

// logs waits until a node has said something.
func (c *cluster) logs(n *node, text string) {
	c.t.Helper()
	need.Eventually(c.t, n.name+" says "+text, func() bool {
		said, err := os.ReadFile(n.log)
		return err == nil && strings.Contains(string(said), text)
	})
}

// roomAgain gives the disk of a node its room back. A NATS server that met the full disk is
// to be restarted, which an engine does with its own.
func (c *cluster) roomAgain(n *node) {
	c.t.Helper()
	n.disk.Free(c.t)
	switch {
	case c.own:
		c.logs(n, "the NATS server was restarted")
	case n.nats:
		n.stop()
		n.start()
	}
}

// longFor is how long the long set goes on in each kind of cluster; 0: it is not
// asked for.
func longFor() time.Duration {
	d, _ := time.ParseDuration(os.Getenv("CLUSTERTEST_LONG"))
	return d
}

// A nemesis does what comes to its mind, by its seed.
func TestNemesis(t *testing.T) {
	if longFor() == 0 {
		t.Skip("CLUSTERTEST_LONG is not set")
	}
	each(t, func(c *cluster, l *load) {
		n := &nemesis{c: c, l: l, rng: rand.New(rand.NewPCG(l.seed, 0))}
		for end := time.Now().Add(longFor()); time.Now().Before(end); {
			n.strike()
		}
	})
}

// nemesis breaks things.
type nemesis struct {
	c   *cluster
	l   *load
	rng *rand.Rand
}

// fault is one way to break a cluster; it is mended afterwards.
type fault struct {
	name string
	do   func(*nemesis)
}

var faults = []fault{
	{"kill the owner", func(n *nemesis) { n.c.owner().kill(); n.hold(12) }},
	{"kill a standby", func(n *nemesis) { n.c.standby().kill(); n.hold(8) }},
	{"kill the leader", func(n *nemesis) { n.c.leader().kill(); n.hold(12) }},
	{"kill any node", func(n *nemesis) { n.any().kill(); n.hold(8) }},
	{"kill all nodes", func(n *nemesis) {
		for _, node := range n.c.nodes {
			node.kill()
		}
	}},
	{"pause the owner", func(n *nemesis) { n.c.owner().pause(); n.hold(15) }},
	{"pause the owner for 40 s", func(n *nemesis) { n.c.owner().pause(); pause(n.c.t.Context(), 40*time.Second) }},
	{"pause the leader", func(n *nemesis) { n.c.leader().pause(); n.hold(15) }},
	{"stop any node", func(n *nemesis) { n.any().stop() }},
	{"cut off the owner", func(n *nemesis) { n.c.isolate(n.c.owner().name, n.c.places()); n.hold(20) }},
	{"cut off the leader", func(n *nemesis) { n.c.isolate(n.c.leader().name, n.c.places()); n.hold(20) }},
	{"cut off any node, clients too", func(n *nemesis) { n.c.isolate(n.any().name, append(n.c.places(), outside)); n.hold(20) }},
	{"nothing reaches the owner", func(n *nemesis) { n.oneWay(n.c.owner(), false) }},
	{"nothing leaves the owner", func(n *nemesis) { n.oneWay(n.c.owner(), true) }},
	{"nothing leaves the leader", func(n *nemesis) { n.oneWay(n.c.leader(), true) }},
	{"a slow owner", func(n *nemesis) { n.c.net.slow(n.c.owner().name); n.hold(15) }},
	{"a slow leader", func(n *nemesis) { n.c.net.slow(n.c.leader().name); n.hold(15) }},
	{"the leader steps down every 2 s", func(n *nemesis) {
		for range 5 {
			ctx, cancel := context.WithTimeout(n.c.t.Context(), 5*time.Second)
			if err := n.c.stepDown(ctx); err != nil {
				n.c.t.Logf("%v", err)
			}
			cancel()
			pause(n.c.t.Context(), 2*time.Second)
		}
	}},
}

func (n *nemesis) any() *node { return n.c.nodes[n.rng.IntN(len(n.c.nodes))] }

// hold lets a fault last for up to so many seconds.
func (n *nemesis) hold(seconds int) {
	pause(n.c.t.Context(), time.Duration(n.rng.IntN(1000*seconds))*time.Millisecond)
}

// oneWay drops what a node sends, or what it is sent.
func (n *nemesis) oneWay(node *node, leaves bool) {
	for _, other := range n.c.places() {
		switch {
		case other == node.name:
		case leaves:
			n.c.net.cut(node.name, other)
		default:
			n.c.net.cut(other, node.name)
		}
	}
	n.hold(20)
}

// strike breaks one thing, mends it, and sees that everything moves again.
func (n *nemesis) strike() {
	n.c.t.Helper()
	f := faults[n.rng.IntN(len(faults))]
	n.c.t.Logf("%s: %s", time.Now().UTC().Format("15:04:05.000"), f.name)
	f.do(n)
	n.c.mend()
	n.l.moves(20 + n.rng.IntN(200))
}
