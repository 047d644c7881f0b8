package retention

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/eventlog/logtest"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)

// syncWithin is the time after which an event of a house is on disk.
const syncWithin = 5 * time.Second

// house has a Retention, and is its engine: it decides into a batch, appends that to a log in
// memory and projects it, when it is told to. The clock stands still meanwhile.
type house struct {
	t      testing.TB
	at     time.Time
	server time.Duration // how far the server's clock is from at
	stream *logtest.MemoryStream
	log    *logtest.Memory
	store  *projector.Store
	state  *core.State
	clock  *clock.Clock
	cfg    Config
	k      *Retention

	ids      int
	frame    uint64         // last one that was appended
	before   uint64         // events in the log before these
	events   []events.Event // of the batch being built
	rest     []events.Event // of a decision in parts, for the next batches
	bytes    int            // of events
	appended events.Seq
	behind   []*core.Changes // appended, and not projected
	late     bool            // the Retention is not told what is durable
	halted   bool
	cuts     []uint64 // cuts that were asked for and not done
	errors   int      // logged
}

// newHouse returns a house whose partition is owned. edit may be nil.
func newHouse(t testing.TB, edit func(*Config)) *house {
	t.Helper()
	h := &house{t: t, at: noon, stream: logtest.NewMemoryStream(0)}
	h.stream.Now = func() time.Time { return h.at }
	h.log, h.store = h.stream.Open(), open(t)
	h.cfg = Config{Store: h.store, Log: slog.New(countErrors{slog.DiscardHandler, &h.errors}), Batch: h, Sweep: time.Minute, SyncWithin: syncWithin, CutEvents: 1 << 30,
		Appended: h.durable, CutLog: func(below uint64) { h.cuts = append(h.cuts, below) }, Halted: func() bool { return h.halted }}
	if edit != nil {
		edit(&h.cfg)
	}
	h.takeOver()
	return h
}

