package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/dispatcher/feed"
	"github.com/streamwright/streamwright/dispatcher/intake"
	"github.com/streamwright/streamwright/dispatcher/natsio"
	"github.com/streamwright/streamwright/dispatcher/registry"
	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector"
)

// clusterNode is one engine of a cluster.
type clusterNode struct {
	c      *cluster
	n      int
	at     int // the server it is connected to
	up     bool
	asleep time.Time     // it is stopped until then
	life   int           // counts its processes
	known  time.Time     // as NoteTime has it
	lag    time.Duration // its machine's clock has not counted, since it was suspended
	reads  int           // the format level that its program reads

	log    nodeLog
	store  *projector.Store
	cfg    Config
	reg    *registry.Registry
	clocks *clock.Partition
	accept *clock.Acceptance
	tasks  []*routine
	doubt  bool // the log has failed it just now

	// of the present ownership; l is nil while it stands by
	l      *loop
	sig    *natsio.Signals
	ended  error // why it has ended
	busy   bool  // an append is under way
	cutAt  uint64
	kicked bool
	wakeAt time.Time
	handed uint64
	held   *batch
	ids    uint64
	moving bool // its store is being replaced

	follows  *projector.Replay // while it stands by; nil: it begins anew
	followed uint64
	follower *core.State
	last     eventlog.Frame // that was read: of bugStaleFrame
	heard    int            // words of ack workers
	level    bool           // it has heard all that were said before
	began    events.Seq     // where its store was when the process began
}

func (c *cluster) newNode(i int) *clusterNode {
	n := &clusterNode{c: c, n: i, at: i, reads: nextLevel}
	if c.mixed && (i == 0 || c.rng.IntN(2) == 0) {
		n.reads = events.FormatLevel
	}
	return n
}

func (n *clusterNode) paused(at time.Time) bool { return at.Before(n.asleep) }

// now is the time by the machine's own clock.
func (n *clusterNode) now() time.Time { return n.c.at.Add(-n.lag) }

// boot starts the process, with what is left of its store; nil: with none.
func (n *clusterNode) boot(store *projector.Store) {
	c := n.c
	n.life++
	n.up, n.l, n.ended, n.busy, n.doubt, n.cutAt, n.moving = true, nil, nil, false, false, 0, false
	if c.external {
		n.at = c.rng.IntN(c.servers())
	}
	if store == nil {
		store = c.newStore()
	}
	n.closeStore()
	n.store, n.began = store, store.Applied()
	n.log = nodeLog{c.log.Open(n.at), n}
	set := events.DefaultTypeSettings()
	set.Backoff.Jitter = 0
	n.cfg = Config{Log: n.log, Store: n.store, Alone: c.bug == bugNoConfirm, Owner: fmt.Sprintf("n%d", n.n), Version: fmt.Sprintf("1.%d", n.life%2), Defaults: set,
		Gone: 10 * time.Minute, MaxRunning: 12, SyncWithin: time.Second, Limits: c.people.limits,
		KnownTime: func() (time.Time, bool) { return n.known, false }, NoteTime: func(at time.Time) { n.known = at },
		Hooks: Hooks{Renewed: func(events.Seq) { c.figures.renewed++ }}}
	if c.cutting {
		n.cfg.CutEvents = 60
	}
	if n.cfg.FormatLevel = n.reads; c.bug == bugGuess {
		n.cfg.FormatLevel = nextLevel
	}
	n.cfg = n.cfg.WithDefaults()
	n.clocks = newClocks(&n.cfg, n.now)
	n.newRegistry()
	n.tasks = []*routine{c.start(n, n.main), c.start(n, n.append), c.start(n, n.cut)}
}

func (c *cluster) newStore() *projector.Store {
	store, err := projector.Open("", projector.Options{InMemory: true, CacheBytes: 1 << 20, MemTableBytes: 1 << 20})
	if err != nil {
		panic(err)
	}
	return store
}

func (n *clusterNode) closeStore() {
	n.endFollow()
	if n.store != nil {
		if err := n.store.Close(); err != nil {
			n.c.failed(err)
		}
		n.store = nil
	}
}

func (n *clusterNode) newRegistry() {
	n.reg = registry.New(n.cfg.Gone, func() {
		if n.l != nil {
			n.l.signals.RegistryChanged()
			n.kick()
		}
	})
}

