package events

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/oklog/ulid/v2"
)

// ID names a work item: a ULID, chosen by the submitter or by the engine.
// Its text form is 26 characters of Crockford base 32. The zero ID names
// nothing.
type ID [16]byte

// ParseID reads a ULID's text form. Lower case is accepted.
func ParseID(s string) (ID, error) {
	u, err := ulid.ParseStrict(strings.ToUpper(s))
	if err != nil {
		return ID{}, fmt.Errorf("%q is no work id: a work id is a ULID, 26 characters such as 01JD3V6YB2M4C9W8ZK5T7QXRNE", Clip(s, 64))
	}
	return ID(u), nil
}

// String returns the ULID's text form.
func (id ID) String() string { return ulid.ULID(id).String() }

// AppendText implements encoding.TextAppender.
func (id ID) AppendText(b []byte) ([]byte, error) {
	n := len(b)
	b = append(b, "00000000000000000000000000"...)
	return b, ulid.ULID(id).MarshalTextTo(b[n:])
}

// IsZero reports whether id names nothing.
func (id ID) IsZero() bool { return id == ID{} }

// MarshalText implements encoding.TextMarshaler.
func (id ID) MarshalText() ([]byte, error) { return ulid.ULID(id).MarshalText() }

// UnmarshalText implements encoding.TextUnmarshaler; the empty text is the
// zero ID.
func (id *ID) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*id = ID{}
		return nil
	}
	if v, ok := upperID(b); ok {
		*id = v
		return nil
	}
	v, err := ParseID(string(b))
	*id = v
	return err
}

// digits32 has the value of each digit of a ULID, 0xff for what is none.
var digits32 = func() (v [256]byte) {
	for i := range v {
		v[i] = 0xff
	}
	for i, c := range "0123456789ABCDEFGHJKMNPQRSTVWXYZ" {
		v[c] = byte(i)
	}
	return v
}()

// upperID is [ParseID] for an id in upper case, several times as quick.
func upperID(w []byte) (id ID, ok bool) {
	if len(w) != 26 || w[0] > '7' {
		return id, false
	}
	var hi, lo uint64
	for _, c := range w {
		v := digits32[c]
		if v == 0xff {
			return id, false
		}
		hi, lo = hi<<5|lo>>59, lo<<5|uint64(v)
	}
	binary.BigEndian.PutUint64(id[:8], hi)
	binary.BigEndian.PutUint64(id[8:], lo)
	return id, true
}

// Seq is the position of an event in a partition's log: the sequence of its frame
// times [FrameEvents], plus its index in the frame. Positions are ordered, but not
// contiguous. 0 is the position before the first event.
type Seq uint64

// FrameEvents is the distance of two frames' positions, and more than the events that
// a frame can have.
const FrameEvents = 1 << frameBits

const frameBits = 12

// SeqOf returns the position of the event with an index in a frame.
func SeqOf(frame uint64, index int) Seq { return Seq(frame<<frameBits | uint64(index)) }

// Frame returns the sequence of the frame that has the event.
func (s Seq) Frame() uint64 { return uint64(s) >> frameBits }

// Index returns the event's place in its frame, from 0.
func (s Seq) Index() int { return int(s & (FrameEvents - 1)) }

func (s Seq) String() string { return strconv.FormatUint(uint64(s), 10) }

// ParseSeq reads a decimal position.
func ParseSeq(s string) (Seq, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, errors.New("invalid position: use the decimal number that an earlier reply gave")
	}
	return Seq(n), nil
}

// Bytes is the position's big-endian form: byte order is numeric order.
func (s Seq) Bytes() []byte { return binary.BigEndian.AppendUint64(nil, uint64(s)) }

// Epoch counts the owners of a partition; each ownership has a higher one.
type Epoch uint64

// Attempt counts the runs of an item, from 1; 0 before the first.
type Attempt int

// Priority orders items of a type: 0 to 9, higher first.
type Priority uint8

// The priorities that the words low, medium and high stand for, and the bounds.
const (
	PriorityLow     Priority = 2
	PriorityDefault Priority = 5
	PriorityHigh    Priority = 8
	MaxPriority     Priority = 9
)

