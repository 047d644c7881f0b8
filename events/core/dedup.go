package core

import (
	"cmp"
	"slices"

	"github.com/streamwright/streamwright/events"
)

// duplicate is the item that a submission duplicates, and what follows from that.
type duplicate struct {
	of     *events.Item // nil: nothing
	policy events.DedupPolicy
	reason string // dedup_key, verdict
}

// duplicateOf finds the item that a submission is a duplicate of: the one that
// the host's verdict names, else the holder of its dedup key.
func (s *submission) duplicateOf() (duplicate, error) {
	if s.c.Verdict != nil {
		return s.byVerdict()
	}
	if s.c.DedupKey == "" {
		return duplicate{}, nil
	}
	dup := duplicate{policy: cmp.Or(s.c.DedupPolicy, s.typ.Settings.DedupPolicy, events.DedupMerge), reason: "dedup_key"}
	held, has, err := s.state.Key(events.KeyRef{Kind: events.KeyDedup, Type: s.c.Type, Key: s.c.DedupKey}, s.now)
	if err != nil || !has {
		return duplicate{}, err
	}
	it, err := s.state.Item(held.ID)
	if it == nil || err != nil {
		return duplicate{}, err
	}
	return s.settleOn(dup, it)
}

// byVerdict is duplicateOf for a submission that the host's hook has judged.
func (s *submission) byVerdict() (duplicate, error) {
	none := duplicate{policy: events.DedupDistinct}
	dup := duplicate{policy: cmp.Or(s.c.Verdict.Policy, events.DedupMerge), reason: "verdict"}
	if dup.policy == events.DedupDistinct || s.c.Verdict.Canonical == s.it.ID {
		return none, nil
	}
	it, err := s.canonical(s.c.Verdict.Canonical)
	if it == nil || err != nil || it.Type != s.c.Type {
		return none, err // it is gone by now, or never was
	}
	if dup, err = s.settleOn(dup, it); err != nil || dup.of == nil {
		return none, err
	}
	return dup, nil
}

// settleOn makes of what a submission is the same as what can be: an item that
// has ended counts only for its dedup window, and only to be merged into; and
// nobody waits for, or replaces, one that waits for him.
func (s *submission) settleOn(dup duplicate, it *events.Item) (duplicate, error) {
	if !live(it.State) {
		inWindow, err := s.inWindow(it)
		if err != nil || dup.policy != events.DedupMerge || !inWindow {
			return duplicate{}, err
		}
		dup.of = it
		return dup, nil
	}
	if dup.policy == events.DedupSupersede || dup.policy == events.DedupDefer {
		blocked, err := s.waitsForParent(it.ID)
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
	held, has, err := d.state.Key(events.KeyRef{Kind: events.KeyDedup, Type: it.Type, Key: it.DedupKey}, d.now)
	return has && held.ID == it.ID, err
}

// canonical returns an item, or the one that it was merged into, nil for none.
func (d *decider) canonical(id events.ID) (*events.Item, error) {
	for range events.MaxAfter { // a chain of merges; each is into an older item
		it, err := d.state.Item(id)
		if it == nil || err != nil || it.State != events.StateMerged {
			return it, err
		}
		id = it.MergedInto
	}
	return nil, nil
}

// recordPolicy notes what has become of a duplicate. The policy distinct says
// that its dedup key is another's: an item that only the verdict calls distinct,
// and whose key is free, takes the key.
func (s *submission) recordPolicy(dup duplicate) error {
	switch {
	case dup.of == nil && dup.policy != events.DedupDistinct:
		return nil
	case dup.policy == events.DedupDistinct && s.cr.DedupKey != "":
		held, taken, err := s.state.Key(events.KeyRef{Kind: events.KeyDedup, Type: s.it.Type, Key: s.cr.DedupKey}, s.now)
		if err != nil || !taken || !held.Until.IsZero() {
			return err
		}
	}
	termsOf(s.cr).DedupPolicy = dup.policy
	return nil
}

// merged makes a submission a part of what it duplicates, and gives that its priority
// if it names one that is higher. What runs keeps its own: its worker has it already, and its
// failure is dealt with by the priority that it ran with.
func (s *submission) merged(dup duplicate) Decision {
	of, m := dup.of, &events.Merged{Into: dup.of.ID, Reason: dup.reason}
	if s.c.Priority == nil || s.cr.Priority <= of.Priority || of.State.Terminal() {
		return s.ends(m)
	}
	if running(of.State) {
		m.NotRaised = of.State
		dec := s.ends(m)
		dec.NotRaised = of.State
		return dec
	}
	m.Raised = true
	dec := s.ends(m)
	dec.Raised = true
	dec.Events = append(dec.Events, s.event(of, &events.Rescheduled{Priority: s.cr.Priority, OrderAt: of.OrderAt, AvailableAt: of.AvailableAt, By: s.it.ID}))
	return dec
}

// inPlaceOf has a submission replace the holder of its key, or wait for it.
func (s *submission) inPlaceOf(dup duplicate, w *events.Waiting, q *events.Queued) {
	of := dup.of
	begun := of.State != events.StateQueued && (of.State != events.StateWaiting || relationsOf(of).Spawned || of.Wait() != nil)
	if dup.policy == events.DedupDefer || begun {
		w.Reason, w.Behind = string(dup.policy), of.ID
		w.For = appendOnce(slices.Clone(w.For), of.ID)
		return
	}
	s.evs = append(s.evs, s.cancelled(of, "superseded", s.it.ID))
	if of.State == events.StateWaiting {
		r := relationsOf(of)
		w.Reason, w.Behind = string(dup.policy), r.Behind
		for _, id := range r.Waits {
			w.For = appendOnce(w.For, id)
		}
		if (s.cr.SubmitOptions == nil || len(s.cr.After) == 0) && r.Policy != "" {
			termsOf(s.cr).AfterPolicy = r.Policy
		}
	} else if of.Priority == s.cr.Priority && s.cr.AvailableAt.IsZero() && of.AvailableAt.IsZero() && (s.cr.SubmitOptions == nil || s.cr.Score == nil) {
		q.OrderAt = of.OrderAt
	}
}

func appendOnce(ids []events.ID, id events.ID) []events.ID {
	if slices.Contains(ids, id) {
		return ids
	}
	return append(ids, id)
}
