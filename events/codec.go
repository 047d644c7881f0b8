package events

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/streamwright/streamwright/events/quickjson"
)

// envelope is the JSON form of an event. Event has methods that read and write it by hand,
// because what its data is depends on its kind.
type envelope struct {
	V       int             `json:"v"`
	Kind    string          `json:"kind"`
	ID      ID              `json:"id,omitzero"`
	Type    Type            `json:"type,omitempty"`
	At      time.Time       `json:"at"`
	Attempt Attempt         `json:"attempt,omitempty"`
	Worker  WorkerID        `json:"worker,omitempty"`
	By      string          `json:"by,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// AppendJSON appends the event's JSON to b. Fields that do not apply are left
// out; times are RFC 3339 in UTC with nanoseconds.
func (e *Event) AppendJSON(b []byte) ([]byte, error) { return e.appendJSON(b, false) }

// AppendBrief is [Event.AppendJSON] without the document that the event brings:
// the params of created, the result of completed. For where those are kept
// beside it.
func (e *Event) AppendBrief(b []byte) ([]byte, error) { return e.appendJSON(b, true) }

func (e *Event) appendJSON(b []byte, brief bool) ([]byte, error) {
	w := quickjson.Writer{B: b}
	at := w.Open()
	e.appendHead(&w)
	if e.Body != nil {
		w.Name(`,"data":`)
		e.appendData(&w, brief)
	}
	w.Close(at)
	if w.Err != nil {
		return nil, fmt.Errorf("encode %s event of %s: %w", e.Kind, e.ID, w.Err)
	}
	return w.B, nil
}

// MaxJSON returns an upper bound of the length of the event's JSON, which is close for
// events that have no text to escape.
func (e *Event) MaxJSON() int {
	const head = len(`{"v":,"kind":"","id":"01JD3V6YB2M4C9W8ZK5T7QXRNE","type":"","at":,"attempt":,"worker":"","by":,"data":}`) + quickjson.MaxTime + 2*quickjson.MaxInt
	n := maxBody(e.Body)
	if n == 0 && e.Body != nil {
		n = quickjson.SizeOf(e.Body)
	}
	return head + len(e.Kind.String()) + len(e.Type) + len(e.Worker) + quickjson.MaxText(len(e.By)) + n
}

// appendHead appends the envelope up to its data.
func (e *Event) appendHead(w *quickjson.Writer) {
	w.Int(`,"v":`, e.envelopeVersion())
	w.Plain(`,"kind":`, e.Kind.String())
	if !e.ID.IsZero() {
		w.Word(`,"id":`, &e.ID)
	}
	w.Plain(`,"type":`, string(e.Type))
	w.Time(`,"at":`, e.At)
	w.OptInt(`,"attempt":`, int64(e.Attempt))
	w.Plain(`,"worker":`, string(e.Worker))
	w.OptText(`,"by":`, e.By)
}

// appendData appends the payload.
func (e *Event) appendData(w *quickjson.Writer, brief bool) {
	body := e.Body
	if brief {
		switch d := body.(type) {
		case *Created:
			const none = `"params":null,`
			rest := *d
			rest.Params = nil
			at := w.Open()
			rest.appendJSON(w)
			w.B = append(w.B[:at+1], w.B[at+1+len(none):]...)
			return
		case *Completed:
			body = &Completed{Duration: d.Duration}
		}
	}
	if !appendBody(w, body) {
		w.Any("", body)
	}
}

// MarshalJSON implements json.Marshaler.
func (e Event) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil) }

// Data returns the JSON of the event's payload, nil for none. Params and
// results stand in it byte for byte as they were submitted: json.Marshal would
// rewrite them, and a replay would not give the live state.
func (e *Event) Data() (json.RawMessage, error) {
	if e.Body == nil {
		return nil, nil
	}
	var w quickjson.Writer
	e.appendData(&w, false)
	return w.B, w.Err
}

// A Decoder reads events. It shares texts that occur in several of them.
type Decoder struct{ r quickjson.Reader }

// DecodeEvent is [Decoder.Decode] for one event.
func DecodeEvent(data []byte) (Event, error) { return new(Decoder).Decode(data) }

// Decode reads an event's JSON. Seq is left to the caller. Its errors
// wrap [ErrCorrupt], or [ErrNewer] if its v lies above [FormatLevel], unless it says
// which level the log has: State.Apply refuses that one. An event of a kind
// that this package does not know has no payload.
func (d *Decoder) Decode(data []byte) (Event, error) {
	if e, ok := d.quick(data); ok {
		return e, nil
	}
	return decodeAny(data)
}

// quick reads the events that this program writes. ok is false for some others.
func (d *Decoder) quick(data []byte) (e Event, ok bool) {
	d.r.Reset(data)
	v := e.readJSON(&d.r)
	if !d.r.Whole() || v != Version || e.Kind == KindNone || (e.Body == nil) != (kinds[e.Kind].body == nil) || e.Check() != nil {
		return Event{}, false
	}
	return e, true
}

var envelopeFields = []string{"v", "kind", "id", "type", "at", "attempt", "worker", "by", "data"}

// readJSON reads an envelope whose data comes behind its kind, and returns its version.
func (e *Event) readJSON(r *quickjson.Reader) (v int64) {
	for o := r.Object(envelopeFields); r.Next(&o); {
		switch o.Field {
		case 0:
			v = r.Int(64)
		case 1:
			e.Kind = kindsByName[string(r.Word())]
		case 2:
			r.Check(e.ID.UnmarshalText(r.Word()))
		case 3:
			e.Type = Type(r.Text())
		case 4:
			e.At = r.Time()
		case 5:
			e.Attempt = Attempt(r.Int(64))
		case 6:
			e.Worker = WorkerID(r.Text())
		case 7:
			e.By = r.Text()
		case 8:
			if e.Body = newBody(e.Kind); e.Body == nil {
				r.GiveUp()
			} else if !readBody(r, e.Body) {
				r.Any(e.Body)
			}
		}
	}
	return v
}

// decodeAny reads any JSON that is an event's.
func decodeAny(data []byte) (Event, error) {
	var env envelope
	if err := json.Unmarshal(data, &env); err != nil {
		return Event{}, fmt.Errorf("decode event: %w: %w", ErrCorrupt, err)
	}
	if env.V > FormatLevel {
		return env.newer()
	}
	kind, err := ParseKind(env.Kind)
	if err != nil || env.V < 1 {
		return Event{}, fmt.Errorf("decode event: %w: version %d, kind %q: not written by this program, or by a newer one", ErrCorrupt, env.V, Clip(env.Kind, 64))
	}
	e := Event{Kind: kind, ID: env.ID, Type: env.Type, At: env.At, Attempt: env.Attempt, Worker: env.Worker, By: env.By}
	if e.Body = newBody(kind); e.Body != nil {
		if len(env.Data) == 0 {
			return Event{}, fmt.Errorf("decode %s event: %w: it has no data", kind, ErrCorrupt)
		}
		if err := json.Unmarshal(env.Data, e.Body); err != nil {
			return Event{}, fmt.Errorf("decode %s event: %w: %w", kind, ErrCorrupt, err)
		}
	}
	if err := e.Check(); err != nil {
		return Event{}, fmt.Errorf("decode %s event: %w: %w", kind, ErrCorrupt, err)
	}
	return e, nil
}

// DecodeBody reads a payload of a kind, as [Event.Data] gives it. What a
// history leaves out of it is zero.
func DecodeBody(k Kind, data json.RawMessage) (Body, error) {
	b := newBody(k)
	if b == nil || len(data) == 0 {
		return b, nil
	}
	if err := json.Unmarshal(data, b); err != nil {
		return nil, fmt.Errorf("decode the payload of %s: %w: %w", k, ErrCorrupt, err)
	}
	return b, nil
}

// Checksum returns the XXH64 of a frame's stored bytes. The projection keeps that of the last
// frame it applied, to notice a log that has changed under it.
func Checksum(data []byte) uint64 { return xxhash.Sum64(data) }
