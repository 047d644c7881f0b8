package projector

import (
	"testing"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// Changes that are committed together leave the store that they leave one by
// one, whatever the sizes of what is committed together.
func TestGatheredCommits(t *testing.T) {
	slow(t)
	for seed := range uint64(8) {
		one, many := openMem(t), openMem(t)
		s := newSim(t, seed, one)
		var waiting []*core.Changes
		together := 0
		flush := func() {
			t.Helper()
			for len(waiting) > 0 {
				n := 1
				for Gathers(waiting[0]) && n < len(waiting) && Gathers(waiting[n]) {
					n++
				}
				if err := many.Commit(waiting[:n]...); err != nil {
					t.Fatal(err)
				}
				if n > 1 {
					together++
				}
				waiting = waiting[n:]
			}
			if a, b := digestOf(t, one), digestOf(t, many); a != b {
				t.Fatalf("seed %d, position %d: committed together the store differs", seed, one.Applied())
			}
		}
		for range 400 {
			s.step()
			c := s.take()
			if c == nil {
				continue
			}
			if err := one.Commit(c); err != nil {
				t.Fatal(err)
			}
			s.state.Projected(c.Meta.Applied)
			if waiting = append(waiting, c); s.rng.IntN(12) == 0 {
				flush()
			}
		}
		flush()
		if together == 0 {
			t.Fatalf("seed %d: nothing was committed together", seed)
		}
	}
}

// What looks up in the store what runs before it have left is refused beside
// others.
func TestCommitsAlone(t *testing.T) {
	s := openMem(t)
	plain := &core.Changes{Meta: events.Meta{Applied: 1}}
	pruned := &core.Changes{Meta: events.Meta{Applied: 2}, Items: []core.ItemChange{{Old: &events.Item{ID: events.ID{1}}}}}
	if err := s.Commit(plain, pruned); err == nil {
		t.Error("what is pruned is committed together with what came before it")
	}
	if s.Applied() != 0 {
		t.Errorf("the store is at %d", s.Applied())
	}
	if err := s.Commit(plain, &core.Changes{Meta: events.Meta{Applied: 1}}); err == nil {
		t.Error("changes out of order are taken")
	}
}
