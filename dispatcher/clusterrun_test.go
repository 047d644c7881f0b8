package dispatcher

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector"
)

var (
	clusterSeeds = flag.Int("cluster-seeds", 200, "how many seeds TestClusterSim runs")
	clusterFirst = flag.Uint64("cluster-first", 0, "the first of them")
	clusterSeed  = flag.Int64("cluster-seed", -1, "the one seed that TestClusterSim replays, telling what happens")
	clusterKeep  = flag.String("cluster-keep", "", "with -cluster-seed: the deeds that are done, such as 1-4,9; empty: all")
)

// clusterDeed is something that people do, or that happens to a cluster.
type clusterDeed struct {
	name   string
	weight int
	do     func(*cluster, *rand.Rand)
}

var clusterDeeds = []clusterDeed{
	{"submit", 16, func(c *cluster, _ *rand.Rand) { c.people.submit() }},
	{"publish", 5, func(c *cluster, _ *rand.Rand) { c.people.publish() }},
	{"finish", 30, func(c *cluster, _ *rand.Rand) { c.people.finish() }},
	{"more", 3, func(c *cluster, _ *rand.Rand) { c.people.more() }},
	{"letter", 8, func(c *cluster, rng *rand.Rand) { c.people.letter(rng) }},
	{"touch", 6, func(c *cluster, _ *rand.Rand) { c.people.touch() }},
	{"hold", 2, func(c *cluster, _ *rand.Rand) { c.people.hold() }},
	{"die", 2, func(c *cluster, _ *rand.Rand) { c.people.die() }},
	{"workers", 2, func(c *cluster, _ *rand.Rand) { c.people.workers() }},
	{"reborn", 2, func(c *cluster, _ *rand.Rand) { c.people.reborn() }},
	{"read", 8, func(c *cluster, _ *rand.Rand) { c.people.read() }},
	{"cut", 3, func(c *cluster, _ *rand.Rand) { c.people.cut() }},
	{"wait", 4, func(*cluster, *rand.Rand) {}},
	{"step down", 2, func(c *cluster, _ *rand.Rand) { c.log.StepDown() }},
	{"partition", 4, (*cluster).partition},
	{"heal", 4, func(c *cluster, _ *rand.Rand) { c.heal() }},
	{"pause", 2, (*cluster).pause},
	{"kill", 3, (*cluster).killOne},
	{"trouble", 2, (*cluster).trouble},
	{"clock", 2, (*cluster).clock},
	{"deposed", 2, (*cluster).depose},
	{"stop", 2, (*cluster).stopOne},
	{"move", 2, (*cluster).move},
	{"raise", 2, func(c *cluster, _ *rand.Rand) { c.people.raise() }},
	{"ack pull", 6, func(c *cluster, _ *rand.Rand) { c.people.ackPull() }},
	{"ack answer", 6, func(c *cluster, _ *rand.Rand) { c.people.ackAnswer() }},
	{"stranger", 1, func(c *cluster, _ *rand.Rand) {
		c.log.Inject(nil, []byte(`{"stream":"X","seq":1}`))
	}},
	{"repeat", 1, (*cluster).repeatStale},
	{"compare", 1, func(c *cluster, rng *rand.Rand) { c.oracle.sameAsLog(c.nodes[rng.IntN(len(c.nodes))]) }},
}

// done is a deed of a run: which, with what chance, and when.
type done struct {
	deed  int
	seed  uint64
	after time.Duration
}

const deedsOfRun = 160

// planOf is what happens in the run of a seed.
func planOf(seed uint64) []done {
	rng := rand.New(rand.NewPCG(seed, 11))
	all := 0
	for _, d := range clusterDeeds {
		all += d.weight
	}
	plan := make([]done, deedsOfRun)
	for i := range plan {
		n := rng.IntN(all)
		for k, d := range clusterDeeds {
			if n -= d.weight; n < 0 {
				plan[i].deed = k
				break
			}
		}
		plan[i].seed = rng.Uint64()
		switch rng.IntN(10) {
		case 0:
			plan[i].after = time.Duration(rng.IntN(6000)) * time.Millisecond
		case 1, 2, 3:
			plan[i].after = time.Duration(rng.IntN(600)) * time.Millisecond
		default:
			plan[i].after = time.Duration(rng.IntN(8000)) * time.Microsecond
		}
	}
	return plan
}

