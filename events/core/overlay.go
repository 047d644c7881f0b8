package core

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
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

// settle drops the entries that the base has, and calls forget, if set, for each.
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
		return nil, fmt.Errorf("read the items that wait for %s: %w", of, err)
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
// call, may need a [FollowUp], each once. Items not taken when [State.TakeChanges]
// is called are left to the projection, whose index has them.
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

// records are the Records of one kind in memory, decoded. Values are never
// written once they are in: set puts a new one in their place.
type records[T any] struct {
	kind  events.RecordKind
	m     map[string]*T
	dirty map[string]bool
}

func newRecords[T any](kind events.RecordKind) records[T] {
	return records[T]{kind: kind, m: map[string]*T{}, dirty: map[string]bool{}}
}

func (r *records[T]) load(base Base) error {
	recs, err := base.Records(r.kind)
	if err != nil {
		return err
	}
	for _, rec := range recs {
		if err := r.restore(rec); err != nil {
			return err
		}
	}
	clear(r.dirty)
	return nil
}

// recordSet is records of any kind.
type recordSet interface {
	of() events.RecordKind
	restore(events.Record) error
	removeAll()
	all() []events.Record
}

// recordSets are all there are, in the order in which a round states them.
func (s *State) recordSets() []recordSet {
	return []recordSet{&s.schedules, &s.workers, &s.causes, &s.drains, &s.namespaces}
}

func (r *records[T]) of() events.RecordKind { return r.kind }

// restore sets a value from the form that is kept.
func (r *records[T]) restore(rec events.Record) error {
	var v T
	if err := json.Unmarshal(rec.Data, &v); err != nil {
		return fmt.Errorf("record %c %q: %w", rec.Kind, rec.Key, err)
	}
	r.set(rec.Key, v)
	return nil
}

func (r *records[T]) removeAll() {
	for key := range r.m {
		r.remove(key)
	}
}

// all lists the values in the form that is kept, in the order of their keys.
func (r *records[T]) all() (recs []events.Record) {
	for _, key := range r.keys() {
		recs = append(recs, r.record(key))
	}
	return recs
}

// get returns a value that must not be written, nil for none.
func (r *records[T]) get(key string) *T { return r.m[key] }

// value returns a value, false for none.
func (r *records[T]) value(key string) (v T, ok bool) {
	if p := r.m[key]; p != nil {
		return *p, true
	}
	return v, false
}

func (r *records[T]) len() int { return len(r.m) }

// keys lists them in order.
func (r *records[T]) keys() []string { return slices.Sorted(maps.Keys(r.m)) }

func (r *records[T]) set(key string, v T) {
	r.m[key] = &v
	r.dirty[key] = true
}

func (r *records[T]) remove(key string) {
	delete(r.m, key)
	r.dirty[key] = true
}

// take appends what has changed since the last call.
func (r *records[T]) take(to []events.Record) []events.Record {
	for _, key := range slices.Sorted(maps.Keys(r.dirty)) {
		to = append(to, r.record(key))
	}
	clear(r.dirty)
	return to
}

// record returns a key's value in the form that is kept; without Data if the key has
// no value.
func (r *records[T]) record(key string) events.Record {
	rec := events.Record{Kind: r.kind, Key: key}
	if v := r.m[key]; v != nil {
		data, err := json.Marshal(v)
		if err != nil {
			panic(fmt.Sprintf("a record that can't be written as JSON: %T: %v", v, err)) // all fields are plain
		}
		rec.Data = data
	}
	return rec
}

// share takes over the values of others, which stay as they are.
func (r *records[T]) share(of records[T]) { r.m = maps.Clone(of.m) }

// fifo is a queue. Its array is used again, so that a queue of a steady length
// allocates nothing.
type fifo[T any] struct {
	list []T // the first head of them are gone
	head int
}

func (f *fifo[T]) len() int { return len(f.list) - f.head }

func (f *fifo[T]) push(v T) {
	switch {
	case len(f.list) < cap(f.list):
	case f.head > len(f.list)/2:
		n := copy(f.list, f.list[f.head:])
		clear(f.list[n:])
		f.list, f.head = f.list[:n], 0
	default:
		f.list = slices.Grow(f.list, max(16, len(f.list)))
	}
	f.list = append(f.list, v)
}

func (f *fifo[T]) peek() (v T, ok bool) {
	if f.len() == 0 {
		return v, false
	}
	return f.list[f.head], true
}

func (f *fifo[T]) pop() { f.head++ }
