package query

import (
	"bytes"
	"container/heap"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/projector/internal/layout"
)

// listRange is the index range of one state and type: what of it has been read
// and not listed.
type listRange struct {
	prefix []byte
	buffer []layout.ListPlace // never empty in a heap
	more   bool               // there may be more behind the buffer
	chunk  int                // read at a time
	taken  int                // of those read last, one by one
}

// listMerge is a heap of ranges by their first place, over one iterator. The
// ranges are read in chunks, so that their number costs seeks, not iterators.
type listMerge struct {
	iter   *pebble.Iterator
	ranges []*listRange
	chunk  int  // of a range, to begin with
	budget *int // counts down with each read; nil: nothing does
}

// The chunk read of a range at a time.
const (
	minListChunk = 4
	maxListChunk = 256
)

// prefixes lists the non-empty ranges, up to most of them.
func (m *listMerge) prefixes(l *listing, most int) (prefixes [][]byte, err error) {
	from := []byte{layout.PrefixList}
	if l.state != events.StateNone {
		from = append(from, byte(l.state))
	}
	for len(prefixes) < most && m.iter.SeekGE(from) {
		r := layout.KeyReader{B: m.iter.Key()[1:]}
		state, t := events.ItemState(r.Byte()), events.Type(r.Text())
		if r.Err != nil {
			return nil, fmt.Errorf("%s: %w", layout.DescribeKey(m.iter.Key()), layout.ErrRecord)
		}
		if l.state != events.StateNone && state != l.state {
			break
		}
		prefix := layout.AppendListPrefix(nil, state, t)
		switch {
		case l.states != 0 && l.states&(1<<state) == 0:
			from = []byte{layout.PrefixList, byte(state) + 1}
		case l.typ == "" || t == l.typ:
			prefixes = append(prefixes, prefix)
			from = layout.After(prefix)
		case t < l.typ:
			from = layout.AppendListPrefix(nil, state, l.typ)
		default:
			from = []byte{layout.PrefixList, byte(state) + 1}
		}
	}
	return prefixes, m.iter.Error()
}

// openAt reads the start of each range, from a place on.
func (m *listMerge) openAt(prefixes [][]byte, start *layout.ListPlace) error {
	for _, prefix := range prefixes {
		r := &listRange{prefix: prefix, chunk: m.chunk}
		from := prefix
		if start != nil {
			from = append(layout.AppendListPlace(bytes.Clone(prefix), *start), 0)
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

// read fills a range's buffer with what comes from a key on.
func (m *listMerge) read(r *listRange, from []byte) error {
	r.buffer, r.more, r.taken = r.buffer[:0], false, 0
	if m.budget != nil {
		*m.budget--
	}
	for ok := m.iter.SeekGE(from); ok && bytes.HasPrefix(m.iter.Key(), r.prefix); ok = m.iter.Next() {
		k := layout.KeyReader{B: m.iter.Key()[len(r.prefix):]}
		r.buffer = append(r.buffer, k.Place())
		if k.Err != nil {
			return fmt.Errorf("%s: %w", layout.DescribeKey(m.iter.Key()), layout.ErrRecord)
		}
		if r.more = len(r.buffer) == r.chunk; r.more {
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
		if err := m.read(r, append(layout.AppendListPlace(bytes.Clone(r.prefix), last), 0)); err != nil {
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

// spot implements source.
func (m *listMerge) spot() spot {
	if len(m.ranges) == 0 {
		return spot{}
	}
	return spot{place: m.ranges[0].buffer[0], exact: true, ok: true}
}

// seek implements source.
func (m *listMerge) seek(p layout.ListPlace) error {
	for len(m.ranges) > 0 && m.ranges[0].buffer[0].Compare(p) < 0 {
		if err := m.forward(m.ranges[0], p); err != nil {
			return err
		}
		if len(m.ranges[0].buffer) == 0 {
			heap.Pop(m)
		} else {
			heap.Fix(m, 0)
		}
	}
	return nil
}

// forward drops what a range has before p. A range that is read on and on is read
// in ever larger chunks, one that is leapt through in small ones.
func (m *listMerge) forward(r *listRange, p layout.ListPlace) error {
	n, _ := slices.BinarySearchFunc(r.buffer, p, layout.ListPlace.Compare)
	if r.taken++; n < len(r.buffer) || !r.more {
		r.buffer = r.buffer[n:]
		return nil
	}
	if 2*r.taken >= r.chunk {
		r.chunk = min(2*r.chunk, maxListChunk)
	} else {
		r.chunk = minListChunk
	}
	return m.read(r, layout.AppendListPlace(bytes.Clone(r.prefix), p))
}

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (m *listMerge) Len() int { return len(m.ranges) }
func (m *listMerge) Less(i, j int) bool {
	return m.ranges[i].buffer[0].Compare(m.ranges[j].buffer[0]) < 0
}
func (m *listMerge) Swap(i, j int) { m.ranges[i], m.ranges[j] = m.ranges[j], m.ranges[i] }
func (m *listMerge) Push(x any)    { m.ranges = append(m.ranges, x.(*listRange)) }
func (m *listMerge) Pop() any {
	last := m.ranges[len(m.ranges)-1]
	m.ranges = m.ranges[:len(m.ranges)-1]
	return last
}
