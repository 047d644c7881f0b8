package events

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// reject records a submission that becomes no item. Whatever it holds, the
// event stays in its bounds: nothing here may refuse, since the intake's
// position moves on only with an event.
func (d *decider) reject(c Reject) Decision {
	r := c.Rejected
	r.Code = text(r.Code, MaxNameLen)
	r.Message = text(r.Message, MaxErrorText)
	r.Subject = text(r.Subject, MaxKeyLen)
	r.Intake = Intake{Seq: r.Intake.Seq} // what does not become an item holds no message id
	r.boundBody()
	r.boundHeaders()
	typ, err := ParseType(string(c.Type))
	if _, known := d.s.Type(typ); err != nil || !known && (len(d.s.types) >= MaxTypes || !d.s.limits.allowed(typ)) {
		typ = "" // it becomes part of a subject, of which the server keeps each in memory
	}
	return Decision{ID: r.Of, Repeat: !r.Of.IsZero(), Events: []Event{{Kind: KindRejected, Type: typ, At: d.now, Body: &r}}}
}

// boundBody cuts the original to its bound. What is no text is kept as bytes,
// which JSON would not.
func (r *Rejected) boundBody() {
	if r.Text != "" && !utf8.ValidString(r.Text) {
		r.Text, r.Bytes = "", []byte(r.Text)
	}
	if r.Text != "" {
		r.Bytes = nil
	}
	r.Size = max(r.Size, len(r.Text), len(r.Bytes))
	if len(r.Text) > MaxRejectedBytes {
		r.Text, r.Truncated = cutText(r.Text, MaxRejectedBytes), true
	}
	if len(r.Bytes) > MaxRejectedBytes {
		r.Bytes, r.Truncated = r.Bytes[:MaxRejectedBytes], true
	}
}

// boundHeaders keeps the headers, in order of name, as far as they fit.
func (r *Rejected) boundHeaders() {
	if len(r.Headers) == 0 {
		r.Headers = nil
		return
	}
	kept, room := make(map[string][]string, len(r.Headers)), MaxRejectedHeaders
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
