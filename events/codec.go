package events

import (
	"encoding/json"
	"fmt"
	"hash/crc64"
	"strconv"
	"strings"
	"time"
)

// envelope is the JSON form of an event; AppendJSON writes it by hand.
type envelope struct {
	V       int             `json:"v"`
	Kind    string          `json:"kind"`
	ID      ID              `json:"id"`
	Type    Type            `json:"type"`
	At      time.Time       `json:"at"`
	Attempt Attempt         `json:"attempt"`
	Worker  WorkerID        `json:"worker"`
	Data    json.RawMessage `json:"data"`
}

// AppendJSON appends the event's JSON to b. Fields that do not apply are left
// out; times are RFC 3339 in UTC with nanoseconds.
func (e *Event) AppendJSON(b []byte) ([]byte, error) {
	b, err := e.appendData(e.appendHead(b))
	if err != nil {
		return nil, fmt.Errorf("encode %s event of %s: %w", e.Kind, e.ID, err)
	}
	return append(b, '}'), nil
}

// appendHead appends the envelope up to its data.
func (e *Event) appendHead(b []byte) []byte {
	b = append(b, `{"v":`...)
	b = strconv.AppendInt(b, e.envelopeVersion(), 10)
	b = append(b, `,"kind":"`...)
	b = append(b, e.Kind.String()...)
	b = append(b, '"')
	if !e.ID.IsZero() {
		b = e.ID.appendTo(append(b, `,"id":"`...))
		b = append(b, '"')
	}
	if e.Type != "" {
		b = append(b, `,"type":"`...)
		b = append(b, e.Type...)
		b = append(b, '"')
	}
	b = append(b, `,"at":"`...)
	b = e.At.UTC().AppendFormat(b, time.RFC3339Nano)
	b = append(b, '"')
	if e.Attempt > 0 {
		b = append(b, `,"attempt":`...)
		b = strconv.AppendInt(b, int64(e.Attempt), 10)
	}
	if e.Worker != "" {
		b = append(b, `,"worker":"`...)
		b = append(b, e.Worker...)
		b = append(b, '"')
	}
	return b
}

func (e *Event) appendData(b []byte) ([]byte, error) {
	switch d := e.Body.(type) {
	case nil:
		return b, nil
	case *Queued:
		b = append(b, `,"data":{"reason":`...)
		b = appendText(b, d.Reason)
		b = appendTime(b, `,"order_at":"`, d.OrderAt)
		b = appendTime(b, `,"available_at":"`, d.AvailableAt)
		b = appendOptInt(b, `,"jitter_ms":`, d.JitterMS)
		b = appendOptInt(b, `,"timeout_ms":`, d.TimeoutMS)
		if d.Outcomes != nil {
			b = append(append(b, `,"outcomes":`...), d.Outcomes...)
		}
		return append(b, '}'), nil
	case *Claimed:
		b = append(b, `,"data":{"token":"`...)
		b = strconv.AppendUint(b, uint64(d.Token), 36)
		b = append(b, '"')
		b = appendTime(b, `,"start_by":"`, d.StartBy)
		if d.Probe {
			b = append(b, `,"probe":true`...)
		}
		if d.WorkerProbe {
			b = append(b, `,"worker_probe":true`...)
		}
		if len(d.Rates) > 0 {
			var err error
			if b, err = appendAny(b, `,"rates":`, d.Rates); err != nil {
				return nil, err
			}
		}
		b = appendTime(b, `,"delivered_at":"`, d.DeliveredAt)
		return append(b, '}'), nil
	case *Running:
		if d.Deadline.IsZero() {
			return append(b, `,"data":{}`...), nil
		}
		return append(appendTime(b, `,"data":{"deadline":"`, d.Deadline), '}'), nil
	case *Created:
		return appendCreated(append(b, `,"data":`...), d)
	case *Completed:
		return appendCompleted(append(b, `,"data":`...), d), nil
	case *Checkpointed:
		return appendCheckpointed(append(b, `,"data":`...), d), nil
	case *Replayed:
		return appendReplayed(append(b, `,"data":`...), d)
	case *Carried:
		return appendCarried(append(b, `,"data":`...), d)
	}
	b = append(b, `,"data":`...)
	data, err := e.Data()
	return append(b, data...), err
}

// appendText appends s as a JSON string.
func appendText(b []byte, s string) []byte {
	if plain(s) {
		return append(append(append(b, '"'), s...), '"')
	}
	q, _ := json.Marshal(s) // a string can't fail
	return append(b, q...)
}

func appendTime(b []byte, name string, t time.Time) []byte {
	if t.IsZero() {
		return b
	}
	b = append(b, name...)
	b = t.UTC().AppendFormat(b, time.RFC3339Nano)
	return append(b, '"')
}

