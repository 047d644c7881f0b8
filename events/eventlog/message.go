package eventlog

import (
	"crypto/rand"
	"errors"
	"strconv"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// writerLen is the length of a writer's random name: 60 bits, so that no two
// writers of a log share one.
const writerLen = 12

const writerAlphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ" // 32 letters

func newWriter() string {
	var b [writerLen]byte
	_, _ = rand.Read(b[:]) // never fails
	for i := range b {
		b[i] = writerAlphabet[b[i]&31]
	}
	return string(b[:])
}

// appendID appends the id of the n-th message (from 1) of a writer's batch:
// <writer>.<batch>.<n>, the numbers in base 36.
func appendID(b []byte, writer string, batch uint64, n int) []byte {
	b = append(b, writer...)
	b = append(b, '.')
	b = strconv.AppendUint(b, batch, 36)
	b = append(b, '.')
	return strconv.AppendUint(b, uint64(n), 36)
}

// isAppendID tells an id of ours from what other publishers put into
// Nats-Msg-Id.
func isAppendID(s string) bool {
	if len(s) < writerLen+4 || len(s) > writerLen+2+13+13 || s[writerLen] != '.' {
		return false
	}
	for i := range writerLen {
		if c := s[i]; (c < '0' || c > '9') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	dots, digits := 0, 0
	for i := writerLen + 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '.' && digits > 0:
			dots, digits = dots+1, 0
		case c >= '0' && c <= '9' || c >= 'a' && c <= 'z':
			digits++
		default:
			return false
		}
	}
	return dots == 1 && digits > 0
}

// message is one message of the stream, as it is stored.
type message struct {
	seq     events.Seq
	subject string
	id      string // Nats-Msg-Id
	data    []byte
}

// decoded is a message judged: an event, or foreign for a reason, or an error.
type decoded struct {
	seq     events.Seq
	sum     uint64
	size    int // of the stored data
	ev      events.Event
	subject string // of a foreign message
	foreign string
	err     error
}

// decoder judges messages of one partition. Its subject cache is bounded by
// the types and kinds that there are; it belongs to one goroutine.
type decoder struct {
	names     wire.Names
	partition int
	subjects  map[subjectKey]string
}

type subjectKey struct {
	t events.Type
	k events.Kind
}

// maxSubjects bounds a subject cache: more than all types of an engine times
// the kinds, it only ever fills up with garbage.
const maxSubjects = events.MaxTypes * events.NumKinds

func newDecoder(names wire.Names, partition int) *decoder {
	return &decoder{names: names, partition: partition, subjects: map[subjectKey]string{}}
}

// subject is wire.Names.Event, remembered.
func (d *decoder) subject(t events.Type, k events.Kind) string {
	key := subjectKey{t, k}
	s, ok := d.subjects[key]
	if !ok {
		s = d.names.Event(d.partition, t, k)
		if len(d.subjects) >= maxSubjects {
			clear(d.subjects)
		}
		d.subjects[key] = s
	}
	return s
}

// decode judges m.
func (d *decoder) decode(m message) decoded {
	out := decoded{seq: m.seq, sum: events.Checksum(m.data), size: len(m.data)}
	if !isAppendID(m.id) {
		out.subject, out.foreign = m.subject, "it has no append id: not written by an engine"
		return out
	}
	ev, err := events.DecodeEvent(m.data)
	switch {
	case err == nil && m.subject != d.subject(ev.Type, ev.Kind):
		out.subject, out.foreign = m.subject, "its subject is not that of its event"
	case errors.Is(err, events.ErrCorrupt):
		out.err = &CorruptError{Seq: m.seq, Reason: err.Error()}
	case err != nil:
		out.err = err
	default:
		ev.Seq = m.seq
		out.ev = ev
	}
	return out
}

// headerID is the Nats-Msg-Id of a header, empty for a message that a server
// fetched for somebody and put where he said: it may have any id.
func headerID(h nats.Header) string {
	if wire.Fetched(h) {
		return ""
	}
	if v := h[nats.MsgIdHdr]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// ForeignFunc is called with each foreign message that a reader skips. It is
// called from the reader's goroutine and must not hold it up.
type ForeignFunc func(seq events.Seq, subject, reason string)
