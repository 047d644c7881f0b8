package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/streamwright/streamwright/events/quickjson"
)

// CheckDocument checks params or a result (what says which) and returns it on one line,
// for that is what an event is: without the blanks around it, and with spaces in place of
// line breaks. An empty document is null.
func CheckDocument(what string, p json.RawMessage, limit int, advice string) (json.RawMessage, error) {
	p = bytes.TrimSpace(p)
	if len(p) == 0 {
		return json.RawMessage("null"), nil
	}
	if len(p) > limit {
		return nil, Refuse(CodeTooLarge, "%s has %d bytes: at most %d are allowed; %s", what, len(p), limit, advice)
	}
	if quickjson.Scan(p) == len(p) {
		return oneLine(p), nil
	}
	// The depth comes before the syntax, since encoding/json calls what is
	// too deep for it a syntax error.
	if n := JSONDepth(p); n > MaxJSONDepth {
		return nil, Refuse(CodeBadParams, "%s is nested %d deep, the limit is %d: flatten it, or send it as a JSON string", what, n, MaxJSONDepth)
	}
	if !json.Valid(p) || !utf8.Valid(p) {
		return nil, Refuse(CodeBadParams, "%s is no JSON document in UTF-8: %s", what, DocumentFault(p))
	}
	return oneLine(p), nil
}

// oneLine replaces the line breaks of a JSON document, which are between its values only:
// a text has them escaped.
func oneLine(p json.RawMessage) json.RawMessage {
	if bytes.IndexByte(p, '\n') < 0 {
		return p
	}
	return bytes.ReplaceAll(p, []byte{'\n'}, []byte{' '})
}

// DocumentFault says where a document that can't be taken stops being JSON.
func DocumentFault(doc []byte) string {
	var v any
	err := json.Unmarshal(doc, &v)
	var at *json.SyntaxError
	switch {
	case errors.As(err, &at):
		return fmt.Sprintf("%v, at byte %d; a text must be in double quotes", at, at.Offset)
	case err != nil:
		return err.Error()
	}
	return "a string in it has bytes that are no UTF-8"
}

// CheckParams refuses params that are no JSON document, are nested too deep, or have
// more than limit bytes. It returns them without the blanks around them, and null
// for none. The error is an [*Error].
func CheckParams(params json.RawMessage, limit int) (json.RawMessage, error) {
	return CheckDocument("the params document", params, limit, "store it elsewhere and submit a reference to it")
}

// CheckDue refuses a due time, given as a moment or as a delay, that is out of
// bounds, and both at once. With a zero now, how far ahead the moment lies is left
// unchecked. The error is an [*Error].
func CheckDue(at time.Time, delay time.Duration, now time.Time) error {
	switch {
	case !at.IsZero() && delay != 0:
		return Refuse(CodeBadTime, "both available_at and a delay are given: give one of them")
	case delay < 0:
		return Refuse(CodeBadTime, "the delay is negative (%s): leave it out to make the item available at once", delay)
	case delay > MaxDelay:
		return Refuse(CodeBadTime, "the delay of %s is beyond ten years: choose an earlier time", delay)
	case at.Year() > 9999, !now.IsZero() && at.After(now.Add(MaxDelay)):
		return Refuse(CodeBadTime, "available_at is beyond ten years: choose an earlier time")
	}
	return nil
}

// JSONDepth returns how deep arrays and objects nest in a JSON document. For other
// text it is an upper bound of what a decoder would nest.
func JSONDepth(p []byte) int {
	deepest, now := 0, 0
	for i := 0; i < len(p); i++ {
		switch p[i] {
		case '"':
			for i++; i < len(p) && p[i] != '"'; i++ {
				if p[i] == '\\' {
					i++
				}
			}
		case '[', '{':
			now++
			deepest = max(deepest, now)
		case ']', '}':
			now--
		}
	}
	return deepest
}

// CheckText checks a short text field: its length in bytes, and that it is UTF-8.
func CheckText(field, v string, limit int) (string, error) {
	if len(v) > limit {
		return "", Refuse(CodeTooLarge, "%s has %d bytes: at most %d are allowed", field, len(v), limit)
	}
	if !utf8.ValidString(v) {
		return "", Refuse(CodeBadRequest, "%s is no valid UTF-8: encode it, for instance in base64", field)
	}
	return v, nil
}

