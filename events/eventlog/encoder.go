package eventlog

import (
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// keepBuffer is the largest encoding buffer that is kept between appends.
const keepBuffer = 4 << 20

// The headers by which the server fences. Those of lineage and sequence are
// also nats.go's constants; the ones of batches it does not have.
const (
	headerBatchID     = "Nats-Batch-Id"
	headerBatchSeq    = "Nats-Batch-Sequence"
	headerBatchCommit = "Nats-Batch-Commit"
	headerLastSubject = "Nats-Expected-Last-Subject-Sequence-Subject"
)

// encoder turns an append into messages. Its memory is used anew by each
// append, since publishing copies. It belongs to the appending goroutine.
type encoder struct {
	writer string // this writer's random name in append ids
	batch  uint64 // the number of the current append
	names  *decoder

	buf  []byte   // the events' JSON, one behind the other
	ends []int    // where each ends in buf
	subj []string // of each
	ids  []string // of each, substrings of one string
	idb  []byte
}

func newEncoder(names wire.Names, partition int) *encoder {
	return &encoder{writer: newWriter(), names: newDecoder(names, partition)}
}

// encode begins a new append. maxPayload bounds an event with its headers.
func (e *encoder) encode(evs []events.Event, maxPayload int64) error {
	if n := len(evs); n == 0 || n > MaxAppend {
		return fmt.Errorf("append %d events: one append takes 1 to %d", n, MaxAppend)
	}
	e.reset()
	e.batch++
	for i := range evs {
		start := len(e.buf)
		b, err := evs[i].AppendJSON(e.buf)
		if err != nil {
			return err
		}
		e.buf = b
		if size := int64(len(b) - start); size+headerRoom > maxPayload {
			return fmt.Errorf("append %s event of %s: %w: it has %d bytes of %d", evs[i].Kind, evs[i].ID, ErrTooLarge, size, maxPayload)
		}
		e.ends = append(e.ends, len(b))
		e.subj = append(e.subj, e.names.subject(evs[i].Type, evs[i].Kind))
		e.idb = appendID(e.idb, e.writer, e.batch, i+1)
	}
	e.cutIDs(len(evs))
	return nil
}

// headerRoom is more than the headers of one message take.
const headerRoom = 512

func (e *encoder) reset() {
	if cap(e.buf) > keepBuffer {
		e.buf = nil
	}
	e.buf, e.ends, e.subj, e.ids, e.idb = e.buf[:0], e.ends[:0], e.subj[:0], e.ids[:0], e.idb[:0]
}

// cutIDs makes strings of the ids in idb, which lie there one behind the
// other: one allocation for all.
func (e *encoder) cutIDs(n int) {
	all := string(e.idb)
	prefix := len(e.writer) + 2 + base36Len(e.batch)
	for i := 1; i <= n; i++ {
		l := prefix + base36Len(uint64(i))
		e.ids = append(e.ids, all[:l])
		all = all[l:]
	}
}

func base36Len(n uint64) int {
	l := 1
	for ; n >= 36; n /= 36 {
		l++
	}
	return l
}

// data is the JSON of the i-th event.
func (e *encoder) data(i int) []byte {
	start := 0
	if i > 0 {
		start = e.ends[i-1]
	}
	return e.buf[start:e.ends[i]]
}

// batchID names the append as an atomic batch.
func (e *encoder) batchID() string { return e.writer + "." + strconv.FormatUint(e.batch, 36) }

// header is a message's header whose values are replaced in place.
type header struct {
	nats.Header
	id, last, of [1]string
}

func newHeader() *header { return &header{Header: make(nats.Header, 4)} }

func (h *header) setID(id string) {
	h.id[0] = id
	h.Header[nats.MsgIdHdr] = h.id[:]
}

func (h *header) setLast(name, value string) {
	h.last[0] = value
	h.Header[name] = h.last[:]
}

// setFence expects the last sequence among the subjects that match filter.
func (h *header) setFence(seq, filter string) {
	h.setLast(nats.ExpectedLastSubjSeqHdr, seq)
	h.of[0] = filter
	h.Header[headerLastSubject] = h.of[:]
}

func (h *header) expectNothing() {
	delete(h.Header, nats.ExpectedLastSeqHdr)
	delete(h.Header, nats.ExpectedLastSubjSeqHdr)
	delete(h.Header, headerLastSubject)
}
