package core

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/streamwright/streamwright/events"
)

// mapBase is a projection in maps: the contract of [Base] and [Changes], and
// nothing else. It checks that each change begins where the last one ended.
type mapBase struct {
	meta     events.Meta
	types    map[events.Type]events.TypeInfo
	items    map[events.ID]*events.Item
	docs     map[docRef][]byte
	records  map[events.RecordKind]map[string]events.Record
	keys     map[events.KeyRef]events.HeldKey
	merged   []events.MergedEntry
	history  map[events.ID][]events.StoredEvent
	rejected map[events.Seq]RejectedChange
	answers  map[uint64]events.KeptAnswer
}

func newMapBase() *mapBase {
	return &mapBase{types: map[events.Type]events.TypeInfo{}, items: map[events.ID]*events.Item{}, docs: map[docRef][]byte{},
		records: map[events.RecordKind]map[string]events.Record{}, keys: map[events.KeyRef]events.HeldKey{}, rejected: map[events.Seq]RejectedChange{}, answers: map[uint64]events.KeptAnswer{}, history: map[events.ID][]events.StoredEvent{}}
}

func (b *mapBase) Meta() (events.Meta, error) { return b.meta, nil }

func (b *mapBase) Types() ([]events.TypeInfo, error) {
	return slices.Collect(maps.Values(b.types)), nil
}

func (b *mapBase) Item(id events.ID) (*events.Item, error) { return b.items[id], nil }

func (b *mapBase) Document(k events.DocKind, id events.ID) ([]byte, error) {
	return b.docs[docRef{k, id}], nil
}

func (b *mapBase) Records(k events.RecordKind) ([]events.Record, error) {
	return slices.SortedFunc(maps.Values(b.records[k]), func(x, y events.Record) int { return strings.Compare(x.Key, y.Key) }), nil
}