// kill ends the process, wherever it is.
func (n *clusterNode) kill() {
	n.c.trace("n%d is killed", n.n)
	n.up, n.l = false, nil
	n.life++
	for _, r := range n.tasks {
		n.c.end(r)
	}
	n.tasks = nil
	n.endFollow()
}

// main is the process: it stands by, takes over, and owns, again and again.
func (n *clusterNode) main() {
	c := n.c
	c.Wait(c.between(0, 50*time.Millisecond), notYet)
	for {
		if !n.standBy() {
			return
		}
		if err := n.own(); err != nil {
			c.trace("n%d can't take over: %s", n.n, short(err))
			if n.refuses(err) {
				return
			}
			if final(err) && c.bug != bugNoSettle {
				c.failf("n%d can't take over, for good: %w", n.n, err)
			}
			c.Wait(c.between(minRetake, maxRetake), notYet)
			continue
		}
		for !c.Wait(c.between(500*time.Millisecond, 1500*time.Millisecond), func() bool { return n.ended != nil }) {
			if !c.may(n) && (c.calm || !c.stubborn && c.rng.IntN(4) == 0) {
				n.ended = errStepsDown
			}
		}
		c.Wait(forever, func() bool { return !n.busy && len(n.l.pipe.toAppend) == 0 })
		err := n.ended
		c.trace("n%d is no longer the owner: %s", n.n, short(err))
		switch {
		case errors.Is(err, eventlog.ErrFenced):
			c.figures.fenced++
		case errors.Is(err, eventlog.ErrAmbiguous), errors.Is(err, eventlog.ErrUnreachable):
			c.figures.ambiguous++
		case errors.Is(err, errStepsDown), errors.Is(err, errStopped):
		default:
			c.failf("the ownership of n%d ended: %w", n.n, err)
		}
		n.l.abandon(err)
		n.l, n.ended = nil, nil
		if errors.Is(err, errStopped) {
			c.handOver(n)
			return
		}
		if errors.Is(err, eventlog.ErrFenced) {
			c.Wait(c.between(fencedRetake/2, 3*fencedRetake/2), notYet)
		}
	}
}

func notYet() bool { return false }

// errStepsDown ends the ownership of a node that could not renew its lease.
var errStepsDown = errors.New("the lease is lost")

// errStopped ends the ownership of a node that is stopped as planned.
var errStopped = errors.New("it is stopped")

// refuses ends a process that can't read the log's format level, and reports whether it did.
// A program that can is started later, or the same once more.
func (n *clusterNode) refuses(err error) bool {
	c := n.c
	if !errors.Is(err, events.ErrNewer) {
		return false
	}
	at := n.store.Applied()
	if raised := c.oracle.raised; raised == 0 || n.reads == nextLevel || at >= raised && at > n.began {
		c.failf("n%d, which reads level %d and is at %d, refuses the log, which was raised at %d: %w", n.n, n.reads, at, raised, err)
		return true
	}
	c.figures.refused++
	c.trace("n%d refuses the log: %s", n.n, short(err))
	c.stop(n, false, 1)
	return true
}

// standBy follows the log into the store until the lease is free; false: it has ended.
func (n *clusterNode) standBy() bool {
	c := n.c
	for {
		if c.may(n) {
			return true
		}
		if err := n.follow(); err != nil {
			c.trace("n%d can't follow: %s", n.n, short(err))
			if n.refuses(err) {
				return false
			}
			if final(err) {
				c.failf("n%d can't follow: %w", n.n, err)
			}
			if c.external {
				n.reconnect()
			}
		}
		c.Wait(c.between(100*time.Millisecond, 900*time.Millisecond), notYet)
	}
}

// reconnect moves a client to another server, as it does by itself.
func (n *clusterNode) reconnect() {
	n.at = n.c.rng.IntN(n.c.servers())
	n.log.Move(n.at)
	_ = n.log.Reset(context.Background())
}

