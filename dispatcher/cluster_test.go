package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/eventlog/logtest"
)

// cluster runs several engines on a replicated log, with their clients, workers and
// network, on one goroutine at a time and by a clock of its own. All that happens follows
// from a seed and the deeds that are done.
//
// What an engine does without waiting (a step of its loop) is an event; what waits for the
// log (a takeover, following, an append, a cut) is a routine, which gives way while it
// waits.
type cluster struct {
	rng      *rand.Rand
	at       time.Time
	events   eventHeap
	count    uint64
	routines []*routine
	running  *routine

	log     *logtest.Replicas
	nodes   []*clusterNode
	world   *clusterWorld
	people  *people
	oracle  *oracle
	bug     bug
	calm    bool // the troubles are over
	verbose func(string, ...any)

	lease    lease
	failure  error
	figures  figures
	cutting  bool
	size     int  // servers
	stubborn bool // who has lost the lease does not care
	external bool // the engines are connected to any server, not to one of their own
	mixed    bool // programs of two format levels
	ack      bool // a type with ack workers
}

// figures say what a run came to.
type figures struct {
	owned, fenced, ambiguous, elections, renewed, cuts, answers, repeats, reads, checks, events int
	handed, refused, raised, acks, assigned, takenBack, fed, stale                              int
	mail                                                                                        mailCounts
}

func (f *figures) add(g figures) {
	f.owned += g.owned
	f.fenced += g.fenced
	f.ambiguous += g.ambiguous
	f.elections += g.elections
	f.renewed += g.renewed
	f.cuts += g.cuts
	f.answers += g.answers
	f.repeats += g.repeats
	f.reads += g.reads
	f.checks += g.checks
	f.events += g.events
	f.handed += g.handed
	f.refused += g.refused
	f.raised += g.raised
	f.acks += g.acks
	f.assigned += g.assigned
	f.takenBack += g.takenBack
	f.fed += g.fed
	f.stale += g.stale
	f.mail.add(g.mail)
}

// event is something that happens at a time.
type event struct {
	at time.Duration // since simStart
	n  uint64        // of two at one time, the earlier made goes first
	fn func()
}

func (e *event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.n < o.n }

// eventHeap has the next event first.
type eventHeap []event

func (h *eventHeap) push(e event) {
	*h = append(*h, e)
	s := *h
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if !s[i].before(&s[up]) {
			return
		}
		s[i], s[up] = s[up], s[i]
		i = up
	}
}

func (h *eventHeap) pop() event {
	s := *h
	first, last := s[0], len(s)-1
	s[0], s[last] = s[last], event{}
	s = s[:last]
	*h = s
	for i := 0; ; {
		next := 2*i + 1
		if next >= last {
			return first
		}
		if next+1 < last && s[next+1].before(&s[next]) {
			next++
		}
		if !s[next].before(&s[i]) {
			return first
		}
		s[i], s[next] = s[next], s[i]
		i = next
	}
}

// Now implements [logtest.Simulation].
func (c *cluster) Now() time.Time { return c.at }

// Rand implements [logtest.Simulation].
func (c *cluster) Rand() *rand.Rand { return c.rng }

// After implements [logtest.Simulation].
func (c *cluster) After(d time.Duration, fn func()) {
	c.count++
	c.events.push(event{c.at.Sub(simStart) + max(d, 0), c.count, fn})
}

// forever is a wait that has no end of its own.
const forever = 1000 * time.Hour

// Wait implements [logtest.Simulation]: the routine that runs gives way.
func (c *cluster) Wait(d time.Duration, done func() bool) bool {
	r := c.running
	r.until, r.done = c.at.Add(d), done
	if d < forever {
		c.After(d, func() {})
	}
	if !r.yield(struct{}{}) {
		panic(errKilled)
	}
	return done()
}

// errKilled unwinds a routine of a process that has ended.
var errKilled = errors.New("killed")

// routine is something of a node that waits now and then.
type routine struct {
	node   *clusterNode
	resume func() (struct{}, bool)
	stop   func()
	yield  func(struct{}) bool
	until  time.Time
	done   func() bool
	over   bool
}

// start begins a routine of a node.
func (c *cluster) start(n *clusterNode, fn func()) *routine {
	r := &routine{node: n, done: func() bool { return true }}
	r.resume, r.stop = iter.Pull(func(yield func(struct{}) bool) {
		r.yield = yield
		defer func() {
			r.over = true
			if p := recover(); p != nil && p != any(errKilled) {
				c.failed(fmt.Errorf("%v\n%s", p, debug.Stack()))
			}
		}()
		fn()
	})
	c.routines = append(c.routines, r)
	return r
}

