package core

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"

	"github.com/streamwright/streamwright/events"
)

// MaxEvents is the most events that a decision of a command makes.
func MaxEvents(c Command) int {
	switch c := c.(type) {
	case Spawn:
		// Each child: its type's settings, created, the cancelled one that it
		// supersedes, and queued, waiting or merged; then waiting and a bad end.
		return min(events.MaxDecisionEvents, 2+6*len(c.Children))
	case SpawnPart:
		return min(events.MaxDecisionEvents, 2+6*len(c.Children))
	case Submit:
		if c.Signal != nil {
			return maxOtherEvents + 2 // signalled, and queued
		}
	case By:
		return MaxEvents(c.Command)
	case FollowUp:
		return 2 + 2*followUpPage
	}
	return maxOtherEvents
}

// maxOtherEvents is MaxEvents of all other commands: a submission makes the
// most, as a child does, and a death may be noted with its cause.
const maxOtherEvents = 8

// Spawn says that a run has ended in children. When all of them have ended, the
// item is queued again for its continuation, or completes if there is none.
type Spawn struct {
	Run
	Children     []Submit // each with its NewID set, in ascending order
	Continues    bool     // there is a continuation
	Continuation string   // its name, for the handler; may be empty
	Policy       events.ChildPolicy
}

// decide ends a run in children: the parent waits for them, and all of it is
// one decision.
func (c Spawn) decide(d *decider) (Decision, error) {
	it, repeat, err := d.report(c.Run, "spawn", false, inChildren)
	if repeat || err != nil {
		return Decision{ID: c.ID, Repeat: repeat}, err
	}
	if err := c.check(); err != nil {
		return Decision{}, err
	}
	p, err := d.plan()
	if err != nil {
		return Decision{}, err
	}
	p.parent, p.spawn = it, relationsOf(it).Spawns+1
	sp := &events.Spawned{Spawn: p.spawn, Continues: c.Continues, Continuation: c.Continuation, ChildPolicy: c.Policy, Duration: d.since(it.StartedAt)}
	var waits []events.ID
	for i := range c.Children {
		if waits, err = p.child(&c.Children[i], sp, waits); err != nil {
			return Decision{}, ofChild(i, p.never(c.Children[:i+1], err))
		}
	}
	evs := make([]events.Event, 0, len(p.events)+2)
	evs = append(append(evs, d.runEvent(it, sp)), p.events...)
	if len(waits) > 0 {
		evs = append(evs, d.event(it, &events.Waiting{Reason: reasonChildren, For: waits, Left: len(waits)}))
	}
	if len(evs) > events.MaxDecisionEvents {
		return Decision{}, events.Refuse(events.CodeTooLarge, "the spawn would make %d events: at most %d; spawn fewer children, and the rest from one of them", len(evs), events.MaxDecisionEvents)
	}
	return Decision{ID: it.ID, Events: evs}, nil
}

func (c *Spawn) check() error {
	switch n := len(c.Children); {
	case n == 0:
		return events.Refuse(events.CodeBadRequest, "the spawn has no children: report complete, or give it some")
	case n > events.MaxWholeSpawn:
		return events.Refuse(events.CodeTooLarge, "the spawn has %d children: one decision makes at most %d, spawn it in parts", n, events.MaxWholeSpawn)
	}
	return checkContinuation(c.Policy, c.Continues, c.Continuation)
}

func checkContinuation(policy events.ChildPolicy, continues bool, continuation string) error {
	if policy != "" && policy != events.ChildFail && policy != events.ChildContinue {
		return events.Refuse(events.CodeBadRequest, "%q is no policy for children: use %s or %s", events.Clip(string(policy), 64), events.ChildFail, events.ChildContinue)
	}
	if continuation != "" && !continues {
		return events.Refuse(events.CodeBadRequest, "the spawn names a continuation and says that there is none")
	}
	_, err := events.CheckText("the continuation's name", continuation, events.MaxNameLen)
	return err
}

