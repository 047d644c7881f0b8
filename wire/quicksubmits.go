package wire

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/streamwright/streamwright/events"
)

// A bulk submission is all requests of arrays, so what encoding/json costs is much of
// what it costs. The code below writes the same bytes, and reads the same values in the
// forms that most clients write: with blanks, in any order, each field once, without
// null. Everything else is left to encoding/json, by [ReadStrict].

// AppendSubmit appends what json.Marshal gives for s.
func AppendSubmit(b []byte, s *Submit) ([]byte, error) {
	w := writer{b: append(b, '{')}
	w.b = appendText(append(w.b, `"type":`...), s.Type)
	if len(s.Params) > 0 {
		w.document(`,"params":`, s.Params)
	}
	w.text(`,"id":`, s.ID)
	if s.Priority != nil {
		w.b = strconv.AppendInt(append(w.b, `,"priority":`...), int64(*s.Priority), 10)
	}
	w.text(`,"dedup_key":`, s.DedupKey)
	w.text(`,"idempotency_key":`, s.IdempotencyKey)
	w.time(`,"available_at":`, s.AvailableAt)
	w.int(`,"delay_ms":`, s.DelayMS)
	w.int(`,"max_attempts":`, int64(s.MaxAttempts))
	w.int(`,"timeout_ms":`, s.TimeoutMS)
	if len(s.Capabilities) > 0 {
		w.any(`,"capabilities":`, s.Capabilities)
	}
	w.text(`,"source":`, s.Source)
	w.text(`,"trigger":`, s.Trigger)
	w.text(`,"tenant":`, s.Tenant)
	if len(s.Labels) > 0 {
		w.any(`,"labels":`, s.Labels)
	}
	w.text(`,"traceparent":`, s.Trace)
	w.options(&s.SubmitOptions)
	return append(w.b, '}'), w.err
}

// options writes what relates an item to others.
func (w *writer) options(t *SubmitOptions) {
	if len(t.After) > 0 {
		w.any(`,"after":`, t.After)
	}
	w.text(`,"after_policy":`, string(t.AfterPolicy))
	w.text(`,"dedup_policy":`, string(t.DedupPolicy))
	if t.DedupWindowMS != nil {
		w.b = strconv.AppendInt(append(w.b, `,"dedup_window_ms":`...), *t.DedupWindowMS, 10)
	}
	w.time(`,"expires_at":`, t.ExpiresAt)
	w.text(`,"batch":`, t.Batch)
	w.int(`,"estimated_duration_ms":`, t.EstimatedDurationMS)
}

// writer appends members of an object that has one already. Its first error stays.
type writer struct {
	b   []byte
	err error
}

// text leaves out an empty text.
func (w *writer) text(name, s string) {
	if s != "" {
		w.b = appendText(append(w.b, name...), s)
	}
}

// int leaves out 0.
func (w *writer) int(name string, n int64) {
	if n != 0 {
		w.b = strconv.AppendInt(append(w.b, name...), n, 10)
	}
}

// time leaves out the zero time.
func (w *writer) time(name string, t time.Time) {
	if !t.IsZero() {
		w.any(name, t)
	}
}

// document writes a JSON document.
func (w *writer) document(name string, doc json.RawMessage) {
	if n, plain := events.ScanJSON(doc); n == len(doc) && plain {
		w.b = append(append(w.b, name...), doc...)
		return
	}
	w.any(name, doc)
}

func (w *writer) any(name string, v any) {
	data, err := json.Marshal(v)
	if w.err == nil {
		w.err = err
	}
	w.b = append(append(w.b, name...), data...)
}

// DecodeSubmits reads one Submit, or an array of at most events.MaxSubmitBatch. ok is
// false for what it leaves to encoding/json.
func DecodeSubmits(data []byte) (list []Submit, array, ok bool) {
	s := submitReader{quick: quick{b: data}}
	s.blanks()
	if array = s.opt(`[`); !array {
		list = make([]Submit, 1)
		s.submit(&list[0])
		s.blanks()
		return list, false, s.whole()
	}
	// With a bound, for it may as well stand in params.
	list = make([]Submit, 0, min(bytes.Count(data, []byte(`"type"`)), events.MaxSubmitBatch))
	for s.blanks(); !s.bad && len(list) < events.MaxSubmitBatch; s.blanks() {
		list = append(list, Submit{})
		s.submit(&list[len(list)-1])
		if s.blanks(); s.opt(`]`) {
			s.blanks()
			return list, true, s.whole()
		}
		s.lit(`,`)
	}
	return nil, true, false
}

