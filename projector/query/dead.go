package query

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/projector/internal/layout"
	"github.com/streamwright/streamwright/wire"
)

// MaxCausesShown bounds the causes that one query returns.
const MaxCausesShown = 10_000

// Dead returns a page of dead items, the last dead first. A page costs the same
// however deep it lies: the index is by cause and time, and the causes that the
// filters leave are merged. All of a page is as of one moment; an item that
// dies, or is replayed, meanwhile is not among what follows.
func (s Reader) Dead(q wire.Selection) (page wire.Listed, err error) {
	err = s.snapshot(func(v layout.View) error { page, _, err = Dead(v, q); return err })
	return page, err
}

// Dead is [Reader.Dead] in a view. It also says how many of [MaxListScan] steps
// the page took, if it was found through the term index.
func Dead(v layout.View, q wire.Selection) (page wire.Listed, steps int, err error) {
	l, err := newSelection(q)
	if err != nil {
		return page, 0, err
	}
	if l.state != events.StateNone && l.state != events.StateDead {
		return page, 0, events.Refuse(events.CodeBadRequest, "state is %s: dead items are asked for; leave it out", l.state)
	}
	page, err = l.deadPage(v)
	return page, l.steps, err
}

// Select returns a page of the items that a selection is about: dead ones as
// Dead does, others as List does.
func (s Reader) Select(q wire.Selection, states ...events.ItemState) (page wire.Listed, err error) {
	l, err := newSelection(q)
	if err != nil {
		return page, err
	}
	if l.state == events.StateDead {
		return s.Dead(q)
	}
	if l.cause != "" {
		return page, events.Refuse(events.CodeBadRequest, "cause is that of a death: give it with state dead, or none")
	}
	for _, st := range states {
		l.states |= 1 << st
	}
	err = s.snapshot(func(v layout.View) error { page, err = l.page(v); return err })
	return page, err
}

// selection is a checked wire.Selection.
type selection struct {
	listing
	cause string
}

func newSelection(q wire.Selection) (*selection, error) {
	if len(q.Cause) > events.MaxNameLen {
		return nil, events.Refuse(events.CodeTooLarge, "cause has %d bytes: use one that engine dead --causes shows", len(q.Cause))
	}
	l, err := newListing(q.List, q.Cause)
	if err != nil {
		return nil, err
	}
	l.since, l.until = q.Since, q.Until
	return &selection{listing: l, cause: q.Cause}, nil
}

