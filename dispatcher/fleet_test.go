package dispatcher

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/streamwright/streamwright/embedded/placement"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

var (
	fleetSeeds = flag.Int("fleet-seeds", 12, "how many seeds TestFleetSim runs")
	fleetSeed  = flag.Int64("fleet-seed", -1, "the one seed that TestFleetSim replays, telling what happens")
)

// fleet is several logs on the same nodes: a cluster for each log, whose clocks go side by side.
// Processes end in all of them at once; a planner moves logs; people hand work from one
// log to another.
type fleet struct {
	rng     *rand.Rand
	bug     fleetBug
	verbose func(string, ...any)
	size    int // nodes
	logs    []*cluster
	names   []string
	at      time.Time

	planner  *placement.Planner
	plans    int // the node that plans; -1: none
	seen     []uint64
	pinned   map[string]string
	doing    *placement.Move
	deadline time.Time
	balanced map[string]time.Time // when a log was last moved for balance, by this planner
	handed   map[handover]string  // the key of what was handed over, and accepted
	figures  fleetFigures
	failure  error
}

// handover is something handed from one log to another.
type handover struct{ from, to, n int }

type fleetFigures struct{ logs, nodes, downs, stops, moves, failed, handed int }

// fleetBug is a fault that is planted, which a run must find.
type fleetBug string

const (
	noFleetBug  fleetBug = ""
	fleetAstray fleetBug = "request answered by another namespace"
	fleetTwice  fleetBug = "work handed over without an idempotency key"
	fleetAmnesy fleetBug = "planner that is made anew at each look"
	fleetHeld   fleetBug = "lease of a node that is gone kept"
	fleetUnpin  fleetBug = "pinned log balanced as any other"
	fleetRest   fleetBug = "planner that is told of no move"
)

var fleetBugs = []fleetBug{fleetAstray, fleetTwice, fleetAmnesy, fleetHeld, fleetUnpin, fleetRest}

func newFleet(seed uint64, b fleetBug, verbose func(string, ...any)) *fleet {
	f := &fleet{rng: rand.New(rand.NewPCG(seed, 21)), bug: b, verbose: verbose, at: simStart, plans: -1,
		pinned: map[string]string{}, balanced: map[string]time.Time{}, handed: map[handover]string{}}
	f.size = 3 + f.rng.IntN(2)
	for i := range 3 + f.rng.IntN(4) {
		name := "default"
		if i > 0 {
			name = fmt.Sprintf("ns%d", i)
		}
		c := &cluster{rng: rand.New(rand.NewPCG(f.rng.Uint64(), 7)), at: simStart}
		if verbose != nil {
			c.verbose = func(format string, args ...any) { verbose(name+" "+format, args...) }
		}
		c.begin(f.size)
		c.lease.lies = false
		c.people.space = byte(i)
		f.logs, f.names = append(f.logs, c), append(f.names, name)
	}
	if f.rng.IntN(2) == 0 || b == fleetUnpin {
		f.pinned[f.names[1]] = nodeName(f.rng.IntN(f.size))
	}
	f.seen = make([]uint64, len(f.logs))
	f.figures.logs, f.figures.nodes = len(f.logs), f.size
	return f
}

func nodeName(i int) string { return fmt.Sprintf("n%d", i) }

func (f *fleet) close() {
	for _, c := range f.logs {
		c.close()
	}
}

func (f *fleet) failf(format string, args ...any) {
	if f.failure == nil {
		f.failure = fmt.Errorf("after %s: %w", f.at.Sub(simStart), fmt.Errorf(format, args...))
	}
}

func (f *fleet) trace(format string, args ...any) {
	if f.verbose != nil {
		f.verbose("%s == "+format, append([]any{f.at.Sub(simStart)}, args...)...)
	}
}

