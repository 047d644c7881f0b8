package projector

import (
	"slices"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// gathered merges the Changes of consecutive runs into one, as one longer run
// would have left them: of what changed more than once, the last value counts.
// An item that was queued, claimed, run and completed in between is written
// once, and the index entries of its states on the way are never written. Its
// memory is used again by the next call.
type gathered struct {
	all   core.Changes
	items map[events.ID]int     // its place in all.Items
	keys  map[events.KeyRef]int // in all.Keys
	types map[events.Type]int   // in all.Types
}

// Gathers reports whether the Changes may be committed together with those of
// runs before and after it. Changes whose writing looks up in the store what
// earlier runs left there may not: pruned, restated, folded, rejected or
// forgotten items, and keys that expired before the clock was set back.
func Gathers(c *core.Changes) bool {
	if len(c.Restated) > 0 || len(c.Folds) > 0 || len(c.Rejected) > 0 || len(c.Forgotten) > 0 || c.SetBack != (core.KeyTimes{}) {
		return false
	}
	for i := range c.Items {
		if c.Items[i].New == nil {
			return false
		}
	}
	return true
}

// gather returns all of cs as one, valid until the next call.
func (g *gathered) gather(cs []*core.Changes) *core.Changes {
	if len(cs) == 1 {
		return cs[0]
	}
	if g.items == nil {
		g.items, g.keys, g.types = map[events.ID]int{}, map[events.KeyRef]int{}, map[events.Type]int{}
	}
	a := &g.all
	for _, c := range cs {
		a.Meta, a.Checksum = c.Meta, c.Checksum
		for _, it := range c.Items {
			if at, again := g.items[it.New.ID]; again {
				a.Items[at].New = it.New
				continue
			}
			g.items[it.New.ID] = len(a.Items)
			a.Items = append(a.Items, it)
		}
		a.Types = replace(a.Types, c.Types, g.types, func(t *events.TypeInfo) events.Type { return t.Type })
		a.Keys = replace(a.Keys, c.Keys, g.keys, func(k *core.KeyChange) events.KeyRef { return k.Key.Ref })
		a.Documents = append(a.Documents, c.Documents...)
		a.Records = append(a.Records, c.Records...) // few; the last is written last
		a.Merged = append(a.Merged, c.Merged...)
		a.History = append(a.History, c.History...)
	}
	return a
}

// replace adds values to a list, each in place of the one with the same name.
func replace[T any, K comparable](list, with []T, at map[K]int, name func(*T) K) []T {
	for i := range with {
		k := name(&with[i])
		if n, has := at[k]; has {
			list[n] = with[i]
			continue
		}
		at[k] = len(list)
		list = append(list, with[i])
	}
	return list
}

// keepGathered bounds the items whose memory is kept for the next call.
const keepGathered = 1 << 14

// release drops the gathered changes.
func (g *gathered) release() {
	a := &g.all
	if len(a.Items) > keepGathered || len(a.History) > 8*keepGathered {
		*g = gathered{}
		return
	}
	clear(g.items)
	clear(g.keys)
	clear(g.types)
	clear(a.Items)
	clear(a.Types)
	clear(a.Documents)
	clear(a.Keys)
	clear(a.Records)
	clear(a.Merged)
	clear(a.History)
	g.all = core.Changes{
		Items: a.Items[:0], Types: a.Types[:0], Documents: a.Documents[:0], Keys: a.Keys[:0],
		Records: a.Records[:0], Merged: a.Merged[:0], History: a.History[:0],
	}
}

// gatherable reports whether Changes that are to be committed together may be.
func gatherable(cs []*core.Changes) bool {
	return len(cs) == 1 || !slices.ContainsFunc(cs, func(c *core.Changes) bool { return !Gathers(c) })
}
