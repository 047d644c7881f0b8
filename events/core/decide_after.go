package core

import (
	"slices"
	"time"

	"github.com/streamwright/streamwright/events"
)

// terms checks what a submission says beyond the plain, and records it.
func (s *submission) terms() error {
	if !s.c.DedupPolicy.Valid() {
		return events.Refuse(events.CodeBadRequest, "%q is no dedup policy: use %s, %s, %s or %s", events.Clip(string(s.c.DedupPolicy), 64), events.DedupMerge, events.DedupDistinct, events.DedupSupersede, events.DedupDefer)
	}
	window := time.Duration(s.set.DedupWindowMS) * time.Millisecond
	if s.c.DedupWindow != nil {
		window = *s.c.DedupWindow
	}
	if window < 0 || window > events.MaxDedupWindow {
		return events.Refuse(events.CodeBadTime, "the dedup window %s is outside 0 to %s", window, time.Duration(events.MaxDedupWindow))
	}
	if s.c.DedupKey != "" && window.Milliseconds() > 0 {
		changeTerms(s.cr, func(t *events.Terms) { t.DedupWindowMS = window.Milliseconds() })
	}
	if err := s.expiry(); err != nil {
		return err
	}
	if s.c.Estimate < 0 || s.c.Estimate > events.MaxTimeout {
		return events.Refuse(events.CodeBadTime, "the estimated duration %s is outside 0 to %s", s.c.Estimate, events.MaxTimeout)
	}
	if ms := s.c.Estimate.Milliseconds(); ms > 0 {
		changeTerms(s.cr, func(t *events.Terms) { t.EstimateMS = ms })
	}
	switch s.c.AfterPolicy {
	case "", events.AfterCancel, events.AfterDead, events.AfterRun:
	default:
		return events.Refuse(events.CodeBadRequest, "%q is no policy for what an item waits for: use %s, %s or %s", events.Clip(string(s.c.AfterPolicy), 64), events.AfterCancel, events.AfterDead, events.AfterRun)
	}
	if len(s.c.After) > events.MaxAfter {
		return events.Refuse(events.CodeTooLarge, "the item waits for %d others: at most %d", len(s.c.After), events.MaxAfter)
	}
	if len(s.c.After) > 0 {
		changeTerms(s.cr, func(t *events.Terms) { t.After, t.AfterPolicy = slices.Clone(s.c.After), firstAfter(s.c.AfterPolicy) })
	}
	if s.parent != nil {
		changeTerms(s.cr, func(t *events.Terms) { t.Parent, t.Spawn = s.parent.ID, s.spawn })
	}
	return s.judged()
}

// firstAfter is the policy in full.
func firstAfter(p events.AfterPolicy) events.AfterPolicy {
	if p == "" {
		return events.AfterCancel
	}
	return p
}

func (s *submission) expiry() error {
	at := s.c.ExpiresAt.UTC().Round(0)
	switch {
	case s.c.ExpiresAt.IsZero():
		return nil
	case at.After(s.now.Add(events.MaxDelay)):
		return events.Refuse(events.CodeBadTime, "expires_at lies more than ten years ahead: the limit is %s", s.now.Add(events.MaxDelay).Format(time.RFC3339))
	case !at.After(s.cr.AvailableAt):
		return events.Refuse(events.CodeBadTime, "the item would expire at %s, before it may run at %s: it would never run", at.Format(time.RFC3339), s.cr.AvailableAt.Format(time.RFC3339))
	case at.Year() < 1970:
		return events.Refuse(events.CodeBadTime, "expires_at is %s: give a time from 1970 on", at.Format(time.RFC3339))
	}
	changeTerms(s.cr, func(t *events.Terms) { t.ExpiresAt = at })
	return nil
}

