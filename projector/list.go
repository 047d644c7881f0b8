package projector

import (
	"bytes"
	"container/heap"
	"encoding/base64"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// The bounds of a listing page.
const (
	DefaultListLimit = 50
	MaxListLimit     = 1000
	// MaxListScan is how many index entries one page looks at. A page whose
	// filters let little through ends there, with a cursor.
	MaxListScan = 10_000
)

// List returns a page of items, the last touched first: every event of an
// item, and every submission merged into it, brings it to the front. All of a
// page is as of one moment. Through the pages of one listing an item that is
// not touched meanwhile comes exactly once, and one that is, at most once.
//
// Its errors are [*events.Error] for what the caller got wrong.
func (s *Store) List(q wire.List) (page wire.Listed, err error) {
	l, err := newListing(q)
	if err != nil {
		return wire.Listed{}, err
	}
	err = s.snapshot(func(v view) error { page, err = l.page(v); return err })
	return page, err
}

// listing is a checked wire.List.
type listing struct {
	state      events.ItemState // StateNone: any
	typ        events.Type      // empty: any
	tenant     string
	labelKey   string
	labelValue string
	hasLabel   bool
	reason     string
	code       string
	states     uint16    // bits of those wanted; 0: any
	since      time.Time // finished, both ends included
	until      time.Time
	after      time.Time // created
	before     time.Time
	limit      int
	start      *listPlace // behind this place; nil: from the front
	mark       [4]byte    // of the filters, in cursors
}

func newListing(q wire.List) (l listing, err error) {
	l = listing{tenant: q.Tenant, reason: q.Reason, code: q.Code, after: q.CreatedAfter, before: q.CreatedBefore, limit: q.Limit}
	if q.State != "" {
		if l.state, err = events.ParseItemState(q.State); err != nil {
			return l, events.Refuse(events.CodeBadRequest, "%v", err)
		}
	}
	if q.Type != "" {
		if l.typ, err = events.ParseType(q.Type); err != nil {
			return l, events.Refuse(events.CodeBadType, "%v", err)
		}
	}
	if q.Label != "" {
		if l.labelKey, l.labelValue, l.hasLabel = strings.Cut(q.Label, "="); !l.hasLabel || l.labelKey == "" {
			return l, events.Refuse(events.CodeBadRequest, "label must have the form key=value")
		}
	}
	if l.limit == 0 {
		l.limit = DefaultListLimit
	}
	if l.limit < 1 || l.limit > MaxListLimit {
		return l, events.Refuse(events.CodeBadRequest, "limit is %d: it must be 1 to %d; follow next_cursor for more", l.limit, MaxListLimit)
	}
	h := fnv.New32a()
	fmt.Fprintf(h, "%q %q %q %q %q %q %d %d", q.State, q.Type, q.Tenant, q.Label, q.Reason, q.Code, nanos(q.CreatedAfter), nanos(q.CreatedBefore))
	h.Sum(l.mark[:0])
	return l, l.readCursor(q.Cursor)
}

// A cursor is the mark of its filters and the place behind which to go on.
func (l *listing) cursor(p listPlace) string {
	return base64.RawURLEncoding.EncodeToString(appendListPlace(bytes.Clone(l.mark[:]), p))
}

func (l *listing) readCursor(cursor string) error {
	if cursor == "" {
		return nil
	}
	data, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(data) != 4+8+16 {
		return events.Refuse(events.CodeBadRequest, "cursor is malformed: use next_cursor of the page before, unchanged")
	}
	if [4]byte(data) != l.mark {
		return events.Refuse(events.CodeBadRequest, "cursor belongs to a list with other filters: keep them the same from page to page")
	}
	r := keyReader{b: data[4:]}
	p := r.place()
	l.start = &p
	return r.err
}

// matches reports whether an item passes the filters that no index serves.
func (l *listing) matches(it *events.Item) bool {
	if l.tenant != "" && it.Tenant != l.tenant {
		return false
	}
	if l.hasLabel {
		if v, ok := it.Labels[l.labelKey]; !ok || v != l.labelValue {
			return false
		}
	}
	if l.reason != "" && it.Reason != l.reason || l.code != "" && it.Code != l.code {
		return false
	}
	if !l.since.IsZero() && it.FinishedAt.Before(l.since) || !l.until.IsZero() && (it.FinishedAt.IsZero() || it.FinishedAt.After(l.until)) {
		return false
	}
	return (l.after.IsZero() || it.CreatedAt.After(l.after)) && (l.before.IsZero() || it.CreatedAt.Before(l.before))
}

// page merges the index ranges that the listing is about, by place.
func (l *listing) page(v view) (page wire.Listed, err error) {
	page.Items = []wire.Item{}
	prefix := []byte{prefixList}
	it, err := v.r.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: after(prefix)})
	if err != nil {
		return page, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	m := &listMerge{iter: it}
	if err := m.open(l); err != nil {
		return page, err
	}
	for scanned := 1; m.Len() > 0; scanned++ {
		place := m.ranges[0].buffer[0]
		item, err := v.item(place.id)
		if err != nil {
			return page, err
		}
		if item == nil {
			return page, fmt.Errorf("item %s is listed, but not there: %w", place.id, errRecord)
		}
		if l.matches(item) {
			page.Items = append(page.Items, wire.FromItem(item, nil, nil, nil))
		}
		if err := m.pop(); err != nil {
			return page, err
		}
		if m.Len() > 0 && (len(page.Items) == l.limit || scanned == MaxListScan) {
			page.NextCursor = l.cursor(place)
			break
		}
	}
	return page, nil
}