func (b *mapBase) Waiters(of, behind events.ID, limit int) (ids []events.ID, err error) {
	for id, it := range b.items {
		if it.Relations != nil && slices.Contains(it.Relations.Waits, of) && compareIDs(id, behind) > 0 {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, compareIDs)
	return ids[:min(len(ids), limit)], nil
}

func (b *mapBase) RejectedKept(seq events.Seq) (bool, error) {
	_, kept := b.rejected[seq]
	return kept, nil
}

func (b *mapBase) Key(r events.KeyRef) (events.HeldKey, bool, error) {
	k, ok := b.keys[r]
	return k, ok, nil
}

func (b *mapBase) write(c *Changes) error {
	if c == nil {
		return nil
	}
	for _, ch := range c.Items {
		if ch.New == nil {
			b.forget(ch.Old.ID)
			continue
		}
		if had := b.items[ch.New.ID]; (had == nil) != (ch.Old == nil) || had != nil && dumpItem(had) != dumpItem(ch.Old) {
			return fmt.Errorf("a change of %s begins with %+v, the base has %+v", ch.New.ID, ch.Old, had)
		}
		b.items[ch.New.ID] = ch.New
	}
	for _, t := range c.Forgotten {
		delete(b.types, t)
	}
	for _, t := range c.Types {
		b.types[t.Type] = t
	}
	for _, d := range c.Documents {
		if b.docs[docRef{d.Kind, d.ID}] = d.Data; d.Data == nil {
			delete(b.docs, docRef{d.Kind, d.ID})
		}
	}
	for _, r := range c.Records {
		if b.records[r.Kind] == nil {
			b.records[r.Kind] = map[string]events.Record{}
		}
		if b.records[r.Kind][r.Key] = r; r.Data == nil {
			delete(b.records[r.Kind], r.Key)
		}
	}
	maps.DeleteFunc(b.keys, func(_ events.KeyRef, k events.HeldKey) bool { return c.SetBack.expired(k) })
	for _, k := range c.Keys {
		if delete(b.keys, k.Key.Ref); k.Has {
			b.keys[k.Key.Ref] = k.Key
		}
	}
	maps.DeleteFunc(b.keys, func(_ events.KeyRef, k events.HeldKey) bool {
		return !k.Until.IsZero() && !k.Until.After(c.Meta.KeyTime(k.Ref.Kind))
	})
	b.merged = append(b.merged, c.Merged...)
	b.writeRejected(c)
	if err := b.writeHistory(c); err != nil {
		return err
	}
	b.meta = c.Meta
	return nil
}

// forget drops an item and all that is kept of it.
func (b *mapBase) forget(id events.ID) {
	delete(b.items, id)
	delete(b.history, id)
	for _, k := range events.DocKinds {
		delete(b.docs, docRef{k, id})
	}
	b.merged = slices.DeleteFunc(b.merged, func(m events.MergedEntry) bool { return m.Into == id })
}

// dump is everything in the base, readable, in order.
func (b *mapBase) dump() string {
	var sb strings.Builder
	fmt.Fprintf(&sb, "meta %+v\n", b.meta)
	for _, t := range slices.Sorted(maps.Keys(b.types)) {
		fmt.Fprintf(&sb, "type %s\n", dumpType(b.types[t]))
	}
	ids := slices.SortedFunc(maps.Keys(b.items), func(x, y events.ID) int { return strings.Compare(x.String(), y.String()) })
	for _, id := range ids {
		fmt.Fprintf(&sb, "item %s\n", dumpItem(b.items[id]))
		for _, k := range events.DocKinds {
			if doc, ok := b.docs[docRef{k, id}]; ok {
				fmt.Fprintf(&sb, "  document %c %s\n", k, doc)
			}
		}
		for _, ev := range b.history[id] {
			fmt.Fprintf(&sb, "  %d %s\n", ev.Seq, ev.Data)
		}
	}
	keys := slices.SortedFunc(maps.Values(b.keys), func(x, y events.HeldKey) int { return strings.Compare(dumpKey(x), dumpKey(y)) })
	for _, k := range keys {
		fmt.Fprintf(&sb, "key %s\n", dumpKey(k))
	}
	for _, kind := range slices.Sorted(maps.Keys(b.records)) {
		for _, key := range slices.Sorted(maps.Keys(b.records[kind])) {
			fmt.Fprintf(&sb, "record %c %s %s\n", kind, key, b.records[kind][key].Data)
		}
	}
	for _, m := range slices.SortedFunc(slices.Values(b.merged), func(x, y events.MergedEntry) int { return cmp.Compare(x.Seq, y.Seq) }) {
		fmt.Fprintf(&sb, "merged %+v\n", m)
	}
	for _, seq := range slices.Sorted(maps.Keys(b.rejected)) {
		r := b.rejected[seq]
		fmt.Fprintf(&sb, "rejected %d %s %s %+v\n", seq, r.Type, r.At, *r.Body)
	}
	for _, n := range slices.Sorted(maps.Keys(b.answers)) {
		fmt.Fprintf(&sb, "answer %+v\n", b.answers[n])
	}
	return sb.String()
}

func dumpKey(k events.HeldKey) string {
	return fmt.Sprintf("%c %q %q -> %s until %s, %d", k.Ref.Kind, k.Ref.Type, k.Ref.Key, k.ID, k.Until, k.N)
}

// dumpItem and dumpType tell apart whatever a projection might: nil and empty
// as well.
func dumpItem(it *events.Item) string {
	plain := *it
	plain.Relations, plain.Signals = nil, nil
	signals, wait, ask := events.Signals{}, events.Wait{}, events.Asked{}
	if it.Signals != nil {
		if signals = *it.Signals; signals.Wait != nil {
			wait, signals.Wait = *signals.Wait, nil
		}
	}
	if wait.Ask != nil {
		ask, wait.Ask = *wait.Ask, nil
	}
	return fmt.Sprintf("%#v %#v %t %#v %#v %#v", plain, relationsOf(it), it.Signals != nil, signals, wait, ask)
}

func dumpType(t events.TypeInfo) string {
	settings, err := json.Marshal(t.Settings)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("%s from %s: %s %#v counts %v queued %v paused %+v circuit %+v", t.Type, t.Source, string(settings), t.Settings.PerPriority == nil, t.Counts, t.Queued, t.Paused, t.Circuit)
}