// submitReader reads submissions.
type submitReader struct {
	quick
	typ string // of the submission before, and most likely of the next
}

// submitFields are the fields of a Submit, in its order.
var submitFields = []struct {
	name string
	read func(*submitReader, *Submit)
}{
	{"type", func(s *submitReader, r *Submit) { r.Type = s.sameType() }},
	{"params", func(s *submitReader, r *Submit) { r.Params = s.document() }},
	{"id", func(s *submitReader, r *Submit) { r.ID = s.string() }},
	{"priority", func(s *submitReader, r *Submit) { r.Priority = new(Priority(s.int())) }},
	{"dedup_key", func(s *submitReader, r *Submit) { r.DedupKey = s.string() }},
	{"idempotency_key", func(s *submitReader, r *Submit) { r.IdempotencyKey = s.string() }},
	{"available_at", func(s *submitReader, r *Submit) { s.into(&r.AvailableAt) }},
	{"delay_ms", func(s *submitReader, r *Submit) { r.DelayMS = s.int() }},
	{"max_attempts", func(s *submitReader, r *Submit) { r.MaxAttempts = int(s.positive()) }},
	{"timeout_ms", func(s *submitReader, r *Submit) { r.TimeoutMS = s.positive() }},
	{"capabilities", func(s *submitReader, r *Submit) { s.into(&r.Capabilities) }},
	{"source", func(s *submitReader, r *Submit) { r.Source = s.string() }},
	{"trigger", func(s *submitReader, r *Submit) { r.Trigger = s.string() }},
	{"tenant", func(s *submitReader, r *Submit) { r.Tenant = s.string() }},
	{"labels", func(s *submitReader, r *Submit) { s.strictly(&r.Labels) }},
	{"traceparent", func(s *submitReader, r *Submit) { r.Trace = s.string() }},
	{"after", func(s *submitReader, r *Submit) { s.into(&r.After) }},
	{"after_policy", func(s *submitReader, r *Submit) { r.AfterPolicy = events.AfterPolicy(s.string()) }},
	{"dedup_policy", func(s *submitReader, r *Submit) { r.DedupPolicy = events.DedupPolicy(s.string()) }},
	{"dedup_window_ms", func(s *submitReader, r *Submit) { r.DedupWindowMS = new(s.int()) }},
	{"expires_at", func(s *submitReader, r *Submit) { s.into(&r.ExpiresAt) }},
	{"batch", func(s *submitReader, r *Submit) { r.Batch = s.string() }},
	{"estimated_duration_ms", func(s *submitReader, r *Submit) { r.EstimatedDurationMS = s.positive() }},
}

// submit reads an object.
func (s *submitReader) submit(r *Submit) {
	s.lit(`{`)
	if s.blanks(); s.opt(`}`) {
		return
	}
	seen := 0 // a bit for each field
	for next := 0; !s.bad; {
		s.lit(`"`)
		name := s.text()
		s.blanks()
		s.lit(`:`)
		s.blanks()
		i := fieldNamed(name, next)
		if s.bad = s.bad || i < 0 || seen&(1<<i) != 0; s.bad {
			return
		}
		submitFields[i].read(s, r)
		seen, next = seen|1<<i, i+1
		if s.blanks(); s.opt(`}`) {
			return
		}
		s.lit(`,`)
		s.blanks()
	}
}

// fieldNamed returns the place of a field, which is most likely not before next; -1
// for none.
func fieldNamed(name []byte, next int) int {
	for _, part := range [][2]int{{next, len(submitFields)}, {0, next}} {
		for i := part[0]; i < part[1]; i++ {
			if submitFields[i].name == string(name) {
				return i
			}
		}
	}
	return -1
}

// sameType reads a type.
func (s *submitReader) sameType() string {
	if s.lit(`"`); !s.bad {
		s.typ = again(s.text(), s.typ)
	}
	return s.typ
}

