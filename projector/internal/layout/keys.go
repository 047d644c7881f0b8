package layout

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector/ready"
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
//	'b' id                                          the signals that have come, as JSON
//	'Q' id                                          the last question that an item has asked, as JSON
//	'v' kind(1) key…                                records of the partition as a whole, as JSON
//	'k' kind(1) type:text key…                      held keys: id, until time
//	'e' clock(1) until:time kind(1) type:text key…  held keys that expire, by their clock and expiry
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
	PrefixItem    = 'i'
	PrefixParams  = 'p'
	PrefixResult  = 'r'
	PrefixHistory = 'h'
	PrefixMerged  = 'g'
	PrefixKey     = 'k'
	PrefixExpiry  = 'e'
	PrefixList    = 'l'
	PrefixReady   = 'q'
	PrefixTimer   = 't'
	prefixWorker  = 'w'
	prefixIntake  = 'n'
	PrefixType    = 'y'
	PrefixMeta    = 'm'

	prefixCheckpoint = 'x'
	prefixOutcomes   = 'o'
	prefixChildren   = 'f'
	prefixMailbox    = 'b'
	prefixQuestion   = 'Q'
	PrefixRecord     = 'v'
	PrefixWaiter     = 'd'
	PrefixChild      = 'c'
	PrefixFollowUp   = 'u'
	PrefixDead       = 'z'
	PrefixTerm       = 's'
	PrefixRejected   = 'j'
	PrefixAnswer     = 'a'
)

// DocPrefix returns the key prefix of documents of a kind.
func DocPrefix(k events.DocKind) byte {
	switch k {
	case events.DocResult:
		return PrefixResult
	case events.DocCheckpoint:
		return prefixCheckpoint
	case events.DocOutcomes:
		return prefixOutcomes
	case events.DocChildren:
		return prefixChildren
	case events.DocMailbox:
		return prefixMailbox
	case events.DocQuestion:
		return prefixQuestion
	}
	return PrefixParams
}

// The store's own records, by the byte behind prefixMeta.
const (
	MetaState    = 'm' // events.Meta as JSON
	MetaChecksum = 'c' // of the frame of Meta.Applied, 8 bytes
	MetaIdentity = 'i' // of the log, text; not derived from the log's content
	MetaKeeps    = 'k' // there if the store keeps what is pruned; not derived from the log's content
	MetaRejected = 'r' // how much is kept of what was rejected: rejectedBook as JSON
)

func MetaKey(name byte) []byte { return []byte{PrefixMeta, name} }

func IDKey(prefix byte, id events.ID) []byte { return AppendIDKey(nil, prefix, id) }

func AppendIDKey(b []byte, prefix byte, id events.ID) []byte {
	return append(append(b, prefix), id[:]...)
}

// AppendSeqKey appends the key of an item's entry at a position; prefix is
// history or merged.
func AppendSeqKey(b []byte, prefix byte, id events.ID, seq events.Seq) []byte {
	return AppendUint(AppendIDKey(b, prefix, id), uint64(seq))
}

func AppendTypeKey(b []byte, t events.Type) []byte {
	return append(append(b, PrefixType), t...)
}

func AppendHeldKey(b []byte, ref events.KeyRef) []byte {
	return appendRef(append(b, PrefixKey), ref)
}

func AppendExpiryKey(b []byte, until time.Time, ref events.KeyRef) []byte {
	return appendRef(AppendTime(append(b, PrefixExpiry, byte(ClockOf(ref.Kind))), until), ref)
}

// keyClock is the clock by which keys expire: see [events.Meta.KeyTime].
type keyClock byte

const (
	ClockEvents keyClock = iota
	clockMsgID
	NumClocks
)

func ClockOf(k events.KeyKind) keyClock {
	if k == events.KeyMsgID {
		return clockMsgID
	}
	return ClockEvents
}

const NoExpiry = math.MaxInt64

// Expiries are times not after the earliest Until on disk (noExpiry: none), of
// the keys that expire by each clock.
type Expiries [NumClocks]int64

// At is a clock's time.
func (c keyClock) At(m events.Meta) time.Time {
	if c == clockMsgID {
		return m.KeyTime(events.KeyMsgID)
	}
	return m.LastAt
}

// Of returns the clock's time, out of the times from before the clocks were set
// back.
func (c keyClock) Of(t core.KeyTimes) time.Time {
	if c == clockMsgID {
		return t.MsgIDs
	}
	return t.Events
}

func appendRef(b []byte, ref events.KeyRef) []byte {
	b = AppendText(append(b, byte(ref.Kind)), string(ref.Type))
	return append(b, ref.Key...)
}

// AppendListPrefix appends the common prefix of the list entries of one state
// and type.
func AppendListPrefix(b []byte, s events.ItemState, t events.Type) []byte {
	return AppendText(append(b, PrefixList, byte(s)), string(t))
}

// ListPlace is an item's place in a listing: the newest touch first.
type ListPlace struct {
	Seq events.Seq
	ID  events.ID
}

func (p ListPlace) Compare(q ListPlace) int {
	if c := cmp.Compare(q.Seq, p.Seq); c != 0 {
		return c
	}
	return bytes.Compare(p.ID[:], q.ID[:])
}

// PlaceBytes is the size of a [ListPlace] in a key.
const PlaceBytes = 8 + 16

func AppendListPlace(b []byte, p ListPlace) []byte {
	return append(AppendUint(b, ^uint64(p.Seq)), p.ID[:]...)
}

