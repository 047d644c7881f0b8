package events

import (
	"fmt"
	"time"
)

// How long ended items are kept where nothing is set.
const (
	DefaultRetain     = 24 * time.Hour
	DefaultRetainDead = 30 * 24 * time.Hour
)

// For is how long an item is kept once it has ended in a terminal state.
func (r Retention) For(state ItemState) time.Duration {
	ms, def := r.CompletedMS, DefaultRetain
	switch state {
	case StateDead:
		ms, def = r.DeadMS, DefaultRetainDead
	case StateCancelled:
		ms = r.CancelledMS
	case StateMerged:
		ms = r.MergedMS
	}
	if ms == 0 {
		return def
	}
	return time.Duration(ms) * time.Millisecond
}

func (r Retention) validate() (errs []error) {
	for _, f := range []struct {
		name string
		ms   int64
	}{{"completed_ms", r.CompletedMS}, {"dead_ms", r.DeadMS}, {"cancelled_ms", r.CancelledMS}, {"merged_ms", r.MergedMS}} {
		if most := MaxDelay.Milliseconds(); f.ms < 0 || f.ms > most {
			errs = append(errs, fmt.Errorf("retain.%s is %d: it must be 1 to %d, or 0 for the default", f.name, f.ms, most))
		}
	}
	return errs
}
