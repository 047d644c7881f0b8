package core

import (
	"encoding/json"
	"errors"
	"slices"

	"github.com/streamwright/streamwright/events"
)

var errBatchType = events.Refuse(events.CodeBadType, "type %s is reserved for batches, which run nothing: choose another name, or open a batch", events.BatchType)

// decide ends a run in children that are made later.
func (c SpawnInParts) decide(d *decider) (Decision, error) {
	it, repeat, err := d.spawning(c.Run)
	if repeat || err != nil {
		return Decision{ID: c.Run.ID, Repeat: repeat}, err
	}
	if c.Declared < 1 || c.Declared > events.MaxChildren {
		return Decision{}, events.Refuse(events.CodeTooLarge, "the spawn has %d children: at most %d; spawn fewer, and the rest from one of them", c.Declared, events.MaxChildren)
	}
	if c.Pending == "" || len(c.Pending) > events.MaxKeyLen {
		return Decision{}, events.Refuse(events.CodeBadRequest, "the spawn does not say where its children are: give a reference of at most %d bytes", events.MaxKeyLen)
	}
	if err := checkContinuation(c.Policy, c.Continues, c.Continuation); err != nil {
		return Decision{}, err
	}
	return Decision{ID: it.ID, Events: []events.Event{d.runEvent(it, &events.Spawned{
		Spawn: relationsOf(it).Spawns + 1, Children: []events.ID{}, Declared: c.Declared, Pending: c.Pending,
		Continues: c.Continues, Continuation: c.Continuation, ChildPolicy: c.Policy, DurationMS: d.since(it.StartedAt),
	})}}, nil
}

// decide makes the next children of a spawn that was declared.
func (c SpawnPart) decide(d *decider) (Decision, error) {
	it, err := d.state.Item(c.ID)
	if err != nil {
		return Decision{}, err
	}
	if it == nil || !unmade(relationsOf(it), c.Spawn) || c.From < it.Relations.Made && c.Lost == "" {
		return Decision{ID: c.ID, Repeat: true}, nil
	}
	r := relationsOf(it)
	if c.Lost != "" {
		return d.notSpawned(it, c.Lost), nil
	}
	if n := len(c.Children); c.From != r.Made || n == 0 || n > events.SpawnPartSize || r.Made+n > r.Declared {
		return Decision{}, events.Refuse(events.CodeBadRequest, "a part of the spawn has %d children behind %d, where %d of %d are made: the parts come in order, with 1 to %d children each", n, c.From, r.Made, r.Declared, events.SpawnPartSize)
	}
	p, err := d.plan()
	if err != nil {
		return Decision{}, err
	}
	p.parent, p.spawn = it, c.Spawn
	sp := &events.Spawned{Spawn: c.Spawn, Children: []events.ID{}, Part: r.Part + 1, Taken: len(c.Children)}
	var waits []events.ID
	for i := range c.Children {
		waits, err = p.child(&c.Children[i], sp, waits)
		var refused *events.Error
		switch {
		case err == nil:
		case errors.As(err, &refused) && !temporary(err):
			return d.notSpawned(it, ofChild(r.Made+i, err).Error()), nil
		default:
			return Decision{}, err
		}
	}
	evs := append([]events.Event{d.event(it, sp)}, p.events...)
	if all := d.moreWaits(it, waits); all != nil {
		evs = append(evs, d.event(it, all))
	}
	return Decision{ID: it.ID, Events: evs}, nil
}

// unmade reports whether children of that spawn are still to be made.
func unmade(r events.Relations, spawn int) bool { return r.Unmade() && r.Spawns == spawn }

// temporary reports whether what was refused may be let through later.
func temporary(err error) bool {
	switch events.CodeOf(err) {
	case events.CodeQueueFull, events.CodeRateLimited, events.CodeUnavailable:
		return true
	}
	return false
}

// notSpawned is the end of a parent whose children can't all be made. Those that
// are there are cancelled, as after any end of a parent.
func (d *decider) notSpawned(it *events.Item, why string) Decision {
	return Decision{ID: it.ID, Events: d.dead(it, &events.Dead{
		Reason: reasonNotSpawned, Attempts: it.Attempt, Code: reasonNotSpawned, Error: events.Shorten("its children can't all be made: "+why, events.MaxErrorText),
	})}
}

// moreWaits is how an item comes to wait for others beside those that it waits
// for, nil for no others.
func (d *decider) moreWaits(it *events.Item, more []events.ID) *events.Waiting {
	all := slices.Clone(relationsOf(it).Waits)
	for _, id := range more {
		all = appendOnce(all, id)
	}
	if len(all) == len(relationsOf(it).Waits) {
		return nil
	}
	return &events.Waiting{Reason: it.Reason, For: all, Left: len(all)}
}

// isChild reports whether a child that was just decided is one of the spawn
// already.
func (p *plan) isChild(sp *events.Spawned, dec Decision) (bool, error) {
	if slices.Contains(sp.Children, dec.ID) {
		return true, nil
	}
	if sp.Part <= 1 || !dec.Repeat {
		return false, nil
	}
	if p.made == nil {
		have, err := p.state.childrenOf(p.parent.ID, p.parent.Relations)
		if err != nil {
			return false, err
		}
		p.made = make(map[events.ID]bool, len(have))
		for _, id := range have {
			p.made[id] = true
		}
	}
	return p.made[dec.ID], nil
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
	sub := submission{decider: d, c: &c.Submit}
	if dec, done, err := sub.repeated(); done || err != nil {
		return dec, err
	}
	if err := sub.begin(); err != nil {
		return Decision{}, err
	}
	opened := &events.Spawned{Spawn: 1, Children: []events.ID{}, Batch: true, Name: c.Name, Declared: c.Count, Sealed: c.Count > 0}
	return Decision{ID: sub.it.ID, Events: append(sub.evs, d.event(sub.it, opened))}, nil
}

// batchParams are the params of a batch's item.
type batchParams struct {
	Name  string `json:"name,omitempty"`
	Count int    `json:"count,omitempty"`
}

// batch is the batch of an id.
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
	s := submission{decider: d, c: c}
	if dec, done, err := s.repeated(); done || err != nil {
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
	merged, ok := dec.Events[len(dec.Events)-1].Body.(*events.Merged)
	if !ok {
		return dec, nil
	}
	into, err := d.canonical(merged.Into)
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

// decide cancels what belongs to an item that has ended before it.
func (c EndMember) decide(d *decider) (Decision, error) {
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
