package eventlog

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/turns"
	"github.com/streamwright/streamwright/wire"
)

// MaxEvents is the most events of one frame.
const MaxEvents = events.FrameEvents - 1

// The headers of a frame.
const (
	headerFrame  = "Work-Frame"  // the frame's id, which no other append has
	headerEpoch  = "Work-Epoch"  // of the owner that wrote it
	headerNode   = "Work-Node"   // the owner's name
	headerLevel  = "Work-Level"  // the log's format level, for other readers: ours hear it from an event
	headerEvents = "Work-Events" // how many there are in it
	headerBefore = "Work-Before" // how many there were in the log before
)

// headers are all that a frame has: those, and what the server compares.
var headers = [...]string{headerFrame, headerEpoch, headerNode, headerLevel, headerEvents, headerBefore, nats.ExpectedLastSeqHdr}

// Write is what one append stores: a frame.
type Write struct {
	Epoch  events.Epoch   // of the owner
	Node   string         // the owner's name
	Level  int            // the log's format level; 0 for 1
	Before uint64         // the events in the log before these, those that have been cut off included
	Events []events.Event // 1 to MaxEvents, whole decisions
}

// Frame is what one append has stored, as a reader hands it over.
type Frame struct {
	Seq    uint64         // of the message in the stream
	Epoch  events.Epoch   // of the owner that wrote it
	Node   string         // the owner's name
	ID     string         // no other append has it
	Before uint64         // the events in the log before it
	Events []events.Event // with their positions

	Bytes    int    // of the events' JSON
	Checksum uint64 // of these bytes
	Skipped  int    // the messages between the frame before it, or where the reader began, and it: foreign ones
	Lost     bool   // the log lacks frames before it: see [Config.Gaps]
}

// Last returns the position of the frame's last event.
func (f *Frame) Last() events.Seq { return events.SeqOf(f.Seq, len(f.Events)-1) }

// Stored is a message of the log as a stream holds it, or as a backup keeps it.
type Stored struct {
	Seq    uint64
	Header nats.Header
	Data   []byte

	raw  []byte // the header as NATS writes it, in place of Header
	lost bool   // what is in front of it
}

// frameHeader is what the header of a frame's message says.
type frameHeader struct {
	Frame     // without its events
	count int // of its events
}

// readHeader reads a message's header. foreign says why it is no frame: no engine wrote it.
func readHeader(m *Stored) (h frameHeader, foreign string, err error) {
	text, quick := readRaw(m.raw)
	if !quick {
		if m.Header == nil && m.raw != nil {
			m.Header, _ = nats.DecodeHeadersMsg(m.raw) // a malformed header yields no frame id
		}
		for i, key := range headers {
			text[i] = first(m.Header, key)
		}
	}
	value := func(key string) string { return text[slices.Index(headers[:], key)] }
	id := value(headerFrame)
	switch {
	case wire.Fetched(m.Header):
		return h, "it is a server's answer", nil
	case !isFrameID(id):
		return h, "it has no frame id: not written by an engine", nil
	}
	var malformed []error
	number := func(key string) uint64 {
		n, err := strconv.ParseUint(value(key), 10, 64)
		if err != nil {
			malformed = append(malformed, fmt.Errorf("header %s: %w", key, err))
		}
		return n
	}
	h.Frame = Frame{
		Seq: m.Seq, ID: id, Epoch: events.Epoch(number(headerEpoch)), Node: value(headerNode), Before: number(headerBefore),
		Bytes: len(m.Data), Checksum: events.Checksum(m.Data),
	}
	count := number(headerEvents)
	if count < 1 || count > MaxEvents {
		malformed = append(malformed, fmt.Errorf("header %s is %d: it must be 1 to %d", headerEvents, count, MaxEvents))
	}
	if err := errors.Join(malformed...); err != nil {
		return h, "", corrupt(m, "%v", err)
	}
	h.count = int(count)
	return h, "", nil
}

func corrupt(m *Stored, format string, args ...any) error {
	return &CorruptError{Frame: m.Seq, Reason: fmt.Sprintf(format, args...)}
}

// Decoded is what a message turns out to be.
type Decoded struct {
	Frame   Frame
	Foreign string // why no engine wrote it; empty: it is a frame
	Err     error  // why the frame can't be decoded
}

// Decode decodes a message.
func Decode(m *Stored) Decoded { return decode(new(events.Decoder), m) }

func decode(d *events.Decoder, m *Stored) Decoded {
	h, foreign, err := readHeader(m)
	if foreign != "" || err != nil {
		return Decoded{Foreign: foreign, Err: err}
	}
	h.Lost = m.lost
	h.Events, err = decodeLines(d, m, h.count)
	return Decoded{Frame: h.Frame, Err: err}
}

// Delivery hands decoded messages over in order: frames to Frames, each with the number of
// foreign messages in front of it, and those to Foreign if it is set.
type Delivery struct {
	Frames  func(Frame) error
	Foreign ForeignFunc
	skipped int
}

// Hand hands over the message of a sequence. It returns the error of a frame that can't be
// decoded, or of Frames.
func (d *Delivery) Hand(seq uint64, m *Decoded) error {
	switch {
	case m.Err != nil:
		return m.Err
	case m.Foreign != "":
		d.skipped++
		if d.Foreign != nil {
			d.Foreign(seq, m.Foreign)
		}
		return nil
	}
	f := m.Frame
	f.Skipped, d.skipped = d.skipped, 0
	return d.Frames(f)
}

