package core

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
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

// Prunable reports why an item can't be forgotten yet, empty if it can: it is
// to be kept for longer, leads a key that has not expired, or others hang on
// it. due is when it is to be looked at again, the zero time if that can't be
// told.
func (s *State) Prunable(it *events.Item, now time.Time) (why string, due time.Time, err error) {
	if !it.State.Terminal() {
		return "it is " + it.State.String(), time.Time{}, nil
	}
	set, _ := s.Settings(it.Type)
	if due = it.FinishedAt.Add(set.Retain.For(it.State)); due.After(now) {
		return "it is to be kept until " + due.Format(time.RFC3339), due, nil
	}
	if until := it.CreatedAt.Add(events.MsgIDWindow); it.IntakeSeq != 0 && until.After(now) {
		return "its message id may not be used again yet", until, nil
	}
	for _, ref := range keyRefs(it) {
		held, has, err := s.Key(ref, now)
		if err != nil {
			return "", time.Time{}, err
		}
		if has && held.ID == it.ID {
			return "it keeps a key taken", held.Until, nil
		}
	}
	why, err = s.hangsOn(it)
	return why, time.Time{}, err
}

// hangsOn reports why an ended item can't be forgotten because of others, empty
// if it can.
func (s *State) hangsOn(it *events.Item) (why string, err error) {
	r := relationsOf(it)
	if r.Awaited > 0 || r.Live > 0 || it.NeedsFollowUp() {
		return "others wait for it or belong to it", nil
	}
	if r.Parent.IsZero() {
		return "", nil
	}
	parent, err := s.Item(r.Parent)
	if err == nil && parent != nil && !parent.State.Terminal() {
		why = "the item that spawned it has not ended"
	}
	return why, err
}

func (c Prune) decide(d *decider) (Decision, error) {
	it, err := d.known(c.ID)
	if err != nil {
		return Decision{}, err
	}
	why, _, err := d.state.Prunable(it, d.now)
	if err != nil {
		return Decision{}, err
	}
	if why != "" {
		return Decision{}, events.Refuse(events.CodeWrongState, "item %s can't be pruned: %s", it.ID, why)
	}
	return d.prune(it, "retention")
}

// prune forgets a terminal item, for the reason given: its retention is over,
// or an operator has asked for it. The item's keys go with it.
func (d *decider) prune(it *events.Item, reason string) (Decision, error) {
	hangs, err := d.state.hangsOn(it)
	switch {
	case err != nil:
		return Decision{}, err
	case !it.State.Terminal():
		return Decision{}, events.Refuse(events.CodeWrongState, "item %s is %s: only one that has ended can be purged; cancel it first", it.ID, it.State)
	case hangs != "":
		return Decision{}, events.Refuse(events.CodeWrongState, "item %s can't be purged yet: %s", it.ID, hangs)
	case it.IntakeSeq != 0 && it.CreatedAt.Add(events.MsgIDWindow).After(d.now):
		e := events.Refuse(events.CodeWrongState, "item %s was published less than %s ago, for which its message id stays taken: purge it later", it.ID, events.MsgIDWindow)
		e.RetryAfter = it.CreatedAt.Add(events.MsgIDWindow).Sub(d.now)
		return Decision{}, e
	}
	return Decision{ID: it.ID, Events: []events.Event{d.event(it, &events.Pruned{Reason: reason})}}, nil
}

