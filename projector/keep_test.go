package projector

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

func openKeeping(t testing.TB) *Store {
	t.Helper()
	s, err := Open("", Options{InMemory: true, KeepPruned: true})
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

// gapLog is a log that lacks frames.
type gapLog struct {
	*memLog
	lost map[uint64]bool
}

func (l gapLog) Read(ctx context.Context, from, to uint64, fn func(eventlog.Frame) error) error {
	lost := false
	return l.memLog.Read(ctx, from, to, func(f eventlog.Frame) error {
		if l.lost[f.Seq] {
			lost = true
			return nil
		}
		f.Lost, lost = lost, false
		return fn(f)
	})
}

// A store that keeps what is pruned has every item with its history, whatever its log has
// let go of, until both are cut at an earlier round. It is what a replay of its log gives,
// byte for byte, and all that is not pruned is as in a store that keeps nothing. So it is,
// too, if it missed what its log was cut of meanwhile.
func TestKeepPruned(t *testing.T) {
	slow(t)
	for seed := range cutSeeds() {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			s := newSim(t, seed, openMem(t))
			s.per = []int{1, 16, 1000}[seed%3]
			s.do(core.Own{Owner: "me"})
			kept := openKeeping(t)
			log := gapLog{s.log, map[uint64]bool{}}
			follow := func() {
				t.Helper()
				state, err := core.NewState(kept)
				if err == nil {
					err = replayTo(t.Context(), kept, state, log, log.last())
				}
				if err != nil {
					t.Fatal(err)
				}
				if v, err := kept.Verify(t.Context(), log, nil); err != nil || !v.Equal {
					t.Fatalf("%+v, %v", v, err)
				}
			}
			var rounds [][2]events.Seq
			gaps := 0
			pruned := map[events.ID]int{} // the entries of its history
			for turn := range 6 {
				s.run(150, 1+s.rng.IntN(40))
				s.now = s.now.Add(time.Duration(s.rng.IntN(60)) * time.Hour)
				s.project()
				for _, id := range s.ids {
					h, _, err := s.store.Kept(id)
					if err != nil {
						t.Fatal(err)
					}
					if d := s.do(core.Prune{ID: id}); len(d.Events) > 0 {
						pruned[id] = len(h)
					}
				}
				s.project()
				away := turn > 0 && s.rng.IntN(2) == 0
				if away {
					clear(pruned)
				} else {
					follow()
				}
				for id, n := range pruned {
					h, _, err := kept.Kept(id)
					it, ierr := kept.Item(id)
					if err != nil || ierr != nil || it == nil || it.PrunedSeq == 0 || len(h) != n {
						t.Fatalf("%s: %+v with %d entries of %d, %v, %v", id, it, len(h), n, err, ierr)
					}
				}
				if begin, end := s.round(3); begin != 0 {
					rounds = append(rounds, [2]events.Seq{begin, end})
					for seq := kept.Applied().Frame() + 1; away && seq < begin.Frame(); seq++ {
						log.lost[seq] = true
						gaps++
					}
				}
				s.run(s.rng.IntN(60), 10)
				follow()
				if n := len(rounds) - 2; n >= 0 {
					c := rounds[n]
					if err := kept.DropPruned(c[1], func() error { s.log.first = c[0].Frame(); return nil }); err != nil {
						t.Fatal(err)
					}
					follow()
					clear(pruned)
				}
			}
			if len(rounds) < 3 || gaps == 0 {
				t.Fatalf("%d rounds, %d frames are missing", len(rounds), gaps)
			}
			sameBut(t, kept, s.store)
		})
	}
}