// MarshalJSON implements json.Marshaler.
func (e Event) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil) }

// Data returns the JSON of the event's payload, nil for none. Params and
// results stand in it byte for byte as they were submitted: json.Marshal would
// rewrite them, and a replay would not give the live state.
func (e *Event) Data() (json.RawMessage, error) {
	switch d := e.Body.(type) {
	case nil:
		return nil, nil
	case *Created:
		return appendCreated(nil, d)
	case *Completed:
		return appendCompleted(nil, d), nil
	case *Checkpointed:
		return appendCheckpointed(nil, d), nil
	case *Replayed:
		return appendReplayed(nil, d)
	case *Carried:
		return appendCarried(nil, d)
	}
	return json.Marshal(e.Body)
}

// appendCreated appends what json.Marshal gives for d, but for the params.
func appendCreated(b []byte, d *Created) ([]byte, error) {
	b = append(b, `{"params":`...)
	if d.Params == nil {
		b = append(b, "null"...)
	}
	return appendCreatedRest(append(append(b, d.Params...), ','), d)
}

// appendCreatedRest is appendCreated behind the params.
func appendCreatedRest(b []byte, d *Created) ([]byte, error) {
	b = strconv.AppendInt(append(b, `"priority":`...), int64(d.Priority), 10)
	b = strconv.AppendInt(append(b, `,"max_attempts":`...), int64(d.MaxAttempts), 10)
	b = strconv.AppendInt(append(b, `,"timeout_ms":`...), d.TimeoutMS, 10)
	b = appendOptText(b, `,"dedup_key":`, d.DedupKey)
	b = appendOptText(b, `,"idempotency_key":`, d.IdempotencyKey)
	b = appendTime(b, `,"idempotency_until":"`, d.IdempotencyUntil)
	b = appendTime(b, `,"available_at":"`, d.AvailableAt)
	if d.Delayed {
		b = append(b, `,"delayed":true`...)
	}
	var err error
	if len(d.Capabilities) > 0 {
		if b, err = appendAny(b, `,"capabilities":`, d.Capabilities); err != nil {
			return nil, err
		}
	}
	b = appendOptText(b, `,"tenant":`, d.Tenant)
	if len(d.Labels) > 0 {
		if b, err = appendAny(b, `,"labels":`, d.Labels); err != nil {
			return nil, err
		}
	}
	if d.Provenance != (Provenance{}) {
		if b, err = appendAny(b, `,"provenance":`, d.Provenance); err != nil {
			return nil, err
		}
	}
	b = appendOptText(b, `,"traceparent":`, d.Trace)
	b = appendOptText(b, `,"digest":`, d.Digest)
	if d.Intake.Seq > 0 {
		b = strconv.AppendUint(append(b, `,"intake_seq":`...), d.Intake.Seq, 10)
	}
	b = appendOptText(b, `,"site":`, d.Site)
	if d.SiteSeq > 0 {
		b = strconv.AppendUint(append(b, `,"site_seq":`...), d.SiteSeq, 10)
	}
	b = appendOptText(b, `,"msg_id":`, d.MsgID)
	b = appendTime(b, `,"msg_id_until":"`, d.MsgIDUntil)
	if d.SubmitOptions != nil && d.onlyGroup() {
		b = appendOptText(b, `,"group":`, d.Group)
	} else if d.SubmitOptions != nil {
		terms, err := json.Marshal(d.SubmitOptions)
		if err != nil {
			return nil, err
		}
		if len(terms) > len(`{}`) {
			b = append(append(b, ','), terms[1:len(terms)-1]...)
		}
	}
	return append(b, '}'), nil
}

func appendCompleted(b []byte, d *Completed) []byte {
	b = strconv.AppendInt(append(b, `{"duration_ms":`...), d.DurationMS, 10)
	if d.Result != nil {
		b = append(append(b, `,"result":`...), d.Result...)
	}
	return append(b, '}')
}

// appendCheckpointed keeps the checkpoint as it came, too. One that the store
// keeps elsewhere is left out of a history.
func appendCheckpointed(b []byte, d *Checkpointed) []byte {
	if d.Checkpoint == nil {
		return append(b, `{}`...)
	}
	return append(append(append(b, `{"checkpoint":`...), d.Checkpoint...), '}')
}

func appendOptText(b []byte, name, s string) []byte {
	if s == "" {
		return b
	}
	b = append(b, name...)
	if !strings.ContainsAny(s, "<>&") { // json.Marshal escapes these
		return appendText(b, s)
	}
	q, _ := json.Marshal(s) // a string can't fail
	return append(b, q...)
}

// appendOptInt appends a number unless it is 0.
func appendOptInt(b []byte, name string, n int64) []byte {
	if n == 0 {
		return b
	}
	return strconv.AppendInt(append(b, name...), n, 10)
}

