package core

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/streamwright/streamwright/events"
)

// overlay holds what has changed and the base may not have yet.
type overlay[K comparable, V any] struct {
	m       map[K]overlaid[V]
	touched fifo[overlayTouch[K]]
}

type overlaid[V any] struct {
	v   V
	seq events.Seq
}

type overlayTouch[K comparable] struct {
	k   K
	seq events.Seq
}

func newOverlay[K comparable, V any]() overlay[K, V] {
	return overlay[K, V]{m: map[K]overlaid[V]{}}
}

func (o *overlay[K, V]) set(k K, v V, at events.Seq) {
	o.m[k] = overlaid[V]{v, at}
	o.touched.push(overlayTouch[K]{k, at})
}

func (o *overlay[K, V]) get(k K) (V, bool) {
	e, ok := o.m[k]
	return e.v, ok
}

// settle lets go of what the base has. forget, if set, is told of each.
func (o *overlay[K, V]) settle(projected events.Seq, forget func(K)) {
	for t, ok := o.touched.peek(); ok && t.seq <= projected; t, ok = o.touched.peek() {
		o.touched.pop()
		if e, has := o.m[t.k]; has && e.seq <= t.seq {
			delete(o.m, t.k)
			if forget != nil {
				forget(t.k)
			}
		}
	}
}

type docRef struct {
	kind events.DocKind
	id   events.ID
}

// Document returns what is kept beside an item, nil for nothing.
func (s *State) Document(kind events.DocKind, id events.ID) ([]byte, error) {
	if kind == events.DocParams {
		return s.Params(id)
	}
	if doc, ok := s.docs.get(docRef{kind, id}); ok {
		return doc, nil
	}
	doc, err := s.base.Document(kind, id)
	if err != nil {
		return nil, fmt.Errorf("read a document of %s: %w", id, err)
	}
	return doc, nil
}

// setDocument keeps a document beside an item; nil removes it.
func (a *applier) setDocument(kind events.DocKind, id events.ID, data []byte) {
	a.dirtyDocs = append(a.dirtyDocs, Document{kind, id, data})
	if kind != events.DocParams {
		a.docs.set(docRef{kind, id}, data, a.meta.Applied)
	}
}

// waitRef says that one item waits for another.
type waitRef struct{ of, by events.ID }

// setWait notes that an item waits for another, or no longer.
func (a *applier) setWait(of, by events.ID, waits bool) {
	a.waiters.set(waitRef{of, by}, waits, a.meta.Applied)
	if a.waitsOf[of] == nil {
		a.waitsOf[of] = map[events.ID]bool{}
	}
	a.waitsOf[of][by] = waits
}

func (s *State) forgetWaiter(r waitRef) {
	delete(s.waitsOf[r.of], r.by)
	if len(s.waitsOf[r.of]) == 0 {
		delete(s.waitsOf, r.of)
	}
}

// Waiters returns items that wait for one, in ascending order, those behind an
// id, at most limit of them.
func (s *State) Waiters(of, behind events.ID, limit int) ([]events.ID, error) {
	changed := s.waitsOf[of]
	ids, err := s.base.Waiters(of, behind, limit+len(changed))
	if err != nil {
		return nil, fmt.Errorf("read who waits for %s: %w", of, err)
	}
	if len(changed) > 0 {
		ids = slices.DeleteFunc(slices.Clone(ids), func(id events.ID) bool { _, is := changed[id]; return is })
		for id, waits := range changed {
			if waits && compareIDs(id, behind) > 0 {
				ids = append(ids, id)
			}
		}
		slices.SortFunc(ids, compareIDs)
	}
	return ids[:min(len(ids), limit)], nil
}

func compareIDs(a, b events.ID) int { return bytes.Compare(a[:], b[:]) }

// TakeFollowUps returns the items that, by what was applied since the last
// call, may need a [FollowUp], each once. What has not been taken when
// [State.TakeChanges] is called is left to the projection, whose index has it.
func (s *State) TakeFollowUps() []events.ID {
	ids := s.follow
	s.follow = nil
	return ids
}

// noteFollowUp notes an item that may need a follow-up.
func (a *applier) noteFollowUp(it *events.Item) {
	if it.NeedsFollowUp() && !slices.Contains(a.follow, it.ID) {
		a.follow = append(a.follow, it.ID)
	}
}
