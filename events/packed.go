package events

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	"github.com/streamwright/streamwright/events/quickjson"
)

// The packed form of an event is what a store keeps of it in its item's history: a fifth
// of its JSON. It begins with the kind. Then come At, as nanoseconds since the time in the
// item's id, the place in the decision, the attempt and the worker, numbers as varints and
// texts with their length; then how the payload is packed, who asked for it if that is known,
// and the payload. Times in it
// are nanoseconds since At. Packing depends on the JSON alone: whoever has an event, and
// whoever has its JSON, get the same bytes. What does not fit is kept as JSON.

// How a payload is packed.
const (
	packedNone   = iota
	packedJSON   // as it is, up to the end
	packedFields // by packFields

	packedBy = 0x80 // set in how: who asked for it comes next
)

// appendHow appends how the payload is packed.
func (e *Event) appendHow(b []byte, how byte) []byte {
	if e.By == "" {
		return append(b, how)
	}
	return appendPackedText(append(b, how|packedBy), e.By)
}

// AppendPacked appends the packed form of [Event.AppendBrief] of an event of the item
// of, whose ID and Type are left out.
func (e *Event) AppendPacked(b []byte, of ID) ([]byte, error) {
	start := len(b)
	b, ok := e.packHead(b, of)
	if !ok {
		return e.AppendBrief(b[:start])
	}
	at := len(b)
	if b, ok = e.packFields(e.appendHow(b, packedFields)); ok {
		return b, nil
	}
	if e.Body == nil {
		return e.appendHow(b[:at], packedNone), nil
	}
	w := quickjson.Writer{B: e.appendHow(b[:at], packedJSON)}
	if e.appendData(&w, true); w.Err != nil {
		return nil, fmt.Errorf("encode %s event of %s: %w", e.Kind, of, w.Err)
	}
	return w.B, nil
}

// idNanos is the time in an id, in nanoseconds. It may overflow, as what is added to
// it does.
func idNanos(id ID) int64 {
	return int64(binary.BigEndian.Uint64(id[:8])>>16) * int64(time.Millisecond)
}

// packable reports whether UnixNano has room for a time.
func packable(t time.Time) bool { return t.Equal(time.Unix(0, t.UnixNano())) }

func (e *Event) packHead(b []byte, of ID) (packed []byte, ok bool) {
	if e.Kind == KindNone || e.Kind >= NumKinds || e.envelopeVersion() != Version || !packable(e.At) || !plain(string(e.Worker)) {
		return b, false
	}
	b = append(b, byte(e.Kind))
	b = binary.AppendVarint(b, e.At.UnixNano()-idNanos(of))
	b = binary.AppendUvarint(b, uint64(e.Attempt))
	return appendPackedText(b, string(e.Worker)), true
}

func appendPackedText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// The bits of a payload's first byte: which of its times are set, and two more.
const (
	packedTime1 = 1 << iota
	packedTime2
	packedFlag1
	packedFlag2
)

// packFields packs the payloads of which a log has the most. ok is false for others, and
// for those with rare fields.
func (e *Event) packFields(b []byte) (packed []byte, ok bool) {
	switch d := e.Body.(type) {
	case *Queued:
		if d.Outcomes != nil || !plain(d.Reason) {
			return b, false
		}
		if b, ok = e.packTimes(b, 0, d.OrderAt, d.AvailableAt); !ok {
			return b, false
		}
		b = binary.AppendVarint(binary.AppendVarint(b, d.Jitter.Milliseconds()), d.Timeout.Milliseconds())
		return appendPackedText(b, d.Reason), true
	case *Claimed:
		flags := byte(0)
		if d.Probe {
			flags |= packedFlag1
		}
		if d.WorkerProbe {
			flags |= packedFlag2
		}
		if b, ok = e.packTimes(b, flags, d.StartBy, d.DeliveredAt); !ok || len(d.Rates) > 0 {
			return b, false
		}
		return binary.AppendUvarint(b, uint64(d.Token)), true
	case *Running:
		return e.packTimes(b, 0, d.Deadline, time.Time{})
	case *Completed:
		return binary.AppendVarint(b, d.Duration.Milliseconds()), true
	}
	return b, false
}

func (e *Event) packTimes(b []byte, bits byte, one, two time.Time) (packed []byte, ok bool) {
	at := len(b)
	b = append(b, bits)
	for i, t := range [...]time.Time{one, two} {
		if t.IsZero() {
			continue
		}
		if !packable(t) {
			return b, false
		}
		b[at] |= packedTime1 << i
		b = binary.AppendVarint(b, t.UnixNano()-e.At.UnixNano())
	}
	return b, true
}