// runCluster runs the deeds of a seed that are kept (nil: all), and returns what went wrong.
func runCluster(seed uint64, keep []int, b bug, verbose func(string, ...any)) (*cluster, error) {
	c := newCluster(seed, b, verbose)
	defer c.close()
	plan := planOf(seed)
	if keep == nil {
		for i := range plan {
			keep = append(keep, i)
		}
	}
	c.happen(c.at.Add(3 * time.Second))
	for _, i := range keep {
		d := plan[i]
		c.trace("-- deed %d: %s", i, clusterDeeds[d.deed].name)
		rng := rand.New(rand.NewPCG(d.seed, 3))
		c.people.rng = rng
		c.attempt(func() {
			clusterDeeds[d.deed].do(c, rng)
			c.wake()
		})
		c.happen(c.at.Add(d.after))
		if c.failure != nil {
			break
		}
	}
	c.attempt(c.rest)
	c.figures.elections = c.log.Elections
	return c, c.failure
}

// repeatStale has somebody publish a frame of an earlier owner again, as it is in the log.
func (c *cluster) repeatStale(rng *rand.Rand) {
	now := c.oracle.state.Meta().Epoch
	n, _ := slices.BinarySearchFunc(c.oracle.epochs, now, func(f frameEpoch, e events.Epoch) int { return cmp.Compare(f.epoch, e) })
	if n > 0 {
		f := c.oracle.epochs[rng.IntN(n)]
		c.trace("frame %d, of epoch %d, is published again", f.seq, f.epoch)
		c.log.Repeat(f.seq)
	}
}

// partition cuts some servers off: one, or some, in one direction or both.
func (c *cluster) partition(rng *rand.Rand) {
	n := c.servers()
	alone := rng.IntN(n)
	if rng.IntN(2) == 0 {
		alone = max(c.log.Leader(), 0)
	}
	oneWay := rng.IntN(4)
	for i := range n {
		if i == alone || n == 5 && i == (alone+1)%n {
			continue
		}
		c.log.Cut(alone, i, oneWay != 1)
		c.log.Cut(i, alone, oneWay != 2)
	}
	c.trace("s%d is cut off (%d)", alone, oneWay)
	if rng.IntN(3) > 0 {
		c.After(time.Duration(rng.IntN(25_000))*time.Millisecond, c.heal)
	}
}

// depose cuts the leader's server off, with an owner and those who ask it: it does not know
// for a while that others go on.
func (c *cluster) depose(rng *rand.Rand) {
	at := -1
	for _, n := range c.nodes {
		if n.owns() {
			at = n.at
		}
	}
	if at < 0 {
		return
	}
	c.log.MoveTo(at)
	c.After(200*time.Millisecond, func() {
		for i := range c.servers() {
			if i != at {
				c.log.Cut(at, i, true)
				c.log.Cut(i, at, true)
			}
		}
		c.trace("s%d is deposed", at)
	})
	for range 4 { // somebody who is cut off with it asks it again and again
		c.After(time.Duration(4500+rng.IntN(7000))*time.Millisecond, func() { c.people.repeat(at) })
	}
	c.After(time.Duration(9000+rng.IntN(8000))*time.Millisecond, c.heal)
	if rng.IntN(2) == 0 { // it is idle meanwhile: an append would tell it
		c.happen(c.at.Add(12 * time.Second))
	}
}

func (c *cluster) heal() {
	for a := range c.servers() {
		for b := range c.servers() {
			c.log.Cut(a, b, false)
		}
	}
}