// end unwinds a routine wherever it waits.
func (c *cluster) end(r *routine) {
	r.over = true
	r.stop()
}

// wake lets every routine go on whose wait has ended.
func (c *cluster) wake() {
	for again := true; again && c.failure == nil; {
		again = false
		c.routines = slices.DeleteFunc(c.routines, func(r *routine) bool { return r.over })
		for _, r := range c.routines {
			if r.over || r.node != nil && r.node.paused(c.at) || !r.done() && c.at.Before(r.until) {
				continue
			}
			before := c.running
			c.running = r
			r.resume()
			c.running = before
			again = true
		}
	}
}

// happen lets everything happen up to a time.
func (c *cluster) happen(until time.Time) {
	for end := until.Sub(simStart); c.failure == nil && len(c.events) > 0 && c.events[0].at <= end; {
		e := c.events.pop()
		c.at = simStart.Add(e.at)
		c.figures.events++
		c.attempt(e.fn)
		c.attempt(c.wake)
		c.attempt(c.oracle.look)
	}
	if c.failure == nil {
		c.at = until
	}
}

// attempt turns a panic into the run's failure.
func (c *cluster) attempt(fn func()) {
	defer func() {
		if p := recover(); p != nil {
			c.failed(fmt.Errorf("%v\n%s", p, debug.Stack()))
		}
	}()
	fn()
}

// failed notes the first thing that went wrong.
func (c *cluster) failed(err error) {
	if c.failure == nil && err != nil {
		c.failure = fmt.Errorf("after %s: %w", c.at.Sub(simStart), err)
	}
}

func (c *cluster) failf(format string, args ...any) { c.failed(fmt.Errorf(format, args...)) }

func (c *cluster) trace(format string, args ...any) {
	if c.verbose != nil {
		c.verbose("%12s "+format, append([]any{c.at.Sub(simStart)}, args...)...)
	}
}

// between is a random time in a range.
func (c *cluster) between(from, to time.Duration) time.Duration {
	return from + time.Duration(c.rng.Int64N(int64(to-from)))
}

// newCluster makes a cluster, and starts it. Its size follows from the seed.
func newCluster(seed uint64, b bug, verbose func(string, ...any)) *cluster {
	c := &cluster{rng: rand.New(rand.NewPCG(seed, 7)), at: simStart, bug: b, verbose: verbose}
	size := []int{3, 3, 3, 3, 3, 3, 2, 5}[c.rng.IntN(8)]
	c.external = size == 2 || c.rng.IntN(3) == 0
	c.begin(size)
	return c
}

// begin makes the nodes of a cluster, and starts them.
func (c *cluster) begin(size int) {
	b, servers := c.bug, max(size, 3)
	c.cutting = c.rng.IntN(2) == 0 || b == bugOldStore
	c.mixed = !c.cutting && (c.rng.IntN(2) == 0 || b == bugGuess) // a round would be read by this program's level
	c.ack = c.rng.IntN(3) == 0
	c.log = logtest.NewReplicas(c, servers)
	c.log.CheckNothing = b == bugNoCheck
	c.size = servers
	c.oracle = newOracle(c)
	c.world = newClusterWorld(c)
	c.people = newPeople(c)
	c.stubborn = c.rng.IntN(2) == 0
	c.lease.lies = c.rng.IntN(4) == 0
	if c.rng.IntN(4) == 0 {
		c.log.Trouble.Slow = c.between(time.Millisecond, 40*time.Millisecond)
	}
	for i := range size {
		c.nodes = append(c.nodes, c.newNode(i))
	}
	for _, n := range c.nodes {
		n.boot(nil)
	}
}

// close ends everything.
func (c *cluster) close() {
	for _, r := range c.routines {
		if !r.over {
			c.end(r)
		}
	}
	for _, n := range c.nodes {
		n.closeStore()
	}
}

// freeContext is a context of a takeover: it ends by the cluster's clock, and what waits
// for it in real time, after an error of the log, waits by that clock instead.
type freeContext struct {
	context.Context
	n     *clusterNode
	until time.Time
}

var closedChannel = func() chan struct{} { ch := make(chan struct{}); close(ch); return ch }()

