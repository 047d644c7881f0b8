package events

import (
	"fmt"
	"time"
)

// check reports what no event of ours can look like: what is missing for its
// kind, and what could not be encoded again.
func (e *Event) Check() error {
	switch {
	case e.Kind <= KindReplayed && e.ID.IsZero():
		return fmt.Errorf("it has no id")
	case (e.Kind <= KindReplayed || e.Kind == KindTypeConfigured || e.Kind == KindTypeForgotten) && e.Type == "":
		return fmt.Errorf("it has no type")
	case (e.Kind == KindPaused || e.Kind == KindResumed) && e.Type == "", e.ofCircuit() && (e.Type == "") == (e.Worker == ""):
		return fmt.Errorf("it names no type, or not one of a type and a worker")
	case (e.Kind == KindDrainSet || e.Kind == KindDrainEnded) && (e.Worker == "" || e.Type != ""):
		return fmt.Errorf("it names no worker, or a type")
	case (e.Kind == KindCarried || e.Kind == KindPruned) && (e.ID.IsZero() || e.Type == ""):
		return fmt.Errorf("it has no id or no type")
	case len(e.Type) > MaxTypeLen || !plain(string(e.Type)):
		return fmt.Errorf("%q is no type", Clip(string(e.Type), 80))
	case len(e.Worker) > MaxWorkerIDLen || !plain(string(e.Worker)):
		return fmt.Errorf("%q is no worker id", Clip(string(e.Worker), 140))
	case e.Attempt < 0:
		return fmt.Errorf("attempt %d", e.Attempt)
	case !Writable(e.At):
		return fmt.Errorf("its time is out of range")
	}
	ok := true
	switch b := e.Body.(type) {
	case *Created:
		if b.Params == nil {
			return fmt.Errorf("it has no params")
		}
		ok = b.Priority <= MaxPriority && Writable(b.AvailableAt, b.IdempotencyUntil, b.MsgIDUntil) &&
			(b.Terms == nil || Writable(b.ExpiresAt) && writableRates(b.Rates))
	case *Queued:
		ok = Writable(b.OrderAt, b.AvailableAt) && b.JitterMS >= 0 && b.TimeoutMS >= 0
	case *CircuitOpened:
		ok = Writable(b.Until)
	case *Paused:
		ok = Writable(b.Until)
	case *Claimed:
		ok = Writable(b.StartBy, b.DeliveredAt) && writableRates(b.Rates)
	case *Running:
		ok = Writable(b.Deadline)
	case *Snoozed:
		ok = Writable(b.AvailableAt)
	case *Checkpointed:
		if b.Checkpoint == nil {
			return fmt.Errorf("it has no checkpoint")
		}
	case *ScheduleSet, *ScheduleRemoved, *ScheduleFired:
		return checkSchedule(b)
	case *Replayed:
		ok = b.Priority <= MaxPriority && Writable(b.OrderAt)
	case *Carried:
		return b.check(e.ID, e.Type)
	case *Rescheduled:
		ok = b.Priority <= MaxPriority && Writable(b.OrderAt, b.AvailableAt)
	}
	if !ok {
		return fmt.Errorf("a time or a priority is out of range")
	}
	return nil
}

// ofCircuit reports whether the event is of a circuit.
func (e *Event) ofCircuit() bool {
	return e.Kind == KindCircuitOpened || e.Kind == KindCircuitHalfOpened || e.Kind == KindCircuitClosed
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
func Writable(times ...time.Time) bool {
	for _, t := range times {
		if y := t.UTC().Year(); y < 0 || y > 9999 {
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
