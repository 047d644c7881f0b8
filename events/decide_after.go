package events

import (
	"slices"
	"time"
)

// terms checks what a submission says beyond the plain, and records it.
func (d *decider) terms(c *Submit, set TypeSettings, cr *Created) error {
	window := time.Duration(set.DedupWindowMS) * time.Millisecond
	if c.DedupWindow != nil {
		window = *c.DedupWindow
	}
	if c.DedupKey != "" && window.Milliseconds() > 0 {
		cr.change(func(t *Terms) { t.DedupWindowMS = window.Milliseconds() })
	}
	if err := d.expiry(c, cr); err != nil {
		return err
	}
	if ms := c.Estimate.Milliseconds(); ms > 0 {
		cr.change(func(t *Terms) { t.EstimateMS = ms })
	}
	if len(c.After) > 0 {
		cr.change(func(t *Terms) { t.After, t.AfterPolicy = slices.Clone(c.After), firstAfter(c.AfterPolicy) })
	}
	if d.parent != nil {
		cr.change(func(t *Terms) { t.Parent, t.Spawn = d.parent.ID, d.spawn })
	}
	return d.judged(c, cr)
}

// firstAfter is the policy in full.
func firstAfter(p AfterPolicy) AfterPolicy {
	if p == "" {
		return AfterCancel
	}
	return p
}

func (d *decider) expiry(c *Submit, cr *Created) error {
	at := c.ExpiresAt.UTC().Round(0)
	switch {
	case c.ExpiresAt.IsZero():
		return nil
	case !at.After(cr.AvailableAt):
		return Refuse(CodeBadTime, "the item would expire at %s, before it may run at %s: it would never run", at.Format(time.RFC3339), cr.AvailableAt.Format(time.RFC3339))
	case at.Year() < 1970:
		return Refuse(CodeBadTime, "expires_at is %s: give a time from 1970 on", at.Format(time.RFC3339))
	}
	cr.change(func(t *Terms) { t.ExpiresAt = at })
	return nil
}

// judged records what the host has said of a submission.
func (d *decider) judged(c *Submit, cr *Created) error {
	if c.Score != nil {
		if *c.Score < -MaxDelay || *c.Score > MaxDelay {
			return Refuse(CodeBadRequest, "the score %s is outside ten years", *c.Score)
		}
		ms := c.Score.Milliseconds()
		cr.change(func(t *Terms) { t.ScoreMS = &ms })
	}
	if c.Verdict == nil {
		return nil
	}
	if !c.Verdict.Policy.valid() {
		return Refuse(CodeBadRequest, "the dedup hook's verdict %q is none of %s, %s, %s, %s", clip(string(c.Verdict.Policy), 64), DedupMerge, DedupDistinct, DedupSupersede, DedupDefer)
	}
	v := *c.Verdict
	v.Policy = firstOf(v.Policy, DedupMerge)
	v.Source, v.Reason = text(v.Source, MaxNameLen), text(v.Reason, MaxNameLen)
	cr.change(func(t *Terms) { t.Verdict = &v })
	return nil
}

// upstream is what a submission comes after.
type upstream struct {
	waits []ID  // those that have not ended, each once, in the order given
	bad   *Item // the first that has ended dead or cancelled
}

func (d *decider) upstream(c *Submit) (upstream, error) {
	var up upstream
	seen := make(map[ID]bool, len(c.After))
	for _, id := range c.After {
		it, err := d.canonical(id)
		if err != nil {
			return up, err
		}
		if it == nil {
			return up, Refuse(CodeNotFound, "there is no item %s to come after: check the id, and submit what comes first before", id)
		}
		if seen[it.ID] {
			continue
		}
		seen[it.ID] = true
		switch {
		case it.State.live():
			if blocked, err := d.waitsForParent(it.ID); err != nil {
				return up, err
			} else if blocked {
				return up, Refuse(CodeBadRequest, "the item can't come after %s, which waits for its parent %s: they would wait for each other for ever", it.ID, d.parent.ID)
			}
			up.waits = append(up.waits, it.ID)
		case it.endedBadly() && up.bad == nil:
			up.bad = it
		}
	}
	return up, nil
}

// badEnd is the end of an item because of the end of one that it waits for.
func (d *decider) badEnd(it, up *Item, policy AfterPolicy) []Event {
	reason, how := "upstream_"+up.State.String(), "is "+up.State.String()
	if up.State == StateCompleted {
		reason, how = "upstream_failed", "is a batch with items that have failed"
	}
	if policy == AfterDead {
		return d.dead(it, &Dead{Reason: reason, Attempts: it.Attempt, Error: "item " + up.ID.String() + ", which it comes after, " + how, By: up.ID})
	}
	return []Event{d.cancelled(it, reason, up.ID)}
}

// maxBlockWalk bounds the items that are looked at to find out whether one
// waits for another. Beyond, it counts as if it did.
const maxBlockWalk = 2000

// waitsForParent reports whether an item is the parent of what is submitted, or
// waits for it, through however many others: what is submitted must not wait
// for such a one, since the parent waits for it. Only a spawn can close such a
// ring: nothing waits yet for what is submitted otherwise.
func (d *decider) waitsForParent(id ID) (bool, error) {
	if d.parent == nil {
		return false, nil
	}
	seen := map[ID]bool{id: true}
	for queue := []ID{id}; len(queue) > 0; queue = queue[1:] {
		if queue[0] == d.parent.ID || len(seen) > maxBlockWalk {
			return true, nil
		}
		it, err := d.s.Item(queue[0])
		if err != nil {
			return false, err
		}
		if it == nil || it.State != StateWaiting {
			continue
		}
		r := it.relations()
		next := r.Waits
		if r.Spawned && r.InParts() { // not listed here: only the way up is looked at
			if below, err := d.parentIsBelow(it.ID); below || err != nil {
				return true, err
			}
		}
		if r.Spawned {
			next = slices.Concat(next, r.Children)
		}
		for _, n := range next {
			if !seen[n] {
				seen[n] = true
				queue = append(queue, n)
			}
		}
	}
	return false, nil
}

// maxParents bounds the items that are looked at above one.
const maxParents = 100

// parentIsBelow reports whether an item has spawned the parent of what is
// submitted, through however many others.
func (d *decider) parentIsBelow(id ID) (bool, error) {
	at := d.parent
	for range maxParents {
		up := at.relations().Parent
		if up.IsZero() || up == id {
			return up == id, nil
		}
		var err error
		if at, err = d.s.Item(up); at == nil || err != nil {
			return false, err
		}
	}
	return true, nil
}

// digestFlow adds to a submission's digest what most leave out.
func (c *Submit) digestFlow(b []byte) []byte {
	if len(c.After) == 0 && c.AfterPolicy == "" && c.DedupPolicy == "" && c.DedupWindow == nil && c.ExpiresAt.IsZero() && c.Estimate == 0 {
		return b
	}
	b = appendNumber(b, int64(len(c.After)))
	for _, id := range c.After {
		b = append(b, id[:]...)
	}
	b = appendPart(appendPart(b, string(c.AfterPolicy)), string(c.DedupPolicy))
	window := int64(-1)
	if c.DedupWindow != nil {
		window = int64(*c.DedupWindow)
	}
	b = appendNumber(appendNumber(b, window), unixNano(c.ExpiresAt))
	if c.Estimate != 0 { // digests that are recorded already have none
		b = appendNumber(b, int64(c.Estimate))
	}
	return b
}
