package core

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/streamwright/streamwright/events"
)

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
	return []recordSet{&s.schedules, &s.workers, &s.causes, &s.drains}
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

// record is the value of a key in the form that is kept; with no Data if there
// is none.
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