// ParsePriority reads a digit or one of the words low, medium, high. The empty
// text is the default.
func ParsePriority(s string) (Priority, error) {
	switch strings.ToLower(s) {
	case "":
		return PriorityDefault, nil
	case "low":
		return PriorityLow, nil
	case "medium":
		return PriorityDefault, nil
	case "high":
		return PriorityHigh, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > int(MaxPriority) {
		return 0, fmt.Errorf("%q is no priority: use 0 to 9 (higher first), or low, medium, high", Clip(s, 64))
	}
	return Priority(n), nil
}

// Token fences one dispatch of one item: a claim is granted only for the
// item's current token, and later reports must carry the claim's. It is made
// of the owner's epoch and a counter, so no two dispatches of a log share one.
type Token uint64

// NewToken makes the n-th token of an epoch. n must stay below 2^40.
func NewToken(e Epoch, n uint64) Token { return Token(uint64(e)<<40 | n&(1<<40-1)) }

// String is the token's form in headers and JSON.
func (t Token) String() string { return strconv.FormatUint(uint64(t), 36) }

// MarshalText implements encoding.TextMarshaler; the zero token is empty text.
func (t Token) MarshalText() ([]byte, error) { return t.AppendText(nil) }

// AppendText implements encoding.TextAppender.
func (t Token) AppendText(b []byte) ([]byte, error) {
	if t == 0 {
		return b, nil
	}
	return strconv.AppendUint(b, uint64(t), 36), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *Token) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*t = 0
		return nil
	}
	n, err := strconv.ParseUint(string(b), 36, 64)
	if err != nil {
		return errors.New("invalid token: send the Work-Token header of the dispatched message back unchanged")
	}
	*t = Token(n)
	return nil
}

// Type names a kind of work, such as "email" or "resize-image".
type Type string

// WorkerID names a worker; it must be unique among those alive.
type WorkerID string

// NoType stands in the subject of events that belong to the partition, not to
// a type.
const NoType Type = "_"

// ParseType checks a type name: at most 63 characters of a-z and 0-9 with
// single - or _ between them.
func ParseType(s string) (Type, error) {
	if len(s) > MaxTypeLen || !words(s, "_-") {
		return "", fmt.Errorf("%q is no type name: use at most %d characters of a-z and 0-9, with single - or _ between them", Clip(s, 80), MaxTypeLen)
	}
	return Type(s), nil
}

// Namespace names a log of its own, with everything that belongs to it, such as "acme".
type Namespace string

// DefaultNamespace is there by itself, and has the list of the others.
const DefaultNamespace Namespace = "default"

// ParseNamespace checks a namespace's name: at most 32 characters of a-z and 0-9 with single
// - between them.
func ParseNamespace(s string) (Namespace, error) {
	if len(s) > MaxNamespaceLen || !words(s, "-") {
		return "", fmt.Errorf("%q is no namespace: use at most %d characters of a-z and 0-9, with single - between them", Clip(s, 80), MaxNamespaceLen)
	}
	return Namespace(s), nil
}

// ParseWorkerID checks a worker's name: 1 to 128 characters of A-Z a-z 0-9 and
// inner - _ and single dots, so that it can end a subject.
func ParseWorkerID(s string) (WorkerID, error) {
	if len(s) > MaxWorkerIDLen || !isWorkerID(s) {
		return "", fmt.Errorf("%q is no worker id: use 1 to %d letters and digits, with - _ and single dots between them", Clip(s, 140), MaxWorkerIDLen)
	}
	return WorkerID(s), nil
}

// words reports whether s is made of runs of a-z and 0-9 with a single
// separator between two of them: ^[a-z0-9]+([separators][a-z0-9]+)*$. Every
// submission is checked, so by hand: a regexp takes ten times as long.
func words(s, separators string) bool {
	inWord := false
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z' || '0' <= c && c <= '9':
			inWord = true
		case inWord && strings.IndexByte(separators, c) >= 0:
			inWord = false
		default:
			return false
		}
	}
	return inWord
}

// isWorkerID is ^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$, with no two dots in a
// row.
func isWorkerID(s string) bool {
	inWord := false
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9':
			inWord = true
		case i > 0 && (c == '_' || c == '-' || c == '.' && s[i-1] != '.'):
			inWord = false
		default:
			return false
		}
	}
	return inWord
}

// Clip shortens s to at most n bytes and an ellipsis, for an error text. It keeps
// whole characters.
func Clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// BatchType is the type of batches. No other item can be submitted with it.
const BatchType Type = "batch"
