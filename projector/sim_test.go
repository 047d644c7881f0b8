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
	frames []*memFrame // at sequence i+1; nil: a foreign message
	failAt uint64      // the frame at which a Read fails; 0: none
	first  uint64      // the first frame that is kept; 0: 1
}

// memFrame is a frame of a memLog.
type memFrame struct {
	epoch     events.Epoch
	before    uint64
	decisions int
	lines     [][]byte
}

// bytes is the frame's body.
func (f *memFrame) bytes() []byte { return append(bytes.Join(f.lines, []byte{'\n'}), '\n') }

var errLog = errors.New("the log can't be read")

// last is the position of the last event.
func (l *memLog) last() events.Seq { return l.end(uint64(len(l.frames))) }

// end is the position of the last event up to a frame.
func (l *memLog) end(frame uint64) events.Seq {
	for ; frame > 0; frame-- {
		if f := l.frames[frame-1]; f != nil {
			return events.SeqOf(frame, len(f.lines)-1)
		}
	}
	return 0
}

// count is the number of events.
func (l *memLog) count() (n uint64) {
	for _, f := range l.frames {
		if f != nil {
			n += uint64(len(f.lines))
		}
	}
	return n
}

// upTo is the log as it was before it had a frame.
func (l *memLog) upTo(frame uint64) *memLog {
	return &memLog{frames: l.frames[: frame-1 : frame-1]}
}

// add appends an event to the last frame.
func (l *memLog) add(t testing.TB, ev events.Event) {
	t.Helper()
	b, err := ev.AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	f := l.frames[len(l.frames)-1]
	f.lines = append(f.lines, b)
}

func (l *memLog) Read(ctx context.Context, from, to uint64, fn func(eventlog.Frame) error) error {
	if from == 0 {
		from = max(l.first, 1)
	}
	if from < l.first {
		return &eventlog.TrimmedError{Asked: from, First: l.first}
	}
	skipped := 0
	for seq := from; seq <= to; seq++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if seq == l.failAt {
			return errLog
		}
		m := l.frames[seq-1]
		if m == nil {
			skipped++
			continue
		}
		body := m.bytes()
		f := eventlog.Frame{Seq: seq, Epoch: m.epoch, Before: m.before, Bytes: len(body), Checksum: events.Checksum(body), Skipped: skipped}
		skipped = 0
		for i, line := range m.lines {
			ev, err := events.DecodeEvent(line)
			if err != nil {
				return err
			}
			ev.Seq = events.SeqOf(seq, i)
			f.Events = append(f.Events, ev)
		}
		if err := fn(f); err != nil {
			return err
		}
	}
	return nil
}

func (l *memLog) Checksum(_ context.Context, seq uint64) (uint64, error) {
	if seq < 1 || seq > uint64(len(l.frames)) || l.frames[seq-1] == nil {
		return 0, fmt.Errorf("no frame %d", seq)
	}
	return events.Checksum(l.frames[seq-1].bytes()), nil
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
	seq   uint64       // of the intake
	per   int          // decisions in a frame, at most; 0: 1
	open  bool         // the last frame may take another decision
	kept  []events.Seq // rejected
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
	if len(d.Events) == 0 {
		return d
	}
	f := s.frame()
	for i := range d.Events {
		d.Events[i].Seq = events.SeqOf(uint64(len(s.log.frames)), len(f.lines))
		if err := s.state.Apply(d.Events[i]); err != nil {
			s.t.Fatalf("apply what was decided: %v", err)
		}
		s.log.add(s.t, d.Events[i])
		if d.Events[i].Kind == events.KindRejected {
			s.kept = append(s.kept, d.Events[i].Seq)
		}
	}
	return d
}

// frame is that of the next decision: the last one, or a new one.
func (s *sim) frame() *memFrame {
	if s.open {
		if f := s.log.frames[len(s.log.frames)-1]; f.decisions < max(s.per, 1) && len(f.lines) < 1000 {
			f.decisions++
			return f
		}
	}
	if s.rng.IntN(50) == 0 {
		s.log.frames = append(s.log.frames, nil)
	}
	m := s.state.Meta()
	f := &memFrame{epoch: m.Epoch, before: m.Events, decisions: 1}
	s.log.frames, s.open = append(s.log.frames, f), true
	return f
}

// take ends the frame, and takes what the State has collected.
func (s *sim) take() *core.Changes {
	s.open = false
	c := s.state.TakeChanges()
	if c != nil {
		c.Checksum = events.Checksum(s.log.frames[c.Meta.Applied.Frame()-1].bytes())
	}
	return c
}

// project commits what the State has collected.
func (s *sim) project() {
	s.t.Helper()
	if c := s.take(); c != nil && s.store != nil {
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
		return core.Claim{ID: it.ID, Token: tok, Worker: events.WorkerID(fmt.Sprintf("w%d", s.rng.IntN(4))), Start: s.rng.IntN(2) == 0}
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
	if len(s.kept) > 0 && s.rng.IntN(4) == 0 {
		return core.PurgeRejected{Seq: s.kept[max(0, len(s.kept)-1-s.rng.IntN(10))]}
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
	err := s.log.Read(context.Background(), 1, uint64(len(s.log.frames)), func(f eventlog.Frame) error {
		for _, ev := range f.Events {
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
