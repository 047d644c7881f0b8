package query_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/projector"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// slow skips a test that takes seconds, with -short.
func slow(t testing.TB) { t.Helper(); need.Seconds(t) }

func openMem(t testing.TB) *projector.Store {
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

// sim decides commands into a store, as an engine would that has no log.
type sim struct {
	t     testing.TB
	rng   *rand.Rand
	now   time.Time
	state *core.State
	store *projector.Store
	ids   []events.ID
	all   map[events.ID]*events.Item // as projected
	made  uint64                     // ids and tokens
}

func newSim(t testing.TB, seed uint64, store *projector.Store) *sim {
	t.Helper()
	state, err := core.NewState(store)
	if err != nil {
		t.Fatal(err)
	}
	return &sim{t: t, rng: rand.New(rand.NewPCG(seed, 1)), now: time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC), state: state, store: store, all: map[events.ID]*events.Item{}}
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
	frame := s.state.Meta().Applied.Frame() + 1
	for i, ev := range d.Events {
		ev.Seq = events.SeqOf(frame, i)
		if err := s.state.Apply(ev); err != nil {
			s.t.Fatalf("apply what was decided: %v", err)
		}
	}
	return d
}

// project commits what the State has collected.
func (s *sim) project() {
	s.t.Helper()
	c := s.state.TakeChanges()
	if c == nil {
		return
	}
	if err := s.store.Commit(c); err != nil {
		s.t.Fatal(err)
	}
	s.state.Projected(c.Meta.Applied)
	for _, ch := range c.Items {
		if ch.Old != nil {
			delete(s.all, ch.Old.ID)
		}
		if ch.New != nil {
			s.all[ch.New.ID] = ch.New
		}
	}
}

// items are all the items of the store.
func (s *sim) items() map[events.ID]*events.Item { return maps.Clone(s.all) }

func (s *sim) token() events.Token { s.made++; return events.NewToken(1, s.made) }

func (s *sim) submit(c core.Submit) events.ID {
	s.made++
	c.NewID = events.ID{1, 12: byte(s.made >> 24), 13: byte(s.made >> 16), 14: byte(s.made >> 8), 15: byte(s.made)}
	d := s.do(c)
	if len(d.Events) > 0 && !d.ID.IsZero() {
		s.ids = append(s.ids, d.ID)
	}
	return d.ID
}

var (
	simErrors = []string{"broken", "dial tcp 10.0.0.7:5432: connect: Connection refused", "connect: timeout", "", "Größe überschritten: größe", "a b c"}
	simCodes  = []string{"", "http_503", "", "timeout"}
	simTypes  = []events.Type{"email", "email-bulk", "resize", "checksum"}
)

// run decides n random commands, projecting every so often.
func (s *sim) run(n, every int) {
	s.t.Helper()
	for i := range n {
		if s.step(); (i+1)%every == 0 {
			s.project()
		}
	}
	s.project()
}

func (s *sim) step() {
	if s.rng.IntN(10) == 0 {
		s.now = s.now.Add(time.Duration(s.rng.IntN(2000)) * time.Millisecond)
	}
	if len(s.ids) == 0 || s.rng.IntN(100) < 35 {
		s.submit(s.randomSubmit())
		return
	}
	id := s.ids[len(s.ids)-1-s.rng.IntN(min(len(s.ids), 40))]
	it, err := s.state.Item(id)
	if err != nil || it == nil {
		s.t.Fatalf("item %s: %v, %v", id, it, err)
	}
	run := core.Run{ID: id, Token: it.Token, Worker: it.Worker}
	switch r := s.rng.IntN(10); it.State {
	case events.StateQueued:
		if r == 0 {
			s.do(core.Cancel{ID: id, Reason: "not wanted"})
			return
		}
		s.do(core.Claim{ID: id, Token: s.token(), Worker: events.WorkerID(fmt.Sprintf("w%d", s.rng.IntN(4))), Start: r%2 == 0})
	case events.StateClaimed:
		if r == 1 {
			s.do(core.Release{Run: run})
			return
		}
		s.do(core.Start{Run: run})
	case events.StateRunning:
		switch r {
		case 0, 1, 2, 3, 4:
			s.do(core.Fail{Run: run, Error: simErrors[s.rng.IntN(len(simErrors))], Code: simCodes[s.rng.IntN(len(simCodes))], Retryable: r > 2, Random: s.rng.Uint64()})
		case 5:
			s.do(core.ExpireLease{ID: id, Token: it.Token, Random: s.rng.Uint64()})
		default:
			s.do(core.Complete{Run: run, Result: json.RawMessage(`{"ok":true}`)})
		}
	case events.StateDead, events.StateCancelled:
		if r == 0 {
			s.do(core.Replay{ID: id, Params: json.RawMessage(`{"corrected":true}`)})
		}
	}
}

func (s *sim) randomSubmit() core.Submit {
	c := core.Submit{Type: simTypes[s.rng.IntN(len(simTypes))], Params: json.RawMessage(`{"n":1}`), MaxAttempts: events.Attempt(1 + s.rng.IntN(2))}
	switch s.rng.IntN(5) {
	case 0:
		c.DedupKey = fmt.Sprintf("dedup \x00 %d", s.rng.IntN(8))
	case 1:
		c.Delay = time.Duration(1+s.rng.IntN(5000)) * time.Millisecond
	case 2, 3:
		c.Labels = map[string]string{"team": fmt.Sprint(s.rng.IntN(3)), "b": "x", "a": "y"}
		c.Tenant = fmt.Sprintf("tenant-%d", s.rng.IntN(3))
	}
	return c
}
