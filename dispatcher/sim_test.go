package dispatcher

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/dispatcher/intake"
	"github.com/streamwright/streamwright/dispatcher/natsio"
	"github.com/streamwright/streamwright/dispatcher/registry"
	"github.com/streamwright/streamwright/dispatcher/retention"
	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/eventlog/logtest"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/wire/command"
)

// sim runs the real loop, log rules and projection in one goroutine, by a clock
// of its own: each stage goes one step when it is told to, so that everything
// can be made to happen between any two of them.
type sim struct {
	t      testing.TB
	at     time.Time
	stream *logtest.MemoryStream
	log    *logtest.Memory
	store  *projector.Store
	cfg    Config
	reg    *registry.Registry
	world  *world
	l      *loop
	intake []*nats.Msg // the intake stream; its sequences begin at 1
	// published says when each of them was.
	published []time.Time
	handed    uint64 // intake messages handed to the loop
	ids       uint64
	accept    *clock.Acceptance // of the next start
	skew      time.Duration     // of the server's clock against the right one
	drift     time.Duration     // time that passes with each look at the clock
	known     time.Time         // as NoteTime has it
	sessions  map[string]string // of workers, if another than their first
	held      *batch            // taken by commit, for its next call
	losses    int               // ownerships that have ended
	gone      []events.Event    // that the log has been cut of; kept of them were cut for sure
	kept      int
	stores    []*projector.Store // that took the first one's place
	// onStage, if set, is told of each stage before it is run, and may end the
	// process.
	onStage func(stage string)
	// choose says which of n stages goes next.
	choose func(n int) int
	// steps, if set, says how many steps settle takes before it leaves the rest
	// for later, so that what comes next falls in between; negative: to rest.
	steps func() int
}

var simStart = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func newSim(t testing.TB, edit func(*Config)) *sim {
	return newSimOn(t, logtest.NewMemoryStream(0), nil, edit)
}

