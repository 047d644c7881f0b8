package events

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"
)

// decodeOwn reads an event in exactly the form that AppendJSON writes: the
// fields in its order, no blanks, plain strings. It is several times as quick
// as encoding/json, and a rebuild decodes the whole log. Of any other form it
// says false, and DecodeEvent reads it the general way; what it accepts, the
// general way reads the same (which a test compares).
func decodeOwn(data []byte) (e Event, ok bool) {
	s := scanner{b: data}
	s.lit(`{"v":1,"kind":"`)
	e.Kind = kindsByName[string(s.word())]
	s.lit(`"`)
	if s.opt(`,"id":"`) {
		s.id(&e.ID)
	}
	if s.opt(`,"type":`) {
		e.Type = Type(s.text())
	}
	s.lit(`,"at":`)
	s.time(&e.At)
	if s.opt(`,"attempt":`) {
		e.Attempt = Attempt(s.int())
	}
	if s.opt(`,"worker":`) {
		e.Worker = WorkerID(s.text())
	}
	if s.bad || e.Kind == KindNone {
		return Event{}, false
	}
	if s.opt(`,"data":`) {
		e.Body = s.body(e.Kind)
	}
	s.lit(`}`)
	if s.bad || s.i != len(data) || (e.Body == nil) != (kinds[e.Kind].body == nil) {
		return Event{}, false
	}
	return e, e.Check() == nil
}

// body reads the payloads that make up nearly all of a log.
func (s *scanner) body(k Kind) Body {
	switch k {
	case KindCreated:
		return s.created()
	case KindQueued:
		d := &Queued{}
		s.lit(`{"reason":`)
		d.Reason = s.text()
		s.optTime(`,"order_at":`, &d.OrderAt)
		s.optTime(`,"available_at":`, &d.AvailableAt)
		if s.opt(`,"jitter_ms":`) {
			d.JitterMS = s.int()
		}
		if s.opt(`,"timeout_ms":`) {
			d.TimeoutMS = s.int()
		}
		if s.opt(`,"outcomes":`) {
			d.Outcomes = s.raw()
		}
		s.lit(`}`)
		return d
	case KindClaimed:
		d := &Claimed{}
		s.lit(`{"token":"`)
		s.ok(d.Token.UnmarshalText(s.word()) == nil)
		s.lit(`"`)
		s.optTime(`,"start_by":`, &d.StartBy)
		d.Probe = s.opt(`,"probe":true`)
		d.WorkerProbe = s.opt(`,"worker_probe":true`)
		if s.opt(`,"rates":`) {
			s.into(&d.Rates)
		}
		s.optTime(`,"delivered_at":`, &d.DeliveredAt)
		s.lit(`}`)
		return d
	case KindRunning:
		d := &Running{}
		s.lit(`{`)
		s.optTime(`"deadline":`, &d.Deadline)
		s.lit(`}`)
		return d
	case KindCompleted:
		d := &Completed{}
		s.lit(`{"duration_ms":`)
		d.DurationMS = s.int()
		if s.opt(`,"result":`) {
			d.Result = s.raw()
		}
		s.lit(`}`)
		return d
	}
	b := newBody(k)
	if b == nil {
		s.bad = true
		return nil
	}
	s.into(b)
	return b
}