// run lets time pass in all logs, step by step, and calls do before each step.
func (f *fleet) run(d time.Duration, do func()) {
	const step = 100 * time.Millisecond
	for end := f.at.Add(d); f.at.Before(end) && f.failure == nil; {
		if do != nil {
			do()
		}
		f.plan()
		f.at = f.at.Add(step)
		for i, c := range f.logs {
			if c.happen(f.at); c.failure != nil {
				f.failf("%s: %w", f.names[i], c.failure)
			}
		}
	}
}

// ofOneLog are the deeds that happen to one log.
var ofOneLog = func() (deeds []clusterDeed) {
	for _, d := range clusterDeeds {
		switch d.name {
		case "kill", "stop", "pause", "wait", "stranger", "move", "partition":
		default:
			deeds = append(deeds, d)
		}
	}
	return deeds
}()

// deed has something happen.
func (f *fleet) deed() {
	switch n := f.rng.IntN(400); {
	case n < 2:
		f.kill()
	case n < 3:
		f.stop()
	case n < 12:
		f.hand()
	case n < 200:
		i := f.rng.IntN(len(f.logs))
		if f.rng.IntN(3) == 0 {
			i = len(f.logs) - 1 // one is busier than the others
		}
		c, d := f.logs[i], ofOneLog[f.rng.IntN(len(ofOneLog))]
		rng := rand.New(rand.NewPCG(f.rng.Uint64(), 3))
		c.people.rng = rng
		c.attempt(func() {
			d.do(c, rng)
			c.wake()
		})
	}
}

// quorum reports whether a process may end: no other may be down in any log.
func (f *fleet) quorum() bool {
	return !slices.ContainsFunc(f.logs, func(c *cluster) bool {
		return slices.ContainsFunc(c.nodes, func(n *clusterNode) bool { return !n.up })
	})
}

// kill ends a process, and its server, in all logs.
func (f *fleet) kill() {
	if !f.quorum() {
		return
	}
	i, which := f.rng.IntN(f.size), f.rng.IntN(4)
	f.trace("n%d is killed", i)
	f.figures.downs++
	for _, c := range f.logs {
		if f.bug == fleetHeld && c.lease.holder == i {
			c.lease.holder, c.lease.expires = -1, c.at.Add(forever) // the next process is another
		}
		c.attempt(func() { c.down(c.nodes[i], true, which) })
	}
}

// stop stops a process as planned: it hands on what it owns.
func (f *fleet) stop() {
	if !f.quorum() {
		return
	}
	i := f.rng.IntN(f.size)
	f.trace("n%d is to stop", i)
	f.figures.stops++
	for _, c := range f.logs {
		c.attempt(func() {
			if n := c.nodes[i]; n.owns() {
				n.l.closing = true
				n.kick()
			} else {
				c.stop(n, true, 1)
			}
		})
	}
}

// hand has people of one log hand work to another, again and again until it is accepted, and
// perhaps once more: the handler that does so has run twice.
func (f *fleet) hand() {
	from, to := f.rng.IntN(len(f.logs)), f.rng.IntN(len(f.logs))
	if from == to {
		return
	}
	h := handover{from, to, f.figures.handed}
	f.figures.handed++
	key := fmt.Sprintf("%s/%d", f.names[from], h.n)
	c := f.logs[to]
	if f.bug == fleetAstray {
		c = f.logs[(to+1)%len(f.logs)]
	}
	times := 1 + f.rng.IntN(2)
	for range times {
		id := c.people.id()
		sub := core.Submit{Type: clusterType, NewID: id, Tenant: f.names[from], Priority: prio(5), Provenance: events.Provenance{Source: handedBy + key}, IdempotencyKey: key}
		if f.bug == fleetTwice {
			sub.ID, sub.IdempotencyKey = id, ""
		}
		c.people.command(1000, func([]Outcome) { f.handed[h] = key }, "what was handed over", sub)
	}
}

// owner returns the node that owns a log, as another node sees it.
func (f *fleet) owner(c *cluster, from int) string {
	for _, n := range c.nodes {
		if n.owns() && !n.paused(c.at) && c.log.Reaches(from, n.at) {
			return nodeName(n.n)
		}
	}
	return ""
}

func (f *fleet) index(name string) int { return slices.Index(f.names, name) }