// follow reads what is new into the store. It goes on where it was, as [standby.followOnce]
// does, until that fails.
func (n *clusterNode) follow() (err error) {
	ctx := &freeContext{context.Background(), n, n.c.at.Add(takeOverWithin)}
	tip, err := n.log.Last(ctx)
	n.doubt = false
	if err != nil || tip.Seq <= n.store.Applied().Frame() {
		return err
	}
	n.moving = true
	defer func() {
		if n.moving, n.doubt = false, false; err != nil {
			n.endFollow()
		}
	}()
	if n.follows == nil {
		if err := n.beginFollow(ctx, tip); err != nil {
			return unlessPasses(err)
		}
	}
	from := n.followed + 1
	if from == 1 {
		from = 0
	}
	if err := n.log.Read(ctx, from, tip.Seq, n.reader(n.follows.Apply)); err != nil {
		return unlessPasses(err)
	}
	n.followed = tip.Seq
	return errors.Join(n.follows.Flush(), n.store.Await(context.Background(), n.follower.Meta().Applied))
}

// beginFollow makes ready to follow.
func (n *clusterNode) beginFollow(ctx context.Context, tip eventlog.Tip) error {
	if err := renewIfCut(ctx, &n.cfg, tip); err != nil {
		return err
	}
	state, err := core.NewState(n.store)
	if err == nil {
		err = state.SetFormatLevel(n.cfg.FormatLevel)
	}
	if err != nil {
		return err
	}
	state.SetDefaults(n.cfg.Defaults)
	state.SetLimits(n.cfg.Limits)
	n.follower = state
	n.follows, n.followed = projector.NewReplay(context.Background(), n.store, state, nil), n.store.Applied().Frame()
	return nil
}

// endFollow drops what was read and is not in the store.
func (n *clusterNode) endFollow() {
	if n.follows != nil {
		n.follows.Close()
		n.follows = nil
	}
}

// unlessPasses leaves out errors that only mean that the log was cut meanwhile.
func unlessPasses(err error) error {
	if errors.Is(err, eventlog.ErrTrimmed) {
		return fmt.Errorf("cut meanwhile: %v", err)
	}
	return err
}

// own takes the partition over, as [Dispatcher.own] does.
func (n *clusterNode) own() error {
	c := n.c
	if c.external {
		n.reconnect()
	}
	ctx := &freeContext{context.Background(), n, c.at.Add(takeOverWithin)}
	c.trace("n%d takes over from %d", n.n, n.store.Applied())
	n.endFollow()
	n.moving = true
	accept := n.accept
	take := takeOver
	if c.bug == bugNoSettle {
		take = takeOverBlindly
	}
	state, clk, last, err := take(ctx, &n.cfg, n.clocks, accept)
	n.moving, n.doubt = false, false
	if err != nil {
		return unlessPasses(err)
	}
	n.accept = nil
	n.known = clk.Now()
	n.clocks.Begin(clk, nil)
	c.figures.owned++
	c.trace("n%d owns from %d on, epoch %d", n.n, last, state.Meta().Epoch)
	n.sig = natsio.NewSignals(n.cfg.MaxRunning)
	n.held, n.kicked, n.ended, n.wakeAt, n.cutAt = nil, false, nil, time.Time{}, 0
	out := &nodeOut{world: c.world.world, n: n, sig: n.sig}
	l := newLoop(&n.cfg, state, clk, last, n.reg, out, n.sig, nil)
	l.newID = n.newID
	if c.bug != bugEarly && c.bug != bugDoubt { // others must find them too
		l.pipe.feed = &nodeFeed{n}
	}
	if c.bug != bugForget {
		if err := l.adoptRuns(clk.Now()); err != nil {
			return err
		}
	}
	if n.heard, n.level = 0, false; c.ack {
		c.world.signals = n.sig
		if err := c.world.adoptAcks(l); err != nil {
			return err
		}
	}
	l.leases.watch(clk.Now())
	n.sig.RegistryChanged()
	n.handed = state.Meta().IntakeSeq
	n.l = l
	n.kick()
	return nil
}

// takeOverBlindly is a planted bug: no barrier.
func takeOverBlindly(ctx context.Context, cfg *Config, clocks *clock.Partition, _ *clock.Acceptance) (*core.State, *clock.Clock, events.Seq, error) {
	tip, err := cfg.Log.Last(ctx)
	if err == nil {
		err = renewIfCut(ctx, cfg, tip)
	}
	if err == nil {
		err = cfg.Log.Reset(ctx)
	}
	if err != nil {
		return nil, nil, 0, err
	}
	state, err := core.NewState(cfg.Store)
	if err != nil {
		return nil, nil, 0, err
	}
	state.SetDefaults(cfg.Defaults)
	state.SetLimits(cfg.Limits)
	r := projector.NewReplay(context.Background(), cfg.Store, state, nil)
	defer r.Close()
	from := cfg.Store.Applied().Frame() + 1
	if from == 1 {
		from = 0
	}
	if err := cfg.Log.Read(ctx, from, tip.Seq, r.Apply); err != nil {
		return nil, nil, 0, err
	}
	if err := r.Finish(); err != nil {
		return nil, nil, 0, err
	}
	return state, clocks.New(tip.Time, state.Meta().LastAt, nil), state.Meta().Applied, nil
}

