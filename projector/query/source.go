package query

import (
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/projector/internal/layout"
)

// A source is an ordered set of places, found in indexes: one range of one, or
// what several have in common, or together.
type source interface {
	// spot returns the source's current place.
	spot() spot
	// seek moves to the first place that is not before p. It never goes back.
	seek(p layout.ListPlace) error
}

// spot is the position of a source: its next place, or, once the page's budget
// is used up, somewhere before that (not exact). If not ok, the source is at
// its end.
type spot struct {
	place     layout.ListPlace
	exact, ok bool
}

// allOf is the intersection of sources. They leap over each other: whichever is
// behind seeks to the place of the furthest one, so the cost follows the
// smallest of them, however large the others are.
type allOf struct {
	of     []source
	now    spot
	budget *int
}

func (a *allOf) spot() spot { return a.now }

func (a *allOf) seek(p layout.ListPlace) error {
	for _, s := range a.of {
		if at := s.spot(); at.ok && at.place.Compare(p) < 0 {
			if err := s.seek(p); err != nil {
				return err
			}
		}
	}
	return a.align()
}

// align goes on until all stand at one place.
func (a *allOf) align() error {
	for {
		far := a.of[0].spot()
		same, exact := true, true
		for _, s := range a.of {
			at := s.spot()
			if !at.ok {
				a.now = spot{}
				return nil
			}
			c := at.place.Compare(far.place)
			same, exact = same && c == 0, exact && at.exact
			if c > 0 {
				far = at
			}
		}
		a.now = spot{place: far.place, exact: same && exact, ok: true}
		if a.now.exact || !exact || *a.budget <= 0 {
			return nil
		}
		for _, s := range a.of {
			if s.spot().place.Compare(far.place) < 0 {
				if err := s.seek(far.place); err != nil {
					return err
				}
			}
		}
	}
}

// anyOf is the union of sources.
type anyOf []source

func (a anyOf) spot() (first spot) {
	for _, s := range a {
		at := s.spot()
		if !at.ok {
			continue
		}
		c := 0
		if first.ok {
			c = at.place.Compare(first.place)
		}
		if !first.ok || c < 0 {
			first = at
		} else if c == 0 {
			first.exact = first.exact || at.exact
		}
	}
	return first
}

func (a anyOf) seek(p layout.ListPlace) error {
	for _, s := range a {
		if at := s.spot(); at.ok && at.place.Compare(p) < 0 {
			if err := s.seek(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// scan is the work of one page: its sources' iterators, and the number of steps
// left.
type scan struct {
	v      layout.View
	start  *layout.ListPlace // behind this place; nil: from the front
	budget int               // steps left: an item looked at, or a seek in an index
	iters  []*pebble.Iterator
}

func (s *scan) close() error {
	var errs []error
	for _, it := range s.iters {
		errs = append(errs, it.Close())
	}
	return errors.Join(errs...)
}

// merge is a source without ranges yet, over the keys that begin with prefix.
func (s *scan) merge(prefix []byte) (*listMerge, error) {
	it, err := s.v.R.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: layout.After(prefix)})
	if err != nil {
		return nil, err
	}
	s.iters = append(s.iters, it)
	return &listMerge{iter: it, budget: &s.budget, chunk: minListChunk}, nil
}

// term is the source of one text of the term index.
func (s *scan) term(kind byte, texts ...string) (source, error) {
	prefix := layout.AppendTerm(nil, kind, texts...)
	m, err := s.merge(prefix)
	if err != nil {
		return nil, err
	}
	return m, m.openAt([][]byte{prefix}, s.start)
}

// MaxExpand bounds the texts of the term index that one question may stand for:
// words with a prefix, keys of a label's value. A question that stands for more
// has no source; each item is looked at instead.
const MaxExpand = 256

// expand returns the source of all texts of the term index whose entries begin
// with from, or nil if there are more than MaxExpand of them; n texts make up
// an entry's term.
func (s *scan) expand(from []byte, n int) (source, error) {
	m, err := s.merge(from)
	if err != nil {
		return nil, err
	}
	var prefixes [][]byte
	for seek := from; m.iter.SeekGE(seek); {
		r := layout.KeyReader{B: m.iter.Key()[2:]}
		for range n {
			r.Text()
		}
		if r.Err != nil {
			return nil, layout.ErrRecord
		}
		if len(prefixes) == MaxExpand {
			return nil, nil
		}
		prefix := slices.Clone(m.iter.Key()[:len(m.iter.Key())-len(r.B)])
		prefixes = append(prefixes, prefix)
		seek = layout.After(prefix)
	}
	if err := m.iter.Error(); err != nil {
		return nil, err
	}
	return m, m.openAt(prefixes, s.start)
}

// listed returns the source of the items of some states and a type (of all, if
// none is given), or nil if it would have more than most ranges.
func (s *scan) listed(l *listing, most int) (*listMerge, error) {
	m, err := s.merge([]byte{layout.PrefixList})
	if err != nil {
		return nil, err
	}
	prefixes, err := m.prefixes(l, most+1)
	if err != nil || len(prefixes) > most {
		return nil, err
	}
	if most == allRanges { // it is the only source, and will be read on and on
		m.chunk = min(max(l.limit/max(len(prefixes), 1)+1, minListChunk), maxListChunk)
	}
	return m, m.openAt(prefixes, s.start)
}

const (
	allRanges = int(events.NumStates) * (events.MaxTypes + 1)
	// maxLeapRanges bounds the ranges by state and type that are used beside
	// other sources; moving more of them costs more than looking at items.
	maxLeapRanges = 32
)
