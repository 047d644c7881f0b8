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
	// MaxCarriedHistory is how many entries of an item's history are carried. Of
	// a longer one the first carriedFirst stay, and the newest; those between
	// become one that counts them.
	MaxCarriedHistory = 1000
	carriedFirst      = 10
	// MaxCarriedMerged is how many of the submissions merged into an item are
	// carried, the newest; the others are counted only.
	MaxCarriedMerged = 10_000
	// carriedBytes is about where one part of a carried item, or of a round's
	// end, is full. A document that is larger alone has a part of its own.
	carriedBytes = 256 << 10
	// MaxEndEvents bounds the decision that ends a round: 50 MiB, or about
	// 300,000 keys of rate limits and groups. Beyond it the round is given up,
	// and another tried later: such keys expire by themselves.
	MaxEndEvents = 200
)

// Carry re-states an item in the round under way. History and Merged are what
// the projection holds of it, complete: see [State.Projectable]. An item that needs
// it not is a Repeat.
type Carry struct {
	ID      events.ID
	History []events.StoredEvent
	Merged  []events.MergedEntry
}

// decide re-states an item.
func (c Carry) decide(d *decider) (Decision, error) {
	if d.state.meta.RoundAt == 0 {
		return Decision{}, events.Refuse(events.CodeWrongState, "no round of snapshots is under way")
	}
	it, err := d.state.Item(c.ID)
	if err != nil {
		return Decision{}, err
	}
	if it == nil || it.BaseSeq >= d.state.meta.RoundAt {
		return Decision{ID: c.ID, Repeat: true}, nil
	}
	fold := &events.Fold{}
	history := foldHistory(c.History, fold)
	merged := foldMergedEntries(c.Merged, fold)
	as := *it // the event's own: the state may go on to write its item
	first := &events.Carried{Item: &as}
	if fold.To != 0 || fold.MergedTo != 0 {
		first.Fold = fold
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
	for _, m := range merged {
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
	dec := Decision{ID: it.ID}
	for i, c := range p.list {
		c.Part, c.Parts = i+1, len(p.list)
		dec.Events = append(dec.Events, d.event(it, c))
	}
	return dec, nil
}

// keysOf are the keys that lead to an item now.
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
		n += foldedCount(e.Data)
	}
	_ = json.Unmarshal(gone[len(gone)-1].Data, &last) // without a time it says only how many
	fold.From, fold.To = gone[0].Seq, gone[len(gone)-1].Seq
	fold.Marker = fmt.Appendf(nil, `{"v":%d,"kind":%q,"at":%q,"data":{"folded":%d}}`, events.Version, events.KindCarried.String(), last.At.UTC().Format(time.RFC3339Nano), n)
	out := append(slices.Clone(h[:carriedFirst]), events.StoredEvent{Seq: fold.To, Data: fold.Marker})
	return append(out, h[newest:]...)
}

// foldedCount is how many events an entry of a history stands for.
func foldedCount(entry []byte) int {
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

func foldMergedEntries(m []events.MergedEntry, fold *events.Fold) []events.MergedEntry {
	n := len(m) - MaxCarriedMerged
	if n <= 0 {
		return m
	}
	fold.MergedTo = m[n-1].Seq
	return m[n:]
}

// outdate notes that an item which the round under way has carried is changed
// by the event of one that it has not: who begins to read with this round does
// not know the event's item yet and can't tell, so the item is carried again.
func (a *applier) outdate(e *entry) {
	if a.base < a.meta.RoundAt && e.id != a.ev.ID && e.cur.BaseSeq >= a.meta.RoundAt {
		e.cur.BaseSeq = 0
		a.again = append(a.again, e.id)
	}
}

// leans notes that what has become of an item depends on another. If the round
// under way has not carried that one yet, who begins to read with this round
// does not know it and may conclude otherwise: the item is carried again.
func (a *applier) leans(it *events.Item, on events.ID) error {
	if a.meta.RoundAt == 0 || it.BaseSeq < a.meta.RoundAt {
		return nil
	}
	e, err := a.entry(on)
	if err == nil && e != nil && e.cur.BaseSeq < a.meta.RoundAt {
		it.BaseSeq = 0
		a.again = append(a.again, it.ID)
	}
	return err
}

// TakeRecarry returns the items that were carried in the round under way and
// must be so once more, by what was applied since the last call.
func (s *State) TakeRecarry() []events.ID {
	ids := s.again
	s.again = nil
	return ids
}

func applyCarried(a *applier, b *events.Carried) error {
	e, err := a.entry(a.ev.ID)
	if err != nil {
		return err
	}
	if a.meta.Partial && b.Part == 1 {
		if e != nil {
			if err := a.loseKeys(e.cur); err != nil {
				return err
			}
			a.forget(e)
		}
		it, keys := *b.Item, slices.Clone(b.Keys)
		for i := range keys {
			if ref := &keys[i].Ref; ref.Kind == events.KeyMsgID && ref.Type == "" { // written when ids were of no type
				it.MsgID, ref.Type = ref.Key, it.Type
			}
		}
		e = a.insert(&it, nil)
		a.count(&it, +1)
		for _, of := range relationsOf(&it).Waits {
			a.setWait(of, it.ID, true)
		}
		for _, k := range keys {
			a.putKey(k, true)
		}
	}
	if e == nil || a.meta.RoundAt == 0 {
		return a.corrupt("there is no such item, or no round is under way")
	}
	if a.meta.Partial {
		a.restateItem(e, b)
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

// restateItem keeps what a carried says of what stands beside an item.
func (a *applier) restateItem(e *entry, b *events.Carried) {
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