// pause stops a process for up to 40 s, with its server or without it, and lets it go on.
func (c *cluster) pause(rng *rand.Rand) {
	n := c.nodes[rng.IntN(len(c.nodes))]
	if rng.IntN(2) == 0 {
		for _, o := range c.nodes {
			if o.owns() {
				n = o
			}
		}
	}
	if !n.up || n.paused(c.at) {
		return
	}
	d := time.Duration(rng.IntN(40_000)) * time.Millisecond
	n.asleep = c.at.Add(d)
	if rng.IntN(3) == 0 { // the machine is suspended: its clock does not count that
		n.lag += d
	}
	c.trace("n%d is stopped for %s", n.n, d)
	if rng.IntN(2) == 0 && !c.external {
		c.log.Pause(n.n, true)
		c.After(d, func() { c.log.Pause(n.n, false) })
	}
	c.After(d, func() {})
}

// killOne ends a process, with its server or without it, and starts it again later, on the
// store that it had, an older one, or none.
func (c *cluster) killOne(rng *rand.Rand) {
	n := c.nodes[rng.IntN(len(c.nodes))]
	if rng.IntN(2) == 0 {
		for _, o := range c.nodes {
			if o.owns() {
				n = o
			}
		}
	}
	if !n.up {
		return
	}
	c.down(n, !c.external || rng.IntN(4) == 0, rng.IntN(4))
}

// down ends a process, with its server or without it, and starts it again later; which says
// on what store: see storeAfterCrash.
func (c *cluster) down(n *clusterNode, server bool, which int) {
	n.kill()
	n.asleep = time.Time{}
	if server {
		c.log.Kill(n.n)
		c.log.Pause(n.n, false)
	}
	c.After(c.between(200*time.Millisecond, 20*time.Second), func() {
		if server {
			c.log.Start(n.n)
		}
		switch { // another program, perhaps
		case c.calm:
			n.reads = nextLevel
		case c.mixed && c.rng.IntN(3) == 0:
			n.reads = []int{events.FormatLevel, nextLevel, nextLevel}[c.rng.IntN(3)]
		}
		n.boot(c.storeAfterCrash(n, which, c.rng))
	})
}

// stop has a process that has nothing more to do end in a moment.
func (c *cluster) stop(n *clusterNode, server bool, which int) {
	life := n.life
	c.After(0, func() {
		if n.life == life {
			c.down(n, server, which)
		}
	})
}

// stopOne stops a process as planned, mostly the owner: it answers what it has begun, and
// names an heir.
func (c *cluster) stopOne(rng *rand.Rand) {
	n := c.nodes[rng.IntN(len(c.nodes))]
	if owner := c.people.owner(n.at); owner != nil && rng.IntN(4) > 0 {
		n = owner
	}
	switch {
	case !n.up || n.paused(c.at):
	case n.owns():
		c.trace("n%d is to stop", n.n)
		n.l.closing = true
		n.kick()
	default:
		c.stop(n, !c.external, 1)
	}
}

// handOver ends the process of an owner that has stopped: the lease and the log's leadership
// go to the standby that is the furthest.
func (c *cluster) handOver(n *clusterNode) {
	if c.lease.expires = c.at; !c.handTo(n, c.heirs(n)) {
		c.trace("n%d has no heir", n.n)
	}
	c.stop(n, !c.external, 1)
}

// heirs are the standbys that can own the log after n, the one that is the furthest first.
func (c *cluster) heirs(n *clusterNode) (fit []*clusterNode) {
	for _, o := range c.nodes {
		if o != n && o.up && o.l == nil && !o.paused(c.at) && c.log.Reaches(n.at, o.at) {
			fit = append(fit, o)
		}
	}
	slices.SortStableFunc(fit, func(a, b *clusterNode) int { return cmp.Compare(b.store.Applied(), a.store.Applied()) })
	return fit
}

