package core

import (
	"errors"

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
	case FollowUp:
		return 2 + 2*followUpPage
	}
	return maxOtherEvents
}

// maxOtherEvents is MaxEvents of all other commands: a submission makes the
// most, as a child does, and a death may be noted with its cause.
const maxOtherEvents = 8

// decide ends a run in children: the parent waits for them, and all of it is
// one decision.
func (c Spawn) decide(d *decider) (Decision, error) {
	it, repeat, err := d.spawning(c.Run)
	if repeat || err != nil {
		return Decision{ID: c.Run.ID, Repeat: repeat}, err
	}
	if err := c.check(); err != nil {
		return Decision{}, err
	}
	p, err := d.plan()
	if err != nil {
		return Decision{}, err
	}
	p.parent, p.spawn = it, relationsOf(it).Spawns+1
	sp := &events.Spawned{Spawn: p.spawn, Continues: c.Continues, Continuation: c.Continuation, ChildPolicy: c.Policy, DurationMS: d.since(it.StartedAt)}
	var waits []events.ID
	for i := range c.Children {
		if waits, err = p.child(&c.Children[i], sp, waits); err != nil {
			return Decision{}, ofChild(i, err)
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

// spawning is the item of a run that may end in children, or has done so.
func (d *decider) spawning(run Run) (it *events.Item, repeat bool, err error) {
	if it, err = d.current(run); err != nil {
		return nil, false, err
	}
	switch {
	case inChildren(it):
		return it, true, nil
	case it.State == events.StateClaimed:
		return nil, false, notStarted(it, "spawn")
	case it.State != events.StateRunning:
		return nil, false, wrongState(it, "spawn")
	}
	return it, false, nil
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

// ofChild says which child was refused.
func ofChild(i int, err error) error {
	var refused *events.Error
	if !errors.As(err, &refused) {
		return err
	}
	return &events.Error{Code: refused.Code, Message: events.Refuse(refused.Code, "child %d: %s", i, refused.Message).Message, RetryAfter: refused.RetryAfter}
}