func AppendListKey(b []byte, it *events.Item) []byte {
	return AppendListPlace(AppendListPrefix(b, it.State, it.Type), ListPlace{it.Seq, it.ID})
}

func AppendTimerKey(b []byte, at time.Time, id events.ID) []byte {
	return append(AppendTime(append(b, PrefixTimer), at), id[:]...)
}

func AppendWorkerPrefix(b []byte, w events.WorkerID) []byte {
	return AppendText(append(b, prefixWorker), string(w))
}

func AppendIntakeKey(b []byte, seq uint64) []byte {
	return AppendUint(append(b, prefixIntake), seq)
}

func AppendRejectedKey(b []byte, seq events.Seq) []byte {
	return AppendUint(append(b, PrefixRejected), uint64(seq))
}

func AppendAnswerKey(b []byte, intake uint64) []byte {
	return AppendUint(append(b, PrefixAnswer), intake)
}

func AppendRecordKey(b []byte, r events.Record) []byte {
	return append(append(b, PrefixRecord, byte(r.Kind)), r.Key...)
}

func AppendUint(b []byte, n uint64) []byte { return binary.BigEndian.AppendUint64(b, n) }

// AppendNanos appends nanoseconds since 1970 so that byte order is time order.
func AppendNanos(b []byte, ns int64) []byte { return AppendUint(b, uint64(ns)^(1<<63)) }

// NoTime is the form of the zero time: before any other.
const NoTime = ready.NoTime

// Nanos is [ready.Nanos].
func Nanos(t time.Time) int64 { return ready.Nanos(t) }

func FromNanos(ns int64) time.Time {
	if ns == NoTime {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

func AppendTime(b []byte, t time.Time) []byte { return AppendNanos(b, Nanos(t)) }

// AppendText appends s so that it ends itself and keeps its order among other
// texts: a zero byte becomes 00 FF, the end is 00 01.
func AppendText(b []byte, s string) []byte {
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

// KeyReader takes a key apart. The first failure sticks.
type KeyReader struct {
	B   []byte
	Err error
}

func (r *KeyReader) take(n int) []byte {
	if r.Err != nil || len(r.B) < n {
		r.Err = errKey
		return make([]byte, n)
	}
	v := r.B[:n]
	r.B = r.B[n:]
	return v
}

func (r *KeyReader) Byte() byte      { return r.take(1)[0] }
func (r *KeyReader) Uint() uint64    { return binary.BigEndian.Uint64(r.take(8)) }
func (r *KeyReader) Seq() events.Seq { return events.Seq(r.Uint()) }
func (r *KeyReader) Nanos() int64    { return int64(r.Uint() ^ (1 << 63)) }
func (r *KeyReader) ID() events.ID   { return events.ID(r.take(16)) }

func (r *KeyReader) Text() string {
	var s []byte
	for r.Err == nil {
		c := r.Byte()
		if c != 0 {
			s = append(s, c)
			continue
		}
		switch r.Byte() {
		case 1:
			return string(s)
		case 0xff:
			s = append(s, 0)
		default:
			r.Err = errKey
		}
	}
	return ""
}

// SkipText passes over a text without making one.
func (r *KeyReader) SkipText() {
	for r.Err == nil {
		if r.Byte() == 0 && r.Byte() == 1 {
			return
		}
	}
}

func (r *KeyReader) rest() string {
	s := string(r.B)
	r.B = nil
	return s
}

func (r *KeyReader) Ref() events.KeyRef {
	return events.KeyRef{Kind: events.KeyKind(r.Byte()), Type: events.Type(r.Text()), Key: r.rest()}
}

func (r *KeyReader) Place() ListPlace { return ListPlace{events.Seq(^r.Uint()), r.ID()} }

// After returns the first key behind all keys that begin with prefix, nil for
// none. prefix is not written.
func After(prefix []byte) []byte {
	end := bytes.Clone(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] < 0xff {
			end[i]++
			return end[:i+1]
		}
	}
	return nil
}

// DeadPlace returns a dead item's place among the dead, the last dead first.
func DeadPlace(it *events.Item) ListPlace { return ListPlace{PlaceOfTime(it.FinishedAt), it.ID} }

func PlaceOfTime(t time.Time) events.Seq { return events.Seq(uint64(Nanos(t)) ^ (1 << 63)) }

func AppendDeadPrefix(b []byte, cause string) []byte {
	return AppendText(append(b, PrefixDead), cause)
}

func AppendDeadKey(b []byte, it *events.Item) []byte {
	return AppendListPlace(AppendDeadPrefix(b, it.Cause), DeadPlace(it))
}

// Held reports whether an item is held by a worker: claimed or running. An item
// that has ended, or is queued again, still names the worker of its last
// attempt, which does not count.
func Held(it *events.Item) bool {
	return it.State == events.StateClaimed || it.State == events.StateRunning
}

// Next is the first place that can come behind p.
func (p ListPlace) Next() ListPlace {
	for i := len(p.ID) - 1; i >= 0; i-- {
		if p.ID[i]++; p.ID[i] != 0 {
			return p
		}
	}
	p.Seq--
	return p
}

// Prior is the last place that can come before p.
func (p ListPlace) Prior() ListPlace {
	for i := len(p.ID) - 1; i >= 0; i-- {
		if p.ID[i]--; p.ID[i] != 0xff {
			return p
		}
	}
	p.Seq++
	return p
}
