package wire

import (
	"encoding/json"
	"errors"
	"math"
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

// FromError returns the wire form of the *events.Error in err's chain, or of an
// internal error if there is none. It returns nil for nil.
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

// Command makes the command of a submission and checks it: see
// [core.Submit.Check]. newID is a fresh id, for an item whose submitter chose
// none; its time stamp is the now of the check. maxParams bounds the params in bytes. The params are not copied. The
// error is an *events.Error.
func (s Submit) Command(newID events.ID, maxParams int) (core.Submit, error) {
	typ, err := events.ParseType(s.Type)
	if err != nil {
		return core.Submit{}, events.Refuse(events.CodeBadType, "%v", err)
	}
	c := core.Submit{
		Type: typ, Params: s.Params, NewID: newID,
		DedupKey: s.DedupKey, IdempotencyKey: s.IdempotencyKey,
		AvailableAt: s.AvailableAt, Delay: duration(s.DelayMS), Capabilities: s.Capabilities,
		MaxAttempts: events.Attempt(s.MaxAttempts), Timeout: duration(s.TimeoutMS),
		Tenant: s.Tenant, Labels: s.Labels,
		Provenance: events.Provenance{Source: s.Source, Trigger: s.Trigger},
		Trace:      s.Trace,
	}
	if s.ID != "" {
		if c.ID, err = parseID(s.ID); err != nil {
			return core.Submit{}, err
		}
	}
	if c.Priority, err = checkPriority(s.Priority); err != nil {
		return core.Submit{}, err
	}
	if err := s.SubmitOptions.into(&c); err != nil {
		return core.Submit{}, err
	}
	return c, c.Check(maxParams, idTime(newID))
}

// duration returns so many milliseconds, or the longest duration there is.
func duration(ms int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Millisecond)
	return time.Duration(min(max(ms, -most), most)) * time.Millisecond
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
		return events.Refuse(events.CodeBadPriority, "invalid priority: use a whole number, 0 to %d (higher first), or low, medium, high", events.MaxPriority)
	}
	*p = Priority(n)
	return nil
}

func checkPriority(p *Priority) (*events.Priority, error) {
	if p == nil {
		return nil, nil
	}
	if *p < 0 || *p > Priority(events.MaxPriority) {
		return nil, events.Refuse(events.CodeBadPriority, "invalid priority %d: use 0 to %d, higher first", *p, events.MaxPriority)
	}
	v := events.Priority(*p)
	return &v, nil
}

// idTime returns the time stamp of an id, the zero time for the zero id.
func idTime(id events.ID) time.Time {
	if id.IsZero() {
		return time.Time{}
	}
	return ulid.Time(ulid.ULID(id).Time())
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
		return events.Refuse(events.CodeBadRequest, "invalid capability %q: use at most %d characters of a-z and 0-9, with single - between them", events.Clip(c, maxQuoted), events.MaxCapabilityLen)
	}
	return nil
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
	delay := duration(r.DelayMS)
	if err := events.CheckDue(r.AvailableAt, delay, now); err != nil {
		return core.Reschedule{}, err
	}
	due := delay != 0 || !r.AvailableAt.IsZero()
	if r.Now && due {
		return core.Reschedule{}, events.Refuse(events.CodeBadTime, "now and a later time are both given: give one of them")
	}
	if !r.Now && !due && p == nil {
		return core.Reschedule{}, events.Refuse(events.CodeBadRequest, "nothing to change: give a priority, a time, a delay, or now")
	}
	return core.Reschedule{ID: id, Priority: p, AvailableAt: r.AvailableAt, Delay: delay, Now: r.Now}, nil
}

// FromItem returns an item as queries show it, with its params, its result and the
// submissions merged into it, each nil if not wanted.
func FromItem(it *events.Item, params, result []byte, merged []events.MergedEntry) Item {
	out := Item{
		ID: it.ID.String(), Type: string(it.Type), State: it.State, Priority: int(it.Priority),
		Params: params, Attempt: int(it.Attempt), MaxAttempts: int(it.MaxAttempts),
		OwnAttempts: it.OwnAttempts, TimeoutMS: it.Timeout.Milliseconds(), OwnTimeout: it.OwnTimeout, Worker: string(it.Worker),
		DedupKey: it.DedupKey, IdempotencyKey: it.IdempotencyKey,
		Capabilities: it.Capabilities, Tenant: it.Tenant, Labels: it.Labels,
		Provenance: it.Provenance, MergedCount: it.MergedCount, IntakeSeq: it.IntakeSeq,
		AvailableAt: it.AvailableAt, CreatedAt: it.CreatedAt, QueuedAt: it.QueuedAt,
		ClaimedAt: it.ClaimedAt, StartedAt: it.StartedAt, Deadline: it.Deadline,
		FinishedAt: it.FinishedAt, Result: result, Reason: it.Reason, Cause: it.Cause, Position: PositionOf(it.Seq),
	}
	if !it.MergedInto.IsZero() {
		out.MergedInto = it.MergedInto.String()
	}
	if it.Error != "" || it.Code != "" {
		out.Error = &ItemError{Message: it.Error, Code: it.Code, Retryable: it.Retryable}
	}
	out.ItemFlow = itemFlow(it)
	if len(merged) > 0 {
		out.MergedProvenance = make([]MergedProvenance, len(merged))
		for i, m := range merged {
			out.MergedProvenance[i] = MergedProvenance{ID: m.ID.String(), At: m.At, Provenance: m.Provenance}
		}
	}
	return out
}

// FromEvent returns an event as queries and tails show it.
func FromEvent(ev events.Event) HistoryEvent {
	out := HistoryEvent{
		Seq: ev.Seq, Kind: ev.Kind, Type: string(ev.Type), At: ev.At,
		Attempt: int(ev.Attempt), Worker: string(ev.Worker),
	}
	if !ev.ID.IsZero() {
		out.ID = ev.ID.String()
	}
	data, err := ev.Data()
	if err != nil {
		// A payload that was read from JSON can be written as JSON; one that
		// can't must not take the rest of the history with it.
		data, _ = json.Marshal(map[string]string{"unreadable": err.Error()})
	}
	out.Data = data
	return out
}