func (n *clusterNode) newID() (id events.ID) {
	n.ids++
	id[0], id[1] = 1, byte(n.n+1)
	for i := range 8 {
		id[15-i] = byte(n.ids >> (8 * i))
	}
	return id
}

// owns reports whether the node thinks that it owns the partition.
func (n *clusterNode) owns() bool { return n.up && n.l != nil && n.ended == nil }

// kick has the loop look at what there is to do.
func (n *clusterNode) kick() {
	if n.kicked || !n.owns() {
		return
	}
	n.kicked = true
	l := n.l
	n.c.After(n.c.between(5*time.Microsecond, 200*time.Microsecond), func() { n.turn(l) })
}

// turn is a turn of the loop, if it is still the present one.
func (n *clusterNode) turn(l *loop) {
	if n.l != l || n.ended != nil {
		return
	}
	if n.paused(n.c.at) {
		n.c.After(n.asleep.Sub(n.c.at), func() { n.turn(l) })
		return
	}
	n.kicked = false
	moved, err := n.step()
	switch {
	case err != nil:
		n.ended = err
	case l.closing && l.idle():
		n.ended = errStopped
	case moved:
		n.kick()
	default:
		at := n.c.at.Add(max(l.nextWake(), 10*time.Microsecond))
		if !n.wakeAt.After(n.c.at) || at.Before(n.wakeAt) {
			n.wakeAt = at
			n.c.After(at.Sub(n.c.at), func() {
				if n.l == l && n.wakeAt.Equal(at) {
					n.kick()
				}
			})
		}
	}
}

// step lets one stage do one thing, and reports whether there was any: see sim.step.
func (n *clusterNode) step() (moved bool, err error) {
	l := n.l
	n.hearAll()
	if j := n.nextIntake(); j != nil {
		l.queues.intake.jobs = append(l.queues.intake.jobs, j)
	}
	select {
	case <-l.signals.Wake:
		if err := l.onSignals(); err != nil {
			return true, err
		}
		moved = true
	default:
	}
	pending := len(l.queues.urgent.jobs) + len(l.queues.bulk.jobs) + len(l.queues.intake.jobs)
	if err := l.step(); err != nil {
		return true, err
	}
	moved = moved || pending != len(l.queues.urgent.jobs)+len(l.queues.bulk.jobs)+len(l.queues.intake.jobs)
	var stages []func() error
	if len(l.pipe.results) > 0 {
		stages = append(stages, func() error { return l.onAppended(<-l.pipe.results) })
	}
	if len(l.pipe.toCommit) > 0 || n.held != nil {
		stages = append(stages, n.commit)
	}
	if len(l.pipe.toReply) > 0 {
		stages = append(stages, func() error {
			for _, j := range <-l.pipe.toReply {
				j.finish()
			}
			return nil
		})
	}
	if len(stages) > 0 {
		return true, stages[n.c.rng.IntN(len(stages))]()
	}
	return moved || len(l.signals.Wake) > 0 || l.nextWake() == 0, nil
}

// append is the appender.
func (n *clusterNode) append() {
	for {
		n.c.Wait(forever, func() bool { return n.l != nil && len(n.l.pipe.toAppend) > 0 })
		n.busy = true
		l := n.l
		r := appendResult{b: <-l.pipe.toAppend}
		if n.c.bug == bugEarly && len(r.b.events) > 0 {
			w := r.b.write(n.cfg.Owner)
			w.Events = append([]events.Event(nil), r.b.events...)
			l.pipe.results <- appendResult{b: r.b, res: supposed(r.b)}
			n.kick()
			n.c.Wait(n.c.between(0, 3*time.Millisecond), notYet)
			if _, err := n.cfg.Log.Append(context.Background(), r.b.after, w); err != nil && n.ended == nil {
				n.ended = err
			}
			n.busy = false
			continue
		}
		if len(r.b.events) == 0 {
			r.err = l.pipe.confirmOwner(context.Background(), r.b)
		} else {
			if early := supposed(r.b); n.c.bug == bugFeed {
				l.pipe.feed.Tell(early.Last.Frame(), l.pipe.appended, nil, early.Lines)
			}
			r.res, r.err = n.cfg.Log.Append(context.Background(), r.b.after, r.b.write(n.cfg.Owner))
			if n.c.bug == bugDoubt && errors.Is(r.err, eventlog.ErrAmbiguous) {
				r.res, r.err = supposed(r.b), nil
			} else if r.err == nil {
				n.c.oracle.appended(n, r)
			}
		}
		l.pipe.results <- r
		n.busy = false
		n.kick()
	}
}

