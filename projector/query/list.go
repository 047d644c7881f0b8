package query

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/projector/internal/layout"
	"github.com/streamwright/streamwright/wire"
)

// The bounds of a listing page.
const (
	DefaultListLimit = 50
	MaxListLimit     = 1000
	// MaxListScan bounds the steps of one page: an item looked at, or a seek in
	// an index. A page whose filters let little through ends there, with a
	// cursor.
	MaxListScan = 10_000
	// MaxQueryBytes bounds the texts that are searched for.
	MaxQueryBytes = 1024
)

// List returns a page of items, the last touched first: every event of an
// item, and every submission merged into it, brings it to the front. All of a
// page is as of one moment. Through the pages of one listing an item that is
// not touched meanwhile comes exactly once, and one that is, at most once.
//
// State, type, label, tenant, worker, schedule, code and the words of error and
// q are looked up in indexes, and several of them in the intersection, so a
// page costs the same however many other items there are. A reason, and times,
// are checked on each item that the other filters find.
//
// Its errors are [*events.Error] for what the caller got wrong.
func (s Reader) List(q wire.List) (page wire.Listed, err error) {
	err = s.snapshot(func(v layout.View) error { page, _, err = List(v, q); return err })
	return page, err
}

// List is [Reader.List] in a view. It also says how many of [MaxListScan] steps
// the page took.
func List(v layout.View, q wire.List) (page wire.Listed, steps int, err error) {
	l, err := newListing(q, "")
	if err != nil {
		return wire.Listed{}, 0, err
	}
	page, err = l.page(v)
	return page, l.steps, err
}

// listing is a checked wire.List.
type listing struct {
	state      events.ItemState // StateNone: any
	typ        events.Type      // empty: any
	tenant     string
	worker     events.WorkerID // that holds the item; empty: any, or none
	schedule   string          // that made the item
	batch      events.ID       // that it belongs to; zero: any, or none
	signal     string          // that it waits for
	labelKey   string
	labelValue string
	hasLabel   bool
	reason     string
	code       string
	words      [][]byte // of the error
	search     search
	states     uint16    // bits of those wanted; 0: any
	since      time.Time // finished, both ends included
	until      time.Time
	after      time.Time // created
	before     time.Time
	also       func(*events.Item) bool // asked last; nil: nothing
	limit      int
	start      *layout.ListPlace // behind this place; nil: from the front
	mark       [4]byte           // of the filters, in cursors
	steps      int               // that the last page took
}

