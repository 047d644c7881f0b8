package events

import (
	"fmt"
	"time"
)

// check reports what no event of ours can look like: what is missing for its
// kind, and what could not be encoded again.
func (e *Event) check() error {
	switch {
	case e.Kind <= KindReplayed && e.ID.IsZero():
		return fmt.Errorf("it has no id")
	case (e.Kind <= KindReplayed || e.Kind == KindTypeConfigured) && e.Type == "":
		return fmt.Errorf("it has no type")
	case (e.Kind == KindCarried || e.Kind == KindPruned) && (e.ID.IsZero() || e.Type == ""):
		return fmt.Errorf("it has no id or no type")
	case len(e.Type) > MaxTypeLen || !plain(string(e.Type)):
		return fmt.Errorf("%q is no type", clip(string(e.Type), 80))
	case len(e.Worker) > MaxWorkerIDLen || !plain(string(e.Worker)):
		return fmt.Errorf("%q is no worker id", clip(string(e.Worker), 140))
	case e.Attempt < 0:
		return fmt.Errorf("attempt %d", e.Attempt)
	case !writable(e.At):
		return fmt.Errorf("its time is out of range")
	}
	ok := true
	switch b := e.Body.(type) {
	case *Created:
		if b.Params == nil {
			return fmt.Errorf("it has no params")
		}
		ok = b.Priority <= MaxPriority && writable(b.AvailableAt, b.IdempotencyUntil, b.MsgIDUntil)
	case *Queued:
		ok = writable(b.OrderAt, b.AvailableAt)
	case *Claimed:
		ok = writable(b.StartBy)
	case *Running:
		ok = writable(b.Deadline)
	case *Replayed:
		ok = b.Priority <= MaxPriority && writable(b.OrderAt)
	case *Carried:
		return b.check(e.ID, e.Type)
	case *Rescheduled:
		ok = b.Priority <= MaxPriority && writable(b.OrderAt, b.AvailableAt)
	}
	if !ok {
		return fmt.Errorf("a time or a priority is out of range")
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

// writable reports whether RFC 3339 has room for the times, in UTC.
func writable(times ...time.Time) bool {
	for _, t := range times {
		if y := t.UTC().Year(); y < 0 || y > 9999 {
			return false
		}
	}
	return true
}
