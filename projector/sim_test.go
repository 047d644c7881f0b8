package projector

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"go.uber.org/goleak"

	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/internal/need"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// slow skips a test that takes seconds, with -short.
func slow(t testing.TB) { t.Helper(); need.Seconds(t) }

// memLog is a log in memory, kept as the bytes that a stream would hold.
type memLog struct {
	msgs    [][]byte // at position i+1; nil: a foreign message
	perRead int      // decisions in a group, at most; 0: 16
	failAt  events.Seq
	first   events.Seq // what is kept begins here; 0: at 1
}

var errLog = errors.New("the log can't be read")

func (l *memLog) last() events.Seq { return events.Seq(len(l.msgs)) }

func (l *memLog) append(t testing.TB, evs ...events.Event) {
	t.Helper()
	for i := range evs {
		b, err := evs[i].AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		l.msgs = append(l.msgs, b)
	}
}

func (l *memLog) Read(ctx context.Context, from, to events.Seq, fn func(eventlog.Group) error) error {
	per := l.perRead
	if per == 0 {
		per = 16
	}
	var g eventlog.Group
	decisions := 0
	flush := func() error {
		out := g
		g, decisions = eventlog.Group{}, 0
		if out.Through == 0 {
			return nil
		}
		return fn(out)
	}
	if from == 0 {
		from = max(l.first, 1)
	}
	if from < l.first {
		return &eventlog.TrimmedError{Asked: from, First: l.first}
	}
	for seq := from; seq <= to; seq++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if seq == l.failAt {
			return errLog
		}
		msg := l.msgs[seq-1]
		if msg == nil {
			g.Skipped++
			continue
		}
		ev, err := events.DecodeEvent(msg)
		if err != nil {
			return err
		}
		ev.Seq = seq
		g.Events = append(g.Events, ev)
		g.Bytes += len(msg)
		if !ev.Tx.Last() {
			continue
		}
		g.Through, g.Checksum = seq, events.Checksum(msg)
		if decisions++; decisions >= per {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	// An undecided rest is not handed over.
	for len(g.Events) > 0 && g.Events[len(g.Events)-1].Seq > g.Through {
		g.Events = g.Events[:len(g.Events)-1]
	}
	return flush()
}

func (l *memLog) Checksum(_ context.Context, seq events.Seq) (uint64, error) {
	if seq < 1 || seq > l.last() {
		return 0, fmt.Errorf("no event at %d", seq)
	}
	return events.Checksum(l.msgs[seq-1]), nil
}

// sim decides random commands, as an engine would, into a log and a store.
type sim struct {
	t     testing.TB
	rng   *rand.Rand
	now   time.Time
	log   *memLog
	state *core.State
	store *Store // nil: nothing is projected, all stays in the State
	ids   []events.ID
	toks  uint64
	seq   uint64 // of the intake
}

func newSim(t testing.TB, seed uint64, store *Store) *sim {
	s := &sim{t: t, rng: rand.New(rand.NewPCG(seed, 1)), store: store, log: &memLog{},
		now: time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)}
	var base core.Base = core.Empty{}
	if store != nil {
		base = store
	}
	s.restate(base)
	return s
}

func (s *sim) restate(base core.Base) {
	s.t.Helper()
	var err error
	if s.state, err = core.NewState(base); err != nil {
		s.t.Fatal(err)
	}
}

// do decides a command; a refusal is fine.
func (s *sim) do(c core.Command) core.Decision {
	s.t.Helper()
	d, err := core.Decide(s.state, c, s.now)
	var refused *events.Error
	if errors.As(err, &refused) {
		return d
	} else if err != nil {
		s.t.Fatalf("decide %T: %v", c, err)
	}
	if s.rng.IntN(50) == 0 {
		s.log.msgs = append(s.log.msgs, nil)
	}
	for i := range d.Events {
		d.Events[i].Seq = s.log.last() + 1
		if err := s.state.Apply(d.Events[i]); err != nil {
			s.t.Fatalf("apply what was decided: %v", err)
		}
		s.log.append(s.t, d.Events[i])
	}
	return d
}

// project commits what the State has collected.
func (s *sim) project() {
	s.t.Helper()
	if c := s.state.TakeChanges(); c != nil && s.store != nil {
		c.Checksum = events.Checksum(s.log.msgs[c.Meta.Applied-1])
		if err := s.store.Commit(c); err != nil {
			s.t.Fatal(err)
		}
		s.state.Projected(c.Meta.Applied)
	}
}

