package policy

import (
	"slices"
	"time"

	"github.com/streamwright/streamwright/events"
)

// Counts reports whether a failure speaks against the type: one that is not
// retried is the item's own, unless the settings say otherwise.
func Counts(c events.CircuitSettings, f *events.Failed) bool { return f.Retryable || c.CountNoRetry }

// TriedBy reports whether the circuit is half open and the item's run tries it.
// A nil circuit is closed.
func TriedBy(c *events.Circuit, it *events.Item) bool {
	return c != nil && c.State == events.CircuitHalfOpen && slices.Contains(c.Trying, it.ID)
}

// FoldCircuit returns the circuit after one of its own events; false if that can't
// have been decided.
func FoldCircuit(c events.Circuit, ev events.Event) (events.Circuit, bool) {
	switch b := ev.Body.(type) {
	case *events.CircuitOpened:
		return opened(c, b, ev.At), c.State != events.CircuitOpen
	case *events.CircuitHalfOpened:
		return halfOpened(c, ev.At), c.State == events.CircuitOpen
	case *events.CircuitClosed:
		return closed(c, ev.At), c.State != events.CircuitShut
	}
	return c, false
}

// RunEnded returns the circuit after a run has ended. probe says that the run was a
// trial of the circuit. Only trials count while it is not closed: a run that began
// before it opened says nothing about its present health.
func RunEnded(c events.Circuit, set events.CircuitSettings, at time.Time, failed, probe bool) events.Circuit {
	if failed {
		c.LastAt = at
	}
	switch {
	case c.State == events.CircuitHalfOpen && probe && !failed:
		c.Succeeded++
	case c.State != events.CircuitShut:
	case failed:
		c.Consecutive++
		roll(&c, set, at)
		c.Ended[1]++
		c.Failed[1]++
	default:
		c.Consecutive = 0
		roll(&c, set, at)
		c.Ended[1]++
	}
	return c
}

// roll brings the window to a time.
func roll(c *events.Circuit, set events.CircuitSettings, at time.Time) {
	half := set.WithDefaults().Window.Duration / 2
	switch past := at.Sub(c.WindowAt); {
	case c.WindowAt.IsZero() || past >= 2*half:
		c.WindowAt, c.Ended, c.Failed = at, [2]int{}, [2]int{}
	case past >= half:
		c.WindowAt = c.WindowAt.Add(half)
		c.Ended, c.Failed = [2]int{c.Ended[1], 0}, [2]int{c.Failed[1], 0}
	}
}

// Trips returns why a closed circuit opens, with how many runs have failed of how
// many; an empty reason if it does not.
func Trips(c events.Circuit, set events.CircuitSettings) (reason string, failed, of int) {
	set = set.WithDefaults()
	ended := c.Ended[0] + c.Ended[1]
	bad := c.Failed[0] + c.Failed[1]
	switch {
	case set.Consecutive > 0 && c.Consecutive >= set.Consecutive:
		return events.ReasonConsecutive, c.Consecutive, c.Consecutive
	case set.Ratio > 0 && ended >= set.MinRuns && float64(bad) >= set.Ratio*float64(ended):
		return events.ReasonRatio, bad, ended
	}
	return "", 0, 0
}

// opened returns the circuit after circuit_opened.
func opened(c events.Circuit, b *events.CircuitOpened, at time.Time) events.Circuit {
	c = Cleared(c)
	c.State, c.At, c.Reason, c.Until, c.Opens = events.CircuitOpen, at, b.Reason, b.Until, b.Opens
	return c
}

// halfOpened returns the circuit after circuit_half_opened.
func halfOpened(c events.Circuit, at time.Time) events.Circuit {
	c = Cleared(c)
	c.State, c.At, c.Until = events.CircuitHalfOpen, at, time.Time{}
	return c
}

// closed returns the circuit after circuit_closed.
func closed(c events.Circuit, at time.Time) events.Circuit {
	c = Cleared(c)
	c.State, c.At, c.Reason, c.Until, c.Opens = events.CircuitShut, at, "", time.Time{}, 0
	return c
}

// Cleared returns the circuit with nothing counted, as each state begins. The runs
// that try it are still under way.
func Cleared(c events.Circuit) events.Circuit {
	c.Consecutive, c.WindowAt, c.Ended, c.Failed, c.Succeeded = 0, time.Time{}, [2]int{}, [2]int{}, 0
	c.Since, c.Items = 0, nil
	return c
}

// WorkerFailed returns a worker's closed circuit after an item has failed. An item
// counts once, and beyond MaxWorkerFailures none is remembered.
func WorkerFailed(c events.Circuit, id events.ID, seq events.Seq, at time.Time) events.Circuit {
	c.LastAt = at
	if len(c.Items) == 0 {
		c.Since = seq
	}
	if len(c.Items) < events.MaxWorkerFailures && !slices.Contains(c.Items, id) {
		c.Items = append(slices.Clone(c.Items), id)
	}
	c.Consecutive = len(c.Items)
	return c
}

// Tries adds a run that tries the worker's circuit.
func Tries(c events.Circuit, id events.ID) events.Circuit {
	c.Trying = append(slices.Clone(c.Trying), id)
	c.Probing = len(c.Trying)
	return c
}

// TriesNoMore takes such a run out.
func TriesNoMore(c events.Circuit, id events.ID) events.Circuit {
	c.Trying = slices.DeleteFunc(slices.Clone(c.Trying), func(x events.ID) bool { return x == id })
	if len(c.Trying) == 0 {
		c.Trying = nil
	}
	c.Probing = len(c.Trying)
	return c
}

// SetBack returns the circuit after the clock was set back to before its last
// change; false if that changes nothing.
func SetBack(c events.Circuit, at time.Time) (events.Circuit, bool) {
	if !c.At.After(at) && !c.WindowAt.After(at) && !c.LastAt.After(at) {
		return c, false
	}
	if c.At.After(at) {
		if !c.Until.IsZero() {
			c.Until = at.Add(max(c.Until.Sub(c.At), 0))
		}
		c.At = at
	}
	c.WindowAt, c.LastAt = earlier(c.WindowAt, at), earlier(c.LastAt, at)
	return c, true
}

// Cooldown returns how long the circuit stays open the n-th time in a row.
func Cooldown(c events.CircuitSettings, opens int) time.Duration {
	c = c.WithDefaults()
	d, most := c.Cooldown.Duration, c.MaxCooldown.Duration
	for n := 1; n < opens && d < most; n++ {
		d *= 2
	}
	return min(d, most)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