// blanks steps over blanks.
func (s *quick) blanks() {
	for s.i < len(s.b) && (s.b[s.i] == ' ' || s.b[s.i] == '\n' || s.b[s.i] == '\t' || s.b[s.i] == '\r') {
		s.i++
	}
}

// value steps over a JSON value that begins here.
func (s *quick) value() []byte {
	n := 0
	if !s.bad {
		n, _ = events.ScanJSON(s.b[s.i:])
	}
	s.bad = s.bad || n == 0
	s.i += n
	return s.b[s.i-n : s.i]
}

// document copies a JSON value.
func (s *quick) document() json.RawMessage { return slices.Clone(s.value()) }

// into reads a JSON value with encoding/json. null sets bad.
func (s *quick) into(v any) {
	raw := s.value()
	s.bad = s.bad || raw[0] == 'n' || json.Unmarshal(raw, v) != nil
}

// positive reads a number that must not be 0: [ReadStrict] refuses that.
func (s *quick) positive() int64 {
	n := s.int()
	s.bad = s.bad || n == 0
	return n
}

// strictly is into for what [ReadStrict] may refuse.
func (s *quick) strictly(v any) {
	raw := s.value()
	s.bad = s.bad || raw[0] == 'n' || ReadStrict(raw, v) != nil
}

// string reads any string.
func (s *quick) string() (text string) {
	raw := s.value()
	if s.bad || raw[0] != '"' {
		s.bad = true
		return ""
	}
	if in := raw[1 : len(raw)-1]; bytes.IndexByte(in, '\\') < 0 {
		return string(in)
	}
	s.bad = json.Unmarshal(raw, &text) != nil
	return text
}

// EncodeSubmitted is json.Marshal of the answers.
func EncodeSubmitted(b []byte, answers []Submitted) ([]byte, error) {
	b = append(b, '[')
	for i := range answers {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = appendSubmitted(b, &answers[i]); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

// appendSubmitted appends what json.Marshal gives for a.
func appendSubmitted(b []byte, a *Submitted) ([]byte, error) {
	if a.ID == "" || a.Error != nil {
		data, err := json.Marshal(a)
		return append(b, data...), err
	}
	w := writer{b: appendText(append(b, `{"id":`...), a.ID)}
	if a.State != events.StateNone {
		w.text(`,"state":`, a.State.String())
	}
	w.text(`,"merged_into":`, a.MergedInto)
	if a.Raised {
		w.b = append(w.b, `,"raised":true`...)
	}
	if a.NotRaised != events.StateNone {
		w.text(`,"not_raised":`, a.NotRaised.String())
	}
	if a.Repeat {
		w.b = append(w.b, `,"repeat":true`...)
	}
	if a.ContentDiffers {
		w.b = append(w.b, `,"content_differs":true`...)
	}
	w.text(`,"position":`, string(a.Position))
	return append(w.b, '}'), w.err
}

// DecodeSubmitted reads an array of answers in the form that EncodeSubmitted writes. ok
// is false for any other. want is the number of answers that are expected.
func DecodeSubmitted(data []byte, want int) (list []Submitted, ok bool) {
	s := quick{b: data}
	list = make([]Submitted, 0, want)
	var last Submitted
	s.list(func() {
		var a Submitted
		if s.opt(`{"error":`) {
			s.into(&a.Error)
			s.lit(`}`)
			list = append(list, a)
			return
		}
		s.lit(`{"id":`)
		a.ID = s.string()
		if s.opt(`,"state":"`) {
			s.bad = a.State.UnmarshalText(s.text()) != nil || s.bad
		}
		if s.opt(`,"merged_into":`) {
			a.MergedInto = s.string()
		}
		a.Raised = s.opt(`,"raised":true`)
		if s.opt(`,"not_raised":"`) {
			s.bad = a.NotRaised.UnmarshalText(s.text()) != nil || s.bad
		}
		a.Repeat = s.opt(`,"repeat":true`)
		a.ContentDiffers = s.opt(`,"content_differs":true`)
		if s.opt(`,"position":"`) {
			a.Position = Position(again(s.text(), string(last.Position)))
		}
		s.lit(`}`)
		last = a
		list = append(list, a)
	})
	return list, s.whole()
}
