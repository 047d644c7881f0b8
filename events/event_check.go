package events

import (
	"fmt"
	"time"
)

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
	}
	switch {
	case len(e.Type) > MaxTypeLen || !plain(string(e.Type)):
		return fmt.Errorf("invalid type %q", Clip(string(e.Type), 80))
	case len(e.Worker) > MaxWorkerIDLen || !plain(string(e.Worker)):
		return fmt.Errorf("invalid worker id %q", Clip(string(e.Worker), 140))
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
		(b.Terms == nil || Writable(b.ExpiresAt) && writableRates(b.Rates)))
}

func (b *Queued) check(*Event) error {
	return inRange(Writable(b.OrderAt, b.AvailableAt) && b.JitterMS >= 0 && b.TimeoutMS >= 0)
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
	return inRange(b.Priority <= MaxPriority && Writable(b.OrderAt, b.AvailableAt))
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