func (f *freeContext) Done() <-chan struct{} {
	if !f.n.doubt {
		return nil
	}
	f.n.doubt = false
	f.n.c.Wait(20*time.Millisecond, func() bool { return false })
	return closedChannel
}

func (f *freeContext) Err() error {
	if f.n.c.at.After(f.until) {
		return context.DeadlineExceeded
	}
	return nil
}

// nodeLog is the log as a node has it.
type nodeLog struct {
	*logtest.ReplicaLog
	n *clusterNode
}

func (l nodeLog) note(err error) error {
	l.n.doubt = err != nil && !errors.Is(err, eventlog.ErrFenced)
	return err
}

func (l nodeLog) Last(ctx context.Context) (eventlog.Tip, error) {
	tip, err := l.ReplicaLog.Last(ctx)
	if l.n.c.bug == bugOldStore {
		tip.First = 1
	}
	return tip, l.note(err)
}

func (l nodeLog) Confirm(ctx context.Context) (eventlog.Tip, error) {
	if l.n.c.bug == bugStaleLeader {
		return l.ReplicaLog.Last(ctx)
	}
	return l.ReplicaLog.Confirm(ctx)
}

func (l nodeLog) Append(ctx context.Context, after uint64, w *eventlog.Write) (eventlog.Appended, error) {
	res, err := l.ReplicaLog.Append(ctx, after, w)
	return res, l.note(err)
}

func (l nodeLog) Read(ctx context.Context, from, to uint64, fn func(eventlog.Frame) error) error {
	if _, first := l.n.c.log.End(); l.n.c.bug == bugOldStore {
		from = max(from, first)
	}
	return l.note(l.ReplicaLog.Read(ctx, from, to, l.n.reader(fn)))
}

// reader has a node that lacks the rule take a frame of an older epoch for one that comes next.
func (n *clusterNode) reader(fn func(eventlog.Frame) error) func(eventlog.Frame) error {
	if n.c.bug != bugStaleFrame {
		return fn
	}
	return func(f eventlog.Frame) error {
		if last := &n.last; f.Seq == last.Seq+1 && f.Epoch < last.Epoch {
			f.Epoch, f.Before = last.Epoch, last.Before+uint64(len(last.Events))
		}
		n.last = f
		return fn(f)
	}
}

func (l nodeLog) Checksum(ctx context.Context, seq uint64) (uint64, error) {
	sum, err := l.ReplicaLog.Checksum(ctx, seq)
	return sum, l.note(err)
}

// bug is a fault that is planted, which a run must find.
type bug string

const (
	noBug          bug = ""
	bugNoCheck     bug = "append without the compare-and-swap"
	bugNoConfirm   bug = "answer of a repeat by a deposed owner, not confirmed"
	bugStaleLeader bug = "answer of a repeat confirmed by a deposed leader"
	bugNoSettle    bug = "takeover that does not settle"
	bugOldStore    bug = "store older than the log's first position"
	bugStaleToken  bug = "stale token accepted"
	bugEarly       bug = "effects before the append is durable"
	bugDoubt       bug = "append of unknown outcome taken for stored"
	bugForget      bug = "takeover that forgets what runs"
	bugGuess       bug = "program that goes on with a log above its format level"
	bugStaleFrame  bug = "reader that accepts a frame of an older epoch behind a newer one"
	bugFeed        bug = "live feed before the append is durable"
)

var bugs = []bug{bugNoCheck, bugNoConfirm, bugStaleLeader, bugNoSettle, bugOldStore, bugStaleToken, bugEarly, bugDoubt, bugForget, bugGuess, bugStaleFrame, bugFeed}

// lease is the bucket's entry that says who tries.
type lease struct {
	holder  int
	expires time.Time
	lies    bool // it says anything
}

const leaseTTL = 3 * time.Second

// may reports whether a node thinks that it holds the lease, and renews it if so.
func (c *cluster) may(n *clusterNode) bool {
	if c.lease.lies && !c.calm {
		return c.rng.IntN(3) == 0
	}
	if !c.log.Majority(n.at) {
		return false
	}
	if c.lease.holder == n.n || c.at.After(c.lease.expires) {
		c.lease.holder, c.lease.expires = n.n, c.at.Add(leaseTTL)
		return true
	}
	return false
}

// short is an error's first line.
func short(err error) string {
	s, _, _ := strings.Cut(err.Error(), "\n")
	return s
}