func appendAny(b []byte, name string, v any) ([]byte, error) {
	data, err := json.Marshal(v)
	return append(append(b, name...), data...), err
}

// DecodeEvent reads an event's JSON. Seq is left to the caller. Its errors
// wrap [ErrCorrupt], or [ErrNewer] if its v lies above [FormatLevel], unless it says
// which level the log has: State.Apply refuses that one. An event of a kind
// that this package does not know has no payload.
func DecodeEvent(data []byte) (Event, error) {
	if e, ok := decodeOwn(data); ok {
		return e, nil
	}
	return decodeAny(data)
}

// decodeAny is DecodeEvent for any JSON that is an event's.
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
	e := Event{Kind: kind, ID: env.ID, Type: env.Type, At: env.At, Attempt: env.Attempt, Worker: env.Worker}
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

var crcTable = crc64.MakeTable(crc64.ECMA)

// Checksum returns the checksum of an event's stored bytes. The projection keeps the
// checksum of the last event it applied, to notice a log that has changed under it.
func Checksum(data []byte) uint64 { return crc64.Checksum(data, crcTable) }

// onlyGroup reports whether a payload's terms say nothing but the group, as for most
// submissions with a tenant.
func (cr *Created) onlyGroup() bool {
	t := *cr.SubmitOptions
	return t.Group != "" && len(t.After) == 0 && t.AfterPolicy == "" && t.DedupPolicy == "" && t.DedupWindowMS == 0 && t.ExpiresAt.IsZero() && t.EstimateMS == 0 &&
		!t.OwnAttempts && !t.OwnTimeout && t.Parent.IsZero() && t.Spawn == 0 && t.ScoreMS == nil && t.Verdict == nil && len(t.Rates) == 0
}

// appendReplayed keeps the params as they came.
func appendReplayed(b []byte, d *Replayed) ([]byte, error) {
	brief := *d
	brief.Params = nil
	data, err := json.Marshal(&brief)
	if err != nil || d.Params == nil {
		return append(b, data...), err
	}
	b = append(append(b, data[:len(data)-1]...), `,"params":`...)
	return append(append(b, d.Params...), '}'), nil
}

// AppendBrief is [Event.AppendJSON] without the document that the event brings:
// the params of created, the result of completed. For where those are kept
// beside it.
func (e *Event) AppendBrief(b []byte) ([]byte, error) {
	switch d := e.Body.(type) {
	case *Created:
		b, err := appendCreatedRest(append(e.appendHead(b), `,"data":{`...), d)
		if err != nil {
			return nil, fmt.Errorf("encode %s event of %s: %w", e.Kind, e.ID, err)
		}
		return append(b, '}'), nil
	case *Completed:
		return append(appendCompleted(append(e.appendHead(b), `,"data":`...), &Completed{DurationMS: d.DurationMS}), '}'), nil
	}
	return e.AppendJSON(b)
}

// appendCarried appends what json.Marshal gives for c, but for documents and
// histories, which stand in it byte for byte.
func appendCarried(b []byte, c *Carried) ([]byte, error) {
	b = strconv.AppendInt(append(b, `{"part":`...), int64(c.Part), 10)
	b = strconv.AppendInt(append(b, `,"parts":`...), int64(c.Parts), 10)
	var err error
	if c.Item != nil {
		if b, err = appendAny(b, `,"item":`, c.Item); err != nil {
			return nil, err
		}
	}
	if len(c.Keys) > 0 {
		if b, err = appendAny(b, `,"keys":`, c.Keys); err != nil {
			return nil, err
		}
	}
	if len(c.Documents) > 0 {
		b = append(b, `,"documents":[`...)
		for i, d := range c.Documents {
			kind, _ := d.Kind.MarshalText() // it never fails
			b = append(append(append(separate(b, i), `{"kind":"`...), kind...), `","data":`...)
			b = append(append(b, d.Data...), '}')
		}
		b = append(b, ']')
	}
	if len(c.Merged) > 0 {
		if b, err = appendAny(b, `,"merged":`, c.Merged); err != nil {
			return nil, err
		}
	}
	if len(c.History) > 0 {
		b = append(b, `,"history":[`...)
		for i, h := range c.History {
			b = strconv.AppendUint(append(separate(b, i), `{"seq":`...), uint64(h.Seq), 10)
			b = append(append(append(b, `,"event":`...), h.Data...), '}')
		}
		b = append(b, ']')
	}
	if c.Fold != nil {
		if b, err = appendAny(b, `,"fold":`, c.Fold); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

// separate appends the comma in front of the i-th element.
func separate(b []byte, i int) []byte {
	if i > 0 {
		return append(b, ',')
	}
	return b
}