// newSimOn makes a sim on a log, and in a world, that another one may have as well; nil: its
// own.
func newSimOn(t testing.TB, stream *logtest.MemoryStream, w *world, edit func(*Config)) *sim {
	noRace(t)
	s := &sim{t: t, at: simStart, stream: stream, choose: func(int) int { return 0 }, sessions: map[string]string{}}
	s.stream.Now = s.serverNow
	if w == nil {
		w = newWorld(s.now)
	}
	store, err := projector.Open("", projector.Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, store := range append(s.stores, store) {
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	s.store, s.log, s.world = store, s.stream.Open(), w
	w.purge, w.looked = s.purgeLog, s.looked
	set := events.DefaultTypeSettings()
	set.Backoff.Jitter = 0
	s.cfg = Config{Log: s.log, Store: store, Alone: true, Owner: "sim", Defaults: set, Gone: 24 * time.Hour,
		KnownTime: func() (time.Time, bool) { return s.known, false }, NoteTime: func(at time.Time) { s.known = at }}
	if edit != nil {
		edit(&s.cfg)
	}
	s.cfg = s.cfg.WithDefaults()
	s.newRegistry()
	s.start()
	return s
}

func (s *sim) now() time.Time {
	s.at = s.at.Add(s.drift)
	return s.at
}

func (s *sim) serverNow() time.Time { return s.at.Add(s.skew) }

// looked is what the sweep makes of the server's clock.
func (s *sim) looked() {
	if _, changed := s.l.clock.Correct(s.serverNow()); changed {
		s.l.signals.ClockChanged()
	}
	s.noteTime(s.l.clock)
}

// noteTime keeps the time for the next process, as a clock.Partition does.
func (s *sim) noteTime(c *clock.Clock) {
	if st := c.Status(); s.cfg.NoteTime != nil && st.Plausible() {
		s.cfg.NoteTime(st.Engine)
	}
}

func (s *sim) ok(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *sim) newRegistry() {
	s.reg = registry.New(s.cfg.Gone, func() {
		if s.l != nil {
			s.l.signals.RegistryChanged()
		}
	})
}

// start takes the partition over, as a Dispatcher does.
func (s *sim) start() {
	ctx := context.Background()
	state, clk, last, err := takeOver(ctx, &s.cfg, newClocks(&s.cfg, s.now), s.accept)
	s.ok(err)
	s.accept = nil
	s.noteTime(clk)
	sig := natsio.NewSignals(s.cfg.MaxRunning)
	s.held = nil
	s.world.signals = sig
	s.l = newLoop(&s.cfg, state, clk, last, s.reg, s.world, sig, new(halt))
	s.l.newID = s.newID
	s.ok(s.l.adoptRuns(clk.Now()))
	s.ok(s.world.adoptAcks(s.l))
	s.l.leases.watch(clk.Now())
	sig.RegistryChanged()
	s.handed = state.Meta().IntakeSeq
	s.settle()
}

// crash is the end of the process, with whatever was under way.
func (s *sim) crash() {
	s.losses++
	s.newRegistry()
	s.start()
}

// stage tells a test where the loop is.
func (s *sim) stage(name string) {
	if s.onStage != nil {
		s.onStage(name)
	}
}

// maxSteps is how many steps are far more than there can be to do at one time.
const maxSteps = 100_000

// settle runs everything to rest, at the present time.
func (s *sim) settle() {
	s.t.Helper()
	left := -1
	if s.steps != nil {
		left = s.steps()
	}
	began := s.at
	for l, n := s.l, 0; left != 0; left-- {
		if n++; n > maxSteps {
			s.t.Fatalf("it does not come to rest at %v: after %d steps the next thing is due in %v", began, n, l.nextWake())
		}
		moved, err := s.step()
		if s.l != l {
			return // a hook has ended this one
		}
		if err != nil {
			s.l.abandon(err)
			if !errors.Is(err, eventlog.ErrAmbiguous) && !errors.Is(err, eventlog.ErrFenced) {
				s.t.Fatalf("the ownership ended: %v", err)
			}
			s.losses++
			s.start()
			return
		}
		if !moved {
			return
		}
	}
}

// step lets one stage do one thing, and reports whether there was any.
func (s *sim) step() (moved bool, err error) {
	l := s.l
	if j := s.nextIntake(); j != nil {
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
	s.stage("decide")
	if s.l != l {
		return true, nil
	}
	if err := l.step(); err != nil {
		return true, err
	}
	moved = moved || pending != len(l.queues.urgent.jobs)+len(l.queues.bulk.jobs)+len(l.queues.intake.jobs)
	var stages []func() error
	if len(l.pipe.toAppend) > 0 && len(l.pipe.toReply) < cap(l.pipe.toReply) {
		stages = append(stages, func() error { return s.append(<-l.pipe.toAppend) })
	}
	if len(l.pipe.toCommit) > 0 || s.held != nil {
		stages = append(stages, s.commit)
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
		return true, stages[s.choose(len(stages))]()
	}
	return moved || len(l.signals.Wake) > 0 || l.nextWake() == 0, nil
}

func (s *sim) append(b *batch) error {
	l := s.l
	if s.stage("append"); s.l != l {
		return nil
	}
	r := appendResult{b: b}
	r.res, r.err = s.cfg.Log.Append(context.Background(), b.after, b.write(s.cfg.Owner))
	if s.stage("appended"); s.l != l {
		return nil
	}
	return l.onAppended(r)
}

// commit projects one batch or more of those that wait, as they come to be
// gathered by time.
func (s *sim) commit() error {
	l := s.l
	if s.stage("project"); s.l != l {
		return nil
	}
	p := newProjection(l.pipe)
	if s.held != nil {
		p.add(s.held)
		s.held = nil
	}
	for n := s.choose(len(l.pipe.toCommit) + 1); len(p.batches) == 0 || n > 0 && len(l.pipe.toCommit) > 0 && s.held == nil; n-- {
		if b := <-l.pipe.toCommit; !p.add(b) {
			s.held = b
		}
	}
	err := s.store.Commit(p.changes...)
	if s.stage("projected"); s.l != l {
		return nil
	}
	return l.pipe.projected(commitResult{batches: len(p.batches), seq: p.changes[len(p.changes)-1].Meta.Applied, err: err})
}

// arrive stores a message in the intake stream.
func (s *sim) arrive(m *nats.Msg) {
	s.intake, s.published = append(s.intake, m), append(s.published, s.at)
}

// nextIntake hands over what was published, as the reader does.
func (s *sim) nextIntake() job {
	b := &intake.Batch{}
	for int(s.handed) < len(s.intake) && len(b.Messages) < intake.MaxBatch {
		b.Messages = append(b.Messages, intake.Parse(s.handed+1, s.published[s.handed], s.intake[s.handed], s.cfg.Names, s.newID()))
		s.handed++
	}
	if len(b.Messages) == 0 {
		return nil
	}
	return &intakeJob{b}
}

func (s *sim) newID() (id events.ID) {
	s.ids++
	id[0] = 1
	for i := range 8 {
		id[15-i] = byte(s.ids >> (8 * i))
	}
	return id
}

// tick lets time pass, and everything happen that is due on the way.
func (s *sim) tick(d time.Duration) {
	s.t.Helper()
	end := s.at.Add(d)
	for n := 0; ; n++ {
		if n > maxSteps {
			s.t.Fatalf("time does not pass: it is %v, the next thing is due in %v", s.at, s.l.nextWake())
		}
		next := clock.Sooner(s.at.Add(max(s.l.nextWake(), time.Microsecond)), s.world.nextAckExpiry())
		if next.After(end) {
			break
		}
		s.at = clock.Later(next, s.at)
		s.world.expireAcks()
		s.settle()
	}
	s.at = end
	s.settle()
}

// ask has commands decided; done is called unless the process ends before.
func (s *sim) ask(done func([]Outcome), cmds ...core.Command) {
	s.l.queues.urgent.jobs = append(s.l.queues.urgent.jobs, &commandJob{cmds: cmds, done: done})
	s.settle()
}

// tell has reports decided, in the same way.
func (s *sim) tell(done func([]wire.Reported), rs ...wire.Report) {
	reports := command.Reports(rs)
	for i := range reports {
		s.ok(reports[i].Prepare(s.newID, 1000))
	}
	s.l.queues.urgent.jobs = append(s.l.queues.urgent.jobs, &reportJob{reports: reports, done: done})
	s.settle()
}

// answerTo has the loop answer a question.
func answerTo[T any](s *sim, read func(*loop) (T, error)) *question[T] {
	j := &question[T]{read: read, out: make(chan answer[T], 1)}
	s.l.queues.urgent.jobs = append(s.l.queues.urgent.jobs, j)
	return j
}

// cut asks for a round of snapshots.
func (s *sim) cut() {
	answerTo(s, func(l *loop) (retention.Status, error) { l.retention.Ask(0); return l.retention.Status(), nil })
}

// retained is what retention says of itself.
func (s *sim) retained() retention.Status { return s.l.retention.Status() }

// do is ask to rest: no outcomes, if the process ended before.
func (s *sim) do(cmds ...core.Command) (out []Outcome) {
	s.ask(func(o []Outcome) { out = o }, cmds...)
	return out
}

// report is tell to rest.
func (s *sim) report(rs ...wire.Report) (out []wire.Reported) {
	s.tell(func(a []wire.Reported) { out = a }, rs...)
	return out
}

// session returns the present session of a worker.
func (s *sim) session(w string) string { return cmp.Or(s.sessions[w], "s-"+w) }

// register registers a worker; a slot is a run at a time. The engine forgets an earlier
// session of it.
func (s *sim) register(w string, slots int, capabilities []string, types ...string) {
	s.t.Helper()
	reg := wire.Register{Worker: w, Session: s.session(w), Types: types, Slots: slots, Capabilities: capabilities}
	for _, was := range s.reg.List() {
		if was.Worker == w && was.Session != reg.Session {
			s.reg.Remove(events.WorkerID(w), was.Session)
		}
	}
	err := s.reg.Put(reg, s.l.clock.Now())
	s.ok(err)
	s.settle()
}

func (s *sim) submit(c core.Submit) Outcome {
	s.t.Helper()
	c.NewID = s.newID()
	if c.Type == "" {
		c.Type = "email"
	}
	o := s.do(c)
	if len(o) != 1 || o[0].Err != nil {
		s.t.Fatalf("submit: %+v", o)
	}
	return o[0]
}

func (s *sim) item(id events.ID) *events.Item {
	s.t.Helper()
	it, err := s.l.state.Item(id)
	s.ok(err)
	if it == nil {
		s.t.Fatalf("there is no item %s", id)
	}
	return it
}

// drain starts and completes everything of a type that is sent, one by one, and returns the
// items in the order in which they came.
func (s *sim) drain(typ events.Type) (order []events.ID) {
	s.t.Helper()
	for m := s.take(typ); m != nil; m = s.take(typ) {
		s.run(m)
		order = append(order, m.id)
	}
	return order
}

// run starts and completes an item.
func (s *sim) run(m *simRun) {
	s.t.Helper()
	s.begin(m)
	s.complete(m)
}

func (s *sim) begin(m *simRun) {
	s.t.Helper()
	s.granted(m.report(wire.ReportStart))
}

func (s *sim) complete(m *simRun) {
	s.t.Helper()
	s.granted(m.report(wire.ReportComplete))
}

// granted makes a report that must be granted.
func (s *sim) granted(r wire.Report) {
	s.t.Helper()
	if a := s.report(r)[0]; !a.OK {
		s.t.Fatalf("%s of %s: %+v", r.Event, r.ID, a.Error)
	}
}
