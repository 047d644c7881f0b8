package query

import (
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

// plan finds the sources of what a listing asks for. Whatever they don't say is
// checked on each item that they have in common.
func (l *listing) plan(s *scan) (source, error) {
	all := &allOf{budget: &s.budget}
	add := func(src source, err error) error {
		if src != nil && err == nil {
			all.of = append(all.of, src)
		}
		return err
	}
	if l.worker != "" {
		src, err := s.heldBy(l.worker)
		if err := add(src, err); err != nil {
			return nil, err
		}
		if src == nil && l.states == 0 {
			l.states = heldStates
		}
	}
	if !l.batch.IsZero() {
		if err := add(s.term(layout.TermParent, string(l.batch[:]))); err != nil {
			return nil, err
		}
	}
	if l.hasLabel {
		if err := add(s.term(layout.TermLabel, l.labelValue, l.labelKey)); err != nil {
			return nil, err
		}
	}
	if l.tenant != "" {
		if err := add(s.term(layout.TermTenant, l.tenant)); err != nil {
			return nil, err
		}
	}
	if l.schedule != "" {
		if err := add(s.term(layout.TermSchedule, l.schedule)); err != nil {
			return nil, err
		}
	}
	for _, w := range layout.QueryWords(l.code) {
		if err := add(s.term(layout.TermWord, string(w))); err != nil {
			return nil, err
		}
	}
	if len(l.words) > 0 {
		if err := add(s.words(l.words)); err != nil {
			return nil, err
		}
	}
	if l.search.text != "" {
		if err := add(s.search(&l.search)); err != nil {
			return nil, err
		}
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
	if len(all.of) == 1 {
		return all.of[0], nil
	}
	return all, all.align()
}

// words is the source of the items whose error has some words, the last as the
// beginning of one; nil if the words of which there are sources are none.
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
	switch len(all.of) {
	case 0:
		return nil, nil
	case 1:
		return all.of[0], nil
	}
	return all, all.align()
}

// search is the source of what a question without a field finds; nil if a part
// of it has none.
func (s *scan) search(q *search) (source, error) {
	var of anyOf
	var err error
	missing := false
	add := func(src source, e error) {
		if of = append(of, src); e != nil {
			err = e
		}
		missing = missing || src == nil
	}
	if t, e := events.ParseType(q.text); e == nil {
		m, e := s.listed(&listing{typ: t, limit: 1}, maxLeapRanges)
		if add(m, e); m == nil {
			missing = true
		}
	}
	add(s.term(layout.TermTenant, q.text))
	add(s.term(layout.TermDedup, q.text))
	add(s.expand(layout.AppendTerm(nil, layout.TermLabel, q.text), 2))
	if len(q.words) > 0 {
		add(s.words(q.words))
	}
	if missing || err != nil {
		return nil, err
	}
	return of, nil
}
