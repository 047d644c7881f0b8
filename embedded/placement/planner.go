package placement

import (
	"cmp"
	"maps"
	"time"
)

// rules are the figures that a [Planner] goes by. They differ in tests alone.
type rules struct {
	base    float64       // cost of an idle log, in events a second: an estimate
	slack   float64       // part of the mean of two nodes' loads that makes no difference
	average time.Duration // time over which a log's load is averaged
	settle  time.Duration // a node must have been fit for that long
	rest    time.Duration // of a log that was moved
	believe time.Duration // time for which a log is where a move has brought it
	moves   int           // of balance in any minute, at most
	burst   int           // of these, at once
	retry   time.Duration // wait after a first failure
	longest time.Duration // wait after many
}

var standard = rules{
	base: 10, slack: 0.2, average: 5 * time.Minute,
	settle: 10 * time.Second, rest: 2 * time.Minute, believe: 3 * time.Second,
	moves: 30, burst: 3, retry: time.Second, longest: time.Minute,
}

// maxLoad bounds the load of a log. None does as many events a second, and a figure that is
// wrong once is forgotten within two hours.
const maxLoad = 1e7

// Planner decides which log is moved next. It remembers what it must not to flap: how
// loads were, since when nodes are fit, and how moves ended. It is not safe for concurrent
// use.
type Planner struct {
	rules  rules
	nodes  map[string]*nodeState
	logs   map[string]*logState
	round  uint64      // of Next
	at     time.Time   // of that
	now    []*logState // its logs, in the caller's order
	moving Move        // under way; zero if none is
	spent  time.Time   // when the balance moves begun so far are made up for
}

type nodeState struct {
	Node
	round uint64
	since time.Time // when it was seen to be fit; zero if it is not
	load  float64   // of the logs that it owns
	ready bool      // it takes part in balance
	retry retry
}

type logState struct {
	Log
	round uint64
	owner *nodeState // nil if it is unknown
	first time.Time  // when it was seen
	load  float64    // averaged
	cost  float64    // load, and the base
	moved time.Time  // the last time; zero if never
	to    string     // which node, then
	retry retry
}

// NewPlanner returns a Planner that knows nothing yet.
func NewPlanner() *Planner {
	return &Planner{rules: standard, nodes: map[string]*nodeState{}, logs: map[string]*logState{}}
}

// Next takes note of how the nodes and the logs are, and returns the next move, if there is
// one. It is then under way until Done, and meanwhile Next returns no other. now must not go
// back. Next keeps neither slice, and takes a time proportional to their lengths; loads are
// followed well if it is called every few seconds or more often, also while a move is under
// way.
func (p *Planner) Next(now time.Time, nodes []Node, logs []Log) (Move, bool) {
	p.see(now, nodes, logs)
	if p.moving != (Move{}) {
		return Move{}, false
	}
	m, ok := p.pinned(now)
	if !ok {
		m, ok = p.balance(now)
	}
	p.moving = m
	return m, ok
}

// Done reports the end of the move under way, and whether the other node owns the log now.
// Reports of other moves are ignored.
func (p *Planner) Done(now time.Time, m Move, ok bool) {
	if m != p.moving {
		return
	}
	p.moving = Move{}
	if l := p.logs[m.Log]; l != nil {
		if l.retry.done(now, ok, p.rules); ok {
			l.moved, l.to = now, m.To
		}
	}
	if m.Because != Balance {
		return // a pin that can't be met must not keep its nodes from balance
	}
	for _, name := range []string{m.From, m.To} {
		if n := p.nodes[name]; n != nil {
			n.retry.done(now, ok, p.rules)
		}
	}
}

// see updates what is known, and forgets the nodes and logs that are gone.
func (p *Planner) see(now time.Time, nodes []Node, logs []Log) {
	step := now.Sub(p.at)
	p.round, p.at = p.round+1, now
	for _, n := range nodes {
		s := entry(p.nodes, n.Name)
		s.Node, s.round, s.load = n, p.round, 0
		switch {
		case !n.Fit:
			s.since = time.Time{}
		case s.since.IsZero():
			s.since = now
		}
		s.ready = n.Fit && now.Sub(s.since) >= p.rules.settle && !s.retry.waits(now)
	}
	if len(p.nodes) > len(nodes) {
		maps.DeleteFunc(p.nodes, func(_ string, s *nodeState) bool { return s.round != p.round })
	}
	p.now = p.now[:0]
	for _, l := range logs {
		s := entry(p.logs, l.Name)
		if s.Node != l.Node {
			s.retry = retry{} // an operator's new choice does not wait
		}
		s.Log, s.round = l, p.round
		if now.Sub(s.moved) < p.rules.believe {
			if to := p.nodes[s.to]; to != nil && to.Fit {
				s.Owner = s.to
			}
		}
		s.average(now, step, p.rules.average)
		s.cost = p.rules.base + s.load
		if s.owner = p.nodes[s.Owner]; s.owner != nil {
			s.owner.load += s.cost
		}
		p.now = append(p.now, s)
	}
	if len(p.logs) > len(logs) {
		maps.DeleteFunc(p.logs, func(_ string, s *logState) bool { return s.round != p.round })
	}
}