// child decides one child, and adds to the items that the parent has to wait
// for beside its own children: what the child turned out to be the same as.
func (p *plan) child(c *Submit, sp *events.Spawned, waits []events.ID) ([]events.ID, error) {
	sub := *c
	if sub.Intake = (events.Intake{}); sub.Trace == "" {
		sub.Trace = p.parent.Trace
	}
	if sub.Tenant == "" {
		sub.Tenant = p.parent.Tenant
	}
	if sub.Priority == nil {
		prio := p.parent.Priority
		sub.Priority = &prio
	}
	dec, err := p.submit(&sub)
	if err != nil {
		return waits, err
	}
	dec.by(p.parent.SubmittedBy)
	if err := p.add(dec.Events...); err != nil {
		return waits, err
	}
	if known, err := p.isChild(sp, dec); known || err != nil {
		return waits, err // it repeats one before it
	}
	sp.Children = append(sp.Children, dec.ID)
	if dec.Repeat {
		sp.Existing = append(sp.Existing, dec.ID)
	}
	same, err := p.canonical(dec.ID)
	if same == nil || err != nil || !live(same.State) || !dec.Repeat && same.ID == dec.ID {
		return waits, err
	}
	if r := relationsOf(same); r.Parent == p.parent.ID && r.Spawn == p.spawn {
		return waits, nil // merged into one of its siblings, which is waited for
	}
	blocked, err := p.waitsForParent(same.ID)
	if blocked || err != nil {
		return waits, err // it is merged, and nobody waits for himself
	}
	return appendOnce(waits, same.ID), nil
}

// never returns the refusal of the last of some children: err, or one for good if it is for a
// rate limit that so many, made at one moment, never pass.
func (p *plan) never(children []Submit, err error) error {
	last := &children[len(children)-1]
	t, known := p.state.Type(last.Type)
	if events.CodeOf(err) != events.CodeRateLimited || !known {
		return err
	}
	for _, r := range t.Settings.Rates {
		value := func(c *Submit) string {
			return events.ValueOf(r.Per, cmp.Or(c.Tenant, p.parent.Tenant), c.Labels)
		}
		n := 0
		for i := range children {
			if c := &children[i]; c.Type == last.Type && c.DedupKey == "" && value(c) == value(last) {
				n++
			}
		}
		if r.At == events.AtSubmit && n > r.AtOnce() {
			return events.Refuse(events.CodeTooLarge, "type %s takes %d at once per %s at submit: spawn fewer children, and the rest from one of them", last.Type, r.AtOnce(), r.Per)
		}
	}
	return err
}

// ofChild says which child was refused.
func ofChild(i int, err error) error {
	var refused *events.Error
	if !errors.As(err, &refused) {
		return err
	}
	return &events.Error{Code: refused.Code, Message: events.Refuse(refused.Code, "child %d: %s", i, refused.Message).Message, RetryAfter: refused.RetryAfter}
}

// SpawnInParts is a Spawn of more than MaxWholeSpawn children: the parent waits
// for as many as are declared, and [SpawnPart] makes them. Whoever decides it
// has checked the children.
type SpawnInParts struct {
	Run
	Declared     int
	Pending      string // reference of the document that has them, as JSON
	Continues    bool
	Continuation string
	Policy       events.ChildPolicy
}

// decide ends a run in children that are made later.
func (c SpawnInParts) decide(d *decider) (Decision, error) {
	it, repeat, err := d.report(c.Run, "spawn", false, inChildren)
	if repeat || err != nil {
		return Decision{ID: c.ID, Repeat: repeat}, err
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
		Continues: c.Continues, Continuation: c.Continuation, ChildPolicy: c.Policy, Duration: d.since(it.StartedAt),
	})}}, nil
}

// SpawnPart makes further children of a spawn that was declared. A part that is
// there already, or of a spawn that is over, is answered by a Repeat.
type SpawnPart struct {
	ID       events.ID
	Spawn    int
	From     int // how many children the parts before have made
	Children []Submit
	// Lost, if set, says why the children can't be had: the item is dead.
	Lost string
}

// decide makes the next children of a spawn that was declared.
func (c SpawnPart) decide(d *decider) (Decision, error) {
	it, err := d.state.Item(c.ID)
	if err != nil {
		return Decision{}, err
	}
	if it == nil {
		return Decision{ID: c.ID, Repeat: true}, nil
	}
	r := relationsOf(it)
	if !r.Unmade() || r.Spawns != c.Spawn || c.From < r.Made && c.Lost == "" {
		return Decision{ID: c.ID, Repeat: true}, nil
	}
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

// temporary reports whether what was refused may be let through later.
func temporary(err error) bool {
	switch events.CodeOf(err) {
	case events.CodeQueueFull, events.CodeRateLimited, events.CodeUnavailable:
		return true
	}
	return false
}

// notSpawned ends a parent whose children can't all be made. The children that
// exist are cancelled, as after any end of a parent.
func (d *decider) notSpawned(it *events.Item, why string) Decision {
	return Decision{ID: it.ID, Events: d.dead(it, &events.Dead{
		Reason: events.DeadNotSpawned, Attempts: it.Attempt, Code: events.DeadNotSpawned, Error: events.Shorten("its children can't all be made: "+why, events.MaxErrorText),
	})}
}

// moreWaits adds to what an item waits for. It returns nil if it waits for all of
// more already.
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

// childrenOf lists the children of an item's last spawn, in their order; not the
// items of a batch.
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