// handTo gives the lease and the log's leadership of n to the first of heirs, and reports whether
// there is one.
func (c *cluster) handTo(n *clusterNode, heirs []*clusterNode) bool {
	if len(heirs) == 0 {
		return false
	}
	heir := heirs[0]
	c.figures.handed++
	c.trace("n%d hands over to n%d", n.n, heir.n)
	c.lease.holder, c.lease.expires = heir.n, c.at.Add(leaseTTL)
	if !c.external {
		c.log.MoveTo(heir.at)
	}
	return true
}

// move has an owner hand the log on to any standby, and stand by for it, as when the nodes share
// logs: mostly it ends its ownership first, but it waits for that only a moment.
func (c *cluster) move(rng *rand.Rand) {
	for _, n := range c.nodes {
		if !n.owns() || n.paused(c.at) || n.l.closing {
			continue
		}
		heirs := c.heirs(n)
		rng.Shuffle(len(heirs), func(i, j int) { heirs[i], heirs[j] = heirs[j], heirs[i] })
		if c.handTo(n, heirs) && n.ended == nil && rng.IntN(4) > 0 {
			n.ended = errStepsDown
		}
	}
}

// storeAfterCrash is what a process finds: its store as a flush has left it.
func (c *cluster) storeAfterCrash(n *clusterNode, which int, rng *rand.Rand) *projector.Store {
	ends := c.oracle.ends
	i, _ := slices.BinarySearch(ends, n.store.Applied())
	if which == 0 || i == 0 {
		return nil
	}
	i = min(i, len(ends)-1)
	if which > 1 {
		i = rng.IntN(i + 1)
	}
	return c.asOf(ends[i])
}

// trouble sets how much goes wrong with messages.
func (c *cluster) trouble(rng *rand.Rand) {
	t := &c.log.Trouble
	t.Lost, t.AckLost, t.Late = 0, 0, 0
	if rng.IntN(3) > 0 {
		t.Lost, t.AckLost, t.Late = rng.Float64()/20, rng.Float64()/20, rng.Float64()/20
	}
}

// clock sets a server's clock.
func (c *cluster) clock(rng *rand.Rand) {
	i := rng.IntN(c.servers())
	skew := []time.Duration{0, 0, time.Second, -time.Second, 30 * time.Second, -30 * time.Second, 3 * time.Minute, -2 * time.Hour}[rng.IntN(8)]
	c.oracle.skew[i] = skew
	c.log.SetClock(i, skew)
}

// restFor bounds how long everything may take to get done when all is well again.
const restFor = 45 * time.Minute

// recover ends all trouble.
func (c *cluster) recover() {
	c.calm = true
	c.log.Trouble.Lost, c.log.Trouble.AckLost, c.log.Trouble.Late, c.log.Trouble.Slow = 0, 0, 0, 0
	c.heal()
	for i := range c.servers() {
		c.oracle.skew[i] = 0
		c.log.SetClock(i, 0)
		c.log.Pause(i, false)
	}
	for _, n := range c.nodes {
		n.asleep = time.Time{}
	}
}