// entry returns the value of a key, a new one if there is none.
func entry[V any](m map[string]*V, key string) *V {
	v := m[key]
	if v == nil {
		v = new(V)
		m[key] = v
	}
	return v
}

// average takes the log's load, which is a step after the last one, into the mean of what was
// seen of it, in which loads count for less the older they are: exponentially, with the time
// constant over. The mean of a log that has not been seen for that long is over the time for
// which it has.
func (l *logState) average(now time.Time, step, over time.Duration) {
	seen := 0.0
	if l.Load > 0 { // not so of NaN
		seen = min(l.Load, maxLoad)
	}
	if l.first.IsZero() {
		l.first, l.load = now, seen
	} else if step > 0 {
		l.load += (seen - l.load) * min(1, float64(step)/float64(min(now.Sub(l.first), over)))
	}
}

// pinned returns the move of a log to the node that it is pinned to.
func (p *Planner) pinned(now time.Time) (Move, bool) {
	var first *logState
	for _, l := range p.now {
		to := p.nodes[l.Node]
		if l.Fixed || l.Owner == "" || l.Owner == l.Node || to == nil || !to.Fit || l.retry.waits(now) {
			continue
		}
		if first == nil || l.Name < first.Name {
			first = l
		}
	}
	if first == nil {
		return Move{}, false
	}
	return Move{Log: first.Name, From: first.Owner, To: first.Node, Because: Pinned}, true
}

// balance returns a move that makes nodes' loads more equal.
func (p *Planner) balance(now time.Time) (Move, bool) {
	every := time.Minute / time.Duration(p.rules.moves-p.rules.burst)
	light := p.lightest()
	if light == nil || p.spent.Sub(now) > time.Duration(p.rules.burst-1)*every {
		return Move{}, false
	}
	var best *logState
	for _, l := range p.now {
		if p.movable(now, l, light) && (best == nil || before(l, best, light)) {
			best = l
		}
	}
	if best == nil {
		return Move{}, false
	}
	if p.spent.Before(now) {
		p.spent = now
	}
	p.spent = p.spent.Add(every)
	return Move{Log: best.Name, From: best.Owner, To: light.Name, Because: Balance}, true
}

// lightest returns the node with the lowest load of those that take part; nil if none does.
func (p *Planner) lightest() (light *nodeState) {
	for _, n := range p.nodes {
		if n.ready && (light == nil || cmp.Or(cmp.Compare(n.load, light.load), cmp.Compare(n.Name, light.Name)) < 0) {
			light = n
		}
	}
	return light
}

// movable reports whether a log may go from its owner to the lightest node.
func (p *Planner) movable(now time.Time, l *logState, light *nodeState) bool {
	if l.Fixed || l.Node != "" || l.owner == nil || !l.owner.ready {
		return false
	}
	slack := max(p.rules.base, p.rules.slack*(l.owner.load+light.load)/2)
	return light.load+l.cost+slack <= l.owner.load && !l.retry.waits(now) && now.Sub(l.moved) >= p.rules.rest
}

// before reports whether a should go to the lightest node rather than b.
func before(a, b *logState, light *nodeState) bool {
	gain := func(l *logState) float64 { return min(l.cost, l.owner.load-light.load-l.cost) }
	return cmp.Or(cmp.Compare(b.owner.load, a.owner.load), cmp.Compare(gain(b), gain(a)), cmp.Compare(a.cost, b.cost), cmp.Compare(a.Name, b.Name)) < 0
}

// retry is the wait before a move that has failed is tried again. The zero value waits for
// nothing.
type retry struct {
	wait  time.Duration
	until time.Time
}

func (r *retry) waits(now time.Time) bool { return now.Before(r.until) }

func (r *retry) done(now time.Time, ok bool, rules rules) {
	if ok {
		*r = retry{}
		return
	}
	r.wait = min(max(2*r.wait, rules.retry), rules.longest)
	r.until = now.Add(r.wait)
}
