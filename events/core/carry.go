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
	return Decision{Events: []events.Event{d.typeEvent("", &events.Snapshot{Round: d.state.meta.Round + 1, Mark: events.MarkBegin})}}, nil
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

// decide states what belongs to no item.
func (c EndCut) decide(d *decider) (Decision, error) {
	if d.state.meta.RoundAt == 0 {
		return Decision{}, events.Refuse(events.CodeWrongState, "no round of snapshots is under way")
	}
	p := pages[events.Snapshot]{of: events.Snapshot{Round: d.state.meta.Round, Mark: events.MarkPart}}
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
		if !ref.Kind.Unowned() {
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

// skips reports whether an event is passed over while not everything is known,
// in the round at the head of a log that has been cut: one of an item that is
// not known yet, since its carried, which comes later, says what has become of
// it; and what the end of the round states in full.
func (a *applier) skips(f *fold) (bool, error) {
	if f.restated {
		return true, nil
	}
	switch b := a.ev.Body.(type) {
	case *events.Owned:
		if !b.Barrier {
			return true, a.corrupt("the log has been cut and begins with a round of snapshots that does not end")
		}
		return true, nil
	case *events.Snapshot, *events.Created:
		return false, nil
	case *events.Carried:
		if b.Part > 1 {
			return false, nil
		}
	}
	if a.ev.ID.IsZero() {
		return false, nil
	}
	e, err := a.entry(a.ev.ID)
	return e == nil && a.ev.Kind != events.KindCarried, err
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

func applySnapshot(a *applier, b *events.Snapshot) error {
	switch {
	case b.Mark == events.MarkBegin:
		if a.meta.Partial {
			return a.corrupt("the log has been cut and begins with a round of snapshots that does not end")
		}
		// A log begins with an ownership, unless it has been cut.
		a.meta.Partial = a.meta.Epoch == 0
		a.meta.Round, a.meta.RoundAt = b.Round, a.ev.Seq
		a.again = nil
		return nil
	case b.Round != a.meta.Round || a.meta.RoundAt == 0:
		return a.corrupt("it is of round %d, which is not under way", b.Round)
	}
	if a.meta.Partial {
		a.restateRejected(b)
	}
	if b.Mark == events.MarkRejected {
		return nil
	}
	if a.meta.Partial {
		if err := a.restate(b); err != nil {
			return err
		}
	}
	if b.Mark == events.MarkEnd {
		a.cutRejected(b)
		a.meta.CutAt, a.meta.CutEnd, a.meta.CutTime, a.meta.RoundAt = a.meta.RoundAt, a.ev.Seq, a.ev.At, 0
		a.again = nil
	}
	return nil
}

// restate takes over what the end of a round says, in place of whatever the
// events since its begin have left.
func (a *applier) restate(b *events.Snapshot) error {
	all := a.recordSets()
	if a.ev.Tx.N <= 1 {
		for _, r := range all {
			r.removeAll()
		}
	}
	for _, rec := range b.Records {
		i := slices.IndexFunc(all, func(r recordSet) bool { return r.of() == rec.Kind })
		if i < 0 {
			return a.corrupt("this program does not know records of kind %c: use a newer one", rec.Kind)
		}
		if err := all[i].restore(rec); err != nil {
			return a.corrupt("%v", err)
		}
	}
	for _, t := range b.Types {
		to := a.typeOf(t.Type)
		t.Counts, t.Queued = to.info.Counts, to.info.Queued
		to.info = t
	}
	for _, k := range b.Keys {
		a.putKey(k, true)
	}
	if b.Mark != events.MarkEnd {
		return nil
	}
	a.causes.countIdle()
	a.loadCircuits()
	a.loadPauses()
	a.drainVersion++
	if b.Meta == nil {
		return a.corrupt("it does not say how the partition is")
	}
	applied, at := a.meta.Applied, a.meta.LastAt
	a.meta = *b.Meta
	a.meta.Applied, a.meta.LastAt, a.meta.Partial = applied, at, false
	if at.After(a.meta.Ahead) { // as it was before this event
		a.meta.Ahead = time.Time{}
	}
	return nil
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

func applyPruned(a *applier, _ *events.Pruned) error {
	e, err := a.entry(a.ev.ID)
	if err != nil {
		return err
	}
	if e == nil || !e.cur.State.Terminal() {
		return a.corrupt("there is no such item, or it has not ended")
	}
	if err := a.loseKeys(e.cur); err != nil {
		return err
	}
	if e.cur.Cause != "" {
		a.causes.leftDead(a.writable(e), a.ev.At)
	}
	a.forget(e)
	a.touch(e, a.ev.Seq)
	a.meta.Pruned++
	return nil
}

// loseKeys frees the keys that lead to an item.
func (a *applier) loseKeys(it *events.Item) error {
	for _, ref := range allKeys(it) {
		held, has, err := a.Key(ref, a.meta.LastAt)
		if err != nil {
			return err
		}
		if has && held.ID == it.ID {
			a.setKey(events.HeldKey{Ref: ref, ID: it.ID}, false)
		}
	}
	return nil
}

// insert adds an item that does not exist.
func (a *applier) insert(it *events.Item, params []byte) *entry {
	e := a.items[it.ID]
	if e == nil {
		e = &entry{id: it.ID}
		a.items[it.ID] = e
	}
	e.cur, e.params, e.fresh, e.reborn = it, params, true, e.prev != nil
	a.markDirty(e)
	a.cacheBytes += len(params)
	a.touch(e, a.meta.Applied)
	return e
}

// forget lets go of an item and of all that stands beside it, but for its keys.
func (a *applier) forget(e *entry) {
	a.count(e.cur, -1)
	if e.dirty {
		// What was to be written of it must not come back behind its end.
		a.dirtyDocs = slices.DeleteFunc(a.dirtyDocs, func(d Document) bool { return d.ID == e.id })
		a.history = slices.DeleteFunc(a.history, func(ev events.Event) bool { return ev.ID == e.id })
		a.merged = slices.DeleteFunc(a.merged, func(m events.MergedEntry) bool { return m.Into == e.id })
		a.restated = slices.DeleteFunc(a.restated, func(r EncodedHistory) bool { return r.ID == e.id })
		a.folds = slices.DeleteFunc(a.folds, func(f events.Fold) bool { return f.ID == e.id })
	}
	for _, k := range events.DocKinds {
		if k != events.DocParams {
			a.docs.set(docRef{k, e.id}, nil, a.meta.Applied)
		}
	}
	for _, of := range relationsOf(e.cur).Waits {
		a.setWait(of, e.id, false)
	}
	a.cacheBytes -= len(e.params)
	e.cur, e.params, e.fresh = nil, nil, false
	a.markDirty(e)
}

// appendChanges appends what has become of the item since the last call.
func (e *entry) appendChanges(to []ItemChange) []ItemChange {
	switch {
	case e.cur == nil && e.prev == nil:
		return to
	case e.reborn && e.prev != nil:
		return append(to, ItemChange{Old: e.prev}, ItemChange{New: e.cur})
	}
	return append(to, ItemChange{Old: e.prev, New: e.cur})
}

// Projectable reports whether the base will have all that has become of an item
// once it has come to the position that State has been told of by
// [State.Projected]: only then is what it holds beside the item complete.
func (s *State) Projectable(id events.ID) bool {
	e := s.items[id]
	return e == nil || !e.dirty && e.seq <= s.projected && (e.cur == nil || e.cur.Seq <= s.projected)
}
