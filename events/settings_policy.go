package events

import (
	"cmp"
	"fmt"
	"time"
)

// Valid reports whether p is empty or one of the policies.
func (p DedupPolicy) Valid() bool {
	switch p {
	case "", DedupMerge, DedupDistinct, DedupSupersede, DedupDefer:
		return true
	}
	return false
}

func (s TypeSettings) validateDedup() (errs []error) {
	if !s.DedupPolicy.Valid() {
		errs = append(errs, fmt.Errorf("dedup_policy is %q: it must be %s, %s, %s or %s", Clip(string(s.DedupPolicy), 64), DedupMerge, DedupDistinct, DedupSupersede, DedupDefer))
	}
	if most := DurationOf(MaxDedupWindow); s.DedupWindow.Duration < 0 || s.DedupWindow.Duration > most.Duration {
		errs = append(errs, fmt.Errorf("dedup_window_ms is %d: it must be 0 to %d (%s)", s.DedupWindow.Milliseconds(), most.Milliseconds(), most))
	}
	return errs
}

// QueueStep narrows what is accepted as a queue grows: where more than Over items
// would wait, it admits only items of MinPriority and above (0: of no priority), or
// from one of Sources ([Provenance].Source). The last step that is exceeded counts.
type QueueStep struct {
	Over        int      `json:"over"`
	MinPriority Priority `json:"min_priority,omitempty"`
	Sources     []string `json:"sources,omitempty"`
}

// CodePolicy says how failures with one code are retried. Zero fields follow the
// type.
type CodePolicy struct {
	NoRetry       bool     `json:"no_retry,omitempty"`
	MaxAttempts   Attempt  `json:"max_attempts,omitempty"`
	DelayFactor   float64  `json:"delay_factor,omitempty"`   // of the backoff
	TimeoutFactor float64  `json:"timeout_factor,omitempty"` // by which the item's timeout grows
	TimeoutMax    Duration `json:"timeout_max_ms,omitzero"`  // up to this
}

// CircuitSettings say when a circuit opens and how it closes again. Zero
// fields have the defaults of [CircuitSettings.WithDefaults]; with neither
// Consecutive nor Ratio there is no circuit.
type CircuitSettings struct {
	Consecutive  int      `json:"consecutive,omitempty"` // failures in a row that open it
	Ratio        float64  `json:"ratio,omitempty"`       // share of failures in the window that opens it
	Window       Duration `json:"window_ms,omitzero"`
	MinRuns      int      `json:"min_runs,omitempty"`       // in the window, before the ratio counts
	Cooldown     Duration `json:"cooldown_ms,omitzero"`     // open for so long, doubled each time in a row
	MaxCooldown  Duration `json:"max_cooldown_ms,omitzero"` // up to this
	Probes       int      `json:"probes,omitempty"`         // runs at once that try a half-open one, and successes that close it
	CountNoRetry bool     `json:"count_no_retry,omitempty"` // failures that are not retried count too
}

// RateLimit lets N through per interval, and up to Burst at once. Unless Burst
// is set, a limit at submit lets N through at once, and one at dispatch never
// lets more than N begin in any interval.
type RateLimit struct {
	Per      string   `json:"per"` // type, tenant, or label:NAME
	At       string   `json:"at"`  // submit, dispatch
	N        int      `json:"n"`
	Interval Duration `json:"interval_ms"`
	Burst    int      `json:"burst,omitempty"` // 0: not set
}

// Retention says how long items are kept once they have ended. Zero fields have
// the defaults.
type Retention struct {
	Completed Duration `json:"completed_ms,omitzero"`
	Dead      Duration `json:"dead_ms,omitzero"`
	Cancelled Duration `json:"cancelled_ms,omitzero"`
	Merged    Duration `json:"merged_ms,omitzero"`
}

// Pool is slots that types share.
type Pool struct {
	Slots int `json:"slots"`
}

// Limits are the settings of the engine as a whole that decisions look at. They
// come from its configuration, not from the log: what they make of a command is
// recorded.
type Limits struct {
	MaxQueued     int         // items queued or waiting, over all types; 0: no limit
	QueueSteps    []QueueStep // of them
	Pools         map[string]Pool
	WorkerCircuit CircuitSettings
	Types         map[Type]bool // that may be submitted; nil: any
	// StartTimeout is from a claim without a start to the start; 0: StartWithin.
	// The claim records when it ends.
	StartTimeout time.Duration
}

// Bounds of Limits.StartTimeout.
const (
	MinStartTimeout = 100 * time.Millisecond
	MaxStartTimeout = time.Hour
)

// TimeToStart returns how long a claimed item has to start.
func (l *Limits) TimeToStart() time.Duration { return cmp.Or(l.StartTimeout, StartWithin) }
