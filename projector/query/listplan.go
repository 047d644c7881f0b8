package query

import (
	"errors"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/projector/internal/layout"
)

// search is a question without a field: what it is about is found out.
type search struct {
	text  string // empty: none
	id    events.ID
	isID  bool
	words [][]byte
}

func newSearch(text string) (q search) {
	q.text = text
	if id, err := events.ParseID(text); err == nil {
		q.id, q.isID = id, true
	} else {
		q.words = layout.QueryWords(text)
	}
	return q
}

func (q *search) matches(it *events.Item, w *layout.Words) bool {
	if q.isID {
		return it.ID == q.id
	}
	if string(it.Type) == q.text || it.Tenant == q.text || it.DedupKey == q.text {
		return true
	}
	for _, v := range it.Labels {
		if v == q.text {
			return true
		}
	}
	if len(q.words) == 0 {
		return false
	}
	w.OfItem(it)
	return w.Match(q.words)
}

// plan finds the sources for a listing's filters. Filters without a source are
// checked on each item that the sources have in common.
func (l *listing) plan(s *scan) (source, error) {
	all := &allOf{budget: &s.budget}
	var errs []error
	add := func(src source, err error) {
		if errs = append(errs, err); src != nil {
			all.of = append(all.of, src)
		}
	}
	if l.worker != "" {
		src, err := s.heldBy(l.worker)
		if add(src, err); src == nil && l.states == 0 {
			l.states = heldStates
		}
	}
	if !l.batch.IsZero() {
		add(s.term(layout.TermParent, string(l.batch[:])))
	}
	if l.hasLabel {
		add(s.term(layout.TermLabel, l.labelValue, l.labelKey))
	}
	if l.tenant != "" {
		add(s.term(layout.TermTenant, l.tenant))
	}
	if l.schedule != "" {
		add(s.term(layout.TermSchedule, l.schedule))
	}
	for _, w := range layout.QueryWords(l.code) {
		add(s.term(layout.TermWord, string(w)))
	}
	if len(l.words) > 0 {
		add(s.words(l.words))
	}
	if l.search.text != "" {
		add(s.search(&l.search))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return l.narrow(s, all)
}

// narrow adds the items' states and types to a plan, or makes them all of it.
func (l *listing) narrow(s *scan, all *allOf) (source, error) {
	if len(all.of) == 0 {
		m, err := s.listed(l, allRanges)
		return m, err
	}
	if l.state != events.StateNone || l.states != 0 || l.typ != "" {
		m, err := s.listed(l, maxLeapRanges)
		if err != nil {
			return nil, err
		}
		if m != nil {
			all.of = append(all.of, m)
		}
	}
	return all.aligned()
}

// aligned returns the sources as one, at its first place.
func (a *allOf) aligned() (source, error) {
	if len(a.of) == 1 {
		return a.of[0], nil
	}
	return a, a.align()
}

// words returns the source of the items whose error has all words of a query,
// the last of which may be a prefix; nil if no word is indexed.
func (s *scan) words(query [][]byte) (source, error) {
	all := &allOf{budget: &s.budget}
	last := len(query) - 1
	for _, w := range query[:last] {
		src, err := s.term(layout.TermWord, string(w))
		if err != nil {
			return nil, err
		}
		all.of = append(all.of, src)
	}
	src, err := s.expand(append([]byte{layout.PrefixTerm, layout.TermWord}, query[last]...), 1)
	if err != nil {
		return nil, err
	}
	if src != nil {
		all.of = append(all.of, src)
	}
	if len(all.of) == 0 {
		return nil, nil
	}
	return all.aligned()
}

// search returns the source for a question without a field; nil if a part of
// the question has none.
func (s *scan) search(q *search) (source, error) {
	var of anyOf
	var errs []error
	missing := false
	add := func(src source, err error) {
		of, errs = append(of, src), append(errs, err)
		missing = missing || src == nil
	}
	if t, err := events.ParseType(q.text); err == nil {
		m, err := s.listed(&listing{typ: t, limit: 1}, maxLeapRanges)
		if add(m, err); m == nil { // a nil in an interface is none
			missing = true
		}
	}
	add(s.term(layout.TermTenant, q.text))
	add(s.term(layout.TermDedup, q.text))
	add(s.expand(layout.AppendTerm(nil, layout.TermLabel, q.text), 2))
	if len(q.words) > 0 {
		add(s.words(q.words))
	}
	if err := errors.Join(errs...); missing || err != nil {
		return nil, err
	}
	return of, nil
}
