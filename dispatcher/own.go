package dispatcher

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/dispatcher/lanes"
	"github.com/streamwright/streamwright/dispatcher/natsio"
	"github.com/streamwright/streamwright/dispatcher/readyq"
	"github.com/streamwright/streamwright/dispatcher/registry"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/events/eventlog"
	"github.com/streamwright/streamwright/projector"
)

func newEntropy() *ulid.MonotonicEntropy { return ulid.Monotonic(rand.Reader, 0) }

// own becomes the partition's owner: it reads the log to its end into the
// projection, appends an owned event, and builds the loop from what it finds.
func (e *Engine) own(ctx context.Context) (*loop, error) {
	accept := e.accepting.Load()
	state, clk, last, err := takeOver(ctx, &e.cfg, time.Now, e.clock.Load(), accept)
	if err != nil {
		return nil, err
	}
	e.clock.Store(clk)
	e.clockBegins(clk, accept)
	e.epoch.Store(uint64(state.Meta().Epoch))
	e.position.Store(uint64(last))
	e.answered.Store(state.Meta().IntakeSeq)
	sig := natsio.NewSignals(e.cfg.MaxRunning)
	l, err := newLoop(&e.cfg, state, clk, last, e.registry, e.newEffects(sig, clk), sig)
	if err != nil {
		return nil, err
	}
	l.requests, l.submits, l.newID = e.requests.ch, e.submits.ch, e.NewID
	l.durable = func(last events.Seq, intake uint64) { e.position.Store(uint64(last)); e.answered.Store(intake) }
	l.paused, l.halt = &e.paused, &e.halt
	if err := e.topology.EnsureStreams(ctx); err != nil {
		return nil, err
	}
	return l, e.adopt(ctx, l)
}

// takeOver reads the log to its end into the projection, and appends an owned
// event. From then on nobody else can append. The partition's clock begins with
// that event; before is the clock of an earlier ownership of this process, if
// there was one, and accept is set if an operator has confirmed the server's.
func takeOver(ctx context.Context, cfg *Config, local func() time.Time, before *clock.Clock, accept *acceptance) (*core.State, *clock.Clock, events.Seq, error) {
	tip, err := cfg.Log.Last(ctx)
	if err != nil {
		return nil, nil, 0, fmt.Errorf("take over: %w", err)
	}
	heard := local()
	if err := sameLog(ctx, cfg, tip); err != nil {
		return nil, nil, 0, fmt.Errorf("take over: %w", err)
	}
	if err := renewIfCut(ctx, cfg, tip); err != nil {
		return nil, nil, 0, fmt.Errorf("take over: %w", err)
	}
	state, err := core.NewState(cfg.Store)
	if err != nil {
		return nil, nil, 0, err
	}
	state.SetDefaults(cfg.Defaults)
	state.SetLimits(cfg.Limits)
	start := clock.Start{Known: cfg.lastKnown(before), Accepted: accept != nil}
	var clk *clock.Clock
	replay := projector.NewReplay(ctx, cfg.Store, state, cfg.Hooks.Projected)
	defer replay.Close()
	last, err := eventlog.Settle(ctx, cfg.Log, state.Meta().Applied, func(events.Seq) events.Event {
		start.Server, start.LastEvent = tip.Time.Add(local().Sub(heard)), state.Meta().LastAt
		clk = clock.New(cfg.clockSource(local), start)
		own := core.Own{Owner: cfg.Owner, Version: cfg.Version}
		if accept != nil {
			own.Clock = &core.AcceptClock{At: clk.Now(), By: accept.by}
		}
		dec, _ := core.Decide(state, own, clk.Now()) // it is never refused
		return dec.Events[0]
	}, replay.Apply)
	if err != nil {
		return nil, nil, 0, fmt.Errorf("take over: %w", err)
	}
	if err := replay.Finish(); err != nil {
		return nil, nil, 0, fmt.Errorf("take over: %w", err)
	}
	if state.Meta().Partial {
		return nil, nil, 0, fmt.Errorf("take over: %w: the log has been cut, and the round of snapshots at its head does not end", events.ErrCorrupt)
	}
	return state, clk, last, nil
}

