package core

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/streamwright/streamwright/events"
)

// foldPart adds the children of one part to a spawn that is made in parts.
func (a *applier) foldPart(it *events.Item, b *events.Spawned) error {
	r := relationsOf(it)
	if b.Spawn != r.Spawns || b.Part != r.Part+1 {
		return a.corrupt("it is part %d of spawn %d, after part %d of spawn %d", b.Part, b.Spawn, r.Part, r.Spawns)
	}
	have, err := a.childrenOf(it.ID, &r)
	if err != nil {
		return err
	}
	a.setDocument(events.DocChildren, it.ID, childrenDocument(slices.Concat(have, b.Children)))
	r.Part, r.Made = b.Part, r.Made+b.Taken
	r.Live += len(b.Children) - len(b.Existing)
	it.Relations, it.Reason = &r, reasonChildren
	return nil
}

// foldBatch opens a batch, or seals it.
func foldBatch(it *events.Item, b *events.Spawned, ev events.Event) {
	r := relationsOf(it)
	if !r.Batch {
		r.Batch, r.Spawned, r.Spawns, r.ChildPolicy, r.Name = true, true, b.Spawn, events.ChildContinue, b.Name
		it.QueuedAt, it.AvailableAt = ev.At, time.Time{}
	}
	r.Sealed = b.Sealed
	if b.Declared > 0 {
		r.Declared = b.Declared
	}
	it.Relations, it.Reason = &r, reasonBatch
}

// joinBatch counts a new item of a batch.
func (a *applier) joinBatch(it *events.Item) error {
	if it.Relations == nil || it.Relations.Parent.IsZero() {
		return nil
	}
	e, err := a.entry(it.Relations.Parent)
	if e == nil || err != nil {
		return err
	}
	if !relationsOf(e.cur).Batch {
		return nil
	}
	batch := a.writable(e)
	a.touch(e, a.meta.Applied)
	r := relationsOf(batch)
	r.Made++
	r.Live++
	batch.Relations = &r
	return nil
}

// childrenOf lists the children of an item's last spawn, in their order; not
// those of a batch.
func (s *State) childrenOf(id events.ID, r *events.Relations) ([]events.ID, error) {
	if r.Declared == 0 || r.Batch {
		return r.Children, nil
	}
	doc, err := s.Document(events.DocChildren, id)
	if doc == nil || err != nil {
		return nil, err
	}
	var ids []events.ID
	err = json.Unmarshal(doc, &ids)
	return ids, err
}

func childrenDocument(ids []events.ID) []byte {
	doc, err := json.Marshal(ids)
	if err != nil {
		panic("ids that can't be written as JSON: " + err.Error()) // they are plain text
	}
	return doc
}
