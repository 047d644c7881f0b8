package projector

import (
	"encoding/json"

	"github.com/cockroachdb/pebble/v2"

	"github.com/streamwright/streamwright/internal/turns"
	"github.com/streamwright/streamwright/projector/internal/layout"
)

// opLists are the lists of ops: one for each index of its own slot, then those
// below.
const (
	opWaits = indexSlots + iota
	opItems
	opLists
)

// ops are the writes of a batch's items, collected by index and put into the
// batch index by index, in the term index term by term: a key that is inserted
// near the one before it costs the memtable a fraction of one anywhere. Their
// memory is used again.
type ops struct {
	buf   []byte
	lists [opLists][]op
	terms []termOps
	term  map[string]int // of a term, its place in terms
}

// op is one write: its key and value stand in buf from a place on.
type op struct {
	at       int
	key, val int32 // bytes of each
	del      bool  // of an index entry
}

// termOps are the writes of one term. No key of it is in both.
type termOps struct{ dels, sets []op }

func (o *ops) put(key, val []byte, del bool) op {
	p := op{len(o.buf), int32(len(key)), int32(len(val)), del}
	o.buf = append(append(o.buf, key...), val...)
	return p
}

func (o *ops) add(list int, key, val []byte, del bool) {
	o.lists[list] = append(o.lists[list], o.put(key, val, del))
}

// addTerm adds a write of the term index.
func (o *ops) addTerm(key []byte, del bool) {
	term := key[:len(key)-layout.PlaceBytes]
	at, ok := o.term[string(term)]
	if !ok {
		if o.term == nil {
			o.term = map[string]int{}
		}
		if at = len(o.terms); at < cap(o.terms) {
			o.terms = o.terms[:at+1] // with its memory
		} else {
			o.terms = append(o.terms, termOps{})
		}
		o.term[string(term)] = at
	}
	t := &o.terms[at]
	if p := o.put(key, nil, del); del {
		t.dels = append(t.dels, p)
	} else {
		t.sets = append(t.sets, p)
	}
}

// keepOps and keepTerms bound the bytes and terms whose memory is kept for the
// next batch.
const (
	keepOps   = 4 << 20
	keepTerms = 4096
)

// reset forgets all.
func (o *ops) reset() {
	if cap(o.buf) > keepOps || len(o.terms) > keepTerms {
		*o = ops{}
		return
	}
	for i, list := range o.lists {
		o.lists[i] = list[:0]
	}
	for i := range o.terms {
		t := &o.terms[i]
		t.dels, t.sets = t.dels[:0], t.sets[:0]
	}
	clear(o.term)
	o.buf, o.terms = o.buf[:0], o.terms[:0]
}

// each calls del and set for all, in the order in which they are to be done.
func (o *ops) each(del func(key []byte), set func(key, val []byte)) {
	do := func(list []op) {
		for _, p := range list {
			if key := o.buf[p.at : p.at+int(p.key)]; p.del {
				del(key)
			} else {
				set(key, o.buf[p.at+int(p.key):][:p.val])
			}
		}
	}
	for _, list := range o.lists {
		do(list)
	}
	for _, t := range o.terms {
		do(t.dels)
		do(t.sets)
	}
}

// batch is a Pebble batch under way. Its first error sticks.
type batch struct {
	*pebble.Batch
	err  error
	turn *turns.Turn // taken with every write
}

func (b *batch) note(err error) {
	b.turn.Take()
	if b.err == nil {
		b.err = err
	}
}

func (b *batch) set(key, value []byte)       { b.note(b.Set(key, value, nil)) }
func (b *batch) delete(key []byte)           { b.note(b.Delete(key, nil)) }
func (b *batch) singleDelete(key []byte)     { b.note(b.SingleDelete(key, nil)) }
func (b *batch) deleteRange(from, to []byte) { b.note(b.DeleteRange(from, to, nil)) }

// setJSON sets a key to the JSON of a value.
func (b *batch) setJSON(key []byte, value any) {
	data, err := json.Marshal(value)
	b.note(err)
	b.set(key, data)
}
