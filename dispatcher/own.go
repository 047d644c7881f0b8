package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/streamwright/streamwright/dispatcher/ackmode"
	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/dispatcher/feed"
	"github.com/streamwright/streamwright/dispatcher/intake"
	"github.com/streamwright/streamwright/dispatcher/natsio"
	"github.com/streamwright/streamwright/dispatcher/readyq"
	"github.com/streamwright/streamwright/dispatcher/registry"
	"github.com/streamwright/streamwright/dispatcher/schedules"
	"github.com/streamwright/streamwright/dispatcher/seats"
	"github.com/streamwright/streamwright/dispatcher/table"
	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector"
	"github.com/streamwright/streamwright/projector/ready"
)

// undated is a context that ends as it does, and does not say when. A JetStream request then
// gets a short deadline of its own, so that one that the servers drop, as they do right after
// an election, does not take all the time there is.
type undated struct{ context.Context }

// Deadline implements context.Context.
func (undated) Deadline() (time.Time, bool) { return time.Time{}, false }

// own takes over the partition: it reads the log to its end into the projection, appends an
// owned event, and builds the loop from the result.
func (d *Dispatcher) own(ctx context.Context) (*loop, error) {
	ctx = undated{ctx}
	accept := d.clocks.Accepting()
	state, clk, last, err := takeOver(ctx, &d.cfg, d.clocks, accept)
	if err != nil {
		return nil, err
	}
	d.clocks.Begin(clk, accept)
	d.epoch.Store(uint64(state.Meta().Epoch))
	d.reached(state.Meta())
	sig := natsio.NewSignals(d.cfg.MaxRunning)
	l := newLoop(&d.cfg, state, clk, last, d.registry, d.newEffects(sig, clk), sig, &d.halt)
	l.newID = d.NewID
	l.queues.urgent.in, l.queues.bulk.in, l.queues.paused = d.requests.ch, d.submits.ch, &d.paused
	l.pipe.told = d.reached
	live := feed.New(feed.Config{Conn: d.cfg.Conn, Names: d.cfg.Names, Partition: d.cfg.Partition, Heard: d.cfg.Heard, Turns: d.cfg.Turns})
	l.pipe.feed = live
	if err := d.tellOwned(ctx, live, last); err != nil {
		return nil, err
	}
	if err := d.topology.TakeOver(ctx); err != nil {
		return nil, err
	}
	return l, d.adopt(ctx, l)
}

// tellOwned tells the event that an ownership has begun with.
func (d *Dispatcher) tellOwned(ctx context.Context, f *feed.Feed, at events.Seq) error {
	return d.cfg.Log.Read(ctx, at.Frame(), at.Frame(), func(fr eventlog.Frame) error {
		var lines []byte
		for i := range fr.Events {
			line, err := fr.Events[i].AppendJSON(lines)
			if err != nil {
				return err
			}
			lines = append(line, '\n')
		}
		f.Tell(fr.Seq, 0, namesOf(fr.Events), lines)
		return nil
	})
}

