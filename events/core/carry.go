package core

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/streamwright/streamwright/events"
)

// The bounds of what a round re-states.
const (
	// MaxCarriedHistory bounds the entries of an item's history that are carried.
	// A longer one keeps its first carriedFirst and its newest entries; one entry
	// counts what was between.
	MaxCarriedHistory = 1000
	carriedFirst      = 10
	// MaxCarriedMerged bounds the submissions merged into an item that are carried,
	// the newest; the others are only counted.
	MaxCarriedMerged = 10_000
	// carriedBytes is about where one part of a carried item, or of a round's
	// end, is full. A document that is larger alone has a part of its own.
	carriedBytes = 256 << 10
	// MaxEndEvents bounds the decision that ends a round: 50 MiB, or about
	// 300,000 keys of rate limits and groups. Beyond it the round is given up,
	// and another tried later: such keys expire by themselves.
	MaxEndEvents = 200
)

// Carry re-states an item in the round under way. History and Merged are the
// projection's, complete: see [State.Projectable]. For an item that need not be carried
// the Decision is a Repeat.
type Carry struct {
	ID      events.ID
	History []events.StoredEvent
	Merged  []events.MergedEntry
}

// decide re-states an item, in as many parts as it needs.
func (c Carry) decide(d *decider) (Decision, error) {
	if d.state.meta.RoundAt == 0 {
		return Decision{}, errNoRound
	}
	it, err := d.state.Item(c.ID)
	if err != nil {
		return Decision{}, err
	}
	if it == nil || d.state.carried(it) {
		return Decision{ID: c.ID, Repeat: true}, nil
	}
	as := *it // the event's own: the state may go on to write its item
	first := &events.Carried{Item: &as}
	fold := events.Fold{}
	history := foldHistory(c.History, &fold)
	if n := len(c.Merged) - MaxCarriedMerged; n > 0 {
		fold.MergedTo, c.Merged = c.Merged[n-1].Seq, c.Merged[n:]
	}
	if fold.To != 0 || fold.MergedTo != 0 {
		first.Fold = &fold
	}
	if first.Keys, err = d.keysOf(it); err != nil {
		return Decision{}, err
	}
	p := pages[events.Carried]{list: []*events.Carried{first}, size: jsonSize(it) + jsonSize(first.Keys)}
	for _, k := range events.DocKinds {
		doc, err := d.state.Document(k, it.ID)
		if err != nil {
			return Decision{}, err
		}
		if doc != nil {
			c := p.room(len(doc))
			c.Documents = append(c.Documents, events.CarriedDocument{Kind: k, Data: doc})
		}
	}
	for _, m := range c.Merged {
		c := p.room(jsonSize(m))
		c.Merged = append(c.Merged, m)
	}
	for _, h := range history {
		c := p.room(len(h.Data) + 32)
		c.History = append(c.History, h)
	}
	if len(p.list) > events.MaxDecisionEvents {
		return Decision{}, events.Refuse(events.CodeTooLarge, "item %s is too large to be carried: %d parts", it.ID, len(p.list))
	}
	dec := Decision{ID: it.ID, Parts: true}
	for i, c := range p.list {
		c.Part, c.Parts = i+1, len(p.list)
		dec.Events = append(dec.Events, d.event(it, c))
	}
	return dec, nil
}

// keysOf returns the keys that lead to an item now.
func (d *decider) keysOf(it *events.Item) (keys []events.HeldKey, err error) {
	for _, ref := range allKeys(it) {
		held, has, err := d.state.Key(ref, d.now)
		if err != nil {
			return nil, err
		}
		if has && held.ID == it.ID {
			keys = append(keys, held)
		}
	}
	return keys, nil
}

// foldHistory shortens a history that is too long.
func foldHistory(h []events.StoredEvent, fold *events.Fold) []events.StoredEvent {
	if len(h) <= MaxCarriedHistory {
		return h
	}
	newest := len(h) - (MaxCarriedHistory - carriedFirst - 1)
	gone := h[carriedFirst:newest]
	var last struct {
		At time.Time `json:"at"`
	}
	n := 0
	for _, e := range gone {
		n += countFolded(e.Data)
	}
	_ = json.Unmarshal(gone[len(gone)-1].Data, &last) // without a time it says only how many
	fold.From, fold.To = gone[0].Seq, gone[len(gone)-1].Seq
	fold.Marker = fmt.Appendf(nil, `{"v":%d,"kind":%q,"at":%q,"data":{"folded":%d}}`, events.Version, events.KindCarried.String(), last.At.UTC().Format(time.RFC3339Nano), n)
	out := append(slices.Clone(h[:carriedFirst]), events.StoredEvent{Seq: fold.To, Data: fold.Marker})
	return append(out, h[newest:]...)
}

