package events

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// mapBase is a projection in maps: the contract of [Base] and [Changes], and
// nothing else. It checks that each change begins where the last one ended.
type mapBase struct {
	meta    Meta
	types   map[Type]TypeInfo
	items   map[ID]*Item
	params  map[ID][]byte
	results map[ID][]byte
	keys    map[KeyRef]HeldKey
	merged  []MergedEntry
	history map[ID][]Event
}

func newMapBase() *mapBase {
	return &mapBase{types: map[Type]TypeInfo{}, items: map[ID]*Item{}, params: map[ID][]byte{},
		results: map[ID][]byte{}, keys: map[KeyRef]HeldKey{}, history: map[ID][]Event{}}
}

func (b *mapBase) Meta() (Meta, error) { return b.meta, nil }

func (b *mapBase) Types() ([]TypeInfo, error) { return slices.Collect(maps.Values(b.types)), nil }

func (b *mapBase) Item(id ID) (*Item, error) { return b.items[id], nil }

func (b *mapBase) Params(id ID) ([]byte, error) { return b.params[id], nil }

func (b *mapBase) Key(r KeyRef) (HeldKey, bool, error) {
	k, ok := b.keys[r]
	return k, ok, nil
}

func (b *mapBase) write(c *Changes) error {
	if c == nil {
		return nil
	}
	for _, ch := range c.Items {
		if had := b.items[ch.New.ID]; (had == nil) != (ch.Old == nil) || had != nil && dumpItem(had) != dumpItem(ch.Old) {
			return fmt.Errorf("a change of %s begins with %+v, the base has %+v", ch.New.ID, ch.Old, had)
		}
		b.items[ch.New.ID] = ch.New
	}
	for _, t := range c.Types {
		b.types[t.Type] = t
	}
	writeBlobs(b.params, c.Params)
	writeBlobs(b.results, c.Results)
	for _, k := range c.Keys {
		if delete(b.keys, k.Key.Ref); k.Has {
			b.keys[k.Key.Ref] = k.Key
		}
	}
	maps.DeleteFunc(b.keys, func(_ KeyRef, k HeldKey) bool { return !k.Until.IsZero() && !k.Until.After(c.Meta.LastAt) })
	b.merged = append(b.merged, c.Merged...)
	for _, ev := range c.History {
		b.history[ev.ID] = append(b.history[ev.ID], ev)
	}
	b.meta = c.Meta
	return nil
}

func writeBlobs(m map[ID][]byte, blobs []Blob) {
	for _, blob := range blobs {
		if m[blob.ID] = blob.Data; blob.Data == nil {
			delete(m, blob.ID)
		}
	}
}

// dump is everything in the base, readable, in order.
func (b *mapBase) dump() string {
	var sb strings.Builder
	fmt.Fprintf(&sb, "meta %+v\n", b.meta)
	for _, t := range slices.Sorted(maps.Keys(b.types)) {
		fmt.Fprintf(&sb, "type %s\n", dumpType(b.types[t]))
	}
	ids := slices.SortedFunc(maps.Keys(b.items), func(x, y ID) int { return strings.Compare(x.String(), y.String()) })
	for _, id := range ids {
		fmt.Fprintf(&sb, "item %s\n", dumpItem(b.items[id]))
		fmt.Fprintf(&sb, "  params %s\n", b.params[id])
		if r, ok := b.results[id]; ok {
			fmt.Fprintf(&sb, "  result %s\n", r)
		}
		for _, ev := range b.history[id] {
			fmt.Fprintf(&sb, "  %d %s\n", ev.Seq, ev.Kind)
		}
	}
	keys := slices.SortedFunc(maps.Values(b.keys), func(x, y HeldKey) int { return strings.Compare(dumpKey(x), dumpKey(y)) })
	for _, k := range keys {
		fmt.Fprintf(&sb, "key %s\n", dumpKey(k))
	}
	for _, m := range b.merged {
		fmt.Fprintf(&sb, "merged %+v\n", m)
	}
	return sb.String()
}

func dumpKey(k HeldKey) string {
	return fmt.Sprintf("%c %q %q -> %s until %s", k.Ref.Kind, k.Ref.Type, k.Ref.Key, k.ID, k.Until)
}

// dumpItem and dumpType tell apart whatever a projection might: nil and empty
// as well.
func dumpItem(it *Item) string { return fmt.Sprintf("%#v", *it) }

func dumpType(t TypeInfo) string {
	return fmt.Sprintf("%s from %s: %+v %#v counts %v queued %v", t.Type, t.Source, t.Settings.flat(), t.Settings.PerPriority == nil, t.Counts, t.Queued)
}