// takeOver reads the log to its end into the projection, and appends an owned event. From
// then on nobody else can append. The partition's clock begins with that event; accept is
// set if an operator has confirmed the server's time.
func takeOver(ctx context.Context, cfg *Config, clocks *clock.Partition, accept *clock.Acceptance) (*core.State, *clock.Clock, events.Seq, error) {
	tip, err := cfg.Log.Last(ctx)
	if err != nil {
		return nil, nil, 0, fmt.Errorf("take over: %w", err)
	}
	heard := clocks.Local()
	if err := fit(ctx, cfg, tip); err != nil {
		return nil, nil, 0, fmt.Errorf("take over: %w", err)
	}
	state, err := core.NewState(cfg.Store)
	if err != nil {
		return nil, nil, 0, err
	}
	state.SetDefaults(cfg.Defaults)
	state.SetLimits(cfg.Limits)
	if err := state.SetFormatLevel(cfg.FormatLevel); err != nil { // before anything is appended
		return nil, nil, 0, fmt.Errorf("take over: %w", err)
	}
	var clk *clock.Clock
	replay := projector.NewReplay(ctx, cfg.Store, state, cfg.Hooks.Projected)
	defer replay.Close()
	_, err = eventlog.Settle(ctx, cfg.Log, state.Meta().Applied.Frame(), func() eventlog.Write {
		clk = clocks.New(tip.Time.Add(clocks.Local().Sub(heard)), state.Meta().LastAt, accept)
		own := core.Own{Owner: cfg.Owner, Version: cfg.Version}
		if accept != nil {
			own.Clock = &core.AcceptClock{At: clk.Now(), By: accept.By}
		}
		dec, _ := core.Decide(state, own, clk.Now()) // it is never refused
		m := state.Meta()
		return eventlog.Write{Epoch: dec.Events[0].Body.(*events.Owned).Epoch, Node: cfg.Owner, Level: m.Level, Before: m.Events, Events: dec.Events}
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
	return state, clk, state.Meta().Applied, nil
}

// fit makes the projection one from which the log can be followed: it refuses another log, and
// makes the projection anew if the log has been cut in front of it.
func fit(ctx context.Context, cfg *Config, tip eventlog.Tip) error {
	if err := sameLog(ctx, cfg, tip); err != nil {
		return err
	}
	return renewIfCut(ctx, cfg, tip)
}

// sameLog refuses a log that was made anew since the store was last checked against it:
// what the store holds must not be dropped in its favour.
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

// newLoop builds the loop of an ownership that begins after last. halt is nil if nothing
// ever holds back new work.
func newLoop(cfg *Config, state *core.State, clk *clock.Clock, last events.Seq, reg *registry.Registry, out effects, sig *natsio.Signals, halt *halt) *loop {
	l := &loop{
		cfg: cfg, out: out, signals: sig, halt: halt,
		decider: decider{state: state, clock: clk, pipe: newPipeline(cfg, state, last)},
		turn:    cfg.Turns.Turn(),
		table:   table.New(), seats: seats.New(), dirty: dirty{},
	}
	l.queues.intake, l.queues.door = backlog{in: make(chan job, 4), held: state.QueueFull}, backlog{in: make(chan job, 4)}
	l.queues.paused = new(atomic.Bool)
	l.ready = readyq.New(cfg.Store, l.table)
	l.connect(reg)
	l.purge = intake.NewPurge(clk, cfg.SyncWithin, out.PurgeIntake)
	l.retention = l.newRetention()
	l.schedules = schedules.New(state, clk, cfg.Logger, ticker{&l.decider, func() events.ID { return l.newID() }})

	l.recount.begin(clk.Now())
	state.TakeFollowUps() // the projection's index has them
	l.follow.lookFrom(state.Meta().Applied)
	for _, t := range state.TypeNames() {
		set, _ := state.Settings(t)
		l.leases.of[t] = set.Lease.Duration
		l.dirty.mark(t)
		if state.DispatchGate(t).Stopped {
			l.gates.stopped[t] = true
		}
		l.limits.marks[t] = limitsMark(set)
	}
	reg.Bench(state.OpenWorkerCircuits())
	l.workforce.follow()
	l.pools.find()
	l.purge.Note(state.Meta().IntakeSeq)
	l.decideFirst()
	return l
}

// connect makes the parts, each from those above it.
func (l *loop) connect(reg *registry.Registry) {
	d, cfg, state, clk, t, out := &l.decider, l.cfg, l.state, l.clock, l.table, l.out
	l.gates = gates{decider: d, table: t, stopped: map[events.Type]bool{}}
	l.pools = pools{state: state, table: t}
	l.flight = flight{clock: clk, table: t, ready: l.ready, seats: l.seats, pools: &l.pools, dirty: l.dirty, out: out, ackGone: l.acks.gone, hooks: &cfg.Hooks}
	l.leases = leases{decider: d, table: t, flight: &l.flight, seats: l.seats, registry: reg, out: out, cfg: cfg, of: map[events.Type]time.Duration{}}
	l.acks = ackRuns{
		decider: d, cfg: cfg, table: t, flight: &l.flight, leases: &l.leases, gates: &l.gates, signals: l.signals, halt: l.halt, dirty: l.dirty, out: out, sweepBy: l.sweeper.by,
		on: map[events.Type]ackmode.Consumer{}, ready: map[events.Type]bool{},
	}
	l.limits = limits{state: state, clock: clk, cfg: cfg, table: t, ready: l.ready, seats: l.seats, gates: &l.gates, pools: &l.pools, acks: &l.acks, dirty: l.dirty, marks: map[events.Type]string{}}
	l.assigner = assigner{decider: d, cfg: cfg, limits: &l.limits, flight: &l.flight, leases: &l.leases, table: t, ready: l.ready, seats: l.seats, dirty: l.dirty, out: out}
	l.sender = sender{limits: &l.limits, assigner: &l.assigner, room: d.room}
	l.timers = timers{decider: d, store: cfg.Store, newID: func() events.ID { return l.newID() }, flight: &l.flight, assigner: &l.assigner, Window: readyq.NewWindow(projector.TimerKey.Less)}
	l.recount = recount{decider: d, store: cfg.Store}
	l.workforce = workforce{decider: d, registry: reg, assigner: &l.assigner, ready: l.ready, dirty: l.dirty, changed: cfg.Hooks.Workers, circuits: state.CircuitVersion()}
	l.follow = followUps{decider: d, store: cfg.Store, halt: l.halt}
	l.sweeper = sweeper{decider: d, cfg: cfg, table: t, ready: l.ready, out: out, acks: &l.acks, workforce: &l.workforce, next: clk.Now().Add(cfg.Sweep)}

	d.added, d.followUps = l.decided, l.follow.add
	t.Held.Counted = func(h table.Holder, by int) { l.seats.Count(h.Worker, h.Session, h.Type, by) }
	l.ready.Unprojected, l.ready.Again = l.pipe.eachUnprojected, func(t events.Type) { l.dirty.mark(t) }
	l.ready.Prefetch = func(keys []ready.Key) error {
		ids := make([]events.ID, len(keys))
		for i, k := range keys {
			ids[i] = k.ID
		}
		return state.Prefetch(ids, true) // at once, instead of one by one as they are dispatched
	}
}

// decided follows an event that has just been decided.
func (l *loop) decided(ev *events.Event) {
	switch ev.Kind {
	case events.KindQueued, events.KindReleased, events.KindRescheduled, events.KindReplayed:
		l.assigner.fresh.Add(ev.ID, l.state.Meta().Applied)
	default:
		if ev.Kind.Scope() == events.ScopeSchedule {
			l.schedules.Changed()
		}
	}
}

// ticker is the decider as [schedules.Loop].
type ticker struct {
	*decider
	newID func() events.ID
}

// Decide implements [schedules.Loop].
func (t ticker) Decide(f core.Fire) (dec core.Decision, refused, err error) {
	f.NewID = t.newID()
	dec, _, refused = t.decide(f)
	return dec, refused, fatal(refused)
}

// TickRoom implements [schedules.Loop]: a tick needs room for a submission's events and one
// more.
func (t ticker) TickRoom() bool { return t.pipe.roomFor(maxDecision, eventlog.MaxEvents-1) }

// decideFirst queues what must be decided before anything else: the types, namespaces and
// schedules of engine.toml, and new plans for schedules after the clock was set back. Nothing ticks
// until the log has the file's schedules: one that is no longer in the file must not tick
// again.
func (l *loop) decideFirst() {
	add := func(cmds []core.Command, complaint string) *commandJob {
		j := &commandJob{cmds: cmds}
		j.done = func(outcomes []Outcome) {
			for i, o := range outcomes {
				if o.Err != nil && events.CodeOf(o.Err) != events.CodeUnavailable {
					l.cfg.Logger.Error(complaint, "command", cmds[i], "error", o.Err)
				}
			}
		}
		return j
	}
	first := func(j job) {
		if j.len() > 0 {
			l.queues.urgent.jobs = append(l.queues.urgent.jobs, j)
		}
	}
	first(add(l.cfg.FromFile(l.state), "the settings of a type could not be recorded"))
	first(add(namespacesFromFile(l.cfg.FileNamespaces, l.state), "a namespace of the file could not be recorded"))
	file := schedules.FromFile(l.cfg.FileSchedules, l.state)
	l.schedules.Hold(len(file) > 0)
	first(&fileSchedules{add(file, "a schedule of the file could not be recorded")})
	first(add(l.schedules.Replan(), "a schedule could not be planned anew after the clock was set back: set it again"))
}

// namespacesFromFile returns the commands that make the log's namespaces those of engine.toml.
// What the file no longer has comes first; it is let go, never removed, since its data would
// go with it.
func namespacesFromFile(file []events.NamespaceInfo, state *core.State) (cmds []core.Command) {
	named := map[events.Namespace]bool{}
	var set []core.Command
	for _, n := range file {
		named[n.Name] = true
		set = append(set, core.SetNamespace{Name: n.Name, Source: events.SourceFile, Change: n.Change()})
	}
	for _, n := range state.Namespaces() {
		if n.Source == events.SourceFile && !named[n.Name] {
			cmds = append(cmds, core.ReleaseNamespace{Name: n.Name})
		}
	}
	return append(cmds, set...)
}

// fileSchedules lets the schedules tick once all of its commands are decided.
type fileSchedules struct{ *commandJob }

func (j *fileSchedules) decide(l *loop, i int) error {
	l.schedules.Hold(i < len(j.cmds)-1)
	return j.commandJob.decide(l, i)
}

// adoptRuns adds to the table what the last owner left claimed or running. The lease of
// each counts from now on. Those of ack types are kept by their consumer once their message
// is found.
func (l *loop) adoptRuns(now time.Time) error {
	l.assigner.grace = now.Add(events.StartWithin)
	for _, state := range []events.ItemState{events.StateClaimed, events.StateRunning} {
		err := l.cfg.Store.InState(state, func(it *events.Item) error {
			d := &table.Dispatch{ID: it.ID, Token: it.Token, Type: it.Type, Group: it.Group, Priority: it.Priority, At: now, Claimed: true, Worker: it.Worker, Leased: true, Ack: it.Worker.Ack()}
			l.table.Add(d)
			if !d.Ack {
				l.assigner.adopted = append(l.assigner.adopted, d)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// adopt takes over what the last owner left in flight.
func (d *Dispatcher) adopt(ctx context.Context, l *loop) error {
	now := l.clock.Now()
	if err := l.adoptRuns(now); err != nil {
		return err
	}
	if err := d.adoptAcks(ctx, l); err != nil {
		return err
	}
	l.leases.watch(now)
	l.assigner.grace = l.clock.Now().Add(events.StartWithin) // from now on there is somebody to report to
	return nil
}

// newEffects makes the pusher of an ownership.
func (d *Dispatcher) newEffects(sig *natsio.Signals, clk *clock.Clock) *natsio.Pusher {
	p := natsio.NewPusher(d.topology, sig)
	p.Look = func(ctx context.Context) {
		if tip, err := d.cfg.Log.Last(ctx); err == nil && d.clocks.Look(clk, tip.Time) {
			sig.ClockChanged()
		}
	}
	p.Cut = func(ctx context.Context, below uint64) error { return cutBelow(ctx, &d.cfg, below) }
	return p
}

// serve runs one ownership to its end, and answers what is left open.
func (d *Dispatcher) serve(ctx context.Context, l *loop) error {
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
	l.follow.errands = d.newErrands(run)
	d.signals.Store(l.signals)
	l.signals.RegistryChanged() // it may have changed since the loop was made
	if h := d.cfg.Hooks.Owned; h != nil {
		h(l.state.Meta().Epoch)
	}
	acks := natsio.NewAckReader(d.topology, l.signals, l.acks.since)
	front, err := openDoor(d, l)
	if err != nil {
		l.abandon(err)
		return err
	}
	defer front.End()
	readers := newIntakes(d, l, front)
	var side, tail sync.WaitGroup
	side.Go(func() { p.Run(run) })
	side.Go(func() { p.RunCuts(run) })
	side.Go(func() { l.pipe.feed.(*feed.Feed).Run(run) })
	side.Go(func() { front.Run(run) })
	for _, in := range readers {
		side.Go(func() { in.Run(run) })
	}
	side.Go(func() { acks.Read(run) })
	side.Go(func() { d.prober.Run(run) })
	side.Go(func() { recallWorkers(run, d) })
	defer context.AfterFunc(d.drain, stopLoop)()
	tail.Go(func() { l.pipe.append(run) })
	tail.Go(l.pipe.commit)
	tail.Go(l.pipe.reply)

	err = l.run(loopCtx)
	d.signals.Store(nil)
	cancel()
	close(l.pipe.toAppend)
	side.Wait()
	l.follow.errands.Wait()
	close(l.pipe.toCommit)
	l.abandon(err)
	close(l.pipe.toReply)
	tail.Wait()
	return err
}