// plan has the owner of the default log look where the logs are, and move one.
func (f *fleet) plan() {
	if f.doing != nil {
		f.settle()
	}
	if f.at.UnixMilli()%5000 != 0 || f.doing != nil {
		return
	}
	planner := -1
	for _, n := range f.logs[0].nodes {
		if n.owns() && !n.paused(f.at) {
			planner = n.n
		}
	}
	if planner < 0 {
		f.plans = -1
		return
	}
	if planner != f.plans || f.bug == fleetAmnesy {
		f.planner, f.plans, f.balanced = placement.NewPlanner(), planner, map[string]time.Time{}
	}
	var nodes []placement.Node
	for _, n := range f.logs[0].nodes {
		nodes = append(nodes, placement.Node{Name: nodeName(n.n), Fit: f.fit(n.n) && f.logs[0].log.Reaches(planner, n.at)})
	}
	var logs []placement.Log
	for i, c := range f.logs {
		now := uint64(len(c.oracle.ends))
		load := float64(now-f.seen[i]) / 5
		f.seen[i] = now
		l := placement.Log{Name: f.names[i], Owner: f.owner(c, planner), Load: load, Fixed: i == 0, Node: f.pinned[f.names[i]]}
		if f.bug == fleetUnpin {
			l.Node = ""
		}
		logs = append(logs, l)
	}
	m, ok := f.planner.Next(f.at, nodes, logs)
	if !ok {
		return
	}
	f.move(m)
}

// fit reports whether a node follows all logs.
func (f *fleet) fit(node int) bool {
	return !slices.ContainsFunc(f.logs, func(c *cluster) bool { return !c.nodes[node].up || c.nodes[node].paused(c.at) })
}

// move asks a log's owner to hand it on.
func (f *fleet) move(m placement.Move) {
	f.trace("%s goes from %s to %s: %s", m.Log, m.From, m.To, m.Because)
	f.figures.moves++
	c := f.logs[f.index(m.Log)]
	if f.pinned[m.Log] == "" {
		if last, moved := f.balanced[m.Log]; moved && f.at.Sub(last) < 2*time.Minute {
			f.failf("%s was balanced %s after it was before", m.Log, f.at.Sub(last))
		}
		f.balanced[m.Log] = f.at
	}
	f.doing, f.deadline = &m, f.at.Add(10*time.Second)
	c.attempt(func() {
		for _, n := range c.nodes {
			if nodeName(n.n) != m.From || !n.owns() || n.paused(c.at) || n.l.closing {
				continue
			}
			heirs := slices.DeleteFunc(c.heirs(n), func(o *clusterNode) bool { return nodeName(o.n) != m.To })
			if c.handTo(n, heirs) && n.ended == nil {
				n.ended = errStepsDown
				n.kick()
			}
		}
	})
}

// settle ends the move under way: the log is where it should be, or it has failed.
func (f *fleet) settle() {
	m := *f.doing
	ok := f.owner(f.logs[f.index(m.Log)], f.plans) == m.To
	if !ok && f.at.Before(f.deadline) {
		return
	}
	f.doing = nil
	if !ok {
		f.figures.failed++
		delete(f.balanced, m.Log)
	}
	if f.bug != fleetRest {
		f.planner.Done(f.at, m, ok)
	}
}

// rest ends all trouble, lets the logs spread over the nodes, and checks what must be true then.
func (f *fleet) rest() {
	f.trace("-- rest")
	for _, c := range f.logs {
		c.attempt(c.recover)
	}
	f.run(6*time.Minute, nil)
	before := f.figures.moves
	f.run(time.Minute, nil)
	if f.figures.moves != before {
		f.failf("%d moves in a minute in which nothing happens", f.figures.moves-before)
	}
	count := map[string]int{}
	for i, c := range f.logs {
		at := f.owner(c, 0)
		count[at]++
		if to := f.pinned[f.names[i]]; to != "" && at != to {
			f.failf("%s is at %q, and pinned to %s", f.names[i], at, to)
		}
	}
	if n := slices.Max(slices.Collect(maps.Values(count))); len(f.pinned) == 0 && n > (len(f.logs)+f.size-1)/f.size+1 {
		f.failf("one node owns %d of %d logs: %v", n, len(f.logs), count)
	}
	for i, c := range f.logs {
		if c.attempt(c.rest); c.failure != nil {
			f.failf("%s: %w", f.names[i], c.failure)
		}
	}
	if f.failure == nil {
		f.apart()
	}
}