// sameBut fails the test unless a store has all items of another as they are there, and
// beside them only pruned ones.
func sameBut(t *testing.T, kept, plain *Store) {
	t.Helper()
	for _, pair := range [][2]*Store{{plain, kept}, {kept, plain}} {
		for state := range events.ItemState(events.NumStates) {
			err := pair[0].InState(state, func(it *events.Item) error {
				if it.PrunedSeq != 0 {
					return nil
				}
				other, err := pair[1].Item(it.ID)
				if err == nil && !reflect.DeepEqual(it, other) {
					err = fmt.Errorf("%+v, not %+v", it, other)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		}
	}
}

// The id of an item that is pruned and kept may be used again: the new item takes its
// place, in one batch with the old one or in another.
func TestKeptIDIsUsedAgain(t *testing.T) {
	for _, together := range []bool{false, true} {
		s := newSim(t, 1, openKeeping(t))
		s.do(core.Own{Owner: "me"})
		s.do(core.Define{Type: "email"})
		s.project()
		id := s.newID()
		for life := range 3 {
			s.do(core.Submit{Type: "email", ID: id, NewID: id, Params: fmt.Appendf(nil, `{"life":%d}`, life), Labels: map[string]string{"life": fmt.Sprint(life)}})
			tok := s.token()
			s.do(core.Claim{ID: id, Token: tok, Worker: "w", Start: true})
			s.do(core.Complete{Run: core.Run{ID: id, Token: tok, Worker: "w"}, Result: []byte(`1`)})
			if !together {
				s.project()
			}
			s.now = s.now.Add(events.DefaultRetain + time.Second)
			if d := s.do(core.Prune{ID: id}); len(d.Events) == 0 {
				t.Fatal("not pruned")
			}
			if it, err := s.state.Item(id); it != nil || err != nil {
				t.Fatalf("it is still known: %+v, %v", it, err)
			}
			if !together {
				s.project()
			}
		}
		s.project()
		it, err := s.store.Item(id)
		h, _, herr := s.store.Kept(id)
		if err != nil || herr != nil || it.Labels["life"] != "2" || it.PrunedSeq == 0 || len(h) != 5 {
			t.Errorf("together %t: %+v with %d entries, %v, %v", together, it, len(h), err, herr)
		}
		if v, err := s.store.Verify(t.Context(), s.log, nil); err != nil || !v.Equal {
			t.Errorf("together %t: %+v, %v", together, v, err)
		}
	}
}

// A store that has folded something keeps what it was made to keep.
func TestKeepsWhatItWasMadeFor(t *testing.T) {
	dir := t.TempDir()
	s := newSim(t, 1, openMem(t))
	s.do(core.Own{Owner: "me"})
	s.project()
	open := func(keep bool) (*Store, error) { return Open(dir, Options{KeepPruned: keep}) }
	for i, keep := range []bool{true, false, false} {
		kept, err := open(keep)
		if err != nil {
			t.Fatal(err)
		}
		if i == 2 {
			catchUp(t, kept, s.log, s.log.last())
			same(t, kept, s.store)
		}
		if err := kept.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := open(true); !errors.Is(err, ErrKeeps) {
		t.Errorf("%v", err)
	}
	kept, err := open(false)
	if err != nil {
		t.Fatal(err)
	}
	if err := kept.Close(); err != nil {
		t.Error(err)
	}
}

// What an operator purges is not kept, whatever the reason given.
func TestPurgedIsNotKept(t *testing.T) {
	s := newSim(t, 1, openKeeping(t))
	s.do(core.Own{Owner: "me"})
	for _, reason := range []string{"", "asked to be forgotten", "retention"} {
		id := s.submit(core.Submit{Type: "email"})
		s.do(core.Cancel{ID: id})
		s.project()
		if d := s.do(core.Purge{ID: id, Reason: reason}); len(d.Events) == 0 {
			t.Fatal("not purged")
		}
		s.project()
		h, _, err := s.store.Kept(id)
		it, ierr := s.store.Item(id)
		if it != nil || len(h) > 0 || err != nil || ierr != nil {
			t.Errorf("%q: %+v with %d entries, %v, %v", reason, it, len(h), err, ierr)
		}
	}
}
