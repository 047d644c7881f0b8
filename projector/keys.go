package projector

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/streamwright/streamwright/events"
)

// The key space. Numbers are big-endian, so that byte order is numeric order;
// time is nanoseconds since 1970 with the sign bit flipped, all zeros for the
// zero time; text is escaped and terminated (see appendText); id is 16 bytes.
//
//	'm' name(1)                                     the store's own records, see meta*
//	'y' type…                                       types: TypeInfo as JSON
//	'i' id                                          items: see record.go
//	'p' id                                          params, as submitted
//	'r' id                                          results, as reported
//	'h' id seq                                      histories: the event's JSON without id, type and documents
//	'g' into seq                                    submissions merged into an item, as JSON
//	'x' id                                          checkpoints
//	'o' id                                          how the children of the last spawn ended, as JSON
//	'f' id                                          the children of a spawn that is made in parts, as JSON
//	'v' kind(1) key…                                records of the partition as a whole, as JSON
//	'k' kind(1) type:text key…                      held keys: id, until time
//	'e' clock(1) until:time kind(1) type:text key…  those of them that expire, by the clock that they do by, and expiry
//	'j' seq                                         rejected submissions, by the sequence of their event, as JSON
//	'a' intake_seq                                  intake messages that became no item, as JSON
//
// and the indexes, each entry a pure function of one item:
//
//	'l' state(1) type:text ^seq id                  items by state and type, last touched first
//	'q' type:text lane:text priority(1) group:text order:time id → available:time
//	                                                what is queued, in order within each group
//	't' at:time id → state(1)                       what is due when (Item.TimerAt, Item.ExpiryAt)
//	'w' worker:text id → state(1)                   what a worker holds (claimed, running)
//	'n' intake_seq → id                             the item that an intake message became
//	'd' of id                                       who waits for an item (Relations.Waits)
//	'c' parent id                                   what an item has spawned
//	'u' id                                          what needs a follow-up
//	's' kind(1) term:text… ^seq id                  items by label, tenant, dedup key and words of the error: see terms.go
//	'z' cause:text ^finished:time id                what is dead, by cause, the last first
const (
	prefixItem    = 'i'
	prefixParams  = 'p'
	prefixResult  = 'r'
	prefixHistory = 'h'
	prefixMerged  = 'g'
	prefixKey     = 'k'
	prefixExpiry  = 'e'
	prefixList    = 'l'
	prefixReady   = 'q'
	prefixTimer   = 't'
	prefixWorker  = 'w'
	prefixIntake  = 'n'
	prefixType    = 'y'
	prefixMeta    = 'm'

	prefixCheckpoint = 'x'
	prefixOutcomes   = 'o'
	prefixChildren   = 'f'
	prefixRecord     = 'v'
	prefixWaiter     = 'd'
	prefixChild      = 'c'
	prefixFollowUp   = 'u'
	prefixDead       = 'z'
	prefixTerm       = 's'
	prefixRejected   = 'j'
	prefixAnswer     = 'a'
)

// docPrefix is where documents of a kind are.
func docPrefix(k events.DocKind) byte {
	switch k {
	case events.DocResult:
		return prefixResult
	case events.DocCheckpoint:
		return prefixCheckpoint
	case events.DocOutcomes:
		return prefixOutcomes
	case events.DocChildren:
		return prefixChildren
	}
	return prefixParams
}

// The store's own records, by the byte behind prefixMeta.
const (
	metaState    = 'm' // events.Meta as JSON
	metaChecksum = 'c' // of the event at Meta.Applied, 8 bytes
	metaIdentity = 'i' // of the log, text; not derived from the log's content
	metaRejected = 'r' // how much is kept of what was rejected: rejectedBook as JSON
)

func metaKey(name byte) []byte { return []byte{prefixMeta, name} }

func idKey(prefix byte, id events.ID) []byte { return appendIDKey(nil, prefix, id) }

