package logtest

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/eventlog"
)

// Simulation is the time, and the chance, in which a [Replicas] lives. Everything
// happens on one goroutine at a time.
type Simulation interface {
	Now() time.Time
	Rand() *rand.Rand
	// After has fn called when d has passed.
	After(d time.Duration, fn func())
	// Wait lets time pass until done reports true, or d has passed. It returns what done
	// reports in the end.
	Wait(d time.Duration, done func() bool) bool
}

// The times of a replicated stream, as nats-server has them.
const (
	electionMin = 4 * time.Second // without word from a leader, a server wants to be it
	electionMax = 9 * time.Second
	lostQuorum  = 10 * time.Second // a leader that the others don't answer gives up
	raftBeat    = time.Second
	// transferred is how long a planned change of the leader takes.
	transferred = 50 * time.Millisecond
)

// Replicas is an event stream with several replicas in memory, for simulations. It takes
// messages by the rules of a JetStream stream on a cluster, and loses, delays and repeats
// what its [Trouble] says:
//
//   - A message is checked against its leader's end of the log, what is under way included,
//     and is acknowledged once most servers hold it. A leader that was cut off from them
//     acknowledges nothing; what it has taken in is dropped, or kept if the next leader
//     has it.
//   - A deposed leader answers for as long as it doesn't know: up to 10 s.
//   - Reads give what most servers hold, never more, from any server that is that far.
//
// It is not safe for concurrent use.
type Replicas struct {
	Trouble Trouble
	// CheckNothing leaves the compare-and-swap out: a fault that a simulation must find.
	CheckNothing bool

	sim     Simulation
	servers []*replica
	cut     [][]bool           // cut[a][b]: nothing gets from a to b
	truth   []eventlog.Stored  // agreed on, what was cut included
	decoded []eventlog.Decoded // truth
	entries []uint64           // terms of the entries that are committed
	first   uint64
	created time.Time
	// Elections counts the changes of the leader.
	Elections int
}

// Trouble says how often something goes wrong with a message, of 1.
type Trouble struct {
	Lost    float64 // it does not arrive
	AckLost float64 // its answer does not
	Late    float64 // it arrives after up to 20 s
	Slow    time.Duration
}

// replica is one server's part of a stream.
type replica struct {
	n       int
	up      bool
	stopped bool // it does nothing for a while
	skew    time.Duration
	term    uint64
	log     []entry
	commit  int // entries applied
	first   uint64
	leads   bool
	serves  bool // it leads, and has applied what it found when it began to
	floor   int
	match   []int
	answers []time.Time // of a leader: when each other was last heard
	heard   time.Time   // of the others: when the leader was
	patient time.Duration
	pending map[int]func(error)
}

// entry is what the servers agree on: a message, or a purge.
type entry struct {
	term  uint64
	msg   *eventlog.Stored
	below uint64
	last  uint64 // sequence after it
}

// NewReplicas makes an empty stream on n servers.
func NewReplicas(sim Simulation, n int) *Replicas {
	c := &Replicas{sim: sim, first: 1, created: sim.Now()}
	for i := range n {
		c.cut = append(c.cut, make([]bool, n))
		c.servers = append(c.servers, &replica{n: i, up: true, first: 1, match: make([]int, n), answers: make([]time.Time, n), heard: sim.Now(), patient: c.patience()})
	}
	c.elect(c.servers[0])
	c.beat()
	return c
}

func (c *Replicas) patience() time.Duration {
	return electionMin + time.Duration(c.sim.Rand().Int64N(int64(electionMax-electionMin)))
}

// Cut stops everything that goes from one server to another; with on false it gets through
// again.
func (c *Replicas) Cut(from, to int, on bool) { c.cut[from][to] = on }

// Reaches reports whether a message from one server gets to another.
func (c *Replicas) Reaches(from, to int) bool { return from == to || !c.cut[from][to] }

// Kill ends a server; what it has stored remains.
func (c *Replicas) Kill(n int) {
	s := c.servers[n]
	s.up = false
	c.follow(s)
}

// Start starts a server again.
func (c *Replicas) Start(n int) {
	s := c.servers[n]
	s.up, s.heard = true, c.sim.Now()
}

// Pause has a server do nothing for a while; what is sent to it waits.
func (c *Replicas) Pause(n int, on bool) { c.servers[n].stopped = on }

// SetClock sets how far a server's clock is ahead of the right time.
func (c *Replicas) SetClock(n int, skew time.Duration) { c.servers[n].skew = skew }

// Leader returns the server that leads now by the word of most, -1 for none.
func (c *Replicas) Leader() int {
	best := -1
	for _, s := range c.servers {
		if s.serves && s.up && (best < 0 || s.term > c.servers[best].term) {
			best = s.n
		}
	}
	return best
}