// deadPage merges the causes that the filters leave, by time of death.
func (l *selection) deadPage(v layout.View) (page wire.Listed, err error) {
	page.Items = []wire.Item{}
	if l.search.isID {
		return l.singleDead(v)
	}
	if l.byTerms() {
		// Like other lists, the last touched first: for dead items that is the
		// last that died, since nothing touches them any more and event times
		// never go back.
		l.state = events.StateDead
		return l.page(v)
	}
	prefixes, err := l.causes(v)
	if err != nil {
		return page, err
	}
	prefix := []byte{layout.PrefixDead}
	it, err := v.R.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: layout.After(prefix)})
	if err != nil {
		return page, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	m := &listMerge{iter: it, chunk: min(max(l.limit/max(len(prefixes), 1)+1, minListChunk), maxListChunk)}
	if err := m.openAt(prefixes, l.from()); err != nil {
		return page, err
	}
	first := events.Seq(0)
	if !l.since.IsZero() {
		first = layout.PlaceOfTime(l.since)
	}
	for scanned := 1; m.Len() > 0; scanned++ {
		place := m.ranges[0].buffer[0]
		if place.Seq < first {
			break // all that follows died before
		}
		item, err := v.Item(place.ID)
		if err != nil {
			return page, err
		}
		if item == nil {
			return page, fmt.Errorf("item %s is among the dead, but not there: %w", place.ID, layout.ErrRecord)
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

// singleDead is the page of the item whose id was asked for, if it is dead.
func (l *selection) singleDead(v layout.View) (wire.Listed, error) {
	page, err := l.single(v)
	page.Items = slices.DeleteFunc(page.Items, func(it wire.Item) bool {
		return it.State != events.StateDead || l.cause != "" && it.Cause != l.cause
	})
	return page, err
}

// from is the place behind which the page begins, nil for the front.
func (l *selection) from() *layout.ListPlace {
	if l.start != nil || l.until.IsZero() {
		return l.start
	}
	return &layout.ListPlace{Seq: layout.PlaceOfTime(l.until)} // deaths at that moment, and before
}

// causes lists the ranges of the index that may hold what is asked for.
func (l *selection) causes(v layout.View) (prefixes [][]byte, err error) {
	if l.cause != "" {
		return [][]byte{layout.AppendDeadPrefix(nil, l.cause)}, nil
	}
	recs, err := v.Records(events.RecordCause)
	if err != nil {
		return nil, err
	}
	prefixes = append(prefixes, layout.AppendDeadPrefix(nil, "")) // of a time before there were causes
	for _, rec := range recs {
		c, err := layout.DecodeJSON[events.Cause]("cause "+rec.Key, rec.Data)
		if err != nil {
			return nil, err
		}
		mixed := strings.HasPrefix(rec.Key, "other-")
		if c.Dead > 0 && (l.typ == "" || c.Type == l.typ) && (mixed || (l.reason == "" || c.Reason == l.reason) && (l.code == "" || c.Code == l.code)) {
			prefixes = append(prefixes, layout.AppendDeadPrefix(nil, rec.Key))
		}
	}
	return prefixes, nil
}

// Causes returns the causes that q selects: the ones with dead items, or all
// that are known.
func (s Reader) Causes(q wire.CausesQuery) (reply wire.CausesReply, err error) {
	less := map[string]func(a, b wire.Cause) int{
		"":      func(a, b wire.Cause) int { return b.Last.Compare(a.Last) },
		"last":  func(a, b wire.Cause) int { return b.Last.Compare(a.Last) },
		"first": func(a, b wire.Cause) int { return b.First.Compare(a.First) },
		"count": func(a, b wire.Cause) int { return cmp.Compare(b.Count, a.Count) },
		"dead":  func(a, b wire.Cause) int { return cmp.Compare(b.Dead, a.Dead) },
	}[q.Sort]
	if less == nil {
		return reply, events.Refuse(events.CodeBadRequest, "sort is %q: use last, first, count or dead", clipText(q.Sort, 64))
	}
	if q.Limit < 0 || q.Limit > MaxCausesShown {
		return reply, events.Refuse(events.CodeBadRequest, "limit is %d: it must be 1 to %d, or left out for all", q.Limit, MaxCausesShown)
	}
	var recs []events.Record
	err = s.snapshot(func(v layout.View) error { recs, err = v.Records(events.RecordCause); return err })
	if err != nil {
		return reply, err
	}
	reply.Causes = []wire.Cause{}
	for _, rec := range recs {
		c, err := layout.DecodeJSON[events.Cause]("cause "+rec.Key, rec.Data)
		if err != nil {
			return reply, err
		}
		if (q.All || c.Dead > 0) && (q.Type == "" || string(c.Type) == q.Type) && (q.Reason == "" || c.Reason == q.Reason) && (q.Code == "" || c.Code == q.Code) {
			reply.Causes = append(reply.Causes, wire.FromCause(rec.Key, c))
		}
	}
	slices.SortFunc(reply.Causes, func(a, b wire.Cause) int { return cmp.Or(less(a, b), cmp.Compare(a.Cause, b.Cause)) })
	reply.Total = len(reply.Causes)
	if q.Limit > 0 && reply.Total > q.Limit {
		reply.Causes = reply.Causes[:q.Limit]
	}
	return reply, nil
}

func clipText(s string, n int) string {
	if len(s) > n {
		return s[:n] + "…"
	}
	return s
}

// byTerms reports whether dead items are better found through the term index than
// among all the dead: something is asked for that it knows. A cause names few enough
// items as it is.
func (l *selection) byTerms() bool {
	return l.cause == "" && (l.hasLabel || l.tenant != "" || l.worker != "" || len(l.words) > 0 || l.search.text != "")
}

// past reports whether all that follows an item in a listing ended too long ago to
// be asked for.
func (l *listing) past(it *events.Item) bool {
	return l.state == events.StateDead && !l.since.IsZero() && it.FinishedAt.Before(l.since)
}