// sameLog refuses a log that was made anew since the store was checked with it:
// what the store holds must not be dropped for it.
func sameLog(ctx context.Context, cfg *Config, tip eventlog.Tip) error {
	noted, err := cfg.Store.Identity()
	if err != nil || noted == "" || noted == tip.Identity() {
		return err
	}
	err = cfg.Store.CheckLog(ctx, tip.Identity(), cfg.Log)
	if errors.Is(err, projector.ErrOtherLog) {
		err = fmt.Errorf("%w (stop the engine and start it: it says what can be done)", err)
	}
	return err
}

// newLoop builds the loop of an ownership that begins behind last.
func newLoop(cfg *Config, state *core.State, clk *clock.Clock, last events.Seq, reg *registry.Registry, out effects, sig *natsio.Signals) (*loop, error) {
	t := newTable()
	ready := readyq.New(cfg.Store, t)
	l := &loop{
		cfg: cfg, log: cfg.Logger, clock: clk, state: state, registry: reg, out: out, acked: newAckRuns(), durable: func(events.Seq, uint64) {}, paused: new(atomic.Bool),
		table: t, ready: ready, timers: readyq.NewWindow(projector.TimerKey.Less), dirty: map[events.Type]bool{},
		stopped: map[events.Type]bool{}, circuits: state.CircuitVersion(),
		building: &batch{}, appended: last,
		nextSweep: clk.Now().Add(cfg.Sweep), intake: make(chan job, 4), signals: sig,
		toAppend: make(chan *batch, 1), results: make(chan appendResult, 1),
		toCommit: make(chan *batch, MaxUnprojected), commits: make(chan commitResult, MaxUnprojected),
		toReply: make(chan []job, maxReplies), hurry: make(chan struct{}, 1),
	}
	l.acked.l, l.retention.l, l.schedules.l, l.follow.l = l, l, l, l
	l.leases.ackWaits = map[events.Type]time.Duration{}
	l.workforce.slots = map[lanes.Key]int{}
	l.sender.marks = map[events.Type]string{}
	l.sender.l, l.flight.l, l.leases.l, l.workforce.l = l, l, l, l
	state.TakeFollowUps() // the projection's index has them
	l.follow.lookFrom(state.Meta().Applied)
	for _, t := range state.TypeNames() {
		set, _ := state.Settings(t)
		l.leases.ackWaits[t] = set.Lease()
		l.dirty[t] = true
		if state.DispatchGate(t).Stopped {
			l.stopped[t] = true
		}
		l.sender.marks[t] = limitsMark(set)
	}
	reg.Bench(state.OpenWorkerCircuits())
	l.workforce.followDrains()
	l.inflow.held = state.QueueFull
	l.sender.findPools()
	ready.Unprojected, ready.Prefetch = l.eachUnprojected, l.sender.prefetch
	ready.Again = func(t events.Type) { l.dirty[t] = true }
	ready.Opened, ready.Closed = l.workforce.laneOpened, l.workforce.laneClosed
	l.noteIntake(state.Meta().IntakeSeq)
	l.retention.begin(l)
	if j := fileSettings(cfg, state); j.len() > 0 {
		l.urgent.jobs = append(l.urgent.jobs, j)
	}
	l.schedules.holdSchedules()
	return l, nil
}

// fileSettings records the settings that engine.toml sets, where they differ from
// the log's.
func fileSettings(cfg *Config, state *core.State) *commandJob {
	j := &commandJob{}
	types := slices.Collect(maps.Keys(cfg.FileTypes))
	if cfg.FileDefaults != nil {
		types = append(types, state.TypeNames()...)
	}
	slices.Sort(types)
	for _, t := range slices.Compact(types) {
		was, _ := state.Settings(t)
		info, known := state.Type(t)
		set, source := was, info.Source
		if cfg.FileDefaults != nil && source != events.SourceAPI {
			set = cfg.FileDefaults(set)
		}
		if lay := cfg.FileTypes[t]; lay != nil {
			set = lay(set)
			if source != events.SourceAPI { // else the file's defaults would undo at the next start what was set there
				source = events.SourceFile
			}
		}
		if !known || !reflect.DeepEqual(set, was) {
			j.cmds = append(j.cmds, core.Configure{Type: t, Source: source, Settings: set})
		}
	}
	j.done = func(outcomes []Outcome) {
		for i, o := range outcomes {
			if o.Err != nil && events.CodeOf(o.Err) != events.CodeUnavailable {
				cfg.Logger.Error("the settings of a type could not be recorded", "command", j.cmds[i], "error", o.Err)
			}
		}
	}
	return j
}