// apart checks that each log has what its own people have asked for, and what was handed
// to it, once.
func (f *fleet) apart() {
	keys := make([]map[string]int, len(f.logs))
	for i, c := range f.logs {
		keys[i] = c.oracle.handed
		for id := range c.oracle.lives {
			if id[0] == 2 && id[1] != byte(i) {
				f.failf("%s has item %s of %s", f.names[i], id, f.names[id[1]])
			}
		}
	}
	for _, h := range slices.SortedFunc(maps.Keys(f.handed), func(a, b handover) int { return cmp.Compare(a.n, b.n) }) {
		for i := range f.logs {
			want := 0
			if i == h.to {
				want = 1
			}
			if n := keys[i][f.handed[h]]; n != want {
				f.failf("%s has %d times what %s has handed to %s as %s: it must have it %d times", f.names[i], n, f.names[h.from], f.names[h.to], f.handed[h], want)
			}
		}
	}
}

// runFleet runs a seed, and returns what went wrong.
func runFleet(seed uint64, b fleetBug, verbose func(string, ...any)) (*fleet, error) {
	f := newFleet(seed, b, verbose)
	defer f.close()
	f.run(20*time.Second, nil)
	f.run(2*time.Minute, f.deed)
	if f.failure == nil {
		f.rest()
	}
	return f, f.failure
}

// Several logs that the same nodes share are each what one alone is, whatever processes end
// and logs move; and the logs come to rest, spread over the nodes.
func TestFleetSim(t *testing.T) {
	slow(t)
	noRace(t)
	defer debug.SetGCPercent(debug.SetGCPercent(1000))
	if *fleetSeed >= 0 {
		f, err := runFleet(uint64(*fleetSeed), noFleetBug, t.Logf)
		if t.Logf("%+v", f.figures); err != nil {
			t.Error(err)
		}
		return
	}
	var mu sync.Mutex
	var sum fleetFigures
	eachSeed(0, *fleetSeeds, func(seed uint64) (goOn bool) {
		f, err := runFleet(seed, noFleetBug, nil)
		mu.Lock()
		defer mu.Unlock()
		sum.add(f.figures)
		if err != nil {
			t.Errorf("seed %d: %s\nreplay it with: go test ./dispatcher -run TestFleetSim -v -fleet-seed=%d", seed, short(err), seed)
		}
		return true
	})
	t.Logf("%d seeds: %+v", *fleetSeeds, sum)
	if *fleetSeeds >= 10 && (sum.moves == 0 || sum.downs == 0 || sum.stops == 0 || sum.handed == 0) {
		t.Errorf("something did not happen: %+v", sum)
	}
}

func (f *fleetFigures) add(g fleetFigures) {
	f.logs += g.logs
	f.nodes += g.nodes
	f.downs += g.downs
	f.stops += g.stops
	f.moves += g.moves
	f.failed += g.failed
	f.handed += g.handed
}

// The simulation finds each fault that is planted, or it would prove nothing.
func TestFleetSimFindsPlantedBugs(t *testing.T) {
	slow(t)
	noRace(t)
	for _, b := range fleetBugs {
		t.Run(strings.ReplaceAll(string(b), " ", "_"), func(t *testing.T) {
			t.Parallel()
			const most = 20 // seeds
			for seed := range uint64(most) {
				if _, err := runFleet(seed, b, nil); err != nil {
					t.Logf("seed %d: %s", seed, short(err))
					return
				}
			}
			t.Errorf("%d seeds have not found it", most)
		})
	}
}