func open(t testing.TB) *projector.Store {
	t.Helper()
	s, err := projector.Open("", projector.Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

type countErrors struct {
	slog.Handler
	n *int
}

func (c countErrors) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelError }

func (c countErrors) Handle(context.Context, slog.Record) error { *c.n++; return nil }

func (h *house) ok(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// takeOver begins an ownership, of which the Retention is a new one.
func (h *house) takeOver() {
	h.t.Helper()
	state, err := core.NewState(h.store)
	h.ok(err)
	set := events.DefaultTypeSettings()
	set.Retain = events.Retention{Completed: events.Millis(10_000), Dead: events.Millis(20_000), Cancelled: events.Millis(30_000), Merged: events.Millis(1000)}
	state.SetDefaults(set)
	h.state = state
	local := func() time.Time { return h.at }
	h.clock = clock.New(clock.Source{Local: local, MaxJump: time.Hour}, clock.Start{Server: h.at.Add(h.server), LastEvent: state.Meta().LastAt})
	h.cfg.State, h.cfg.Clock = state, h.clock
	h.do(core.Own{Owner: "me"})
	h.k = New(h.cfg)
}

// Decide implements [Batch].
func (h *house) Decide(c core.Command) (refused, err error) {
	d, err := core.Decide(h.state, c, h.clock.Now())
	var no *events.Error
	if errors.As(err, &no) {
		return no, nil
	}
	if err != nil {
		return nil, err
	}
	return nil, h.Add(d.Events)
}

// Add implements [Batch].
func (h *house) Add(evs []events.Event) error {
	h.rest = append(h.rest, evs...)
	h.fill()
	return nil
}

// Size implements [Batch].
func (h *house) Size() (n, bytes int) { return len(h.events), h.bytes }

func (h *house) durable() events.Seq {
	if h.late {
		return 0
	}
	return h.appended
}

// maxFrame bounds the bytes of a frame.
const maxFrame = 2 << 20

func (h *house) fill() {
	h.t.Helper()
	for len(h.rest) > 0 && len(h.events) < eventlog.MaxEvents && (len(h.events) == 0 || h.bytes+h.rest[0].MaxJSON() < maxFrame) {
		ev := h.rest[0]
		if len(h.events) == 0 {
			h.before = h.state.Meta().Events
		}
		ev.Seq = events.SeqOf(h.frame+1, len(h.events))
		h.ok(h.state.Apply(ev))
		h.events, h.rest, h.bytes = append(h.events, ev), h.rest[1:], h.bytes+ev.MaxJSON()
	}
}

// append appends the batch, and what was left of a decision.
func (h *house) append() {
	h.t.Helper()
	for len(h.events) > 0 {
		changes, m := h.state.TakeChanges(), h.state.Meta()
		done, err := h.log.Append(context.Background(), h.frame, &eventlog.Write{Epoch: m.Epoch, Node: m.Owner, Level: m.Level, Before: h.before, Events: h.events})
		h.ok(err)
		h.frame, h.appended, changes.Checksum = done.Last.Frame(), done.Last, done.Checksum
		h.behind = append(h.behind, changes)
		h.events, h.bytes = nil, 0
		h.fill()
	}
}

// project projects what was appended.
func (h *house) project() {
	h.t.Helper()
	for _, c := range h.behind {
		h.ok(h.store.Commit(c))
		h.state.Projected(c.Meta.Applied)
	}
	h.behind = nil
}

func (h *house) flush() { h.t.Helper(); h.append(); h.project() }

// do decides commands, none of which may be refused, and has them projected.
func (h *house) do(cmds ...core.Command) {
	h.t.Helper()
	for _, c := range cmds {
		refused, err := h.Decide(c)
		if h.ok(err); refused != nil {
			h.t.Fatalf("%T: %v", c, refused)
		}
	}
	h.flush()
}

// work has the Retention do one turn, whose outcome is projected.
func (h *house) work() {
	h.t.Helper()
	h.ok(h.k.Work(h.clock.Now()))
	h.flush()
}

// settle has the Retention work, as an engine does after each append and whenever it wants to
// be woken, until nothing comes of it.
func (h *house) settle() {
	h.t.Helper()
	for range 10_000 {
		was := h.appended
		h.work()
		if at := h.k.Wake(); h.appended == was && (at.IsZero() || at.After(h.clock.Now())) {
			return
		}
	}
	h.t.Fatalf("it does not come to rest: %+v", h.k.Status())
}

// pass lets time pass, up to d, stopping whenever the Retention wants to be woken.
func (h *house) pass(d time.Duration) {
	h.t.Helper()
	end := h.at.Add(d)
	for range 10_000 {
		h.settle()
		at := h.k.Wake()
		if at.IsZero() || at.After(end) {
			h.at = end
			h.settle()
			return
		}
		h.at = at
	}
	h.t.Fatal("it wants to be woken all the time")
}

// cut cuts the log as was asked for, once.
func (h *house) cut() {
	h.t.Helper()
	if len(h.cuts) != 1 {
		h.t.Fatalf("cuts %v were asked for, want one", h.cuts)
	}
	below := h.cuts[0]
	h.cuts = nil
	h.ok(h.log.Purge(context.Background(), below))
	h.k.CutDone(below)
}

func (h *house) newID() events.ID {
	h.ids++
	return events.ID{1, 14: byte(h.ids >> 8), 15: byte(h.ids)}
}

func (h *house) submit(c core.Submit) events.ID {
	h.t.Helper()
	c.Type, c.NewID = "email", h.newID()
	h.do(c)
	return c.NewID
}

// end has an item end in a state.
func (h *house) end(id events.ID, as events.ItemState) {
	h.t.Helper()
	if as == events.StateCancelled {
		h.do(core.Cancel{ID: id})
		return
	}
	h.ids++
	run := core.Run{ID: id, Token: events.NewToken(h.state.Meta().Epoch, uint64(h.ids)), Worker: "w"}
	h.do(core.Claim{ID: id, Token: run.Token, Worker: "w", Start: true})
	if as == events.StateDead {
		h.do(core.Fail{Run: run, Error: "broken"})
		return
	}
	h.do(core.Complete{Run: run, Result: json.RawMessage(`{"done":true}`)})
}

// there reports whether an item is in the state and in the store.
func (h *house) there(id events.ID) bool {
	h.t.Helper()
	it, err := h.state.Item(id)
	h.ok(err)
	shown, err := h.store.Item(id)
	h.ok(err)
	if (it == nil) != (shown == nil) {
		h.t.Fatalf("item %s: the state has %+v, the store %+v", id, it, shown)
	}
	return it != nil
}

// stands checks that what is left of the log gives the store.
func (h *house) stands() {
	h.t.Helper()
	h.flush()
	alike(h.t, h.store, h.log)
}

func alike(t testing.TB, store *projector.Store, log eventlog.Log) {
	t.Helper()
	again, err := projector.StateAt(context.Background(), log, store.Applied(), time.Time{}, "", projector.Options{InMemory: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if diff, err := projector.Diff(context.Background(), store, again, 10); err != nil || len(diff) > 0 {
		t.Fatalf("what is left of the log gives another store: %v, %q", err, diff)
	}
}