// judged records what the host has said of a submission.
func (s *submission) judged() error {
	if s.c.Score != nil {
		if *s.c.Score < -events.MaxDelay || *s.c.Score > events.MaxDelay {
			return events.Refuse(events.CodeBadRequest, "the score %s is outside ten years", *s.c.Score)
		}
		ms := s.c.Score.Milliseconds()
		changeTerms(s.cr, func(t *events.Terms) { t.ScoreMS = &ms })
	}
	if s.c.Verdict == nil {
		return nil
	}
	if !s.c.Verdict.Policy.Valid() {
		return events.Refuse(events.CodeBadRequest, "the dedup hook's verdict %q is none of %s, %s, %s, %s", events.Clip(string(s.c.Verdict.Policy), 64), events.DedupMerge, events.DedupDistinct, events.DedupSupersede, events.DedupDefer)
	}
	v := *s.c.Verdict
	v.Policy = firstOf(v.Policy, events.DedupMerge)
	v.Source, v.Reason = events.Shorten(v.Source, events.MaxNameLen), events.Shorten(v.Reason, events.MaxNameLen)
	changeTerms(s.cr, func(t *events.Terms) { t.Verdict = &v })
	return nil
}

// upstream is what a submission comes after.
type upstream struct {
	waits []events.ID  // those that have not ended, each once, in the order given
	bad   *events.Item // the first that has ended dead or cancelled
}

func (s *submission) upstream() (upstream, error) {
	var up upstream
	seen := make(map[events.ID]bool, len(s.c.After))
	for _, id := range s.c.After {
		it, err := s.canonical(id)
		if err != nil {
			return up, err
		}
		if it == nil {
			return up, events.Refuse(events.CodeNotFound, "there is no item %s to come after: check the id, and submit what comes first before", id)
		}
		if seen[it.ID] {
			continue
		}
		seen[it.ID] = true
		switch {
		case live(it.State):
			if blocked, err := s.waitsForParent(it.ID); err != nil {
				return up, err
			} else if blocked {
				return up, events.Refuse(events.CodeBadRequest, "the item can't come after %s, which waits for its parent %s: they would wait for each other for ever", it.ID, s.parent.ID)
			}
			up.waits = append(up.waits, it.ID)
		case endedBadly(it) && up.bad == nil:
			up.bad = it
		}
	}
	return up, nil
}

// badEnd is the end of an item because of the end of one that it waits for.
func (d *decider) badEnd(it, up *events.Item, policy events.AfterPolicy) []events.Event {
	reason, how := "upstream_"+up.State.String(), "is "+up.State.String()
	if up.State == events.StateCompleted {
		reason, how = "upstream_failed", "is a batch with items that have failed"
	}
	if policy == events.AfterDead {
		return d.dead(it, &events.Dead{Reason: reason, Attempts: it.Attempt, Error: "item " + up.ID.String() + ", which it comes after, " + how, By: up.ID})
	}
	return []events.Event{d.cancelled(it, reason, up.ID)}
}

// maxBlockWalk bounds the items that are looked at to find out whether one
// waits for another. Beyond, it counts as if it did.
const maxBlockWalk = 2000

// waitsForParent reports whether an item is the parent of what is submitted, or
// waits for it, through however many others: what is submitted must not wait
// for such a one, since the parent waits for it. Only a spawn can close such a
// ring: nothing waits yet for what is submitted otherwise.
func (d *decider) waitsForParent(id events.ID) (bool, error) {
	if d.parent == nil {
		return false, nil
	}
	seen := map[events.ID]bool{id: true}
	for queue := []events.ID{id}; len(queue) > 0; queue = queue[1:] {
		if queue[0] == d.parent.ID || len(seen) > maxBlockWalk {
			return true, nil
		}
		it, err := d.state.Item(queue[0])
		if err != nil {
			return false, err
		}
		if it == nil || it.State != events.StateWaiting {
			continue
		}
		r := relationsOf(it)
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
func (d *decider) parentIsBelow(id events.ID) (bool, error) {
	at := d.parent
	for range maxParents {
		up := relationsOf(at).Parent
		if up.IsZero() || up == id {
			return up == id, nil
		}
		var err error
		if at, err = d.state.Item(up); at == nil || err != nil {
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
