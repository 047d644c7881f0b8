package events

import "time"

// takeTerms takes over what a submission says beyond the plain.
func (it *Item) takeTerms(t *Terms) {
	if t == nil {
		return
	}
	it.Group, it.ExpiresAt, it.OwnAttempts = t.Group, t.ExpiresAt, t.OwnAttempts
	it.DedupWindow = time.Duration(t.DedupWindowMS) * time.Millisecond
	if !t.Parent.IsZero() || len(t.After) > 0 {
		it.Relations = &Relations{Parent: t.Parent, Spawn: t.Spawn, Policy: t.AfterPolicy}
	}
}

// foldFlow is fold for the kinds of waiting, spawning and long runs.
func (s *State) foldFlow(e *entry, it *Item, ev Event) error {
	return s.corrupt(ev, "this program does not know its kind: use a newer one")
}