// supposed is the result of an append that is taken for stored.
func supposed(b *batch) eventlog.Appended {
	var lines []byte
	for i := range b.events {
		data, err := b.events[i].AppendJSON(lines)
		if err != nil {
			panic(err)
		}
		lines = append(data, '\n')
	}
	return eventlog.Appended{Last: events.SeqOf(b.after+1, len(b.events)-1), Lines: lines, Checksum: events.Checksum(lines)}
}

// nodeFeed is the live feed of an owner.
type nodeFeed struct{ n *clusterNode }

// Tell implements teller.
func (f *nodeFeed) Tell(seq uint64, after events.Seq, _ []feed.Name, lines []byte) {
	f.n.c.oracle.fed(f.n, seq, after, lines)
}

// cut cuts the log when a round asks for it.
func (n *clusterNode) cut() {
	for {
		n.c.Wait(forever, func() bool { return n.cutAt > 0 })
		below, sig := n.cutAt, n.sig
		err := cutBelow(context.Background(), &n.cfg, below)
		n.cutAt = 0
		if err == nil {
			n.c.figures.cuts++
			sig.LogCut(below)
			n.kick()
		}
	}
}

// commit projects one batch or more of those that wait.
func (n *clusterNode) commit() error {
	l := n.l
	p := newProjection(l.pipe)
	if n.held != nil {
		p.add(n.held)
		n.held = nil
	}
	for k := n.c.rng.IntN(len(l.pipe.toCommit) + 1); len(p.batches) == 0 || k > 0 && len(l.pipe.toCommit) > 0 && n.held == nil; k-- {
		if b := <-l.pipe.toCommit; !p.add(b) {
			n.held = b
		}
	}
	err := n.store.Commit(p.changes...)
	return l.pipe.projected(commitResult{batches: len(p.batches), seq: p.changes[len(p.changes)-1].Meta.Applied, err: err})
}

// nextIntake hands over what was published, as the reader does.
func (n *clusterNode) nextIntake() job {
	w := n.c.world
	if n.l.closing || !n.c.log.Majority(n.at) {
		return nil
	}
	b := &intake.Batch{}
	for int(n.handed) < len(w.intake) && len(b.Messages) < intake.MaxBatch {
		b.Messages = append(b.Messages, intake.Parse(n.handed+1, w.published[n.handed], w.intake[n.handed], n.cfg.Names, n.newID()))
		n.handed++
	}
	if len(b.Messages) == 0 {
		return nil
	}
	return &intakeJob{b}
}

// asOf is a store as an earlier flush has left it: the projection of a part of the log.
func (c *cluster) asOf(to events.Seq) *projector.Store {
	store := c.newStore()
	if err := c.fill(store, to); err != nil {
		c.failf("make a store as of %d: %w", to, errors.Join(err, store.Close()))
		return nil
	}
	return store
}

func (c *cluster) fill(store *projector.Store, to events.Seq) error {
	state, err := core.NewState(store)
	if err != nil {
		return err
	}
	if err := state.SetFormatLevel(nextLevel); err != nil {
		return err
	}
	r := projector.NewReplay(context.Background(), store, state, nil)
	defer r.Close()
	if err := (truthLog{c}).Read(context.Background(), 1, to.Frame(), r.Apply); err != nil {
		return err
	}
	return r.Finish()
}

// truthLog is what is agreed on, without servers; it has what was cut, too.
type truthLog struct{ c *cluster }

func (l truthLog) Read(ctx context.Context, from, to uint64, fn func(eventlog.Frame) error) error {
	return l.c.log.Replay(ctx, max(from, 1), to, nil, fn)
}