// newListing checks a list's filters; cause is another one, of a selection.
func newListing(q wire.List, cause string) (l listing, err error) {
	l = listing{tenant: q.Tenant, schedule: q.Schedule, signal: q.WaitsFor, reason: q.Reason, code: q.Code, after: q.CreatedAfter, before: q.CreatedBefore, limit: q.Limit}
	if q.State != "" {
		if l.state, err = events.ParseItemState(q.State); err != nil {
			return l, events.Refuse(events.CodeBadRequest, "%v", err)
		}
	}
	if l.signal != "" && q.State == "" {
		l.state = events.StateWaiting
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
	if q.Batch != "" {
		if l.batch, err = events.ParseID(q.Batch); err != nil {
			return l, events.Refuse(events.CodeBadID, "batch: %v", err)
		}
	}
	if err := l.readWorker(q.Worker); err != nil {
		return l, err
	}
	if err := l.readWords(q); err != nil {
		return l, err
	}
	if l.limit == 0 {
		l.limit = DefaultListLimit
	}
	if l.limit < 1 || l.limit > MaxListLimit {
		return l, events.Refuse(events.CodeBadRequest, "limit is %d: it must be 1 to %d; follow next_cursor for more", l.limit, MaxListLimit)
	}
	h := fnv.New32a()
	fmt.Fprintf(h, "%q %q %q %q %q %q %q %q %q %d %d", q.State, q.Type, q.Tenant, q.Label, q.Worker, q.Reason, q.Code, q.Error, q.Q, layout.Nanos(q.CreatedAfter), layout.Nanos(q.CreatedBefore))
	fmt.Fprintf(h, " %q %q %q %q", q.Schedule, q.Batch, q.WaitsFor, cause)
	h.Sum(l.mark[:0])
	return l, l.readCursor(q.Cursor)
}

// A cursor is the mark of its filters and the place behind which to go on.
func (l *listing) cursor(p layout.ListPlace) string {
	return base64.RawURLEncoding.EncodeToString(layout.AppendListPlace(bytes.Clone(l.mark[:]), p))
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
	r := layout.KeyReader{B: data[4:]}
	p := r.Place()
	l.start = &p
	return r.Err
}

// readWords reads the parts of a question that are taken apart. Blank ones ask
// for nothing.
func (l *listing) readWords(q wire.List) error {
	for name, text := range map[string]string{"error": q.Error, "q": q.Q} {
		if len(text) > MaxQueryBytes {
			return events.Refuse(events.CodeTooLarge, "%s has %d bytes: give at most %d", name, len(text), MaxQueryBytes)
		}
	}
	if text := strings.TrimSpace(q.Error); text != "" {
		if l.words = layout.QueryWords(text); len(l.words) == 0 {
			return events.Refuse(events.CodeBadRequest, "error has no word of %d bytes or more, of letters and digits", layout.MinWordBytes)
		}
	}
	if text := strings.TrimSpace(q.Q); text != "" {
		l.search = newSearch(text)
	}
	return nil
}

// matches reports whether an item is one of those asked for.
func (l *listing) matches(it *events.Item) bool {
	if l.state != events.StateNone && it.State != l.state || l.states != 0 && l.states&(1<<it.State) == 0 || l.typ != "" && it.Type != l.typ {
		return false
	}
	if l.tenant != "" && it.Tenant != l.tenant {
		return false
	}
	if l.schedule != "" && layout.ScheduleOf(it) != l.schedule {
		return false
	}
	if l.worker != "" && (it.Worker != l.worker || !layout.Held(it)) {
		return false
	}
	if !l.batch.IsZero() && (it.Relations == nil || it.Relations.Parent != l.batch) {
		return false
	}
	if w := it.Wait(); l.signal != "" && (w == nil || !slices.Contains(w.Names, l.signal)) {
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
	if !l.after.IsZero() && !it.CreatedAt.After(l.after) || !l.before.IsZero() && !it.CreatedAt.Before(l.before) {
		return false
	}
	return l.says(it) && (l.also == nil || l.also(it))
}

// says reports whether an item's texts match the query.
func (l *listing) says(it *events.Item) bool {
	var w layout.Words
	if len(l.words) > 0 {
		if w.OfItem(it); !w.Match(l.words) {
			return false
		}
	}
	return l.search.text == "" || l.search.matches(it, &w)
}

// page reads a page of what the plan's sources have in common.
func (l *listing) page(v layout.View) (page wire.Listed, err error) {
	page.Items = []wire.Item{}
	if l.search.isID {
		return l.single(v)
	}
	s := &scan{v: v, start: l.start, budget: MaxListScan}
	defer func() { l.steps, err = MaxListScan-s.budget, errors.Join(err, s.close()) }()
	src, err := l.plan(s)
	if err != nil {
		return page, err
	}
	turn := v.Turns.Turn()
	turn.Begin()
	defer turn.End()
	for at := src.spot(); at.ok; at = src.spot() {
		if !at.exact || len(page.Items) == l.limit || s.budget <= 0 {
			page.NextCursor = l.cursor(at.place.Prior())
			break
		}
		s.budget--
		turn.Take()
		item, err := v.Item(at.place.ID)
		if err != nil {
			return page, err
		}
		if item == nil {
			return page, fmt.Errorf("item %s is listed, but not there: %w", at.place.ID, layout.ErrRecord)
		}
		if l.past(item) {
			break
		}
		if l.matches(item) {
			page.Items = append(page.Items, wire.FromItem(item, nil, nil, nil))
		}
		if err := src.seek(at.place.Next()); err != nil {
			return page, err
		}
	}
	return page, nil
}

// single is the page of the item whose id was asked for.
func (l *listing) single(v layout.View) (page wire.Listed, err error) {
	page.Items = []wire.Item{}
	item, err := v.Item(l.search.id)
	if item != nil && err == nil && l.start == nil && l.matches(item) {
		page.Items = append(page.Items, wire.FromItem(item, nil, nil, nil))
	}
	return page, err
}
