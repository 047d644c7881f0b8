package dispatcher

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/eventlog"
	"github.com/streamwright/streamwright/projector"
)

func newEntropy() *ulid.MonotonicEntropy { return ulid.Monotonic(rand.Reader, 0) }

// catchUpEvents is how many replayed events are projected at once.
const catchUpEvents = 4096

// own becomes the partition's owner: it reads the log to its end into the
// projection, appends an owned event, and builds the loop from what it finds.
func (e *Engine) own(ctx context.Context) (*loop, error) {
	state, err := events.NewState(e.cfg.Store)
	if err != nil {
		return nil, err
	}
	state.SetDefaults(e.cfg.Defaults)
	tip, err := e.cfg.Log.Last(ctx)
	if err != nil {
		return nil, fmt.Errorf("take over: %w", err)
	}
	clk := newClock(tip.Time, state.Meta().LastAt)
	f := &follower{store: e.cfg.Store, state: state, projected: e.cfg.Hooks.Projected}
	last, err := eventlog.Settle(ctx, e.cfg.Log, state.Meta().Applied, func(after events.Seq) events.Event {
		dec, _ := events.Decide(state, events.Own{Owner: e.cfg.Owner, Version: e.cfg.Version}, later(clk.now(), state.Meta().LastAt))
		return dec.Events[0]
	}, f.apply)
	if err != nil {
		return nil, fmt.Errorf("take over: %w", err)
	}
	if err := f.commit(); err != nil {
		return nil, err
	}
	clk = newClock(clk.now(), state.Meta().LastAt)
	e.clock.Store(clk)
	e.epoch.Store(uint64(state.Meta().Epoch))
	e.position.Store(uint64(last))
	l, err := e.newLoop(state, clk, last)
	if err != nil {
		return nil, err
	}
	return l, e.adopt(ctx, l)
}

// follower folds what it reads of the log into the projection.
type follower struct {
	store *projector.Store
	state *events.State
	n     int
	sum   uint64
	// projected is the hook: what it feeds must miss nothing.
	projected func(*events.Changes)
}

func (f *follower) apply(g eventlog.Group) error {
	for _, ev := range g.Events {
		if err := f.state.Apply(ev); err != nil {
			return err
		}
	}
	f.n += len(g.Events)
	f.sum = g.Checksum
	if f.n >= catchUpEvents {
		return f.commit()
	}
	return nil
}

func (f *follower) commit() error {
	c := f.state.TakeChanges()
	if c == nil {
		return nil
	}
	c.Checksum = f.sum
	if err := f.store.Commit(c); err != nil {
		return err
	}
	if f.projected != nil {
		f.projected(c)
	}
	f.state.Projected(c.Meta.Applied)
	f.n = 0
	return nil
}

func (e *Engine) newLoop(state *events.State, clk *clock, last events.Seq) (*loop, error) {
	t := newTable()
	ready, err := newReadyQueues(e.cfg.Store, t)
	if err != nil {
		return nil, err
	}
	sig := newSignals()
	p, err := newPusher(e, sig)
	if err != nil {
		return nil, err
	}
	l := &loop{
		cfg: &e.cfg, log: e.cfg.Logger, clock: clk, state: state, registry: e.registry, topology: e.topology, pusher: p,
		table: t, ready: ready, timers: newWindow(projector.TimerKey.Less), slots: map[laneKey]int{}, dirty: map[events.Type]bool{},
		building: &batch{}, appended: last, projected: last, durableIntake: state.Meta().IntakeSeq,
		nextSweep: clk.now().Add(e.cfg.Sweep), requests: e.requests, intake: make(chan job, 4), signals: sig,
		toAppend: make(chan *batch, 1), results: make(chan appendResult, 1),
		toCommit: make(chan *batch, MaxUnprojected), commits: make(chan commitResult, MaxUnprojected),
		toReply: make(chan []job, maxReplies), leases: map[events.Type]time.Duration{},
		durable: func(seq events.Seq) { e.position.Store(uint64(seq)) },
	}
	for _, t := range state.TypeNames() {
		set, _ := state.Settings(t)
		l.leases[t] = set.Lease()
	}
	ready.newLane = l.newLane
	return l, nil
}

