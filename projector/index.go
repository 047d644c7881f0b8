package projector

import (
	"bytes"
	"slices"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/projector/internal/layout"
)

// indexSlots is the number of indexes that an item can be in; each has its own
// slot.
const indexSlots = 9

// The slots of one index, the items' timers.
const slotTimer, slotExpiry = 2, 5

// indexEntry is one entry of an index; a nil key means none.
type indexEntry struct{ key, value []byte }

// indexSet is the entries of one item. Its memory is used again by the next
// call of fill.
type indexSet struct {
	entries [indexSlots]indexEntry
	waits   []events.ID // what it waits for, an entry each
	terms   [][]byte    // its keys in the term index
	place   layout.ListPlace
	words   layout.Words
	id      events.ID
	buf     []byte
}

// fill computes the entries of an item; nil has none. It alone decides what is
// indexed, and when.
func (s *indexSet) fill(it *events.Item) {
	s.entries = [indexSlots]indexEntry{}
	s.waits, s.buf, s.terms, s.place = nil, s.buf[:0], s.terms[:0], layout.ListPlace{}
	if it == nil {
		return
	}
	s.id = it.ID
	s.put(0, layout.AppendListKey(s.buf, it), nil)
	if it.State == events.StateQueued {
		key := appendReadyKey(s.buf, it)
		s.put(1, key, readyValue(it))
	}
	state := stateValues[it.State : it.State+1]
	if at := it.TimerAt(); !at.IsZero() {
		s.put(slotTimer, layout.AppendTimerKey(s.buf, at, it.ID), state)
	}
	if layout.Held(it) && it.Worker != "" {
		s.put(3, append(layout.AppendWorkerPrefix(s.buf, it.Worker), it.ID[:]...), state)
	}
	if it.IntakeSeq != 0 {
		s.put(4, layout.AppendIntakeKey(s.buf, it.IntakeSeq), it.ID[:])
	}
	if at := it.ExpiryAt(); !at.IsZero() && !at.Equal(it.TimerAt()) {
		s.put(slotExpiry, layout.AppendTimerKey(s.buf, at, it.ID), state)
	}
	if r := it.Relations; r != nil {
		s.waits = r.Waits
		if !r.Parent.IsZero() {
			s.put(6, append(layout.AppendIDKey(s.buf, layout.PrefixChild, r.Parent), it.ID[:]...), nil)
		}
	}
	if it.State == events.StateDead {
		s.put(8, layout.AppendDeadKey(s.buf, it), nil)
	}
	if it.NeedsFollowUp() {
		s.put(7, layout.AppendIDKey(s.buf, layout.PrefixFollowUp, it.ID), nil)
	}
	s.fillTerms(it)
}

// stateValues are the states as values of one byte, to be sliced.
var stateValues = func() (v [events.NumStates]byte) {
	for i := range v {
		v[i] = byte(i)
	}
	return v
}()

// put records the key that was appended to s.buf.
func (s *indexSet) put(slot int, buf, value []byte) {
	from := len(s.buf)
	s.buf = buf
	s.entries[slot] = indexEntry{key: buf[from:len(buf):len(buf)], value: value}
}

// diffIndexes adds the changes of the store that take an item from one version
// to another. An entry whose value alone changes is deleted first: index
// entries are removed by single deletes, which allow a key to be set only once
// in between.
func diffIndexes(old, new *indexSet, o *ops) {
	if k := new.entries[slotTimer].key; k != nil && bytes.Equal(k, old.entries[slotExpiry].key) {
		// The item's timer is now when it expires: the entry stays, and is that of the timer.
		old.entries[slotTimer], old.entries[slotExpiry] = old.entries[slotExpiry], old.entries[slotTimer]
	}
	for i := range indexSlots {
		was, is := old.entries[i], new.entries[i]
		if bytes.Equal(was.key, is.key) && bytes.Equal(was.value, is.value) {
			continue
		}
		if was.key != nil {
			o.add(i, was.key, nil, true)
		}
		if is.key != nil {
			o.add(i, is.key, is.value, false)
		}
	}
	diffTerms(old, new, o)
	diffWaits(old, new, o)
}

// diffWaits is diffIndexes for the index with an entry for each item waited for.
func diffWaits(old, new *indexSet, o *ops) {
	if slices.Equal(old.waits, new.waits) {
		return
	}
	key := func(of, by events.ID) []byte { return append(layout.IDKey(layout.PrefixWaiter, of), by[:]...) }
	had := make(map[events.ID]bool, len(old.waits))
	for _, of := range old.waits {
		had[of] = true
	}
	for _, of := range new.waits {
		if had[of] {
			delete(had, of)
			continue
		}
		o.add(opWaits, key(of, new.id), nil, false)
	}
	for _, of := range old.waits {
		if had[of] {
			o.add(opWaits, key(of, old.id), nil, true)
		}
	}
}

// fillTerms computes the entries of an item in the term index: at most
// events.MaxLabels + MaxErrorWords + 5, and none, at no cost, for an item that
// has nothing of the kind.
func (s *indexSet) fillTerms(it *events.Item) {
	s.place = layout.ListPlace{Seq: it.Seq, ID: it.ID}
	for k, v := range it.Labels {
		s.putTerm(layout.AppendTerm(s.buf, layout.TermLabel, v, k))
	}
	if it.Tenant != "" {
		s.putTerm(layout.AppendTerm(s.buf, layout.TermTenant, it.Tenant))
	}
	if it.DedupKey != "" {
		s.putTerm(layout.AppendTerm(s.buf, layout.TermDedup, it.DedupKey))
	}
	if name := layout.ScheduleOf(it); name != "" {
		s.putTerm(layout.AppendTerm(s.buf, layout.TermSchedule, name))
	}
	if r := it.Relations; r != nil && !r.Parent.IsZero() {
		s.putTerm(layout.AppendTerm(s.buf, layout.TermParent, string(r.Parent[:])))
	}
	if it.Error == "" && it.Code == "" {
		return
	}
	s.words.OfItem(it)
	for _, w := range s.words.List {
		s.putTerm(append(append(append(s.buf, layout.PrefixTerm, layout.TermWord), w...), 0, 1)) // a word has no zero byte
	}
}

// putTerm records the key whose prefix was appended to s.buf.
func (s *indexSet) putTerm(buf []byte) {
	from := len(s.buf)
	s.buf = layout.AppendListPlace(buf, s.place)
	s.terms = append(s.terms, s.buf[from:len(s.buf):len(s.buf)])
}

// diffTerms is diffIndexes for the term index. Every event that touches an item
// moves all its entries, since it moves the item to the front of each list.
func diffTerms(old, new *indexSet, o *ops) {
	gone, come := old.terms, new.terms
	if old.place == new.place {
		gone, come = differences(gone, come)
	}
	for _, key := range gone {
		o.addTerm(key, true)
	}
	for _, key := range come {
		o.addTerm(key, false)
	}
}

// differences returns what only a has and what only b has.
func differences(a, b [][]byte) (onlyA, onlyB [][]byte) {
	slices.SortFunc(a, bytes.Compare)
	slices.SortFunc(b, bytes.Compare)
	for len(a) > 0 && len(b) > 0 {
		switch c := bytes.Compare(a[0], b[0]); {
		case c < 0:
			onlyA, a = append(onlyA, a[0]), a[1:]
		case c > 0:
			onlyB, b = append(onlyB, b[0]), b[1:]
		default:
			a, b = a[1:], b[1:]
		}
	}
	return append(onlyA, a...), append(onlyB, b...)
}