func appendIDKey(b []byte, prefix byte, id events.ID) []byte {
	return append(append(b, prefix), id[:]...)
}

// appendSeqKey is the key of what belongs to an item at a position: prefix
// history or merged.
func appendSeqKey(b []byte, prefix byte, id events.ID, seq events.Seq) []byte {
	return appendUint(appendIDKey(b, prefix, id), uint64(seq))
}

func appendTypeKey(b []byte, t events.Type) []byte {
	return append(append(b, prefixType), t...)
}

func appendHeldKey(b []byte, ref events.KeyRef) []byte {
	return appendRef(append(b, prefixKey), ref)
}

func appendExpiryKey(b []byte, until time.Time, ref events.KeyRef) []byte {
	return appendRef(appendTime(append(b, prefixExpiry, byte(clockOf(ref.Kind))), until), ref)
}

// keyClock is what keys expire by: see [events.Meta.KeyTime].
type keyClock byte

const (
	clockEvents keyClock = iota
	clockMsgID
	numClocks
)

func clockOf(k events.KeyKind) keyClock {
	if k == events.KeyMsgID {
		return clockMsgID
	}
	return clockEvents
}

// at is a clock's time.
func (c keyClock) at(m events.Meta) time.Time {
	if c == clockMsgID {
		return m.KeyTime(events.KeyMsgID)
	}
	return m.LastAt
}

// of is a clock's time among those of before it was set back.
func (c keyClock) of(t events.KeyTimes) time.Time {
	if c == clockMsgID {
		return t.MsgIDs
	}
	return t.Events
}

func appendRef(b []byte, ref events.KeyRef) []byte {
	b = appendText(append(b, byte(ref.Kind)), string(ref.Type))
	return append(b, ref.Key...)
}

// appendListPrefix is what the list entries of one state and type share.
func appendListPrefix(b []byte, s events.ItemState, t events.Type) []byte {
	return appendText(append(b, prefixList, byte(s)), string(t))
}

// listPlace is an item's place in a listing: the newest touch first.
type listPlace struct {
	seq events.Seq
	id  events.ID
}

func (p listPlace) compare(q listPlace) int {
	if c := cmp.Compare(q.seq, p.seq); c != 0 {
		return c
	}
	return bytes.Compare(p.id[:], q.id[:])
}

// placeBytes are those of a listPlace in a key.
const placeBytes = 8 + 16

func appendListPlace(b []byte, p listPlace) []byte {
	return append(appendUint(b, ^uint64(p.seq)), p.id[:]...)
}

func appendListKey(b []byte, it *events.Item) []byte {
	return appendListPlace(appendListPrefix(b, it.State, it.Type), listPlace{it.Seq, it.ID})
}

func appendTimerKey(b []byte, at time.Time, id events.ID) []byte {
	return append(appendTime(append(b, prefixTimer), at), id[:]...)
}

func appendWorkerPrefix(b []byte, w events.WorkerID) []byte {
	return appendText(append(b, prefixWorker), string(w))
}

func appendIntakeKey(b []byte, seq uint64) []byte {
	return appendUint(append(b, prefixIntake), seq)
}

func appendRejectedKey(b []byte, seq events.Seq) []byte {
	return appendUint(append(b, prefixRejected), uint64(seq))
}

func appendAnswerKey(b []byte, intake uint64) []byte {
	return appendUint(append(b, prefixAnswer), intake)
}

func appendRecordKey(b []byte, r events.Record) []byte {
	return append(append(b, prefixRecord, byte(r.Kind)), r.Key...)
}

func appendUint(b []byte, n uint64) []byte { return binary.BigEndian.AppendUint64(b, n) }

// appendNanos appends nanoseconds since 1970 so that byte order is time order.
func appendNanos(b []byte, ns int64) []byte { return appendUint(b, uint64(ns)^(1<<63)) }

// noTime is the form of the zero time: before any other.
const noTime = math.MinInt64

