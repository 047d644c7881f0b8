package projector

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector/internal/layout"
)

// round has everything carried, with other steps in between, and returns where
// the round began and ended.
func (s *sim) round(meanwhile int) (begin, end events.Seq) {
	s.t.Helper()
	s.open = false // a round begins a frame
	s.do(core.BeginCut{})
	begin = s.state.Meta().RoundAt
	s.project()
	for at, more := (events.ID{}), true; more; {
		var ids []events.ID
		var err error
		if ids, at, more, err = s.store.Uncarried(begin, at, 7); err != nil {
			s.t.Fatal(err)
		}
		if !s.carry(ids, meanwhile) {
			return 0, 0 // another owner
		}
	}
	for again := s.state.TakeRecarry(); len(again) > 0; again = s.state.TakeRecarry() {
		if !s.carry(again, 0) {
			return 0, 0
		}
	}
	s.carryRejected(begin)
	keys, err := s.store.LooseKeys()
	if err != nil {
		s.t.Fatal(err)
	}
	kept, err := s.store.RejectedFrom(begin)
	if err != nil {
		s.t.Fatal(err)
	}
	s.do(core.EndCut{Keys: keys, Kept: &kept})
	s.project()
	return begin, s.state.Meta().CutEnd
}

// carryRejected has what was rejected re-stated, page by page, while more of it
// comes and goes.
func (s *sim) carryRejected(begin events.Seq) {
	s.t.Helper()
	for from, intake := events.Seq(1), uint64(1); from > 0 || intake > 0; {
		var c core.CarryRejected
		var err error
		if from > 0 {
			if c.Rejected, from, err = s.store.KeptRejected(from, begin, int64(1+s.rng.IntN(2000))); err != nil {
				s.t.Fatal(err)
			}
		}
		if intake > 0 {
			if c.Answers, intake, err = s.store.KeptAnswers(intake, begin, 1+s.rng.IntN(5)); err != nil {
				s.t.Fatal(err)
			}
		}
		s.do(c)
		for range s.rng.IntN(6) {
			if s.do(s.rejected()); s.rng.IntN(4) == 0 {
				s.project()
			}
		}
	}
}

// carry carries items, with other steps in between. It says false when the round
// has ended by another ownership.
func (s *sim) carry(ids []events.ID, meanwhile int) bool {
	s.t.Helper()
	for _, id := range ids {
		if !s.state.Projectable(id) {
			s.project()
		}
		history, merged, err := s.store.Kept(id)
		if err != nil {
			s.t.Fatal(err)
		}
		s.do(core.Carry{ID: id, History: history, Merged: merged})
		for range s.rng.IntN(meanwhile + 1) {
			s.step()
		}
		if s.state.Meta().RoundAt == 0 {
			return false
		}
	}
	return true
}

// pruneSome prunes what may go.
func (s *sim) pruneSome() (n int) {
	for _, id := range s.ids {
		if d := s.do(core.Prune{ID: id}); len(d.Events) > 0 {
			n++
		}
	}
	return n
}

// cutSeeds is how many runs TestCutLogGivesTheLiveStore makes; CUT_SEEDS says
// another number, to look for faults, as CI does.
func cutSeeds() uint64 {
	if v, err := strconv.ParseUint(os.Getenv("CUT_SEEDS"), 10, 64); err == nil {
		return v
	}
	return 3
}

// After any number of rounds and cuts the log that is left gives the live
// store, byte for byte, however it is read.
func TestCutLogGivesTheLiveStore(t *testing.T) {
	slow(t)
	for seed := range cutSeeds() {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			s := newSim(t, seed, openMem(t))
			s.per = []int{1, 16, 1000}[seed%3]
			s.do(core.Own{Owner: "me"})
			cuts, pruned := 0, 0
			for range 4 {
				s.run(150, 1+s.rng.IntN(40))
				s.now = s.now.Add(time.Duration(s.rng.IntN(60)) * time.Hour)
				pruned += s.pruneSome()
				begin, end := s.round(3)
				s.run(s.rng.IntN(60), 10)
				if begin == 0 {
					continue
				}
				cuts++
				s.log.first = begin.Frame()
				same(t, s.store, replayed(t, s.log, s.log.last()))
				_, err := StateAt(t.Context(), s.log, begin, time.Time{}, "", Options{InMemory: true}, nil)
				if !errors.Is(err, ErrBeforeCut) {
					t.Fatalf("a state before the round's end: %v", err)
				}
				same(t, replayed(t, s.log, end), replayed(t, s.log, end))
			}
			res, err := s.store.Verify(t.Context(), s.log, nil)
			if err != nil || !res.Equal {
				t.Fatalf("%+v %v", res, err)
			}
			if err := s.store.Rebuild(t.Context(), s.log, nil); err != nil {
				t.Fatal(err)
			}
			if cuts == 0 || pruned == 0 {
				t.Fatalf("%d cuts, %d pruned", cuts, pruned)
			}
		})
	}
}