// MoveTo has a server take the leadership over, if the others agree.
func (c *Replicas) MoveTo(n int) {
	if s := c.servers[n]; s.works() && !s.leads {
		c.elect(s)
	}
}

// StepDown hands the leadership on, if another server can take it.
func (c *Replicas) StepDown() {
	n := c.Leader()
	if n < 0 {
		return
	}
	c.sim.After(transferred, func() {
		for i := range c.servers {
			s := c.servers[(n+1+i)%len(c.servers)]
			if s.n != n && s.works() && c.elect(s) {
				return
			}
		}
	})
}

// Majority reports whether a server works, and reaches most of those that do.
func (c *Replicas) Majority(n int) bool {
	with := 0
	for _, s := range c.servers {
		if s.works() && c.Reaches(n, s.n) && c.Reaches(s.n, n) {
			with++
		}
	}
	return c.servers[n].works() && 2*with > len(c.servers)
}

// Idle reports whether everything is agreed on that the leader has taken in.
func (c *Replicas) Idle() bool {
	n := c.Leader()
	return n >= 0 && c.servers[n].commit == len(c.servers[n].log)
}

// End returns the last sequence that most servers hold, and the first that is kept.
func (c *Replicas) End() (last, first uint64) { return uint64(len(c.truth)), c.first }

func (s *replica) works() bool { return s.up && !s.stopped }

func (s *replica) end() uint64 {
	if len(s.log) == 0 {
		return 0
	}
	return s.log[len(s.log)-1].last
}

func (s *replica) applied() uint64 {
	if s.commit == 0 {
		return 0
	}
	return s.log[s.commit-1].last
}

// beat lets the leader be heard, and servers that miss it elect another.
func (c *Replicas) beat() {
	now := c.sim.Now()
	for _, s := range c.servers {
		switch {
		case !s.works():
		case s.leads:
			near := 0
			for _, o := range c.servers {
				if o == s || now.Sub(s.answers[o.n]) < lostQuorum {
					near++
				}
			}
			if 2*near <= len(c.servers) {
				c.follow(s)
				break
			}
			c.spread(s)
		case now.Sub(s.heard) > s.patient:
			s.heard, s.patient = now, c.patience()
			c.elect(s)
		}
	}
	c.sim.After(raftBeat, c.beat)
}

// elect asks all for their votes, and reports whether most gave them.
func (c *Replicas) elect(s *replica) bool {
	var voters []*replica
	term := s.term
	for _, o := range c.servers {
		if o == s || o.works() && c.Reaches(s.n, o.n) && c.Reaches(o.n, s.n) {
			voters = append(voters, o)
			term = max(term, o.term)
		}
	}
	term++
	votes := 0
	for _, o := range voters {
		if o != s {
			c.follow(o)
		}
		o.term = term
		if !newer(o.log, s.log) {
			votes++
			o.heard = c.sim.Now()
		}
	}
	if 2*votes <= len(c.servers) {
		c.follow(s)
		return false
	}
	c.Elections++
	s.leads, s.serves, s.floor, s.pending = true, false, len(s.log), map[int]func(error){}
	for i := range c.servers {
		s.match[i], s.answers[i] = 0, c.sim.Now()
	}
	c.propose(s, entry{last: s.end()}, nil)
	return true
}

// newer reports whether a log has more of what may be agreed on than another.
func newer(a, b []entry) bool {
	term := func(l []entry) uint64 {
		if len(l) == 0 {
			return 0
		}
		return l[len(l)-1].term
	}
	return term(a) > term(b) || term(a) == term(b) && len(a) > len(b)
}

// follow ends a server's leadership: what it had under way is not answered.
func (c *Replicas) follow(s *replica) { s.leads, s.serves, s.pending = false, false, nil }

// propose takes an entry into the leader's log; done hears of it once most have it.
func (c *Replicas) propose(s *replica, e entry, done func(error)) {
	e.term = s.term
	s.log = append(s.log, e)
	if done != nil {
		s.pending[len(s.log)-1] = done
	}
	c.spread(s)
}

// spread sends the leader's log to the others.
func (c *Replicas) spread(s *replica) {
	if len(c.servers) == 1 {
		s.match[s.n] = len(s.log)
		c.agree(s)
		return
	}
	for _, o := range c.servers {
		if o != s {
			c.carry(s.n, o.n, func() { c.take(s, o) })
		}
	}
}

// carry has fn called at a server, when a message gets there.
func (c *Replicas) carry(from, to int, fn func()) {
	if !c.Reaches(from, to) {
		return
	}
	c.sim.After(c.hop(), func() { c.arrive(from, to, fn) })
}

