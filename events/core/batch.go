package core

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/streamwright/streamwright/events"
)

// OpenBatch makes a batch: an item that runs nothing, waits for the items that
// are submitted to it, and completes once it is sealed and all of them have
// ended. One that is there already is answered by a Repeat.
type OpenBatch struct {
	Submit        // of the batch itself; its Type is BatchType
	Name   string // for people
	Count  int    // how many items it will have; 0: SealBatch says
}

// decide makes a batch.
func (c OpenBatch) decide(d *decider) (Decision, error) {
	c.Type = events.BatchType
	about, err := json.Marshal(batchParams{c.Name, c.Count})
	if err != nil {
		return Decision{}, err
	}
	if c.Params = about; c.Count < 0 || c.Count > events.MaxBatchCount {
		return Decision{}, events.Refuse(events.CodeTooLarge, "the batch is to have %d items: at most %d; make several", c.Count, events.MaxBatchCount)
	}
	if _, err := events.CheckText("the batch's name", c.Name, events.MaxNameLen); err != nil {
		return Decision{}, err
	}
	sub := submission{decider: d, c: c.Submit}
	if dec, err := sub.repeated(); dec.Repeat || err != nil {
		return dec, err
	}
	if err := sub.begin(); err != nil {
		return Decision{}, err
	}
	opened := &events.Spawned{Spawn: 1, Children: []events.ID{}, Batch: true, Name: c.Name, Declared: c.Count, Sealed: c.Count > 0}
	return sub.ends(opened), nil
}

// batchParams are the params of a batch's item.
type batchParams struct {
	Name  string `json:"name,omitempty"`
	Count int    `json:"count,omitempty"`
}

// batch returns a batch that must exist.
func (d *decider) batch(id events.ID) (*events.Item, error) {
	it, err := d.state.Item(id)
	if err != nil {
		return nil, err
	}
	if it == nil {
		return nil, events.Refuse(events.CodeNotFound, "there is no batch %s: open it first", id)
	}
	if !relationsOf(it).Batch {
		return nil, events.Refuse(events.CodeBadRequest, "item %s is no batch: open one, and submit to that", id)
	}
	return it, nil
}

// SealBatch settles how many items a batch has: it ends with the last of them.
type SealBatch struct {
	ID    events.ID
	Count int // 0: as many as there are
}

func (c SealBatch) decide(d *decider) (Decision, error) {
	it, err := d.batch(c.ID)
	if err != nil {
		return Decision{}, err
	}
	r := relationsOf(it)
	count := c.Count
	if count == 0 && !r.Sealed {
		count = r.Made
	}
	switch {
	case r.Sealed && (c.Count == 0 || c.Count == r.Declared):
		return Decision{ID: it.ID, Repeat: true}, nil
	case it.State != events.StateWaiting:
		return Decision{}, events.Refuse(events.CodeWrongState, "batch %s is %s, with %d of its items: it takes no more; open another", it.ID, it.State, r.Made)
	case count < r.Made:
		return Decision{}, events.Refuse(events.CodeBadRequest, "the batch has %d items already: seal it with that many or more, not with %d", r.Made, count)
	case count > events.MaxBatchCount:
		return Decision{}, events.Refuse(events.CodeTooLarge, "the batch is to have %d items: at most %d; make several", count, events.MaxBatchCount)
	}
	return Decision{ID: it.ID, Events: []events.Event{d.event(it, &events.Spawned{Spawn: r.Spawns, Children: []events.ID{}, Batch: true, Sealed: true, Declared: count})}}, nil
}

// submitMember decides a submission to a batch.
func (d *decider) submitMember(c *Submit) (Decision, error) {
	s := submission{decider: d, c: *c}
	if dec, err := s.repeated(); dec.Repeat || err != nil {
		return dec, err
	}
	batch, err := d.batch(c.Batch)
	if err != nil {
		return Decision{}, err
	}
	switch r := relationsOf(batch); {
	case batch.State != events.StateWaiting:
		return Decision{}, events.Refuse(events.CodeWrongState, "batch %s is %s: open another", batch.ID, batch.State)
	case r.Sealed && r.Made >= r.Declared:
		return Decision{}, events.Refuse(events.CodeWrongState, "batch %s is sealed, with %d items: open another, or declare more", batch.ID, r.Declared)
	case r.Made >= events.MaxBatchCount:
		return Decision{}, events.Refuse(events.CodeTooLarge, "batch %s has %d items, which is the most: open another", batch.ID, r.Made)
	}
	d.parent, d.spawn = batch, 1
	dec, err := d.submit(c)
	if err != nil {
		return Decision{}, err
	}
	i := slices.IndexFunc(dec.Events, func(ev events.Event) bool { return ev.Kind == events.KindMerged })
	if i < 0 {
		return dec, nil
	}
	into, err := d.canonical(dec.Events[i].Body.(*events.Merged).Into)
	if into == nil || err != nil || !live(into.State) || relationsOf(into).Parent == batch.ID {
		return dec, err
	}
	if blocked, err := d.waitsForParent(into.ID); blocked || err != nil {
		return dec, err
	}
	if all := d.moreWaits(batch, []events.ID{into.ID}); all != nil && len(all.For) <= events.MaxAfter {
		dec.Events = append(dec.Events, d.event(batch, all))
	}
	return dec, nil
}

// EndBatchItem cancels an item of a batch, or a child of a spawn that was made in
// parts, which has ended before it.
type EndBatchItem struct{ ID, Parent events.ID }

// decide cancels what belongs to an item that has ended before it.
func (c EndBatchItem) decide(d *decider) (Decision, error) {
	nothing := Decision{ID: c.ID, Repeat: true}
	it, err := d.state.Item(c.ID)
	if it == nil || err != nil {
		return nothing, err
	}
	parent, err := d.state.Item(c.Parent)
	if parent == nil || err != nil {
		return nothing, err
	}
	if !live(it.State) || !parent.State.Terminal() || relationsOf(it).Parent != parent.ID || relationsOf(it).Spawn != relationsOf(parent).Spawns {
		return nothing, nil
	}
	return Decision{ID: it.ID, Events: []events.Event{d.cancelled(it, "parent_"+parent.State.String(), parent.ID)}}, nil
}

// foldBatch opens a batch, or seals it.
func foldBatch(it *events.Item, b *events.Spawned, ev events.Event) {
	r := ownRelations(it)
	if !r.Batch {
		r.Batch, r.Spawned, r.Spawns, r.ChildPolicy, r.Name = true, true, b.Spawn, events.ChildContinue, b.Name
		it.QueuedAt, it.ExpiresAt = ev.At, time.Time{}
		putOff(it, time.Time{}, time.Time{})
	}
	r.Sealed = b.Sealed
	if b.Declared > 0 {
		r.Declared = b.Declared
	}
	it.Reason = reasonBatch
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
	a.touch(e, a.meta.Applied)
	r := ownRelations(a.writable(e))
	r.Made++
	r.Live++
	return nil
}

var errBatchType = events.Refuse(events.CodeBadType, "type %s is reserved for batches, which run nothing: choose another name, or open a batch", events.BatchType)