// A store that ended in front of the cut is made anew.
func TestRenew(t *testing.T) {
	s := newSim(t, 7, openMem(t))
	s.do(core.Own{Owner: "me"})
	s.run(100, 10)
	behind := openMem(t)
	state, err := core.NewState(behind)
	if err != nil {
		t.Fatal(err)
	}
	if err := replayTo(t.Context(), behind, state, s.log, s.log.end(50)); err != nil {
		t.Fatal(err)
	}
	begin, _ := s.round(0)
	s.log.first = begin.Frame()
	if err := replayTo(t.Context(), behind, state, s.log, s.log.last()); !errors.Is(err, eventlog.ErrTrimmed) {
		t.Fatalf("caught up over the cut: %v", err)
	}
	if err := behind.Renew(t.Context(), s.log, s.log.last(), nil); err != nil {
		t.Fatal(err)
	}
	same(t, s.store, behind)
	if behind.Applied() != s.store.Applied() {
		t.Fatalf("at %d", behind.Applied())
	}
}

// What a pruned item was leaves nothing behind, and its id begins anew.
func TestPrunedLeavesNothing(t *testing.T) {
	s := newSim(t, 1, openMem(t))
	s.do(core.Own{Owner: "me"})
	s.do(core.Define{Type: "email"})
	s.project()
	id := s.newID()
	for range 2 {
		d := s.do(core.Submit{Type: "email", ID: id, NewID: id, Params: []byte(`{"a":1}`), DedupKey: "k"})
		if len(d.Events) == 0 {
			t.Fatal("not taken")
		}
		s.submit(core.Submit{Type: "email", DedupKey: "k"})
		s.project()
		it, _ := s.state.Item(id)
		tok := s.token()
		s.do(core.Claim{ID: id, Token: tok, Worker: "w", Start: true})
		s.do(core.Complete{Run: core.Run{ID: id, Token: tok, Worker: "w"}, Result: []byte(`1`)})
		s.now = s.now.Add(events.DefaultRetain + time.Second)
		if s.do(core.Prune{ID: id}); s.state.Meta().Pruned == 0 {
			t.Fatalf("%+v is not pruned", it)
		}
		if it, err := s.state.Item(id); it != nil || err != nil {
			t.Fatal("it is still there")
		}
	}
	for _, i := range s.ids {
		s.do(core.Prune{ID: i})
	}
	s.project()
	err := s.store.Snapshot(func(v layout.View) error {
		c, err := contentOf(context.Background(), v)
		if err != nil {
			return err
		}
		for c.next() {
			if c.key[0] != layout.PrefixMeta && c.key[0] != layout.PrefixType {
				t.Errorf("left: %s", layout.DescribeKey(c.key))
			}
		}
		return c.close()
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A long history is folded alike in the live store and in one that is rebuilt.
func TestLongHistoriesAreFolded(t *testing.T) {
	s := newSim(t, 1, openMem(t))
	s.do(core.Own{Owner: "me"})
	id := s.submit(core.Submit{Type: "email"})
	for range 2 {
		for i := range core.MaxCarriedHistory + 200 {
			p := events.Priority(i % 2)
			s.do(core.Reschedule{ID: id, Priority: &p})
		}
		s.project()
		begin, _ := s.round(0)
		same(t, s.store, replayed(t, s.log, s.log.last())) // the whole log
		s.log.first = begin.Frame()
		same(t, s.store, replayed(t, s.log, s.log.last()))
	}
	history, _, err := s.store.Kept(id)
	if err != nil || len(history) != core.MaxCarriedHistory {
		t.Fatalf("%d entries, %v", len(history), err)
	}
	marker := string(history[10].Data)
	want := fmt.Sprintf(`"folded":%d`, 2+2*(core.MaxCarriedHistory+200)-(core.MaxCarriedHistory-1))
	if !strings.Contains(marker, want) {
		t.Fatalf("the marker is %s, want %s", marker, want)
	}
}

// An id that is used again when its item is pruned, and pruned again, gives the same store
// however much of that is committed at once.
func TestPrunedTwiceAtOnce(t *testing.T) {
	store := openMem(t)
	s := newSim(t, 1, store)
	set := events.DefaultTypeSettings()
	set.Retain = events.Retention{Cancelled: events.Millis(1)}
	s.do(core.Configure{Type: "email", Source: events.SourceAPI, Settings: set})
	id := s.newID()
	for range 3 {
		for _, c := range []core.Command{core.Submit{Type: "email", ID: id, NewID: id}, core.Cancel{ID: id}, core.Prune{ID: id}} {
			if d := s.do(c); len(d.Events) == 0 {
				t.Fatalf("%T is refused", c)
			}
			s.project()
			s.now = s.now.Add(time.Second)
		}
	}
	same(t, store, replayed(t, s.log, s.log.last())) // all at once
	for cut := uint64(3); cut < s.log.last().Frame(); cut++ {
		part := replayed(t, s.log, s.log.end(cut))
		if err := fill(t.Context(), part, s.log, moment{through: s.log.last()}, nil); err != nil {
			t.Fatal(err)
		}
		same(t, store, part)
	}
}
