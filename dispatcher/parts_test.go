package dispatcher

import (
	"testing"
	"time"

	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/dispatcher/readyq"
	"github.com/streamwright/streamwright/dispatcher/registry"
	"github.com/streamwright/streamwright/dispatcher/seats"
	"github.com/streamwright/streamwright/dispatcher/table"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector"
	"github.com/streamwright/streamwright/wire"
)

// parts holds what parts of the loop share, without a loop: decisions are applied to the
// state, and never appended.
type parts struct {
	decider
	t     *testing.T
	now   time.Time
	cfg   Config
	table *table.Table
	dirty dirty
	told  []wire.Control // sent to workers
	ids   byte
}

func newParts(t *testing.T) *parts {
	t.Helper()
	store, err := projector.Open("", projector.Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	p := &parts{t: t, now: simStart, table: table.New(), dirty: dirty{}}
	p.cfg = Config{Store: store, Defaults: events.DefaultTypeSettings()}.WithDefaults()
	state, err := core.NewState(store)
	if err != nil {
		t.Fatal(err)
	}
	state.SetDefaults(p.cfg.Defaults)
	clk := clock.New(clock.Source{Local: func() time.Time { return p.now }}, clock.Start{Server: p.now})
	p.decider = decider{state: state, clock: clk, pipe: newPipeline(&p.cfg, state, 0), added: func(*events.Event) {}, followUps: func([]events.ID, events.Seq) {}}
	p.do(core.Own{Owner: "test"})
	return p
}

func (p *parts) do(c core.Command) *events.Item {
	p.t.Helper()
	_, it, err := p.decide(c)
	if err != nil {
		p.t.Fatal(err)
	}
	return it
}

func (p *parts) configure(typ events.Type, edit func(*events.TypeSettings)) *events.TypeInfo {
	p.t.Helper()
	set := p.cfg.Defaults
	edit(&set)
	p.do(core.Configure{Type: typ, Source: events.SourceAPI, Settings: set})
	info, _ := p.state.Type(typ)
	return &info
}

// run submits an item, and has a worker run it.
func (p *parts) run(typ events.Type, worker events.WorkerID) *table.Dispatch {
	p.t.Helper()
	p.ids++
	id := events.ID{15: p.ids}
	p.do(core.Submit{NewID: id, Type: typ, Params: []byte(`1`)})
	set, _ := p.state.Settings(typ)
	d := &table.Dispatch{ID: id, Token: p.token(), Type: typ, At: p.now, Lease: set.Lease.Duration, Claimed: true, Worker: worker, Session: "s", Leased: true}
	p.do(core.Claim{ID: id, Token: d.Token, Worker: worker, Start: true})
	p.table.Add(d)
	return d
}

// controls is the part of the effects that tells workers.
type controls struct {
	effects // of which nothing else is used
	p       *parts
}

func (c controls) Control(_ events.WorkerID, m wire.Control) { c.p.told = append(c.p.told, m) }

func TestGatesFollowPauses(t *testing.T) {
	p := newParts(t)
	p.configure("email", func(*events.TypeSettings) {})
	g := gates{decider: &p.decider, table: p.table, stopped: map[events.Type]bool{}}
	if g.changed("email") || !g.next().IsZero() {
		t.Error("a type that is not paused is stopped")
	}
	p.do(core.PauseType{Type: "email", For: time.Minute})
	if !g.changed("email") || g.changed("email") || !g.stopped["email"] {
		t.Error("a paused type is not stopped, or twice")
	}
	if n, limited, err := g.admitted("email"); n != 0 || !limited || err != nil {
		t.Errorf("a paused type admits %d, %t, %v", n, limited, err)
	}
	p.now = p.now.Add(time.Minute - 1)
	if err := g.due(p.now); err != nil || g.changed("email") {
		t.Errorf("a pause ends early: %v", err)
	}
	p.now = g.next()
	if err := g.due(p.now); err != nil || !g.changed("email") || g.stopped["email"] || !g.next().IsZero() {
		t.Errorf("a pause that is over holds: %v", err)
	}
}

func TestPoolsShareByWeight(t *testing.T) {
	p := newParts(t)
	p.state.SetLimits(events.Limits{Pools: map[string]events.Pool{"gpu": {Slots: 3}}})
	for typ, weight := range map[events.Type]int{"light": 1, "heavy": 2} {
		p.configure(typ, func(s *events.TypeSettings) { s.Pool, s.PoolWeight = "gpu", weight })
	}
	ps := pools{state: p.state, table: p.table}
	if ps.of("light") != nil {
		t.Error("a pool is known before it is looked for")
	}
	ps.find()
	gpu := ps.of("light")
	if gpu == nil || gpu != ps.of("heavy") || ps.of("other") != nil || ps.full(gpu) {
		t.Fatalf("the pools are %+v", ps.byName)
	}
	p.run("light", "w")
	if ps.compareShares(gpu, "heavy", "light") >= 0 {
		t.Error("the type with the smaller share does not go first")
	}
	p.run("heavy", "w")
	if ps.compareShares(gpu, "heavy", "light") >= 0 || ps.full(gpu) {
		t.Error("a weight of 2 counts as 1")
	}
	d := p.run("heavy", "w")
	gpu.charge("heavy")
	if ps.compareShares(gpu, "light", "heavy") >= 0 || !ps.full(gpu) {
		t.Error("of types with equal shares, the one that was charged goes first")
	}
	p.do(core.Complete{Run: core.Run{ID: d.ID, Token: d.Token, Worker: "w"}, Result: []byte(`1`)})
	if !ps.full(gpu) {
		t.Error("a slot is free before the worker has let go")
	}
	p.table.Remove(d)
	if ps.full(gpu) {
		t.Error("a slot is not free although the worker has let go")
	}
}

func TestLeasesEndRuns(t *testing.T) {
	p := newParts(t)
	const lease = 10 * time.Second
	le := p.leases(lease)
	heard, silent := p.run("email", "w1"), p.run("email", "w2")
	le.begin(heard)
	le.begin(silent)
	p.now = p.now.Add(lease / 2)
	le.heard("w1", map[events.Token]bool{heard.Token: true, silent.Token: true}, p.now)
	if silent.Heard != (time.Time{}) {
		t.Error("a worker renews another one's run")
	}
	p.now = p.now.Add(lease / 2)
	if le.next.After(p.now) {
		t.Fatalf("the next look is at %v", le.next)
	}
	if err := le.expireDue(p.now); err != nil {
		t.Fatal(err)
	}
	for d, want := range map[*table.Dispatch]events.ItemState{heard: events.StateRunning, silent: events.StateQueued} {
		if it, err := p.state.Item(d.ID); err != nil || it.State != want {
			t.Errorf("the run of %s is %v, %v; want %v", d.Worker, it.State, err, want)
		}
	}
	if !le.next.Equal(heard.Heard.Add(lease)) {
		t.Errorf("the next look is at %v", le.next)
	}
}

// The workers of a type whose lease becomes shorter learn of it, and runs keep theirs.
func TestShorterLease(t *testing.T) {
	p := newParts(t)
	le := p.leases(10 * time.Second)
	if err := le.registry.Put(wire.Register{Worker: "w1", Session: "s", Types: []string{"email"}, Slots: 1}, p.now); err != nil {
		t.Fatal(err)
	}
	d := p.run("email", "w1")
	le.typeChanged(p.configure("email", func(s *events.TypeSettings) { s.Lease = events.Millis(5_000) }))
	if len(p.told) != 1 || !p.told[0].Register || le.leaseOf(d) != 10*time.Second {
		t.Errorf("the workers were told %+v, and the run has %v", p.told, le.leaseOf(d))
	}
	le.typeChanged(p.configure("email", func(s *events.TypeSettings) { s.Lease = events.Millis(20_000) }))
	if len(p.told) != 1 || le.leaseOf(d) != 20*time.Second {
		t.Errorf("a longer lease: the workers were told %+v, and the run has %v", p.told, le.leaseOf(d))
	}
}

func (p *parts) leases(lease time.Duration) *leases {
	p.t.Helper()
	p.configure("email", func(s *events.TypeSettings) { s.Lease = events.DurationOf(lease) })
	sts := seats.New()
	f := &flight{clock: p.clock, table: p.table, ready: readyq.New(p.cfg.Store, p.table), seats: sts, pools: &pools{state: p.state, table: p.table}, dirty: p.dirty, out: controls{p: p}, hooks: &p.cfg.Hooks}
	return &leases{decider: &p.decider, table: p.table, flight: f, seats: sts, registry: registry.New(time.Hour, func() {}), out: controls{p: p}, cfg: &p.cfg, of: map[events.Type]time.Duration{"email": lease}}
}