// countFolded returns the number of events that an entry of a history stands for.
func countFolded(entry []byte) int {
	var e struct {
		Kind string `json:"kind"`
		Data struct {
			Folded int `json:"folded"`
		} `json:"data"`
	}
	if json.Unmarshal(entry, &e) == nil && e.Kind == events.KindCarried.String() && e.Data.Folded > 0 {
		return e.Data.Folded
	}
	return 1
}

// While a round is under way, the live state must also keep right the reader who
// begins with that round and so knows an item only once it has been carried, or
// created since. Every change of an item therefore goes through writable, and
// what depends on another item calls dependsOn. The package comment of projector
// says why this is enough.

// carried reports whether a reader who begins with the round under way knows the
// item.
func (s *State) carried(it *events.Item) bool {
	return s.meta.RoundAt != 0 && it.BaseSeq >= s.meta.RoundAt
}

// unseen reports whether that reader skips the event, since it does not know the
// event's item.
func (a *applier) unseen() bool { return a.base < a.meta.RoundAt }

// recarry notes that an item must be carried once more in the round under way.
func (a *applier) recarry(it *events.Item) {
	it.BaseSeq = 0
	a.toRecarry = append(a.toRecarry, it.ID)
}

// dependsOn notes that what has become of an item depends on another. A reader
// who knows the item and not yet the other may conclude otherwise.
func (a *applier) dependsOn(it *events.Item, other events.ID) error {
	if !a.carried(it) {
		return nil
	}
	e, err := a.entry(other)
	if err == nil && e != nil && !a.carried(e.cur) {
		a.recarry(it)
	}
	return err
}

// TakeRecarry returns the items that were carried in the round under way and
// must be so once more, by what was applied since the last call.
func (s *State) TakeRecarry() []events.ID {
	ids := s.toRecarry
	s.toRecarry = nil
	return ids
}

func applyCarried(a *applier, b *events.Carried) error {
	e, err := a.entry(a.ev.ID)
	if err != nil {
		return err
	}
	if a.meta.Partial && b.Part == 1 {
		if e, err = a.restateItem(e, b); err != nil {
			return err
		}
	}
	if e == nil || a.meta.RoundAt == 0 {
		return a.corrupt("there is no such item, or no round is under way")
	}
	if a.meta.Partial {
		a.restateBeside(e, b)
	} else if b.Fold != nil {
		fold := *b.Fold
		fold.ID = a.ev.ID
		a.folds = append(a.folds, fold)
	}
	if b.Part == b.Parts {
		a.writable(e).BaseSeq = a.ev.Seq
	}
	a.touch(e, a.ev.Seq)
	return nil
}

// restateItem puts the item that a carried states in place of e, if it exists.
func (a *applier) restateItem(e *entry, b *events.Carried) (*entry, error) {
	if e != nil {
		if err := a.loseKeys(e.cur); err != nil {
			return nil, err
		}
		a.forget(e)
	}
	it := *b.Item
	for _, k := range b.Keys {
		if k.Ref.Kind == events.KeyMsgID && k.Ref.Type == "" { // written when message ids had no type
			it.MsgID, k.Ref.Type = k.Ref.Key, it.Type
		}
		a.putKey(k, true)
	}
	e = a.insert(&it, nil)
	a.count(&it, +1)
	for _, of := range relationsOf(&it).Waits {
		a.setWait(of, it.ID, true)
	}
	return e, nil
}

// restateBeside keeps what a carried states beside the item.
func (a *applier) restateBeside(e *entry, b *events.Carried) {
	for _, d := range b.Documents {
		a.setDocument(d.Kind, e.id, d.Data)
		if d.Kind == events.DocParams {
			e.params = d.Data
			a.cacheBytes += len(d.Data)
		}
	}
	a.merged = append(a.merged, b.Merged...)
	if len(b.History) > 0 {
		a.restated = append(a.restated, EncodedHistory{ID: e.id, History: b.History})
	}
}
