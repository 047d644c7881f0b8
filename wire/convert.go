package wire

import (
	"encoding/json"
	"errors"
	"strconv"

	"github.com/streamwright/streamwright/events"
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
	return &Error{Code: e.Code, Message: e.Message, RetryAfter: events.DurationOf(e.RetryAfter)}
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

// FromItem returns an item as queries show it, with its params, its result and the
// submissions merged into it, each nil if not wanted.
func FromItem(it *events.Item, params, result []byte, merged []events.MergedEntry) Item {
	out := Item{
		ID: it.ID.String(), Type: string(it.Type), State: it.State, Priority: int(it.Priority),
		Params: params, Attempt: int(it.Attempt), MaxAttempts: int(it.MaxAttempts),
		OwnAttempts: it.OwnAttempts, Timeout: events.DurationOf(it.Timeout), OwnTimeout: it.OwnTimeout, Worker: string(it.Worker),
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
		Attempt: int(ev.Attempt), Worker: string(ev.Worker), By: ev.By,
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