func (s *scanner) created() Body {
	d := &Created{}
	s.lit(`{"params":`)
	d.Params = s.raw()
	s.lit(`,"priority":`)
	p := s.int()
	s.ok(p >= 0 && p <= int64(MaxPriority))
	d.Priority = Priority(p)
	s.lit(`,"max_attempts":`)
	d.MaxAttempts = Attempt(s.int())
	s.lit(`,"timeout_ms":`)
	d.TimeoutMS = s.int()
	s.optText(`,"dedup_key":`, &d.DedupKey)
	s.optText(`,"idempotency_key":`, &d.IdempotencyKey)
	s.optTime(`,"idempotency_until":`, &d.IdempotencyUntil)
	s.optTime(`,"available_at":`, &d.AvailableAt)
	d.Delayed = s.opt(`,"delayed":true`)
	if s.opt(`,"capabilities":`) {
		s.into(&d.Capabilities)
	}
	s.optText(`,"tenant":`, &d.Tenant)
	if s.opt(`,"labels":`) {
		s.into(&d.Labels)
	}
	if s.opt(`,"provenance":`) {
		s.into(&d.Provenance)
	}
	s.optText(`,"traceparent":`, &d.Trace)
	s.optText(`,"digest":`, &d.Digest)
	if s.opt(`,"intake_seq":`) {
		n := s.int()
		s.ok(n >= 0)
		d.Intake.Seq = uint64(n)
	}
	s.optText(`,"site":`, &d.Site)
	if s.opt(`,"site_seq":`) {
		n := s.int()
		s.ok(n >= 0)
		d.SiteSeq = uint64(n)
	}
	s.optText(`,"msg_id":`, &d.MsgID)
	s.optTime(`,"msg_id_until":`, &d.MsgIDUntil)
	ownAttempts, ownTimeout := s.opt(`,"own_attempts":true`), s.opt(`,"own_timeout":true`)
	group := ""
	if s.opt(`,"group":`) { // with other terms: the general way
		group = s.text()
	}
	if ownAttempts || ownTimeout || group != "" {
		d.SubmitOptions = &SubmitOptions{OwnAttempts: ownAttempts, OwnTimeout: ownTimeout, Group: group}
	}
	s.lit(`}`)
	return d
}

// scanner walks over JSON of a known form. Once something is not as expected
// it is bad, and what it gives is of no use.
type scanner struct {
	b   []byte
	i   int
	bad bool
}

func (s *scanner) ok(c bool) { s.bad = s.bad || !c }

// opt steps over lit if it is next.
func (s *scanner) opt(lit string) bool {
	if s.bad || len(s.b)-s.i < len(lit) || string(s.b[s.i:s.i+len(lit)]) != lit {
		return false
	}
	s.i += len(lit)
	return true
}

func (s *scanner) lit(lit string) { s.ok(s.opt(lit)) }

// word is the plain text up to the next quote, which it leaves.
func (s *scanner) word() []byte {
	n := bytes.IndexByte(s.b[s.i:], '"')
	if s.bad || n < 0 {
		s.bad = true
		return nil
	}
	w := s.b[s.i : s.i+n]
	for _, c := range w {
		if c < ' ' || c > '~' || c == '\\' {
			s.bad = true
			return nil
		}
	}
	s.i += n
	return w
}

// text is a plain string with its quotes.
func (s *scanner) text() string {
	s.lit(`"`)
	w := s.word()
	s.lit(`"`)
	if string(w) == "submitted" { // the reason of nearly every queued
		return "submitted"
	}
	return string(w)
}

func (s *scanner) optText(name string, to *string) {
	if s.opt(name) {
		*to = s.text()
	}
}

func (s *scanner) time(to *time.Time) {
	s.lit(`"`)
	w := s.word()
	if t, ok := ownTime(w); ok {
		*to = t
	} else {
		s.ok(to.UnmarshalText(w) == nil)
	}
	s.lit(`"`)
}

// ownTime reads a time as it is written here: 2006-01-02T15:04:05.999999999Z. It
// leaves others, and the days that not every month has, to package time.
func ownTime(w []byte) (t time.Time, ok bool) {
	const form = "2006-01-02T15:04:05"
	if len(w) <= len(form) || w[len(w)-1] != 'Z' {
		return t, false
	}
	n := [6]int{} // year to second
	field := 0
	for i, c := range w[:len(form)] {
		switch {
		case form[i] < '0' || form[i] > '9':
			if c != form[i] {
				return t, false
			}
			field++
		case c < '0' || c > '9':
			return t, false
		default:
			n[field] = n[field]*10 + int(c-'0')
		}
	}
	if n[1] < 1 || n[1] > 12 || n[2] < 1 || n[2] > 28 || n[3] > 23 || n[4] > 59 || n[5] > 59 {
		return t, false
	}
	nanos := 0
	if frac := w[len(form) : len(w)-1]; len(frac) > 0 {
		if frac[0] != '.' || len(frac) == 1 || len(frac) > 10 {
			return t, false
		}
		for _, c := range frac[1:] {
			if c < '0' || c > '9' {
				return t, false
			}
			nanos = nanos*10 + int(c-'0')
		}
		for range 10 - len(frac) {
			nanos *= 10
		}
	}
	return time.Date(n[0], time.Month(n[1]), n[2], n[3], n[4], n[5], nanos, time.UTC), true
}

