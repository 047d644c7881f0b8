package projector

import (
	"slices"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// randomTerms adds what a submission may say of others, and of its time.
func (s *sim) randomTerms(c *core.Submit) {
	c.DedupPolicy = []events.DedupPolicy{"", "", events.DedupDistinct, events.DedupSupersede, events.DedupDefer}[s.rng.IntN(5)]
	switch s.rng.IntN(8) {
	case 0:
		window := time.Duration(s.rng.IntN(10_000)) * time.Millisecond
		c.DedupWindow = &window
	case 1, 2:
		for range min(len(s.ids), 1+s.rng.IntN(3)) {
			c.After = append(c.After, s.ids[len(s.ids)-1-s.rng.IntN(min(len(s.ids), 20))])
		}
		c.AfterPolicy = []events.AfterPolicy{"", events.AfterRun, events.AfterDead}[s.rng.IntN(3)]
	case 3:
		c.ExpiresAt = s.now.Add(time.Duration(s.rng.IntN(20_000)) * time.Millisecond)
		c.Estimate = time.Duration(s.rng.IntN(3)) * time.Minute
	case 4:
		c.Verdict = &events.Verdict{Policy: []events.DedupPolicy{events.DedupMerge, events.DedupDistinct, events.DedupSupersede, events.DedupDefer}[s.rng.IntN(4)]}
		if len(s.ids) > 0 {
			c.Verdict.Canonical = s.ids[s.rng.IntN(len(s.ids))]
		}
	}
}

func (s *sim) randomSpawn(run core.Run) core.Command {
	c := core.Spawn{Run: run, Continues: s.rng.IntN(2) == 0, Policy: []events.ChildPolicy{"", events.ChildContinue}[s.rng.IntN(2)]}
	for range 1 + s.rng.IntN(4) {
		kid := core.Submit{Type: simTypes[s.rng.IntN(len(simTypes))], NewID: s.newID()}
		if s.rng.IntN(4) == 0 {
			kid.DedupKey = "dedup \x00 1"
		}
		c.Children = append(c.Children, kid)
	}
	return c
}

// followUps decides what follows, mostly at once; what is left, later decisions
// and a new owner find again.
func (s *sim) followUps() {
	ids := s.state.TakeFollowUps()
	for len(ids) > 0 && s.rng.IntN(50) > 0 {
		if d := s.do(core.FollowUp{ID: ids[0]}); len(d.Events) == 0 {
			ids = ids[1:]
		} else if !d.ID.IsZero() {
			s.noteChildren(d.ID)
		}
		ids = append(ids, s.state.TakeFollowUps()...)
	}
}

// noteChildren lets what was spawned be drawn, too.
func (s *sim) noteChildren(id events.ID) {
	it, err := s.state.Item(id)
	if err != nil || it == nil || it.Relations == nil {
		return
	}
	for _, kid := range it.Relations.Children {
		if !slices.Contains(s.ids, kid) {
			s.ids = append(s.ids, kid)
		}
	}
}

// The indexes of relations are what the items say.
func TestRelationsAreIndexed(t *testing.T) {
	slow(t)
	live := openMem(t)
	s := newSim(t, 81, live)
	s.run(3000, 11)
	waiters, kids, follow := map[events.ID][]events.ID{}, map[events.ID][]events.ID{}, []events.ID(nil)
	for id, it := range s.items() {
		if it.NeedsFollowUp() {
			follow = append(follow, id)
		}
		if it.Relations == nil {
			continue
		}
		for _, of := range it.Relations.Waits {
			waiters[of] = append(waiters[of], id)
		}
		if p := it.Relations.Parent; !p.IsZero() {
			kids[p] = append(kids[p], id)
		}
	}
	if len(waiters) == 0 || len(kids) == 0 || len(follow) == 0 {
		t.Fatalf("nothing to look at: %d waited for, %d parents, %d follow-ups", len(waiters), len(kids), len(follow))
	}
	same := func(what string, want []events.ID, read func(behind events.ID) ([]events.ID, error)) {
		t.Helper()
		slices.SortFunc(want, func(a, b events.ID) int { return slices.Compare(a[:], b[:]) })
		var got []events.ID
		var behind events.ID
		for {
			page, err := read(behind)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			got = append(got, page...)
			behind = page[len(page)-1]
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%s: %v, want %v", what, got, want)
		}
	}
	for id := range s.items() {
		same("waiters", waiters[id], func(b events.ID) ([]events.ID, error) { return live.Waiters(id, b, 2) })
		same("children", kids[id], func(b events.ID) ([]events.ID, error) { return live.Children(id, b, 2) })
	}
	same("follow-ups", follow, func(b events.ID) ([]events.ID, error) { return live.FollowUps(b, 2) })
}
