package wire

import (
	"encoding/json"
	"errors"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/oklog/ulid/v2"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// PositionOf is the position of a reply that has made everything up to seq
// visible. Before the first event it is empty.
func PositionOf(seq events.Seq) Position {
	if seq == 0 {
		return ""
	}
	return Position(seq.String())
}

// Seq reads a position; the empty one is 0. Its error is an *events.Error.
func (p Position) Seq() (events.Seq, error) {
	if p == "" {
		return 0, nil
	}
	seq, err := events.ParseSeq(string(p))
	if err != nil {
		return 0, events.Refuse(events.CodeBadRequest, "%v", err)
	}
	return seq, nil
}

// FromError is the wire form of err: that of the *events.Error in its chain,
// else an internal one. Nil stays nil.
func FromError(err error) *Error {
	if err == nil {
		return nil
	}
	var e *events.Error
	if !errors.As(err, &e) {
		return &Error{Code: events.CodeInternal, Message: err.Error()}
	}
	return &Error{Code: e.Code, Message: e.Message, RetryAfterMS: Millis(e.RetryAfter)}
}

// Command checks a submission against every bound and makes the command of
// it. newID is a fresh id, for an item whose submitter chose none; its time
// stamp is the now against which AvailableAt is checked, so a zero newID
// leaves that check out. maxParams bounds the params in bytes. The params are
// not copied. The error is an *events.Error.
func (s Submit) Command(newID events.ID, maxParams int) (core.Submit, error) {
	typ, err := events.ParseType(s.Type)
	if err != nil {
		return core.Submit{}, events.Refuse(events.CodeBadType, "%v", err)
	}
	c := core.Submit{
		Type: typ, Params: s.Params, NewID: newID,
		DedupKey: s.DedupKey, IdempotencyKey: s.IdempotencyKey,
		AvailableAt: s.AvailableAt, Capabilities: s.Capabilities,
		Tenant: s.Tenant, Labels: s.Labels,
		Provenance: events.Provenance{Source: s.Source, Trigger: s.Trigger},
		Trace:      s.Trace,
	}
	if err := checkParams(s.Params, maxParams); err != nil {
		return core.Submit{}, err
	}
	if s.ID != "" {
		if c.ID, err = parseID(s.ID); err != nil {
			return core.Submit{}, err
		}
	}
	if c.Priority, err = checkPriority(s.Priority); err != nil {
		return core.Submit{}, err
	}
	if c.Delay, err = checkDue(s.AvailableAt, s.DelayMS, idTime(newID)); err != nil {
		return core.Submit{}, err
	}
	if s.MaxAttempts < 0 || s.MaxAttempts > events.MaxAttemptsCeiling {
		return core.Submit{}, events.Refuse(events.CodeBadRequest, "max_attempts is %d: it must be 1 to %d, or left out", s.MaxAttempts, events.MaxAttemptsCeiling)
	}
	c.MaxAttempts = events.Attempt(s.MaxAttempts)
	if s.TimeoutMS < 0 || s.TimeoutMS > events.MaxTimeout.Milliseconds() {
		return core.Submit{}, events.Refuse(events.CodeBadTime, "the timeout is %d ms: it must be 1 ms to %v, or left out", s.TimeoutMS, events.MaxTimeout)
	}
	c.Timeout = time.Duration(s.TimeoutMS) * time.Millisecond
	if err := s.checkTexts(); err != nil {
		return core.Submit{}, err
	}
	if err := s.Terms.into(&c, idTime(newID)); err != nil {
		return core.Submit{}, err
	}
	return c, nil
}

// checkTexts checks everything in a submission that is free text.
func (s *Submit) checkTexts() error {
	for _, f := range [...]struct {
		name, text string
		most       int
	}{
		{"dedup_key", s.DedupKey, events.MaxKeyLen},
		{"idempotency_key", s.IdempotencyKey, events.MaxKeyLen},
		{"source", s.Source, events.MaxNameLen},
		{"trigger", s.Trigger, events.MaxNameLen},
		{"tenant", s.Tenant, events.MaxNameLen},
		{"traceparent", s.Trace, events.MaxTraceLen},
	} {
		if f.text == "" {
			continue
		}
		if err := checkText(f.name, f.text, f.most); err != nil {
			return err
		}
	}
	if err := checkCapabilities(s.Capabilities); err != nil {
		return err
	}
	return checkLabels(s.Labels)
}

func checkText(name, text string, most int) error {
	if len(text) > most {
		return events.Refuse(events.CodeTooLarge, "%s has %d bytes: at most %d are allowed", name, len(text), most)
	}
	if !utf8.ValidString(text) {
		return events.Refuse(events.CodeBadRequest, "%s is not valid UTF-8: encode it, for instance in base64", name)
	}
	return nil
}

func checkParams(params json.RawMessage, most int) error {
	if len(params) > most {
		return events.Refuse(events.CodeTooLarge, "params have %d bytes: at most %d are allowed; store the document elsewhere and submit a reference to it", len(params), most)
	}
	if len(params) > 0 && !(json.Valid(params) && utf8.Valid(params)) {
		return events.Refuse(events.CodeBadParams, "params are no JSON document in UTF-8: %s", jsonFault(params))
	}
	return nil
}

// jsonFault says where a document stops being JSON.
func jsonFault(doc []byte) string {
	var v any
	err := json.Unmarshal(doc, &v)
	var at *json.SyntaxError
	switch {
	case errors.As(err, &at):
		return events.Refuse("", "%v, at byte %d; a text must be in double quotes", at, at.Offset).Message
	case err != nil:
		return err.Error()
	}
	return "a string in it has bytes that are no UTF-8"
}

// parseID reads an id that must name an item.
func parseID(s string) (events.ID, error) {
	id, err := events.ParseID(s)
	if err != nil {
		return id, events.Refuse(events.CodeBadID, "%v", err)
	}
	if id.IsZero() {
		return id, events.Refuse(events.CodeBadID, "the id of zeros names no item: choose a fresh ULID, or leave the id out")
	}
	return id, nil
}

// Priority is a priority as requests give it: 0 to 9, higher first, or one of
// the words low (2), medium (5) and high (8). It is written as a number.
type Priority int

// UnmarshalJSON implements json.Unmarshaler. Its error is an *events.Error. A
// number out of range is left to whoever checks the request.
func (p *Priority) UnmarshalJSON(data []byte) error {
	var word string
	if len(data) > 0 && data[0] == '"' {
		if err := json.Unmarshal(data, &word); err != nil {
			return err
		}
		if word == "" {
			return events.Refuse(events.CodeBadPriority, "the priority is an empty text: use 0 to %d (higher first), or low, medium, high", events.MaxPriority)
		}
		v, err := events.ParsePriority(word)
		if err != nil {
			return events.Refuse(events.CodeBadPriority, "%v", err)
		}
		*p = Priority(v)
		return nil
	}
	n, err := strconv.Atoi(string(data))
	if err != nil {
		return events.Refuse(events.CodeBadPriority, "the priority is %s: use a whole number, 0 to %d (higher first), or low, medium, high", clip(string(data)), events.MaxPriority)
	}
	*p = Priority(n)
	return nil
}

func checkPriority(p *Priority) (*events.Priority, error) {
	if p == nil {
		return nil, nil
	}
	if *p < 0 || *p > Priority(events.MaxPriority) {
		return nil, events.Refuse(events.CodeBadPriority, "%d is no priority: use 0 to %d, higher first", *p, events.MaxPriority)
	}
	v := events.Priority(*p)
	return &v, nil
}

// checkDue checks a due time, given as a moment or as a delay but not as both,
// and returns the delay. A zero now leaves the moment's distance unchecked.
func checkDue(at time.Time, delayMS int64, now time.Time) (time.Duration, error) {
	switch {
	case delayMS < 0:
		return 0, events.Refuse(events.CodeBadTime, "the delay is negative (%d ms): leave it out to make the item available at once", delayMS)
	case delayMS > events.MaxDelay.Milliseconds():
		return 0, events.Refuse(events.CodeBadTime, "the delay of %d ms is beyond ten years: choose an earlier time", delayMS)
	case delayMS > 0 && !at.IsZero():
		return 0, events.Refuse(events.CodeBadTime, "both available_at and a delay are given: give one of them")
	case !now.IsZero() && at.After(now.Add(events.MaxDelay)), at.Year() > 9999:
		return 0, events.Refuse(events.CodeBadTime, "available_at is beyond ten years: choose an earlier time")
	}
	return time.Duration(delayMS) * time.Millisecond, nil
}

// idTime is the time stamp of an id, the zero time for the zero id.
func idTime(id events.ID) time.Time {
	if id.IsZero() {
		return time.Time{}
	}
	return ulid.Time(ulid.ULID(id).Time())
}

func checkCapabilities(caps []string) error {
	if len(caps) > events.MaxCapabilities {
		return events.Refuse(events.CodeTooLarge, "%d capabilities are given: at most %d are allowed", len(caps), events.MaxCapabilities)
	}
	total := 0
	for _, c := range caps {
		if err := CheckCapability(c); err != nil {
			return err
		}
		total += len(c) + 1
	}
	if total-1 > events.MaxLaneLen {
		return events.Refuse(events.CodeTooLarge, "the capabilities have %d bytes together: at most %d are allowed", total-1, events.MaxLaneLen)
	}
	return nil
}

// CheckCapability checks a capability's name: at most 63 characters of a-z and
// 0-9 with single - between them. It becomes part of subjects and consumer
// names, where _ stands between two of them.
func CheckCapability(c string) error {
	ok := len(c) > 0 && len(c) <= events.MaxCapabilityLen && c[0] != '-' && c[len(c)-1] != '-'
	for i := 0; ok && i < len(c); i++ {
		b := c[i]
		ok = b >= 'a' && b <= 'z' || b >= '0' && b <= '9' || b == '-' && c[i-1] != '-'
	}
	if !ok {
		return events.Refuse(events.CodeBadRequest, "%q is no capability: use at most %d characters of a-z and 0-9, with single - between them", clip(c), events.MaxCapabilityLen)
	}
	return nil
}

func checkLabels(labels map[string]string) error {
	if len(labels) > events.MaxLabels {
		return events.Refuse(events.CodeTooLarge, "%d labels are given: at most %d are allowed", len(labels), events.MaxLabels)
	}
	for k, v := range labels {
		if err := checkText("a label's key", k, events.MaxLabelLen); err != nil {
			return err
		}
		if k == "" || hasLabelMark(k) {
			return events.Refuse(events.CodeBadRequest, "%q is no key for a label: it must not be empty, and have no = and no comma", clip(k))
		}
		if err := checkText("label "+k, v, events.MaxLabelLen); err != nil {
			return err
		}
	}
	return nil
}

func hasLabelMark(k string) bool {
	for i := range len(k) {
		if k[i] == '=' || k[i] == ',' {
			return true
		}
	}
	return false
}

// Command makes the command of a Cancel. The error is an *events.Error.
func (c Cancel) Command() (core.Cancel, error) {
	id, err := parseID(c.ID)
	if err != nil {
		return core.Cancel{}, err
	}
	if err := checkText("reason", c.Reason, events.MaxNameLen); err != nil {
		return core.Cancel{}, err
	}
	return core.Cancel{ID: id, Reason: c.Reason}, nil
}

// Command makes the command of a Reschedule; now is the time against which
// AvailableAt is checked. The error is an *events.Error.
func (r Reschedule) Command(now time.Time) (core.Reschedule, error) {
	id, err := parseID(r.ID)
	if err != nil {
		return core.Reschedule{}, err
	}
	p, err := checkPriority(r.Priority)
	if err != nil {
		return core.Reschedule{}, err
	}
	delay, err := checkDue(r.AvailableAt, r.DelayMS, now)
	if err != nil {
		return core.Reschedule{}, err
	}
	due := delay > 0 || !r.AvailableAt.IsZero()
	if r.Now && due {
		return core.Reschedule{}, events.Refuse(events.CodeBadTime, "now and a later time are both given: give one of them")
	}
	if !r.Now && !due && p == nil {
		return core.Reschedule{}, events.Refuse(events.CodeBadRequest, "nothing to change: give a priority, a time, a delay, or now")
	}
	return core.Reschedule{ID: id, Priority: p, AvailableAt: r.AvailableAt, Delay: delay, Now: r.Now}, nil
}