func (s *sim) newID() events.ID {
	var u ulid.ULID
	_ = u.SetTime(uint64(s.now.UnixMilli()))
	for i := 6; i < len(u); i++ {
		u[i] = byte(s.rng.UintN(256))
	}
	return events.ID(u)
}

func (s *sim) submit(c core.Submit) events.ID {
	c.NewID = s.newID()
	d := s.do(c)
	if len(d.Events) > 0 && !d.ID.IsZero() {
		s.ids = append(s.ids, d.ID)
	}
	return d.ID
}

func (s *sim) token() events.Token { s.toks++; return events.NewToken(1, s.toks) }

var (
	simErrors = []string{"broken", "dial tcp 10.0.0.7:5432: connect: Connection refused", "connect: timeout", "", "Größe überschritten: größe", "a b c"}
	simCodes  = []string{"", "http_503", "", "timeout"}
)

var simTypes = []events.Type{"email", "email-bulk", "resize", "checksum"}

// step decides one random command, and now and then lets time pass.
func (s *sim) step() {
	switch r := s.rng.IntN(100); {
	case r < 10:
		s.now = s.now.Add(time.Duration(s.rng.IntN(2000)) * time.Millisecond)
	case r < 11:
		s.now = s.now.Add(time.Duration(s.rng.IntN(30)) * time.Hour)
	}
	defer s.followUps()
	if len(s.ids) == 0 || s.rng.IntN(100) < 35 {
		s.submit(s.randomSubmit())
		return
	}
	id := s.ids[len(s.ids)-1-s.rng.IntN(min(len(s.ids), 40))]
	it, err := s.state.Item(id)
	if err != nil {
		s.t.Fatalf("item %s: %v, %v", id, it, err)
	}
	if it == nil {
		return // it has been pruned
	}
	s.do(s.randomCommand(it))
	s.noteChildren(id)
}

func (s *sim) randomSubmit() core.Submit {
	c := core.Submit{Type: simTypes[s.rng.IntN(len(simTypes))], Params: json.RawMessage(fmt.Sprintf(`{"n": %d, "html": "<a>&"}`, s.rng.IntN(1000)))}
	if s.rng.IntN(3) == 0 {
		p := events.Priority(s.rng.IntN(10))
		c.Priority = &p
	}
	switch s.rng.IntN(6) {
	case 0:
		c.DedupKey = fmt.Sprintf("dedup \x00 %d", s.rng.IntN(8))
		c.Provenance = events.Provenance{Source: "test", Trigger: fmt.Sprint(s.rng.IntN(9))}
	case 1:
		c.IdempotencyKey = fmt.Sprintf("once-%d", s.rng.IntN(30))
	case 2:
		c.Capabilities = []string{"gpu", "eu"}[:1+s.rng.IntN(2)]
	case 3:
		c.Delay = time.Duration(1+s.rng.IntN(5000)) * time.Millisecond
	case 4:
		c.Labels = map[string]string{"team": fmt.Sprint(s.rng.IntN(3)), "b": "x", "a": "y"}
		c.Tenant = fmt.Sprintf("tenant-%d", s.rng.IntN(3))
	}
	s.randomTerms(&c)
	if c.DedupKey == "" {
		c.DedupPolicy, c.DedupWindow = "", nil // they would be refused
	}
	if s.rng.IntN(4) == 0 {
		s.seq++
		c.Intake = events.Intake{Seq: s.seq}
		if s.rng.IntN(2) == 0 {
			c.Intake.MsgID, c.Intake.MsgIDUntil = fmt.Sprintf("m-%d", s.rng.IntN(20)), s.now.Add(events.MsgIDWindow)
		}
	}
	return c
}