// Shorten cuts a long text to a bound, at a character, and says that it did.
func Shorten(v string, limit int) string {
	if v = strings.ToValidUTF8(v, "\uFFFD"); len(v) <= limit {
		return v
	}
	const mark = " … (cut)"
	return Cut(v, limit-len(mark)) + mark
}

// CutText returns v as valid UTF-8, and no more than the longest beginning of it that has at
// most limit bytes and ends with a whole character.
func CutText(v string, limit int) string {
	if v = strings.ToValidUTF8(v, "\uFFFD"); len(v) <= limit {
		return v
	}
	return Cut(v, limit)
}

// Cut returns the longest beginning of v that has at most limit bytes and ends with
// a whole character.
func Cut(v string, limit int) string {
	for limit > 0 && !utf8.RuneStart(v[limit]) {
		limit--
	}
	return v[:limit]
}

// BadPriority refuses a priority that is out of range.
func BadPriority(p Priority) error {
	return Refuse(CodeBadPriority, "priority %d is outside 0 to %d", p, MaxPriority)
}

// CheckCapabilities checks capabilities and returns them sorted, each once.
func CheckCapabilities(in []string) ([]string, error) {
	if len(in) == 0 {
		return nil, nil
	}
	if len(in) > MaxCapabilities {
		return nil, Refuse(CodeTooLarge, "%d capabilities are given: at most %d are allowed", len(in), MaxCapabilities)
	}
	for _, c := range in {
		if !words(c, "-") || len(c) > MaxCapabilityLen {
			return nil, Refuse(CodeBadRequest, "invalid capability %q: use at most %d characters of a-z and 0-9 with single - between them", Clip(c, 80), MaxCapabilityLen)
		}
	}
	out := slices.Clone(in)
	slices.Sort(out)
	out = slices.Compact(out)
	if n := len(LaneOf(out)); n > MaxLaneLen {
		return nil, Refuse(CodeTooLarge, "the capabilities have %d bytes together: at most %d are allowed", n, MaxLaneLen)
	}
	return out, nil
}

// CheckLabels checks labels and returns a copy: the submitter's map is not ours.
func CheckLabels(in map[string]string) (map[string]string, error) {
	if len(in) == 0 {
		return nil, nil // not an empty map, which the log doesn't tell from none
	}
	if len(in) > MaxLabels {
		return nil, Refuse(CodeTooLarge, "%d labels are given: at most %d are allowed", len(in), MaxLabels)
	}
	for _, k := range slices.Sorted(maps.Keys(in)) { // in order, so that the refusal is the same each time
		v := in[k]
		if k == "" || strings.ContainsAny(k, "=,") {
			return nil, Refuse(CodeBadRequest, "invalid label key %q: it must not be empty, and have no = and no comma", Clip(k, 80))
		}
		if _, err := CheckText("a label's key", k, MaxLabelLen); err != nil {
			return nil, err
		}
		if _, err := CheckText("label "+k, v, MaxLabelLen); err != nil {
			return nil, err
		}
	}
	return maps.Clone(in), nil
}

// checker is a payload that is held to more than its fields' types.
type checker interface{ check(*Event) error }

// Check reports what no event of ours can look like: what is missing for its
// kind, and what could not be encoded again.
func (e *Event) Check() error {
	switch e.Kind.Scope() {
	case ScopeItem:
		if e.ID.IsZero() || e.Type == "" {
			return fmt.Errorf("it has no id or no type")
		}
	case ScopeType:
		if e.Type == "" {
			return fmt.Errorf("it has no type")
		}
	case ScopeCircuit:
		if (e.Type == "") == (e.Worker == "") {
			return fmt.Errorf("it names not one of a type and a worker")
		}
	case ScopeWorker:
		if e.Worker == "" || e.Type != "" {
			return fmt.Errorf("it names no worker, or a type")
		}
	case ScopeNamespace:
		if e.Type != "" {
			return fmt.Errorf("it has a type")
		}
	}
	switch {
	case len(e.Type) > MaxTypeLen || !plain(string(e.Type)):
		return fmt.Errorf("invalid type %q", Clip(string(e.Type), 80))
	case len(e.Worker) > MaxWorkerIDLen || !plain(string(e.Worker)):
		return fmt.Errorf("invalid worker id %q", Clip(string(e.Worker), 140))
	case len(e.By) > MaxNameLen:
		return fmt.Errorf("by has %d bytes", len(e.By))
	case e.Attempt < 0:
		return fmt.Errorf("attempt %d", e.Attempt)
	case !Writable(e.At):
		return fmt.Errorf("its time is out of range")
	}
	if b, ok := e.Body.(checker); ok {
		return b.check(e)
	}
	return nil
}