// rest lets everything heal and all work be done, and checks what must be true then.
func (c *cluster) rest() {
	if c.failure != nil {
		return
	}
	c.trace("-- rest")
	c.recover()
	c.people.runs = slices.DeleteFunc(c.people.runs, func(r *clusterRun) bool { return !r.busy })
	c.people.alive = map[string]int{"w0": 8}
	end := c.at.Add(restFor)
	c.happen(c.at.Add(25 * time.Second)) // processes that were killed are back
	c.people.command(1000, nil, "resume", core.ResumeType{Type: clusterType}, core.EndDrain{Worker: "w0"}, core.RemoveSchedule{Name: "tick", Source: "api"})
	for c.failure == nil && (c.oracle.unfinished() > 0 || c.holds() > 0 || len(c.oracle.answered) < len(c.world.intake)) {
		if c.at.After(end) {
			c.failf("%d items are stuck, %d slots held, %d of %d intake messages answered", c.oracle.unfinished(), c.holds(), len(c.oracle.answered), len(c.world.intake))
			for id := range c.oracle.onShelf {
				c.trace("%+v", c.oracle.onShelf[id])
			}
			return
		}
		for _, typ := range c.oracle.state.TypeNames() {
			if t, _ := c.oracle.state.Type(typ); t.Paused != nil && t.Paused.Until.IsZero() {
				c.people.command(1, nil, "resume", core.ResumeType{Type: typ}) // somebody was late
			}
		}
		if _, drained := c.oracle.state.Drains()["w0"]; drained {
			c.people.command(1, nil, "end the drain", core.EndDrain{Worker: "w0"}) // so was who drained it
		}
		c.workOff()
		c.happen(c.at.Add(time.Second))
	}
	c.oracle.final()
	for _, n := range c.nodes {
		last := c.lastEnd()
		for i := 0; i < 60 && c.failure == nil && n.store.Applied() < last; i++ {
			c.happen(c.at.Add(time.Second))
		}
		if c.failure == nil && n.store.Applied() < last {
			c.failf("n%d has not followed the log: it is at %d of %d", n.n, n.store.Applied(), last)
		}
		c.oracle.sameAsLog(n)
	}
}

// lastEnd is the position of the last event.
func (c *cluster) lastEnd() events.Seq {
	return c.oracle.state.Meta().Applied
}

// holds counts the slots that the owner thinks are taken.
func (c *cluster) holds() (n int) {
	for _, o := range c.nodes {
		if o.owns() {
			n += o.l.table.Total()
		}
	}
	return n
}

// workOff has a worker run what it can get.
func (c *cluster) workOff() {
	p := c.people
	p.rng = c.rng
	for _, r := range p.runs {
		if !r.busy {
			p.say(r, "complete")
		}
	}
	p.alive["w0"] = 8
	for range 8 {
		p.ackPull()
	}
	for len(p.acks) > 0 {
		p.ackSay(len(p.acks)-1, core.AckDone)
	}
	p.alive["w0"] = 8
}

// shrinkCluster leaves deeds out as long as the run still fails.
func shrinkCluster(seed uint64, b bug, within time.Duration) (keep []int, err error) {
	for i := range deedsOfRun {
		keep = append(keep, i)
	}
	_, err = runCluster(seed, keep, b, nil)
	begun := time.Now()
	for size := len(keep) / 2; size > 0 && err != nil; size /= 2 {
		for at := 0; at < len(keep); {
			if time.Since(begun) > within {
				return keep, err
			}
			less := append(append(make([]int, 0, len(keep)), keep[:at]...), keep[min(at+size, len(keep)):]...)
			if _, e := runCluster(seed, less, b, nil); e != nil {
				keep, err = less, e
				continue
			}
			at += size
		}
	}
	return keep, err
}

// ranges writes numbers as -cluster-keep takes them.
func ranges(nums []int) string {
	var out []string
	for i := 0; i < len(nums); {
		k := i
		for k+1 < len(nums) && nums[k+1] == nums[k]+1 {
			k++
		}
		if k == i {
			out = append(out, strconv.Itoa(nums[i]))
		} else {
			out = append(out, fmt.Sprintf("%d-%d", nums[i], nums[k]))
		}
		i = k + 1
	}
	return strings.Join(out, ",")
}

// parseRanges reads what ranges has written.
func parseRanges(s string) (nums []int, err error) {
	for _, part := range strings.Split(s, ",") {
		from, to, span := strings.Cut(part, "-")
		a, err := strconv.Atoi(from)
		b := a
		if err == nil && span {
			b, err = strconv.Atoi(to)
		}
		if err != nil || a < 0 || b >= deedsOfRun {
			return nil, fmt.Errorf("bad range %q of deeds: use numbers below %d", part, deedsOfRun)
		}
		for ; a <= b; a++ {
			nums = append(nums, a)
		}
	}
	return nums, nil
}

