package core

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/streamwright/streamwright/events"
)

func (c Reject) decide(d *decider) (Decision, error) { return d.reject(c), nil }

// reject records a submission that becomes no item. Whatever it holds, the
// event stays in its bounds: nothing here may refuse, since the intake's
// position moves on only with an event.
func (d *decider) reject(c Reject) Decision {
	r := c.Rejected
	r.Code = events.Shorten(r.Code, events.MaxNameLen)
	r.Message = events.Shorten(r.Message, events.MaxErrorText)
	r.Subject = events.Shorten(r.Subject, events.MaxKeyLen)
	r.Intake = events.Intake{Seq: r.Intake.Seq} // what does not become an item holds no message id
	boundBody(&r)
	boundHeaders(&r)
	typ, err := events.ParseType(string(c.Type))
	if _, known := d.state.Type(typ); err != nil || !known && (len(d.state.types) >= events.MaxTypes || !typeAllowed(&d.state.limits, typ)) {
		typ = "" // it becomes part of a subject, of which the server keeps each in memory
	}
	return Decision{ID: r.Of, Repeat: !r.Of.IsZero(), Events: []events.Event{{Kind: events.KindRejected, Type: typ, At: d.now, Body: &r}}}
}

// boundBody cuts the original to its bound. What is no text is kept as bytes,
// which JSON would not.
func boundBody(r *events.Rejected) {
	if r.Text != "" && !utf8.ValidString(r.Text) {
		r.Text, r.Bytes = "", []byte(r.Text)
	}
	if r.Text != "" {
		r.Bytes = nil
	}
	r.Size = max(r.Size, len(r.Text), len(r.Bytes))
	if len(r.Text) > events.MaxRejectedBytes {
		r.Text, r.Truncated = events.Cut(r.Text, events.MaxRejectedBytes), true
	}
	if len(r.Bytes) > events.MaxRejectedBytes {
		r.Bytes, r.Truncated = r.Bytes[:events.MaxRejectedBytes], true
	}
}

// boundHeaders keeps the headers, in order of name, as far as they fit.
func boundHeaders(r *events.Rejected) {
	if len(r.Headers) == 0 {
		r.Headers = nil
		return
	}
	kept, room := make(map[string][]string, len(r.Headers)), events.MaxRejectedHeaders
	for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
		key := strings.ToValidUTF8(name, "\uFFFD")
		for _, v := range r.Headers[name] {
			v = strings.ToValidUTF8(v, "\uFFFD")
			// 8: what quotes, colon, brackets and commas take in the JSON.
			if room -= len(key) + len(v) + 8; room < 0 {
				r.Headers, r.Truncated = kept, true
				return
			}
			kept[key] = append(kept[key], v)
		}
	}
	r.Headers = kept
}