// adopt takes over what the last owner left in flight. A claimed or running
// item whose message is in the dispatch stream keeps its lease there; one
// without is kept by its worker's heartbeats. What was dispatched and not
// claimed is taken out, and dispatched afresh: its one delivery may be spent.
func (e *Engine) adopt(ctx context.Context, l *loop) error {
	now := l.clock.now()
	for _, state := range []events.ItemState{events.StateClaimed, events.StateRunning} {
		err := e.cfg.Store.InState(state, func(it *events.Item) error {
			d := &dispatched{id: it.ID, token: it.Token, typ: it.Type, lane: it.Lane(), at: now, claimed: true, worker: it.Worker, orphan: true, heard: now}
			l.table.add(d)
			return nil
		})
		if err != nil {
			return err
		}
	}
	if err := e.topology.ensureStreams(ctx); err != nil {
		return err
	}
	var drop []uint64
	err := scanDispatched(ctx, e.js, e.cfg.Names, func(seq uint64, id events.ID, token events.Token) {
		if d := l.table.byToken[token]; d != nil && d.id == id {
			d.orphan, d.seq = false, seq
			delete(l.table.orphans, token)
			return
		}
		drop = append(drop, seq)
	})
	if err != nil {
		return err
	}
	if len(drop) > 0 {
		s, err := e.js.Stream(ctx, e.cfg.Names.DispatchStream())
		if err != nil {
			return fmt.Errorf("take over: %w", err)
		}
		for _, seq := range drop {
			if err := s.DeleteMsg(ctx, seq); err != nil && !gone(err) {
				return fmt.Errorf("take over: delete a spent message: %w", err)
			}
		}
	}
	l.watchOrphans(now)
	for _, t := range l.state.TypeNames() {
		l.dirty[t] = true
	}
	return nil
}

// serve runs one ownership to its end, and answers what it leaves open.
func (e *Engine) serve(ctx context.Context, l *loop) error {
	run, cancel := context.WithCancel(ctx)
	defer cancel()
	loopCtx, stopLoop := context.WithCancel(ctx)
	defer stopLoop()
	e.signals.Store(l.signals)
	if h := e.cfg.Hooks.Owned; h != nil {
		h(l.state.Meta().Epoch)
	}
	var side, tail sync.WaitGroup
	side.Go(func() { l.pusher.run(run) })
	after := l.state.Meta().IntakeSeq // now, while the state is nobody else's
	side.Go(func() { e.readIntake(run, l, after) })
	side.Go(func() { _ = (&leaseReader{cfg: &e.cfg, js: e.js, signals: l.signals}).read(run, e.topology) })
	side.Go(func() {
		select {
		case <-e.drain:
			stopLoop()
		case <-run.Done():
		}
	})
	tail.Go(func() { l.appendBatches(run) })
	tail.Go(l.commitBatches)
	tail.Go(l.sendReplies)

	err := l.configure()
	if err == nil {
		err = l.run(loopCtx)
	}
	e.signals.Store(nil)
	cancel()
	close(l.toAppend)
	side.Wait()
	close(l.toCommit)
	l.abandon(err)
	close(l.toReply)
	tail.Wait()
	return err
}

// readIntake follows the intake stream behind a position, and again when that
// was disturbed: what comes twice is dropped where it is decided.
func (e *Engine) readIntake(ctx context.Context, l *loop, after uint64) {
	for ctx.Err() == nil {
		r := &intakeReader{cfg: &e.cfg, newID: e.NewID, out: l.intake}
		if err := r.read(ctx, e.js, after); err != nil && ctx.Err() == nil {
			e.cfg.Logger.Warn("intake: starting again", "error", err)
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
			if err := e.topology.ensureStreams(ctx); err != nil && ctx.Err() == nil {
				e.cfg.Logger.Warn("intake: the streams could not be made", "error", err)
			}
		}
	}
}
