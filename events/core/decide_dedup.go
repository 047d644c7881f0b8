package core

import (
	"slices"

	"github.com/streamwright/streamwright/events"
)

// duplicate is what a submission is the same as, and what follows from that.
type duplicate struct {
	of     *events.Item // nil: nothing
	policy events.DedupPolicy
	reason string // dedup_key, verdict
}

// duplicateOf finds the item that a submission is a duplicate of: the one that
// the host's verdict names, else the holder of its dedup key.
func (d *decider) duplicateOf(c *Submit, id events.ID, set events.TypeSettings) (duplicate, error) {
	if c.Verdict != nil {
		return d.byVerdict(c, id)
	}
	if c.DedupKey == "" {
		return duplicate{}, nil
	}
	dup := duplicate{policy: firstOf(c.DedupPolicy, set.DedupPolicy, events.DedupMerge), reason: "dedup_key"}
	held, has, err := d.s.Key(events.KeyRef{Kind: events.KeyDedup, Type: c.Type, Key: c.DedupKey}, d.now)
	if err != nil || !has {
		return duplicate{}, err
	}
	it, err := d.s.Item(held.ID)
	if it == nil || err != nil {
		return duplicate{}, err
	}
	return d.settleOn(dup, it)
}

// byVerdict is duplicateOf for a submission that the host's hook has judged.
func (d *decider) byVerdict(c *Submit, id events.ID) (duplicate, error) {
	none := duplicate{policy: events.DedupDistinct}
	dup := duplicate{policy: firstOf(c.Verdict.Policy, events.DedupMerge), reason: "verdict"}
	if dup.policy == events.DedupDistinct || c.Verdict.Canonical == id {
		return none, nil
	}
	it, err := d.canonical(c.Verdict.Canonical)
	if it == nil || err != nil || it.Type != c.Type {
		return none, err // it is gone by now, or never was
	}
	if dup, err = d.settleOn(dup, it); err != nil || dup.of == nil {
		return none, err
	}
	return dup, nil
}

// settleOn makes of what a submission is the same as what can be: an item that
// has ended counts only for its dedup window, and only to be merged into; and
// nobody waits for, or replaces, one that waits for him.
func (d *decider) settleOn(dup duplicate, it *events.Item) (duplicate, error) {
	if !live(it.State) {
		inWindow, err := d.inWindow(it)
		if err != nil || dup.policy != events.DedupMerge || !inWindow {
			return duplicate{}, err
		}
		dup.of = it
		return dup, nil
	}
	if dup.policy == events.DedupSupersede || dup.policy == events.DedupDefer {
		blocked, err := d.waitsForParent(it.ID)
		if err != nil {
			return duplicate{}, err
		}
		if blocked {
			dup.policy = events.DedupDistinct
		}
	}
	dup.of = it
	return dup, nil
}

// inWindow reports whether a completed item still has its dedup key.
func (d *decider) inWindow(it *events.Item) (bool, error) {
	if it.DedupKey == "" || it.State != events.StateCompleted {
		return false, nil
	}
	held, has, err := d.s.Key(events.KeyRef{Kind: events.KeyDedup, Type: it.Type, Key: it.DedupKey}, d.now)
	return has && held.ID == it.ID, err
}

// canonical returns an item, or the one that it was merged into, nil for none.
func (d *decider) canonical(id events.ID) (*events.Item, error) {
	for range events.MaxAfter { // a chain of merges; each is into an older item
		it, err := d.s.Item(id)
		if it == nil || err != nil || it.State != events.StateMerged {
			return it, err
		}
		id = it.MergedInto
	}
	return nil, nil
}

func firstOf(policies ...events.DedupPolicy) events.DedupPolicy {
	for _, p := range policies {
		if p != "" {
			return p
		}
	}
	return ""
}