func (s *scanner) optTime(name string, to *time.Time) {
	if s.opt(name) {
		s.time(to)
	}
}

func (s *scanner) id(to *ID) {
	w := s.word()
	if id, ok := ownID(w); ok {
		*to = id
	} else {
		s.ok(len(w) > 0 && to.UnmarshalText(w) == nil)
	}
	s.lit(`"`)
}

// base32 has the value of each digit of a ULID, 0xff for what is none.
var base32 = func() (v [256]byte) {
	for i := range v {
		v[i] = 0xff
	}
	for i, c := range "0123456789ABCDEFGHJKMNPQRSTVWXYZ" {
		v[c] = byte(i)
	}
	return v
}()

// ownID reads an id in upper case, as [ParseID] does.
func ownID(w []byte) (id ID, ok bool) {
	if len(w) != 26 || w[0] > '7' {
		return id, false
	}
	var hi, lo uint64
	for _, c := range w {
		v := base32[c]
		if v == 0xff {
			return id, false
		}
		hi, lo = hi<<5|lo>>59, lo<<5|uint64(v)
	}
	binary.BigEndian.PutUint64(id[:8], hi)
	binary.BigEndian.PutUint64(id[8:], lo)
	return id, true
}

// int is a whole number of at most 18 digits, in JSON's form.
func (s *scanner) int() int64 {
	start := s.i
	neg := s.opt(`-`)
	first := s.i
	n := int64(0)
	for ; s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9' && s.i-first < 18; s.i++ {
		n = n*10 + int64(s.b[s.i]-'0')
	}
	digits := s.i - first
	s.ok(digits > 0 && (digits == 1 || s.b[first] != '0') && !(neg && n == 0))
	if s.bad {
		s.i = start
		return 0
	}
	if neg {
		return -n
	}
	return n
}

// raw copies a JSON value.
func (s *scanner) raw() json.RawMessage {
	if !s.bad {
		if n, _ := ScanJSON(s.b[s.i:]); n > 0 {
			s.i += n
			return append(json.RawMessage(nil), s.b[s.i-n:s.i]...)
		}
	}
	v := s.value()
	// A blank behind it would not be part of it.
	s.ok(len(v) > 0 && v[len(v)-1] > ' ' && json.Valid(v))
	return append(json.RawMessage(nil), v...)
}

// into decodes a JSON value with encoding/json.
func (s *scanner) into(v any) {
	raw := s.value()
	s.ok(!s.bad && json.Unmarshal(raw, v) == nil)
}

// value steps over a JSON value that begins right here, by its brackets and
// quotes alone: the caller checks it.
func (s *scanner) value() []byte {
	start, depth := s.i, 0
	if s.bad || s.i == len(s.b) || s.b[s.i] <= ' ' {
		s.bad = true
		return nil
	}
	for ; s.i < len(s.b); s.i++ {
		switch s.b[s.i] {
		case '"':
			if s.i = s.closing(s.i + 1); s.i < 0 {
				s.i, s.bad = start, true
				return nil
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return s.b[start:s.i]
			}
			depth--
		case ',':
			if depth == 0 {
				return s.b[start:s.i]
			}
		}
	}
	s.bad = true
	return nil
}

// closing is the place of the quote that closes a string whose text begins at
// i, or -1.
func (s *scanner) closing(i int) int {
	for ; i < len(s.b); i++ {
		switch s.b[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
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
