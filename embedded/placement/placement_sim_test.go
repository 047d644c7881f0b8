package placement

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

const (
	step     = 250 * time.Millisecond
	maxLag   = 2 * time.Second // of what the planner is told
	idleCost = 10              // of a log, in events a second
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// decider is a [Planner], or one with a bug.
type decider interface {
	Next(now time.Time, nodes []Node, logs []Log) (Move, bool)
	Done(now time.Time, m Move, ok bool)
}

// sim is a cluster in virtual time, with a planner that is told late how it is. It notes what
// the planner must not do.
type sim struct {
	rng   *rand.Rand
	plan  func() decider
	p     decider
	now   time.Time
	nodes []*simNode
	logs  []*simLog
	made  int  // nodes, for their names
	idle  bool // all logs are

	moving  *Move
	ends    time.Time // of moving
	fails   bool      // moving fails for no reason
	failing float64   // part of the moves that do
	moves   int       // that went well
	begun   []time.Time
	expired time.Time         // all leases of the dead are by then
	faults  map[string]string // the first of each kind

	asNodes []Node // of ask, kept for the next
	asLogs  []Log
}

type simNode struct {
	name string
	up   bool
	full bool
	fit  late[bool] // as the planner is told
	told time.Time  // since when it is told that the node is fit
}

type simLog struct {
	name   string
	owner  late[*simNode] // nil if nobody owns it
	pin    string
	fixed  bool
	load   float64
	shape  shape
	drawn  float64   // by jitter
	expiry time.Time // of the lease of an owner that died; zero if it lives

	movedTo    *simNode // by the last move, unless it changed hands otherwise since
	movedAt    time.Time
	failures   int // in a row
	failedAt   time.Time
	failedNode string // pin, then
}

// shape is how a load varies about its mean.
type shape struct {
	jitter float64       // part of the load, to both sides
	every  time.Duration // between two draws; or half a period
	swing  bool          // between nothing and twice the load
	phase  time.Duration
}

func (l *simLog) at(s *sim) float64 {
	switch sh := l.shape; {
	case sh.swing:
		return 2 * l.load * float64((s.now.Sub(epoch)+sh.phase)/sh.every%2)
	case sh.jitter > 0:
		if (s.now.Sub(epoch)+sh.phase)%sh.every < time.Second {
			l.drawn = 1 + sh.jitter*(2*s.rng.Float64()-1)
		}
		return l.load * l.drawn
	}
	return l.load
}

// late is a fact, and what is known of it.
type late[T any] struct {
	is, known T
	news      []news[T]
}

type news[T any] struct {
	at time.Time
	is T
}

func (l *late[T]) set(at time.Time, v T) {
	if n := len(l.news); n > 0 && at.Before(l.news[n-1].at) {
		at = l.news[n-1].at
	}
	l.is, l.news = v, append(l.news, news[T]{at, v})
}

func (l *late[T]) at(now time.Time) T {
	for len(l.news) > 0 && !now.Before(l.news[0].at) {
		l.known, l.news = l.news[0].is, l.news[1:]
	}
	return l.known
}

func newSim(seed uint64, plan func() decider, nodes, logs int) *sim {
	s := &sim{rng: rand.New(rand.NewPCG(seed, 1)), plan: plan, now: epoch, faults: map[string]string{}}
	s.p = plan()
	for range nodes {
		s.join()
	}
	for range logs {
		s.add(0)
	}
	s.logs[0].fixed = true
	return s
}

func (s *sim) heard() time.Time { return s.now.Add(time.Duration(s.rng.Int64N(int64(maxLag)))) }

func (s *sim) fault(kind, format string, args ...any) {
	if s.faults[kind] == "" {
		s.faults[kind] = fmt.Sprintf("at %v: ", s.now.Sub(epoch)) + fmt.Sprintf(format, args...)
	}
}

// join adds a node.
func (s *sim) join() *simNode {
	s.made++
	n := &simNode{name: fmt.Sprintf("n%d", s.made), up: true}
	n.fit.set(s.heard(), true)
	s.nodes = append(s.nodes, n)
	return n
}

// add adds a log, which some node owns.
func (s *sim) add(load float64) *simLog {
	l := &simLog{name: fmt.Sprintf("log%d", len(s.logs)), load: load, drawn: 1}
	l.owner.set(s.heard(), s.survivor())
	s.logs = append(s.logs, l)
	return l
}

func (s *sim) survivor() *simNode {
	var fit []*simNode
	for _, n := range s.nodes {
		if n.up && !n.full {
			fit = append(fit, n)
		}
	}
	if len(fit) == 0 {
		return nil
	}
	return fit[s.rng.IntN(len(fit))]
}

func (s *sim) node(name string) *simNode {
	i := slices.IndexFunc(s.nodes, func(n *simNode) bool { return n.name == name })
	if i < 0 {
		return nil
	}
	return s.nodes[i]
}

func (s *sim) log(name string) *simLog {
	return s.logs[slices.IndexFunc(s.logs, func(l *simLog) bool { return l.name == name })]
}

// set brings a node up or down, or fills it. The leases of one that goes down end within
// three seconds.
func (s *sim) set(n *simNode, up, full bool) {
	if n.up && !up {
		s.expired = s.now.Add(time.Minute)
		for _, l := range s.logs {
			if l.owner.is == n {
				l.expiry = s.now.Add(time.Second + time.Duration(s.rng.Int64N(int64(2*time.Second))))
			}
		}
	}
	n.up, n.full = up, full
	if fit := up && !full; fit != n.fit.is {
		n.fit.set(s.heard(), fit)
	}
}

// restart has another planner go on, as when the node that plans is lost.
func (s *sim) restart() {
	s.p, s.moving, s.begun = s.plan(), nil, nil
	for _, l := range s.logs {
		l.movedTo, l.movedAt, l.failures = nil, time.Time{}, 0
	}
	for _, n := range s.nodes {
		n.told = time.Time{}
	}
}

// run lets time pass.
func (s *sim) run(d time.Duration) {
	for end := s.now.Add(d); s.now.Before(end); {
		s.now = s.now.Add(step)
		s.expire()
		ended := s.end()
		if ended || s.now.Sub(epoch)%time.Second == 0 {
			s.ask()
		}
	}
}

// expire gives the logs of owners that died to others.
func (s *sim) expire() {
	if s.now.After(s.expired) {
		return
	}
	for _, l := range s.logs {
		if !l.expiry.IsZero() && !s.now.Before(l.expiry) {
			s.expired = s.now.Add(time.Minute) // there may be no survivor yet
			if n := s.survivor(); n != nil {
				l.expiry, l.movedTo = time.Time{}, nil
				l.owner.set(s.heard(), n)
			}
		}
	}
}

// end ends the move under way, if it is time, and reports whether it did.
func (s *sim) end() bool {
	if s.moving == nil || s.now.Before(s.ends) {
		return false
	}
	m := *s.moving
	s.moving = nil
	l, from, to := s.log(m.Log), s.node(m.From), s.node(m.To)
	ok := from != nil && to != nil && l.owner.is == from && l.expiry.IsZero() && from.up && to.up && !to.full && !s.fails
	if ok {
		l.owner.set(s.heard(), to)
		l.movedTo, l.movedAt, l.failures = to, s.now, 0
		s.moves++
	} else {
		if l.failedNode != l.pin {
			l.failures = 0
		}
		l.failures++
		l.failedAt, l.failedNode = s.now, l.pin
	}
	s.p.Done(s.now, m, ok)
	return true
}

// ask tells the planner what is known, and begins the move that it returns.
func (s *sim) ask() {
	nodes, logs := s.asNodes[:0], s.asLogs[:0]
	for _, n := range s.nodes {
		fit := n.fit.at(s.now)
		switch {
		case !fit:
			n.told = time.Time{}
		case n.told.IsZero():
			n.told = s.now
		}
		nodes = append(nodes, Node{Name: n.name, Fit: fit})
	}
	for _, l := range s.logs {
		as := Log{Name: l.name, Load: l.at(s), Node: l.pin, Fixed: l.fixed}
		if n := l.owner.at(s.now); n != nil {
			as.Owner = n.name
		}
		logs = append(logs, as)
	}
	s.asNodes, s.asLogs = nodes, logs
	m, ok := s.p.Next(s.now, nodes, logs)
	if !ok {
		return
	}
	s.check(m)
	s.moving, s.fails = &m, s.rng.Float64() < s.failing
	takes := 150 * time.Millisecond
	if s.fails {
		takes = 3 * time.Second
	}
	s.ends = s.now.Add(100*time.Millisecond + time.Duration(s.rng.Int64N(int64(takes))))
}

// check notes what is wrong with a move that the planner asks for.
func (s *sim) check(m Move) {
	l, to := s.log(m.Log), s.node(m.To)
	if s.moving != nil {
		s.fault("second", "%+v while %+v is under way", m, *s.moving)
	}
	if to == nil || !to.fit.known {
		s.fault("unfit", "%+v", m)
		return
	}
	if m.From == m.To {
		s.fault("self", "%+v", m)
	}
	if l.fixed {
		s.fault("fixed", "%+v", m)
	}
	if l.movedTo != nil && s.now.Sub(l.movedAt) < maxLag && m.From != l.movedTo.name {
		s.fault("stale", "%+v, which a move brought to %s %v ago", m, l.movedTo.name, s.now.Sub(l.movedAt))
	}
	if l.failures > 0 && l.failedNode == l.pin {
		wait := min(time.Second<<min(l.failures-1, 10), time.Minute)
		if since := s.now.Sub(l.failedAt); since < wait {
			s.fault("impatient", "%+v %v after failure %d", m, since, l.failures)
		}
	}
	if m.Because == wire.TakeoverMoved {
		if l.pin != m.To {
			s.fault("pin", "%+v, but it is pinned to %q", m, l.pin)
		}
		return
	}
	if l.pin != "" {
		s.fault("pin", "%+v, but it is pinned to %s", m, l.pin)
	}
	if since := s.now.Sub(to.told); since < 10*time.Second {
		s.fault("unsettled", "%+v, which has been fit for %v", m, since)
	}
	if l.movedTo != nil && s.now.Sub(l.movedAt) < 2*time.Minute {
		s.fault("again", "%+v %v after it was moved", m, s.now.Sub(l.movedAt))
	}
	s.begun = slices.DeleteFunc(append(s.begun, s.now), func(t time.Time) bool { return s.now.Sub(t) >= time.Minute })
	if len(s.begun) > 30 {
		s.fault("rate", "%d balance moves within a minute", len(s.begun))
	}
}

// loads returns what each fit node carries, on the mean over time.
func (s *sim) loads() (by map[*simNode]float64, mean, least float64) {
	by = map[*simNode]float64{}
	for _, n := range s.nodes {
		if n.up && !n.full {
			by[n] = 0
		}
	}
	for _, l := range s.logs {
		if _, fit := by[l.owner.is]; fit {
			by[l.owner.is] += idleCost + l.load
			mean += idleCost + l.load
		}
	}
	least = -1
	for _, v := range by {
		if least < 0 || v < least {
			least = v
		}
	}
	return by, mean / float64(max(1, len(by))), least
}

// even notes a node that carries too much, given what can be moved, and pins that aren't met.
func (s *sim) even() {
	by, mean, least := s.loads()
	largest, free := map[*simNode]float64{}, true
	for _, l := range s.logs {
		if n := s.node(l.pin); n != nil && n.up && !n.full && l.owner.is != n && !l.fixed {
			s.fault("unmet", "%s is pinned to %s, which is fit, and is at %s", l.name, n.name, l.owner.is.name)
		}
		if l.pin == "" && !l.fixed {
			largest[l.owner.is] = max(largest[l.owner.is], idleCost+l.load)
		} else if l.pin != "" {
			free = false
		}
	}
	overall := 0.0
	for _, v := range largest {
		overall = max(overall, v)
	}
	for _, n := range s.nodes {
		load, fit := by[n]
		if !fit {
			continue
		}
		slack := max(idleCost/2, 0.2*(load+least)/2)
		if most, some := largest[n]; some && load > least+most+slack+1 {
			s.fault("uneven", "%s carries %.0f, the lightest node %.0f; largest log that can be moved %.0f", n.name, load, least, most)
		}
		if free && load > mean+max(overall, idleCost+s.logs[0].load)+slack+1 {
			s.fault("uneven", "%s carries %.0f, of a mean of %.0f; largest log %.0f", n.name, load, mean, overall)
		}
	}
}

// settle lets things come to rest: within half an hour, for averages, and the time that the
// moves of all logs take. Then nothing moves any more.
func (s *sim) settle() {
	s.run(converges(len(s.logs)))
	s.even()
	before := s.moves
	s.run(10 * time.Minute)
	if s.moves != before {
		s.fault("flap", "%d moves at constant load", s.moves-before)
	}
}

// converges bounds the time from the last disturbance to rest.
func converges(logs int) time.Duration {
	return 30*time.Minute + time.Duration(logs)*time.Minute/27
}

// disturb does something to the cluster.
func (s *sim) disturb() {
	n, l := s.nodes[s.rng.IntN(len(s.nodes))], s.logs[s.rng.IntN(len(s.logs))]
	switch s.rng.IntN(12) {
	case 0:
		if len(s.nodes) < 50 {
			s.join()
		}
	case 1, 2:
		s.set(n, !n.up, n.full)
	case 3:
		s.set(n, n.up, !n.full)
	case 4: // it comes and goes
		s.set(n, false, n.full)
		s.run(4 * time.Second)
		s.set(n, true, false)
	case 5, 6:
		if l.pin = n.name; s.rng.IntN(2) == 0 {
			l.pin = ""
		}
	case 7:
		l.load = s.drawLoad()
	case 8:
		l.shape = shape{swing: true, every: 30 * time.Second}
	case 9:
		l.shape = shape{jitter: 0.3, every: time.Second}
	case 10:
		s.failing = s.rng.Float64() * s.rng.Float64()
	case 11:
		if s.rng.IntN(4) == 0 {
			s.restart()
		}
	}
}

// drawLoad returns a load: mostly small, at times large.
func (s *sim) drawLoad() float64 {
	if s.idle || s.rng.IntN(3) == 0 {
		return 0
	}
	return min(s.rng.ExpFloat64()*s.rng.ExpFloat64()*50, 2000)
}

// chaos disturbs a cluster of random size for some minutes, lets it come to rest, and returns
// what the planner did wrong.
func chaos(seed uint64, plan func() decider) map[string]string {
	rng := rand.New(rand.NewPCG(seed, 2))
	logs := 1 << rng.IntN(8)
	if seed%large == large-1 {
		logs = 500
	}
	logs += rng.IntN(logs)
	s := newSim(seed, plan, 3+rng.IntN(1+min(47, logs)), min(logs, 1000))
	s.idle = seed%4 == 3
	for _, l := range s.logs {
		l.load = s.drawLoad()
	}
	for range 40 {
		s.run(time.Duration(1+s.rng.IntN(15)) * time.Second)
		s.disturb()
	}
	s.failing = 0.1
	for _, l := range s.logs {
		l.shape = shape{}
	}
	if s.survivor() == nil {
		s.set(s.nodes[0], true, false)
	}
	s.settle()
	return s.faults
}

func standardPlan() decider { return NewPlanner() }

const (
	seeds        = 16
	large        = 8 // each of so many clusters has 500 logs or more
	noGoroutines = "a planner belongs to one goroutine"
)

func TestSimulation(t *testing.T) {
	need.Seconds(t)
	t.Parallel()
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			if seed%large == large-1 {
				need.NoRace(t, noGoroutines)
			}
			for kind, fault := range chaos(seed, standardPlan) {
				t.Errorf("%s: %s", kind, fault)
			}
		})
	}
}