// inRange is the result of a check that compares times and numbers.
func inRange(ok bool) error {
	if !ok {
		return fmt.Errorf("a time or a priority is out of range")
	}
	return nil
}

func (b *Created) check(*Event) error {
	if b.Params == nil {
		return fmt.Errorf("it has no params")
	}
	return inRange(b.Priority <= MaxPriority && Writable(b.AvailableAt, b.IdempotencyUntil, b.MsgIDUntil) &&
		(b.SubmitOptions == nil || Writable(b.ExpiresAt) && writableRates(b.Rates)))
}

func (b *Queued) check(*Event) error {
	return inRange(Writable(b.OrderAt, b.AvailableAt) && b.Jitter.Duration >= 0 && b.Timeout.Duration >= 0)
}

func (b *Claimed) check(*Event) error {
	return inRange(Writable(b.StartBy, b.DeliveredAt) && writableRates(b.Rates))
}

func (b *Running) check(*Event) error { return inRange(Writable(b.Deadline)) }

func (b *Snoozed) check(*Event) error { return inRange(Writable(b.AvailableAt)) }

func (b *Checkpointed) check(*Event) error {
	if b.Checkpoint == nil {
		return fmt.Errorf("it has no checkpoint")
	}
	return nil
}

func (b *Replayed) check(*Event) error {
	return inRange(b.Priority <= MaxPriority && Writable(b.OrderAt))
}

func (b *Rescheduled) check(*Event) error {
	return inRange(b.Priority <= MaxPriority && Writable(b.OrderAt, b.AvailableAt, b.Limit))
}

func (b *CircuitOpened) check(*Event) error { return inRange(Writable(b.Until)) }

func (b *Paused) check(*Event) error { return inRange(Writable(b.Until)) }

func (b *ScheduleSet) check(*Event) error {
	s := &b.Schedule
	if _, err := ParseScheduleName(s.Name); err != nil {
		return err
	}
	return inRange(Writable(s.Anchor, s.Next, s.LastTick) && (s.Priority == nil || *s.Priority <= MaxPriority))
}

func (b *ScheduleRemoved) check(*Event) error {
	_, err := ParseScheduleName(b.Name)
	return err
}

func (b *NamespaceSet) check(*Event) error {
	if err := CheckOtherNamespace(b.Namespace.Name); err != nil {
		return err
	}
	return inRange(Writable(b.Namespace.CreatedAt))
}

func (b *NamespaceRemoved) check(*Event) error { return CheckOtherNamespace(b.Name) }

func (b *ScheduleFired) check(*Event) error {
	if _, err := ParseScheduleName(b.Name); err != nil {
		return err
	}
	return inRange(Writable(b.Tick, b.Next) && !b.Tick.IsZero())
}

// check reports what can't have been carried.
func (b *Carried) check(e *Event) error {
	if b.Part < 1 || b.Part > b.Parts || (b.Part == 1) != (b.Item != nil) {
		return fmt.Errorf("it is part %d of %d", b.Part, b.Parts)
	}
	if b.Item != nil && (b.Item.ID != e.ID || b.Item.Type != e.Type) {
		return fmt.Errorf("it carries another item, %s", b.Item.ID)
	}
	return nil
}

// plain reports whether s stands in JSON as it is, between quotes.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// Writable reports whether RFC 3339 has room for the times, in UTC.
func Writable(times ...time.Time) bool {
	for _, t := range times {
		if !quickjson.Writable(t) {
			return false
		}
	}
	return true
}

func writableRates(taken []RateTaken) bool {
	for _, r := range taken {
		if !Writable(r.TAT) {
			return false
		}
	}
	return true
}

// Count is a number with its noun: "1 item", "2 items".
func Count[T ~int | ~int64 | ~uint32](n T, noun string) string {
	text := strconv.FormatInt(int64(n), 10) + " " + noun
	if n != 1 {
		text += "s"
	}
	return text
}
