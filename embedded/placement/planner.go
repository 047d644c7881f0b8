package placement

import (
	"cmp"
	"maps"
	"time"

	"github.com/streamwright/streamwright/wire"
)

// rules are the constants of a [Planner]. Tests change them to plant bugs.
type rules struct {
	base    float64       // cost of an idle log, in events a second: an estimate
	slack   float64       // difference that is tolerated, as a part of two nodes' mean load
	average time.Duration // time constant of the mean of a log's load
	settle  time.Duration // time for which a node must have been fit
	rest    time.Duration // time for which a log that was moved is not balanced
	believe time.Duration // time for which a move outweighs the caller's view of the owner
	moves   int           // most balance moves in any minute
	burst   int           // most of these at once
	retry   time.Duration // wait after a first failure
	longest time.Duration // longest wait
}

var standard = rules{
	base: 10, slack: 0.2, average: 5 * time.Minute,
	settle: 10 * time.Second, rest: 2 * time.Minute, believe: 3 * time.Second,
	moves: 30, burst: 3, retry: time.Second, longest: time.Minute,
}

// maxLoad bounds the load of a log, in events a second. It is far above what a log can do: it
// keeps a wrong figure finite, so that the mean forgets it within two hours.
const maxLoad = 1e7

// Planner decides which log is moved next. To avoid flapping it remembers the loads, since
// when each node has been fit, and how moves ended. It is not safe for concurrent use.
type Planner struct {
	rules  rules
	nodes  map[string]*nodeState
	logs   map[string]*logState
	round  uint64      // of Next
	at     time.Time   // of that round
	listed []*logState // the logs of that round, in the caller's order
	moving Move        // under way; zero if none is
	full   time.Time   // when the allowance of balance moves is full again
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
	first time.Time  // when it was first seen
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

// Next records the state of all nodes and logs, and returns the next move, if any. The move is
// under way until Done reports its end; meanwhile Next returns no other. now must not go back.
//
// Call Next about every second, also while a move is under way, and when something changes.
// It takes time proportional to the number of nodes and logs, and keeps neither slice.
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

// Done reports the end of the move under way; ok means that m.To owns the log now. The caller
// must report each move, those included whose outcome it does not know: as failed. Reports of
// other moves are ignored.
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
	if m.Because != wire.TakeoverBalanced {
		return // a pin that can't be met must not keep its nodes from balance
	}
	for _, name := range []string{m.From, m.To} {
		if n := p.nodes[name]; n != nil {
			n.retry.done(now, ok, p.rules)
		}
	}
}

// see updates the state of the nodes and logs, and forgets those that are gone.
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
	p.listed = p.listed[:0]
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
		p.listed = append(p.listed, s)
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

// average adds the log's load to its mean, a step after the last one. The mean is exponential,
// with the time constant over; while a log is younger than that, it is over the log's age.
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

// pinned returns the move of a log to the node that it is pinned to: the first by name.
func (p *Planner) pinned(now time.Time) (Move, bool) {
	var first *logState
	for _, l := range p.listed {
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
	return Move{Log: first.Name, From: first.Owner, To: first.Node, Because: wire.TakeoverMoved}, true
}

// balance returns the move that evens the loads best. Its allowance is a leaky bucket: each
// move puts off the time at which it is full again.
func (p *Planner) balance(now time.Time) (Move, bool) {
	every := time.Minute / time.Duration(p.rules.moves-p.rules.burst)
	light := p.lightest()
	if light == nil || p.full.Sub(now) > time.Duration(p.rules.burst-1)*every {
		return Move{}, false
	}
	var best *logState
	for _, l := range p.listed {
		if p.movable(now, l, light) && (best == nil || before(l, best, light)) {
			best = l
		}
	}
	if best == nil {
		return Move{}, false
	}
	if p.full.Before(now) {
		p.full = now
	}
	p.full = p.full.Add(every)
	return Move{Log: best.Name, From: best.Owner, To: light.Name, Because: wire.TakeoverBalanced}, true
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
	slack := max(p.rules.base/2, p.rules.slack*(l.owner.load+light.load)/2)
	return light.load+l.cost+slack <= l.owner.load && !l.retry.waits(now) && now.Sub(l.moved) >= p.rules.rest
}

// before reports whether a should go to the lightest node rather than b.
func before(a, b *logState, light *nodeState) bool {
	gain := func(l *logState) float64 { return min(l.cost, l.owner.load-light.load-l.cost) }
	return cmp.Or(cmp.Compare(b.owner.load, a.owner.load), cmp.Compare(gain(b), gain(a)), cmp.Compare(a.cost, b.cost), cmp.Compare(a.Name, b.Name)) < 0
}

// retry is the wait after failed moves. The zero value does not wait.
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