// nanos is t in nanoseconds since 1970, noTime for the zero time. Times of the
// log lie well inside what 64 bits hold (the years 1678 to 2262): they are
// clock readings, or at most events.MaxDelay past one.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return noTime
	}
	return t.UnixNano()
}

func fromNanos(ns int64) time.Time {
	if ns == noTime {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

func appendTime(b []byte, t time.Time) []byte { return appendNanos(b, nanos(t)) }

// appendText appends s so that it ends itself and keeps its order among other
// texts: a zero byte becomes 00 FF, the end is 00 01.
func appendText(b []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		b = append(b, s[i])
		if s[i] == 0 {
			b = append(b, 0xff)
		}
	}
	return append(b, 0, 1)
}

// errKey says that a key is not of the layout above: the store is damaged.
var errKey = errors.New("malformed key")

// keyReader takes a key apart. The first failure sticks.
type keyReader struct {
	b   []byte
	err error
}

func (r *keyReader) take(n int) []byte {
	if r.err != nil || len(r.b) < n {
		r.err = errKey
		return make([]byte, n)
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

func (r *keyReader) byte() byte      { return r.take(1)[0] }
func (r *keyReader) uint() uint64    { return binary.BigEndian.Uint64(r.take(8)) }
func (r *keyReader) seq() events.Seq { return events.Seq(r.uint()) }
func (r *keyReader) nanos() int64    { return int64(r.uint() ^ (1 << 63)) }
func (r *keyReader) id() events.ID   { return events.ID(r.take(16)) }

func (r *keyReader) text() string {
	var s []byte
	for r.err == nil {
		c := r.byte()
		if c != 0 {
			s = append(s, c)
			continue
		}
		switch r.byte() {
		case 1:
			return string(s)
		case 0xff:
			s = append(s, 0)
		default:
			r.err = errKey
		}
	}
	return ""
}

// skipText passes over a text without making one.
func (r *keyReader) skipText() {
	for r.err == nil {
		if r.byte() == 0 && r.byte() == 1 {
			return
		}
	}
}

func (r *keyReader) rest() string {
	s := string(r.b)
	r.b = nil
	return s
}

func (r *keyReader) ref() events.KeyRef {
	return events.KeyRef{Kind: events.KeyKind(r.byte()), Type: events.Type(r.text()), Key: r.rest()}
}

func (r *keyReader) place() listPlace { return listPlace{events.Seq(^r.uint()), r.id()} }

// after returns the first key behind all keys that begin with prefix, nil for
// none. prefix is not written.
func after(prefix []byte) []byte {
	end := bytes.Clone(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] < 0xff {
			end[i]++
			return end[:i+1]
		}
	}
	return nil
}

// A dead item's place is that of its death, in the form of a list's place: the
// last first.
func deadPlace(it *events.Item) listPlace { return listPlace{placeOfTime(it.FinishedAt), it.ID} }

func placeOfTime(t time.Time) events.Seq { return events.Seq(uint64(nanos(t)) ^ (1 << 63)) }

func appendDeadPrefix(b []byte, cause string) []byte {
	return appendText(append(b, prefixDead), cause)
}

func appendDeadKey(b []byte, it *events.Item) []byte {
	return appendListPlace(appendDeadPrefix(b, it.Cause), deadPlace(it))
}

// held reports whether an item is held by a worker: claimed or running. The worker
// of an item that has ended, or is queued again, is that of its last attempt, and
// does not count.
func held(it *events.Item) bool {
	return it.State == events.StateClaimed || it.State == events.StateRunning
}

// next is the first place that can come behind p.
func (p listPlace) next() listPlace {
	for i := len(p.id) - 1; i >= 0; i-- {
		if p.id[i]++; p.id[i] != 0 {
			return p
		}
	}
	p.seq--
	return p
}

// prior is the last place that can come before p.
func (p listPlace) prior() listPlace {
	for i := len(p.id) - 1; i >= 0; i-- {
		if p.id[i]--; p.id[i] != 0xff {
			return p
		}
	}
	p.seq++
	return p
}