func (BeginCut) decide(d *decider) (Decision, error) {
	if d.state.meta.Epoch == 0 { // a log that has not been cut begins with an ownership
		return Decision{}, events.Refuse(events.CodeWrongState, "nobody owns the partition yet")
	}
	return Decision{Events: []events.Event{{Kind: events.KindSnapshot, At: d.now, Body: &events.Snapshot{Round: d.state.meta.Round + 1, Mark: events.MarkBegin}}}}, nil
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
	p := parts{d: d, it: it}
	as := *it // the event's own: the state may go on to write its item
	first := &events.Carried{Item: &as}
	if fold.To != 0 || fold.MergedTo != 0 {
		first.Fold = fold
	}
	if first.Keys, err = d.keysOf(it); err != nil {
		return Decision{}, err
	}
	p.begin(first, jsonSize(it)+jsonSize(first.Keys))
	for _, k := range events.DocKinds {
		doc, err := d.state.Document(k, it.ID)
		if err != nil {
			return Decision{}, err
		}
		if doc != nil {
			p.room(len(doc)).Documents = append(p.last().Documents, events.CarriedDocument{Kind: k, Data: doc})
		}
	}
	for _, m := range merged {
		p.room(jsonSize(m)).Merged = append(p.last().Merged, m)
	}
	for _, h := range history {
		p.room(len(h.Data) + 32).History = append(p.last().History, h)
	}
	return p.decision()
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

// parts splits a carried item.
type parts struct {
	d    *decider
	it   *events.Item
	list []*events.Carried
	size int // of the last
}

func (p *parts) begin(c *events.Carried, size int) { p.list, p.size = append(p.list, c), size }

func (p *parts) last() *events.Carried { return p.list[len(p.list)-1] }

// room is the part that has room for so many bytes more.
func (p *parts) room(bytes int) *events.Carried {
	if p.size > 0 && p.size+bytes > carriedBytes {
		p.begin(&events.Carried{}, 0)
	}
	p.size += bytes
	return p.last()
}

func (p *parts) decision() (Decision, error) {
	if len(p.list) > events.MaxDecisionEvents {
		return Decision{}, events.Refuse(events.CodeTooLarge, "item %s is too large to be carried: %d parts", p.it.ID, len(p.list))
	}
	dec := Decision{ID: p.it.ID}
	for i, c := range p.list {
		c.Part, c.Parts = i+1, len(p.list)
		dec.Events = append(dec.Events, p.d.event(p.it, c))
	}
	return dec, nil
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

// decide states what belongs to no item.
func (c EndCut) decide(d *decider) (Decision, error) {
	if d.state.meta.RoundAt == 0 {
		return Decision{}, events.Refuse(events.CodeWrongState, "no round of snapshots is under way")
	}
	p := pages{of: events.Snapshot{Round: d.state.meta.Round, Mark: events.MarkPart}}
	room := p.room
	room(0)
	for _, name := range d.state.TypeNames() {
		t, _ := d.state.Type(name)
		t.Counts, t.Queued = [events.NumStates]int64{}, [events.MaxPriority + 1]int64{}
		s := room(jsonSize(t))
		s.Types = append(s.Types, t)
	}
	for _, rs := range d.state.recordSets() {
		for _, rec := range rs.all() {
			s := room(len(rec.Data) + len(rec.Key) + 64)
			s.Records = append(s.Records, rec)
		}
	}
	for _, k := range c.looseKeys(d) {
		s := room(jsonSize(k))
		s.Keys = append(s.Keys, k)
	}
	last, meta := p.list[len(p.list)-1], d.state.meta
	last.Mark, last.Meta, last.Kept = events.MarkEnd, &meta, c.Kept
	if len(p.list) > MaxEndEvents {
		return Decision{}, events.Refuse(events.CodeTooLarge, "the round's end would have %d events, at most %d are allowed: there are too many keys of rate limits", len(p.list), MaxEndEvents)
	}
	return Decision{Events: d.snapshots(p.list)}, nil
}

// looseKeys lays what has changed over the keys that the projection has: Keys.
func (c EndCut) looseKeys(d *decider) []events.HeldKey {
	all := make(map[events.KeyRef]events.HeldKey, len(c.Keys))
	for _, k := range c.Keys {
		all[k.Ref] = k
	}
	for ref, k := range d.state.keys {
		if !ref.Kind.Loose() {
			continue
		}
		if delete(all, ref); k.has {
			all[ref] = k.held
		}
	}
	keys := make([]events.HeldKey, 0, len(all))
	for _, k := range all {
		if k.Until.IsZero() || k.Until.After(d.now) {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b events.HeldKey) int {
		if a.Ref.Kind != b.Ref.Kind {
			return int(a.Ref.Kind) - int(b.Ref.Kind)
		}
		if a.Ref.Type != b.Ref.Type {
			return strings.Compare(string(a.Ref.Type), string(b.Ref.Type))
		}
		return strings.Compare(a.Ref.Key, b.Ref.Key)
	})
	return keys
}

// jsonSize is how many bytes v has in JSON.
func jsonSize(v any) int {
	data, err := json.Marshal(v)
	if err != nil {
		return 0 // it is found when the event is encoded
	}
	return len(data)
}