// listRange is the index range of one state and type: what of it has been read
// and not listed.
type listRange struct {
	prefix []byte
	buffer []listPlace // never empty in a heap
	more   bool        // there may be more behind the buffer
}

// listMerge is a heap of ranges by their first place, over one iterator. The
// ranges are read in chunks, so that their number costs seeks, not iterators.
type listMerge struct {
	iter   *pebble.Iterator
	ranges []*listRange
	chunk  int
}

// The chunk read of a range at a time.
const (
	minListChunk = 4
	maxListChunk = 256
)

// open finds the ranges, seeking from one to the next, and reads the start of
// each.
func (m *listMerge) open(l *listing) error {
	prefixes, err := m.prefixes(l)
	if err != nil {
		return err
	}
	m.chunk = min(max(l.limit/max(len(prefixes), 1)+1, minListChunk), maxListChunk)
	for _, prefix := range prefixes {
		r := &listRange{prefix: prefix}
		from := prefix
		if l.start != nil {
			from = append(appendListPlace(bytes.Clone(prefix), *l.start), 0)
		}
		if err := m.read(r, from); err != nil {
			return err
		}
		if len(r.buffer) > 0 {
			m.ranges = append(m.ranges, r)
		}
	}
	heap.Init(m)
	return nil
}

// prefixes lists the ranges that are not empty.
func (m *listMerge) prefixes(l *listing) (prefixes [][]byte, err error) {
	from := []byte{prefixList}
	if l.state != events.StateNone {
		from = append(from, byte(l.state))
	}
	for m.iter.SeekGE(from) {
		r := keyReader{b: m.iter.Key()[1:]}
		state, t := events.ItemState(r.byte()), events.Type(r.text())
		if r.err != nil {
			return nil, fmt.Errorf("%s: %w", describeKey(m.iter.Key()), errRecord)
		}
		if l.state != events.StateNone && state != l.state {
			break
		}
		prefix := appendListPrefix(nil, state, t)
		switch {
		case l.states != 0 && l.states&(1<<state) == 0:
			from = []byte{prefixList, byte(state) + 1}
		case l.typ == "" || t == l.typ:
			prefixes = append(prefixes, prefix)
			from = after(prefix)
		case t < l.typ:
			from = appendListPrefix(nil, state, l.typ)
		default:
			from = []byte{prefixList, byte(state) + 1}
		}
	}
	return prefixes, m.iter.Error()
}

// read fills a range's buffer with what comes from a key on.
func (m *listMerge) read(r *listRange, from []byte) error {
	r.buffer, r.more = r.buffer[:0], false
	for ok := m.iter.SeekGE(from); ok && bytes.HasPrefix(m.iter.Key(), r.prefix); ok = m.iter.Next() {
		k := keyReader{b: m.iter.Key()[len(r.prefix):]}
		r.buffer = append(r.buffer, k.place())
		if k.err != nil {
			return fmt.Errorf("%s: %w", describeKey(m.iter.Key()), errRecord)
		}
		if r.more = len(r.buffer) == m.chunk; r.more {
			break
		}
	}
	return m.iter.Error()
}

// pop drops the first place of all.
func (m *listMerge) pop() error {
	r := m.ranges[0]
	last := r.buffer[0]
	r.buffer = r.buffer[1:]
	if len(r.buffer) == 0 && r.more {
		if err := m.read(r, append(appendListPlace(bytes.Clone(r.prefix), last), 0)); err != nil {
			return err
		}
	}
	if len(r.buffer) == 0 {
		heap.Pop(m)
	} else {
		heap.Fix(m, 0)
	}
	return nil
}

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (m *listMerge) Len() int { return len(m.ranges) }
func (m *listMerge) Less(i, j int) bool {
	return m.ranges[i].buffer[0].compare(m.ranges[j].buffer[0]) < 0
}
func (m *listMerge) Swap(i, j int) { m.ranges[i], m.ranges[j] = m.ranges[j], m.ranges[i] }
func (m *listMerge) Push(x any)    { m.ranges = append(m.ranges, x.(*listRange)) }
func (m *listMerge) Pop() any {
	last := m.ranges[len(m.ranges)-1]
	m.ranges = m.ranges[:len(m.ranges)-1]
	return last
}