// placed decides where a submission goes that may be a duplicate, or may have
// to wait. evs end with its created, whose terms are filled in here.
func (d *decider) placed(c *Submit, it *events.Item, set events.TypeSettings, cr *events.Created, evs []events.Event) (Decision, error) {
	dup, err := d.duplicateOf(c, it.ID, set)
	if err != nil {
		return Decision{}, err
	}
	if dup.of != nil && dup.policy == events.DedupMerge {
		evs = append(evs, d.event(it, &events.Merged{Into: dup.of.ID, Reason: dup.reason}))
		return Decision{ID: it.ID, Events: evs}, nil
	}
	if err := d.admit(it.Type, cr, set); err != nil {
		return Decision{}, err
	}
	if err := d.recordPolicy(dup, it, cr); err != nil {
		return Decision{}, err
	}
	up, err := d.upstream(c)
	if err != nil {
		return Decision{}, err
	}
	w := &events.Waiting{Reason: "after", For: up.waits}
	q := d.queued(cr)
	if dup.of != nil && dup.policy != events.DedupDistinct {
		evs = d.inPlaceOf(dup, it, cr, w, q, evs)
	}
	w.Left = len(w.For)
	switch {
	case up.bad != nil && afterPolicyOf(cr) != events.AfterRun:
		w.Behind = events.ID{}
		evs = append(append(evs, d.event(it, w)), d.badEnd(it, up.bad, afterPolicyOf(cr))...)
		return Decision{ID: it.ID, Events: evs}, nil
	case len(w.For) > 0:
		return Decision{ID: it.ID, Events: append(evs, d.event(it, w))}, nil
	}
	return Decision{ID: it.ID, Events: append(evs, d.event(it, q))}, nil
}

// recordPolicy notes what has become of a duplicate. That its policy is distinct
// says that its dedup key is another's: one that only the verdict calls so, and
// whose key is free, takes that.
func (d *decider) recordPolicy(dup duplicate, it *events.Item, cr *events.Created) error {
	switch {
	case dup.of == nil && dup.policy != events.DedupDistinct:
		return nil
	case dup.policy == events.DedupDistinct && cr.DedupKey != "":
		held, taken, err := d.s.Key(events.KeyRef{Kind: events.KeyDedup, Type: it.Type, Key: cr.DedupKey}, d.now)
		if err != nil || !taken || !held.Until.IsZero() {
			return err
		}
	}
	changeTerms(cr, func(t *events.Terms) { t.DedupPolicy = dup.policy })
	return nil
}

// inPlaceOf has a submission replace the holder of its key, or wait for it.
func (d *decider) inPlaceOf(dup duplicate, it *events.Item, cr *events.Created, w *events.Waiting, q *events.Queued, evs []events.Event) []events.Event {
	of := dup.of
	begun := of.State != events.StateQueued && (of.State != events.StateWaiting || relationsOf(of).Spawned)
	if dup.policy == events.DedupDefer || begun {
		w.Reason, w.Behind = string(dup.policy), of.ID
		w.For = appendOnce(slices.Clone(w.For), of.ID)
		return evs
	}
	evs = append(evs, d.cancelled(of, "superseded", it.ID))
	if of.State == events.StateWaiting {
		r := relationsOf(of)
		w.Reason, w.Behind = string(dup.policy), r.Behind
		for _, id := range r.Waits {
			w.For = appendOnce(w.For, id)
		}
		if len(afterOf(cr)) == 0 && r.Policy != "" {
			changeTerms(cr, func(t *events.Terms) { t.AfterPolicy = r.Policy })
		}
	} else if of.Priority == cr.Priority && cr.AvailableAt.IsZero() && of.AvailableAt.IsZero() && (cr.Terms == nil || cr.ScoreMS == nil) {
		q.OrderAt = of.OrderAt
	}
	return evs
}

func appendOnce(ids []events.ID, id events.ID) []events.ID {
	if slices.Contains(ids, id) {
		return ids
	}
	return append(ids, id)
}

// change writes the terms of a created event that is still being made.
func changeTerms(cr *events.Created, fn func(*events.Terms)) {
	t := events.Terms{}
	if cr.Terms != nil {
		t = *cr.Terms
	}
	fn(&t)
	cr.Terms = &t
}

func afterOf(cr *events.Created) []events.ID {
	if cr.Terms == nil {
		return nil
	}
	return cr.After
}

func afterPolicyOf(cr *events.Created) events.AfterPolicy {
	if cr.Terms == nil || cr.AfterPolicy == "" {
		return events.AfterCancel
	}
	return cr.AfterPolicy
}