// decodeLines decodes a body of n events.
func decodeLines(d *events.Decoder, m *Stored, n int) ([]events.Event, error) {
	evs := make([]events.Event, 0, n)
	for rest := m.Data; len(rest) > 0; {
		line, behind, ended := bytes.Cut(rest, []byte{'\n'})
		if rest = behind; !ended || len(evs) == n {
			return nil, corrupt(m, "its body is not the %d lines that its header says", n)
		}
		ev, err := d.Decode(line)
		if errors.Is(err, events.ErrCorrupt) {
			return nil, corrupt(m, "event %d: %v", len(evs), err)
		}
		if err != nil {
			return nil, err
		}
		ev.Seq = events.SeqOf(m.Seq, len(evs))
		evs = append(evs, ev)
	}
	if len(evs) != n {
		return nil, corrupt(m, "it has %d events, and its header says %d", len(evs), n)
	}
	return evs, nil
}

// readRaw reads the header of a frame as NATS writes it. quick is false if there is anything in it
// that an engine does not write.
func readRaw(raw []byte) (text [len(headers)]string, quick bool) {
	rest, quick := strings.CutPrefix(string(raw), "NATS/1.0\r\n")
	for seen := 0; quick && rest != "\r\n"; {
		var line string
		line, rest, _ = strings.Cut(rest, "\r\n")
		key, value, _ := strings.Cut(line, ": ")
		i := slices.Index(headers[:], key)
		if quick = i >= 0 && seen&(1<<i) == 0; quick {
			text[i], seen = value, seen|1<<i
		}
	}
	return text, quick
}

func first(h nats.Header, key string) string {
	if v := h[key]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// encoder makes frames. It belongs to the appending goroutine.
type encoder struct {
	subject string
	writer  string // this writer's random name in frame ids
	frames  uint64 // it has made
	lines   []byte // memory for the next frame's
	last    int    // bytes of the last one: the next will be like it
	turn    turns.Turn
}

func newEncoder(names wire.Names, partition int, turn turns.Turn) *encoder {
	return &encoder{subject: names.Frame(partition), writer: newWriter(), turn: turn}
}

// frameRoom is more than the headers of a frame take.
const frameRoom = 1 << 10

// maxScratch bounds the memory that an encoder keeps, in bytes.
const maxScratch = 1 << 20

// encode makes a frame's message. most bounds it.
func (e *encoder) encode(w *Write, most int64) (*nats.Msg, error) {
	if n := len(w.Events); n == 0 || n > MaxEvents {
		return nil, fmt.Errorf("append %d events: one append takes 1 to %d", n, MaxEvents)
	}
	e.turn.Begin()
	defer e.turn.End()
	lines := e.lines[:0]
	if lines == nil {
		lines = make([]byte, 0, e.last+e.last/4)
	}
	for i := range w.Events {
		e.turn.Take()
		b, err := w.Events[i].AppendJSON(lines)
		if err != nil {
			return nil, err
		}
		if bytes.IndexByte(b[len(lines):], '\n') >= 0 {
			return nil, fmt.Errorf("append %s of %s: its JSON has more than one line", w.Events[i].Kind, w.Events[i].ID)
		}
		lines = append(b, '\n')
	}
	e.last = len(lines)
	if e.lines = lines; cap(lines) > maxScratch {
		e.lines = nil
	}
	if size := int64(len(lines)) + frameRoom; size > most {
		return nil, fmt.Errorf("append %d events, from %s of %s: %w: it has %d bytes of %d", len(w.Events), w.Events[0].Kind, w.Events[0].ID, ErrTooLarge, size, most)
	}
	body := bytes.Clone(lines)
	e.frames++
	id := append([]byte(e.writer), '.')
	values := []string{
		string(strconv.AppendUint(id, e.frames, 36)), strconv.FormatUint(uint64(w.Epoch), 10), w.Node,
		strconv.Itoa(max(1, w.Level)), strconv.Itoa(len(w.Events)), strconv.FormatUint(w.Before, 10),
	}
	h := make(nats.Header, len(values)+1) // and the sequence that it is to follow
	for i, key := range headers[:len(values)] {
		h[key] = values[i : i+1 : i+1]
	}
	return &nats.Msg{Subject: e.subject, Data: body, Header: h}, nil
}

// NewMessage makes the message of a frame that is not appended by a Log: for tests.
func NewMessage(names wire.Names, partition int, w *Write) (*nats.Msg, error) {
	return newEncoder(names, partition, turns.Turn{}).encode(w, 1<<30)
}

// appended is the result of storing a frame at seq.
func appended(seq uint64, w *Write, m *nats.Msg) Appended {
	return Appended{Last: events.SeqOf(seq, len(w.Events)-1), Lines: m.Data, Checksum: events.Checksum(m.Data)}
}

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

// isFrameID tells a frame id: <writer>.<number in base 36>.
func isFrameID(s string) bool {
	if len(s) < writerLen+2 || len(s) > writerLen+1+13 || s[writerLen] != '.' {
		return false
	}
	for i, c := range []byte(s) {
		switch {
		case i == writerLen, c >= '0' && c <= '9':
		case i < writerLen && (c < 'A' || c > 'Z'), i > writerLen && (c < 'a' || c > 'z'):
			return false
		}
	}
	return true
}

// ForeignFunc is called with each foreign message that a reader skips. It is
// called from the reader's goroutine and must not hold it up.
type ForeignFunc func(seq uint64, reason string)