func (c *Replicas) arrive(from, to int, fn func()) {
	switch s := c.servers[to]; {
	case !s.up || !c.Reaches(from, to):
	case s.stopped:
		c.sim.After(raftBeat/2, func() { c.arrive(from, to, fn) })
	default:
		fn()
	}
}

// hop is how long a message is on its way.
func (c *Replicas) hop() time.Duration {
	d := 50*time.Microsecond + time.Duration(c.sim.Rand().Int64N(int64(200*time.Microsecond)))
	if c.Trouble.Slow > 0 {
		d += time.Duration(c.sim.Rand().Int64N(int64(c.Trouble.Slow)))
	}
	return d
}

// take has a server take over what its leader has.
func (c *Replicas) take(leader, s *replica) {
	if !leader.leads || !leader.up || s.term > leader.term {
		if s.term > leader.term && leader.leads {
			c.carry(s.n, leader.n, func() {
				if leader.term < s.term {
					leader.term = s.term
					c.follow(leader)
				}
			})
		}
		return
	}
	if s.leads {
		c.follow(s)
	}
	s.term, s.heard = leader.term, c.sim.Now()
	same := min(len(s.log), len(leader.log))
	for same > 0 && s.log[same-1].term != leader.log[same-1].term {
		same--
	}
	if same < s.commit {
		panic("logtest: a replica would lose what was agreed on")
	}
	s.log = append(s.log[:same:same], leader.log[same:]...)
	c.apply(s, min(leader.commit, len(s.log)))
	have, term := len(s.log), s.term
	c.carry(s.n, leader.n, func() {
		if leader.leads && leader.term == term {
			leader.match[s.n] = max(leader.match[s.n], have)
			leader.answers[s.n] = c.sim.Now()
			c.agree(leader)
		}
	})
}

// agree finds what most servers have.
func (c *Replicas) agree(s *replica) {
	s.match[s.n] = len(s.log)
	m := slices.Sorted(slices.Values(s.match))
	most := m[(len(m)-1)/2]
	if most <= s.commit || s.log[most-1].term != s.term {
		return
	}
	from := s.commit
	c.apply(s, most)
	s.serves = s.serves || s.commit > s.floor
	for i := from; i < most; i++ {
		if done := s.pending[i]; done != nil {
			delete(s.pending, i)
			done(nil)
		}
	}
	for _, o := range c.servers { // the others learn of it soon
		if o != s {
			c.carry(s.n, o.n, func() {
				if s.leads && o.term == s.term && len(o.log) >= o.commit {
					c.apply(o, min(most, c.shared(s, o)))
				}
			})
		}
	}
}

// shared is how much of two logs is the same.
func (c *Replicas) shared(a, b *replica) int {
	n := min(len(a.log), len(b.log))
	for n > 0 && a.log[n-1].term != b.log[n-1].term {
		n--
	}
	return n
}

// apply has a server apply entries that are agreed on.
func (c *Replicas) apply(s *replica, to int) {
	for ; s.commit < to; s.commit++ {
		e := s.log[s.commit]
		s.first = max(s.first, min(e.below, e.last+1))
		if s.commit < len(c.entries) {
			if c.entries[s.commit] != e.term {
				panic("logtest: two replicas have agreed on different entries")
			}
			continue
		}
		c.entries = append(c.entries, e.term)
		c.first = max(c.first, s.first)
		if e.msg == nil {
			continue
		}
		if e.msg.Seq != uint64(len(c.truth)+1) {
			panic("logtest: a message was agreed on that does not fit behind the last")
		}
		c.truth = append(c.truth, *e.msg)
		c.decoded = append(c.decoded, eventlog.Decode(e.msg))
	}
}

// publish brings a message to a leader, as it sees the log, and its answer back to done.
func (c *Replicas) publish(s *replica, p publish, done func(error)) {
	last := s.end()
	if want := p.expect; want != nil && *want != last && !c.CheckNothing {
		done(wrongLast(*want, last))
		return
	}
	p.Seq = last + 1
	c.propose(s, entry{last: last + 1, msg: &p.Stored}, done)
}

// Repeat has a message that was agreed on taken in again, whatever is behind it by now.
func (c *Replicas) Repeat(seq uint64) { c.inject(c.truth[seq-1]) }

// Inject has a foreign publisher's message taken in.
func (c *Replicas) Inject(header nats.Header, data []byte) {
	c.inject(eventlog.Stored{Header: header, Data: data})
}

func (c *Replicas) inject(m eventlog.Stored) {
	if n := c.Leader(); n >= 0 && c.servers[n].works() {
		c.publish(c.servers[n], publish{Stored: m}, func(error) {})
	}
}

var errNoAnswer = errors.New("the stream's leader did not answer")