// Whatever happens to a cluster of engines: nothing is lost or completed twice, no limit is
// exceeded, no answer is contradicted, nothing is stuck, and each store is what the log
// says.
func TestClusterSim(t *testing.T) {
	slow(t)
	noRace(t)
	defer debug.SetGCPercent(debug.SetGCPercent(1000))
	if *clusterSeed >= 0 {
		replayCluster(t, uint64(*clusterSeed))
		return
	}
	var mu sync.Mutex
	var sum figures
	begun, ran, bad := time.Now(), 0, []uint64{}
	eachSeed(*clusterFirst, *clusterSeeds, func(seed uint64) (goOn bool) {
		c, err := runCluster(seed, nil, noBug, nil)
		mu.Lock()
		defer mu.Unlock()
		ran++
		sum.add(c.figures)
		if err != nil {
			bad = append(bad, seed)
			t.Logf("seed %d: %s", seed, short(err))
		}
		return len(bad) < 20
	})
	t.Logf("%d seeds in %s: %+v", ran, time.Since(begun).Round(time.Millisecond), sum)
	if m := sum.mail; ran >= 100 && slices.Contains([]int{m.signals, m.first, m.given, m.presented, m.asked, m.decided, m.reminded, m.repeats, m.second}, 0) {
		t.Errorf("something of the waits did not happen in %d seeds: %+v", ran, m)
	}
	slices.Sort(bad)
	for _, seed := range bad[:min(len(bad), 2)] {
		keep, err := shrinkCluster(seed, noBug, 20*time.Second)
		t.Errorf("seed %d fails with %d of %d deeds: %v\nreplay it with: go test ./dispatcher -run TestClusterSim -v -cluster-seed=%d -cluster-keep=%s", seed, len(keep), deedsOfRun, err, seed, ranges(keep))
	}
	if len(bad) > 0 {
		t.Errorf("%d seeds fail: %v", len(bad), bad)
	}
}

// eachSeed calls run with n seeds, as many at a time as there are processors, until it returns
// false.
func eachSeed(first uint64, n int, run func(seed uint64) (goOn bool)) {
	var next atomic.Uint64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < uint64(n) && run(first+i); i = next.Add(1) - 1 {
			}
		})
	}
	wg.Wait()
}

// replayCluster runs one seed, telling everything.
func replayCluster(t *testing.T, seed uint64) {
	var keep []int
	if *clusterKeep != "" {
		var err error
		if keep, err = parseRanges(*clusterKeep); err != nil {
			t.Fatal(err)
		}
	}
	c, err := runCluster(seed, keep, noBug, t.Logf)
	t.Logf("%+v", c.figures)
	if err != nil {
		t.Fatal(err)
	}
}

// The simulation finds each fault that is planted, or it would prove nothing.
func TestClusterSimFindsPlantedBugs(t *testing.T) {
	slow(t)
	noRace(t)
	const most = 400 // seeds
	for _, b := range bugs {
		t.Run(strings.ReplaceAll(string(b), " ", "_"), func(t *testing.T) {
			for seed := range uint64(most) {
				if _, err := runCluster(seed, nil, b, nil); err != nil {
					t.Logf("seed %d: %s", seed, short(err))
					return
				}
			}
			t.Errorf("%d seeds have not found it", most)
		})
	}
}

// A run follows from its seed alone: a second one does the same.
func TestClusterSimReplays(t *testing.T) {
	slow(t)
	noRace(t)
	for seed := range uint64(15) {
		a, err := runCluster(seed, nil, noBug, nil)
		b, again := runCluster(seed, nil, noBug, nil)
		if (err == nil) != (again == nil) || a.figures != b.figures || a.oracle.sum != b.oracle.sum {
			t.Errorf("seed %d: %+v, log %016x, %v; again %+v, log %016x, %v", seed, a.figures, a.oracle.sum, err, b.figures, b.oracle.sum, again)
		}
	}
}
