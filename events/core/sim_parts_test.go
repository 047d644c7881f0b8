package core

import (
	"slices"

	"github.com/streamwright/streamwright/events"
)

func isBatch(r *events.Relations) bool { return r.Batch }

// family is an item whose relations are so, zero if there is none.
func (s *sim) family(label string, is func(*events.Relations) bool) events.ID {
	return s.one(label, func(it *events.Item) bool { return it.Relations != nil && is(it.Relations) })
}

// one is an item of which something is so, zero for none.
func (s *sim) one(label string, is func(*events.Item) bool) events.ID {
	var found []events.ID
	for _, id := range s.ids {
		it, err := s.oracle.Item(id)
		s.must(err)
		if it != nil && is(it) {
			found = append(found, id)
		}
	}
	if len(found) == 0 {
		return events.ID{}
	}
	return pick(s, label, found...)
}

// partsCommand draws what concerns spawns in parts, and batches.
func (s *sim) partsCommand(r Run) Command {
	batch := s.family("batch", isBatch)
	switch pick(s, "parts", 0, 1, 1, 1, 2, 3, 4) {
	case 0:
		return SpawnInParts{Run: r, Declared: pick(s, "declared", 0, 1, 2, 4), Pending: pick(s, "pending", "", "ref", "ref"),
			Continues: s.chance("continues", 50), Policy: pick(s, "child policy", events.ChildPolicy(""), events.ChildFail, events.ChildContinue)}
	case 1:
		return s.spawnPart()
	case 2:
		if !batch.IsZero() && s.chance("seal", 60) {
			return SealBatch{ID: batch, Count: pick(s, "count", 0, 0, 1, 3)}
		}
	case 3:
		member := s.family("member", func(r *events.Relations) bool { return !r.Parent.IsZero() })
		if it, err := s.oracle.Item(member); err == nil && it != nil {
			return EndBatchItem{ID: member, Parent: it.Relations.Parent}
		}
	}
	c := OpenBatch{Submit: Submit{NewID: s.freshID()}, Name: pick(s, "name", "", "nightly"), Count: pick(s, "count", 0, 0, 2)}
	if s.chance("own id", 30) {
		c.ID = c.NewID
	}
	return c
}

func (s *sim) spawnPart() Command {
	parent := s.family("parent", (*events.Relations).Unmade)
	if parent.IsZero() {
		parent = s.anID()
	}
	it, err := s.oracle.Item(parent)
	s.must(err)
	c := SpawnPart{ID: parent, Spawn: 1}
	if it != nil && it.Relations != nil {
		c.Spawn, c.From = it.Relations.Spawns, it.Relations.Made+pick(s, "from", -1, 0, 0, 0, 1)
	}
	if s.chance("lost", 5) {
		c.Lost = "it is gone"
	}
	for range pick(s, "of a part", 1, 1, 2, 3) {
		kid := s.draft()
		if s.chance("sound child", 95) {
			kid = Submit{Type: pick(s, "child type", events.Type("email"), "call"), NewID: kid.NewID, ID: kid.ID, DedupKey: kid.DedupKey, IdempotencyKey: kid.IdempotencyKey}
		}
		kid.Batch = events.ID{}
		if slices.ContainsFunc(c.Children, func(k Submit) bool { return k.ID == kid.ID }) {
			kid.ID = events.ID{}
		}
		c.Children = append(c.Children, kid)
	}
	return c
}

// kids are the children of an item's last spawn, or the items of a batch.
func (s *sim) kids(id events.ID, r *events.Relations) (kids []events.ID) {
	if !r.Batch {
		kids, err := s.oracle.childrenOf(id, r)
		s.must(err)
		return kids
	}
	for kid, e := range present(s.oracle) {
		if relationsOf(e.cur).Parent == id {
			kids = append(kids, kid)
		}
	}
	slices.SortFunc(kids, compareIDs)
	return kids
}

// errand does what the dispatcher does where a follow-up can't, or leaves children
// that are still to be made for later. It reports whether that was called for.
func (s *sim) errand(it *events.Item) bool {
	r := relationsOf(it)
	switch {
	case r.Unmade():
		return true
	case it.State.Terminal() && r.InParts() && r.Live > 0:
		s.busy[it.ID] = true
		for _, kid := range s.kids(it.ID, &r) {
			s.do(EndBatchItem{ID: kid, Parent: it.ID})
		}
		delete(s.busy, it.ID)
		return !s.oracle.items[it.ID].cur.NeedsFollowUp()
	}
	return false
}