// adoptRuns notes what the last owner left claimed or running. Each counts as
// an orphan, kept by its worker's heartbeats, until its message is found.
func (l *loop) adoptRuns(now time.Time) error {
	for _, state := range []events.ItemState{events.StateClaimed, events.StateRunning} {
		err := l.cfg.Store.InState(state, func(it *events.Item) error {
			l.table.add(&dispatched{id: it.ID, token: it.Token, typ: it.Type, lane: it.Lane(), group: it.Group, at: now, claimed: true, worker: it.Worker, orphan: true, heard: now, native: it.Worker.Native()})
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// found reports whether a message in the dispatch stream belongs to a run that
// goes on, which keeps its lease then. All others are to be deleted: what was
// dispatched and not claimed is dispatched afresh, as its one delivery may be
// spent.
func (l *loop) found(seq uint64, id events.ID, token events.Token, lease time.Duration) bool {
	d := l.table.byToken[token]
	if d == nil || d.id != id {
		return false
	}
	d.orphan, d.seq, d.lease = false, seq, lease
	delete(l.table.orphans, token)
	return true
}

// adopt takes over what the last owner left in flight.
func (e *Engine) adopt(ctx context.Context, l *loop) error {
	now := l.clock.Now()
	if err := l.adoptRuns(now); err != nil {
		return err
	}
	if err := e.topology.AdoptDispatched(ctx, l.found); err != nil {
		return fmt.Errorf("take over: %w", err)
	}
	if err := e.adoptNatives(ctx, l); err != nil {
		return err
	}
	l.leases.watchOrphans(now)
	return nil
}

// newEffects makes the pusher of an ownership.
func (e *Engine) newEffects(sig *natsio.Signals, clk *clock.Clock) *natsio.Pusher {
	p := natsio.NewPusher(e.topology, e.registry, sig)
	p.Look = func(ctx context.Context) { e.lookAtClock(ctx, clk, sig) }
	p.Cut = e.cfg.cutBelow
	return p
}

// serve runs one ownership to its end, and answers what it leaves open.
func (e *Engine) serve(ctx context.Context, l *loop) error {
	run, cancel := context.WithCancel(ctx)
	defer cancel()
	loopCtx, stopLoop := context.WithCancel(ctx)
	defer stopLoop()
	p := l.out.(*natsio.Pusher)
	stopListening, err := p.Listen()
	if err != nil {
		l.abandon(err)
		return err
	}
	defer stopListening()
	l.errands = newErrands(run, e)
	e.signals.Store(l.signals)
	l.signals.RegistryChanged() // it may have, since the loop was made
	if h := e.cfg.Hooks.Owned; h != nil {
		h(l.state.Meta().Epoch)
	}
	leases := natsio.NewLeaseReader(e.topology, l.signals, l.clock.Now().Add(-time.Second))
	after := l.state.Meta().IntakeSeq
	var side, tail sync.WaitGroup
	side.Go(func() { p.Run(run) })
	side.Go(func() { p.RunCuts(run) })
	side.Go(func() { e.readIntake(run, l, after) })
	side.Go(func() { leases.Read(run) })
	for _, r := range natsio.NewAckReaders(e.topology, l.signals, l.acked.since) {
		side.Go(func() { r.Read(run) })
	}
	side.Go(func() { e.prober.Run(run) })
	defer context.AfterFunc(e.drain, stopLoop)()
	tail.Go(func() { l.appendBatches(run) })
	tail.Go(l.commitBatches)
	tail.Go(l.sendReplies)

	err = l.run(loopCtx)
	e.signals.Store(nil)
	cancel()
	close(l.toAppend)
	side.Wait()
	l.errands.wait.Wait()
	close(l.toCommit)
	l.abandon(err)
	close(l.toReply)
	tail.Wait()
	return err
}