// UnpackJSON appends the JSON of a packed event of the item of. It errs only if that is
// damaged.
func UnpackJSON(b []byte, of ID, packed []byte) ([]byte, error) {
	if len(packed) > 0 && packed[0] == '{' {
		return append(b, packed...), nil
	}
	u := unpacker{b: packed}
	var e Event
	e.Kind = Kind(u.byte())
	e.At = time.Unix(0, u.int()+idNanos(of)).UTC()
	e.Attempt = Attempt(u.uint())
	e.Worker = WorkerID(u.text())
	if e.Kind == KindNone || e.Kind >= NumKinds {
		u.bad = true
	}
	how := u.byte()
	if how&packedBy != 0 {
		e.By, how = u.text(), how&^packedBy
	}
	w := quickjson.Writer{B: b}
	at := w.Open()
	e.appendHead(&w)
	switch {
	case u.bad:
	case how == packedJSON:
		w.Raw(`,"data":`, u.b)
	case how == packedFields:
		w.Name(`,"data":`)
		e.Body = u.fields(&e)
		if e.appendData(&w, true); len(u.b) > 0 {
			u.bad = true
		}
	default:
		u.bad = how != packedNone || len(u.b) > 0
	}
	w.Close(at)
	if u.bad || w.Err != nil {
		return nil, fmt.Errorf("a packed event of item %s is malformed", of)
	}
	return w.B, nil
}

// unpacker takes a packed event apart.
type unpacker struct {
	b   []byte
	bad bool
}

func (u *unpacker) byte() byte {
	if len(u.b) == 0 {
		u.bad = true
		return 0
	}
	c := u.b[0]
	u.b = u.b[1:]
	return c
}

func (u *unpacker) uint() uint64 {
	v, n := binary.Uvarint(u.b)
	if n <= 0 {
		u.bad, u.b = true, nil
		return 0
	}
	u.b = u.b[n:]
	return v
}

func (u *unpacker) int() int64 {
	v, n := binary.Varint(u.b)
	if n <= 0 {
		u.bad, u.b = true, nil
		return 0
	}
	u.b = u.b[n:]
	return v
}

func (u *unpacker) millis() Duration {
	n := u.int()
	d := Millis(n)
	u.bad = u.bad || d.Milliseconds() != n
	return d
}

func (u *unpacker) text() string {
	n := u.uint()
	if n > uint64(len(u.b)) {
		u.bad = true
		return ""
	}
	s := string(u.b[:n])
	u.b = u.b[n:]
	return s
}

// times reads what packTimes has written.
func (u *unpacker) times(e *Event) (bits byte, one, two time.Time) {
	bits = u.byte()
	for i, t := range [...]*time.Time{&one, &two} {
		if bits&(packedTime1<<i) != 0 {
			*t = time.Unix(0, e.At.UnixNano()+u.int()).UTC()
		}
	}
	return bits, one, two
}

// fields reads what packFields has written.
func (u *unpacker) fields(e *Event) Body {
	switch e.Kind {
	case KindQueued:
		d := &Queued{}
		_, d.OrderAt, d.AvailableAt = u.times(e)
		d.Jitter, d.Timeout = u.millis(), u.millis()
		d.Reason = u.text()
		return d
	case KindClaimed:
		d := &Claimed{}
		var bits byte
		bits, d.StartBy, d.DeliveredAt = u.times(e)
		d.Probe, d.WorkerProbe = bits&packedFlag1 != 0, bits&packedFlag2 != 0
		d.Token = Token(u.uint())
		return d
	case KindRunning:
		d := &Running{}
		_, d.Deadline, _ = u.times(e)
		return d
	case KindCompleted:
		return &Completed{Duration: u.millis()}
	}
	u.bad = true
	return nil
}

// AppendPackedJSON appends the packed form of an event of the item of that is given as
// its JSON, as UnpackJSON gives it.
func AppendPackedJSON(b []byte, of ID, data []byte) []byte {
	start := len(b)
	packed, ok := packJSON(b, of, data)
	if ok {
		if again, err := UnpackJSON(nil, of, packed[start:]); err == nil && string(again) == string(data) {
			return packed
		}
	}
	return append(b[:start], data...)
}

func packJSON(b []byte, of ID, data []byte) (packed []byte, ok bool) {
	var d Decoder
	d.r.Reset(data)
	e, body := Event{}, json.RawMessage(nil)
	for o := d.r.Object(envelopeFields); d.r.Next(&o); {
		switch o.Field {
		case 0:
			d.r.Int(64)
		case 1:
			e.Kind = kindsByName[string(d.r.Word())]
		case 4:
			e.At = d.r.Time()
		case 5:
			e.Attempt = Attempt(d.r.Int(64))
		case 6:
			e.Worker = WorkerID(d.r.Text())
		case 7:
			e.By = d.r.Text()
		case 8:
			body = d.r.View()
		default:
			d.r.GiveUp()
		}
	}
	if !d.r.Whole() {
		return b, false
	}
	if b, ok = e.packHead(b, of); !ok {
		return b, false
	}
	if body == nil {
		return e.appendHow(b, packedNone), true
	}
	at := len(b)
	switch e.Kind {
	case KindQueued, KindClaimed, KindRunning, KindCompleted:
		e.Body = newBody(e.Kind)
		d.r.Reset(body)
		if readBody(&d.r, e.Body); d.r.Whole() {
			if b, ok = e.packFields(e.appendHow(b, packedFields)); ok {
				return b, true
			}
		}
	}
	return append(e.appendHow(b[:at], packedJSON), body...), true
}