func (s *sim) randomCommand(it *events.Item) core.Command {
	run := core.Run{ID: it.ID, Token: it.Token, Worker: it.Worker}
	switch it.State {
	case events.StateQueued:
		switch s.rng.IntN(12) {
		case 0:
			return core.Cancel{ID: it.ID, Reason: "not wanted"}
		case 1:
			p := events.Priority(s.rng.IntN(10))
			return core.Reschedule{ID: it.ID, Priority: &p}
		case 2:
			return core.Reschedule{ID: it.ID, Delay: time.Duration(s.rng.IntN(9000)) * time.Millisecond}
		}
		tok := s.token()
		return core.Claim{ID: it.ID, Token: tok, Dispatched: tok, Worker: events.WorkerID(fmt.Sprintf("w%d", s.rng.IntN(4))), Start: s.rng.IntN(2) == 0}
	case events.StateClaimed:
		return []core.Command{core.Start{Run: run}, core.Start{Run: run}, core.Release{Run: run}, core.Due{ID: it.ID}, core.Cancel{ID: it.ID}}[s.rng.IntN(5)]
	case events.StateRunning:
		switch s.rng.IntN(14) {
		case 3, 4:
			return s.randomSpawn(run)
		case 5:
			return core.Snooze{Run: run, Delay: time.Duration(1+s.rng.IntN(5000)) * time.Millisecond}
		case 6:
			return core.ReportProgress{Run: run, Percent: s.rng.IntN(101), Message: "on the way"}
		case 7:
			return core.SaveCheckpoint{Run: run, Checkpoint: json.RawMessage(fmt.Sprintf(`{"at": %d}`, s.rng.IntN(100)))}
		case 0:
			return core.Fail{Run: run, Error: simErrors[s.toks%uint64(len(simErrors))], Code: simCodes[s.toks%uint64(len(simCodes))], Retryable: s.rng.IntN(4) > 0, Random: s.rng.Uint64()}
		case 1:
			return core.ExpireLease{ID: it.ID, Token: it.Token, Random: s.rng.Uint64()}
		case 2:
			return core.Release{Run: run, Reason: "shutdown"}
		}
		return core.Complete{Run: run, Result: json.RawMessage(`{"ok":  true}`)}
	case events.StateDead, events.StateCancelled:
		if s.rng.IntN(2) == 0 {
			c := core.Replay{ID: it.ID}
			if s.rng.IntN(2) == 0 {
				c.Params = json.RawMessage(`{"corrected":  true}`)
			}
			return c
		}
		return s.rejected()
	}
	if it.State == events.StateWaiting && s.rng.IntN(8) == 0 {
		return core.Cancel{ID: it.ID}
	}
	if !it.ExpiryAt().IsZero() {
		return core.Due{ID: it.ID}
	}
	return core.Own{Owner: "me", Version: "test", Barrier: s.state.Meta().RoundAt != 0} // a new epoch would end a round
}

// rejected is a submission that becomes no item, or the end of what is kept of
// an earlier one.
func (s *sim) rejected() core.Command {
	if s.rng.IntN(4) == 0 {
		return core.PurgeRejected{Seq: s.log.last() - events.Seq(s.rng.IntN(40))}
	}
	s.seq++
	r := events.Rejected{Code: "bad_params", Message: "no", Text: string(make([]byte, s.rng.IntN(300))), Intake: events.Intake{Seq: s.seq}}
	if s.rng.IntN(3) == 0 {
		r.Code, r.Of = "duplicate", s.ids[0]
	}
	return core.Reject{Type: "email", Rejected: r}
}

// run decides n steps, projecting every so often.
func (s *sim) run(n, every int) {
	s.t.Helper()
	for i := range n {
		s.step()
		if (i+1)%every == 0 {
			s.project()
		}
	}
	s.project()
}

// items are all the items, from a State that has forgotten nothing.
func (s *sim) items() map[events.ID]*events.Item {
	s.t.Helper()
	all := newSim(s.t, 0, nil)
	err := s.log.Read(context.Background(), 1, s.log.last(), func(g eventlog.Group) error {
		for _, ev := range g.Events {
			if err := all.state.Apply(ev); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	m := map[events.ID]*events.Item{}
	for _, c := range all.state.TakeChanges().Items {
		m[c.New.ID] = c.New
	}
	return m
}

func openMem(t testing.TB) *Store {
	t.Helper()
	s, err := Open("", Options{InMemory: true})
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

func digestOf(t testing.TB, s *Store) string {
	t.Helper()
	d, err := s.Digest(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// replayed is a store in memory made from a log alone.
func replayed(t testing.TB, l *memLog, to events.Seq) *Store {
	t.Helper()
	s, err := StateAt(context.Background(), l, to, time.Time{}, "", Options{InMemory: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// same fails the test when two stores differ, saying in what.
func same(t testing.TB, a, b *Store) {
	t.Helper()
	if digestOf(t, a) == digestOf(t, b) {
		return
	}
	diff, err := Diff(context.Background(), a, b, 10)
	t.Fatalf("the stores differ (%v):\n%s", err, bytes.Join(func() (l [][]byte) {
		for _, d := range diff {
			l = append(l, []byte(d))
		}
		return l
	}(), []byte("\n")))
}
