package events

import (
	"encoding/json"
	"time"
)

// Paused is the payload of paused: items of the type are not run. One of a type
// that is paused says what holds from here on.
type Paused struct {
	Reason string    `json:"reason,omitempty"`
	By     string    `json:"by,omitempty"`
	Until  time.Time `json:"until,omitzero"` // when it ends by itself; zero: never
}

// Resumed is the payload of resumed.
type Resumed struct {
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"` // until: its time has come; empty: somebody has ended it
}

// Pause records that a type is paused.
type Pause struct {
	At     time.Time `json:"at"`
	Reason string    `json:"reason,omitempty"`
	By     string    `json:"by,omitempty"`
	Until  time.Time `json:"until,omitzero"` // when it ends by itself; zero: never
	// UntilSet is the time of the last change of Until; zero: none since the pause began.
	UntilSet time.Time `json:"until_set,omitzero"`
}

// CircuitOpened is the payload of circuit_opened, of the event's type, or of
// its worker if it has one.
type CircuitOpened struct {
	Reason string    `json:"reason"` // consecutive, ratio, probe
	Until  time.Time `json:"until"`
	Opens  int       `json:"opens"` // in a row, with no success between
	Failed int       `json:"failed"`
	Of     int       `json:"of"`
}

// CircuitHalfOpened is the payload of circuit_half_opened: some runs may try.
type CircuitHalfOpened struct {
	Probes int `json:"probes"`
}

// CircuitClosed is the payload of circuit_closed.
type CircuitClosed struct {
	Reason string `json:"reason"` // probes, reset, configured
}

// ScheduleSet is the payload of schedule_set: the schedule from here on.
type ScheduleSet struct {
	Schedule Schedule `json:"schedule"`
}

// ScheduleRemoved is the payload of schedule_removed.
type ScheduleRemoved struct {
	Name   string `json:"name"`
	Source string `json:"source"`
}

// ScheduleFired is the payload of schedule_fired: a tick has been answered. The
// events of the item that it makes, if any, follow in the same decision.
type ScheduleFired struct {
	Name    string    `json:"name"`
	Tick    time.Time `json:"tick"`
	Next    time.Time `json:"next,omitzero"`
	Item    ID        `json:"item,omitzero"`     // zero: the tick was skipped, or its submission refused
	Skipped int       `json:"skipped,omitempty"` // ticks that were missed and are not made up for
	Code    Code      `json:"code,omitempty"`    // why the submission was refused
	Error   string    `json:"error,omitempty"`
}

// Schedule is periodic work.
type Schedule struct {
	Name        string            `json:"name"`
	Type        Type              `json:"type"`
	Cron        string            `json:"cron,omitempty"`    // five fields, or @hourly and the like
	Every       Duration          `json:"every_ms,omitzero"` // instead of Cron
	Anchor      time.Time         `json:"anchor,omitzero"`   // with Every: a tick, from which the others are counted
	Zone        string            `json:"zone,omitempty"`    // IANA; empty: UTC
	Missed      MissedPolicy      `json:"missed"`
	Overlap     DedupPolicy       `json:"overlap"` // what becomes of a tick whose previous item has not ended; distinct: both run
	Params      json.RawMessage   `json:"params,omitempty"`
	Priority    *Priority         `json:"priority,omitempty"`
	Tenant      string            `json:"tenant,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	MaxAttempts Attempt           `json:"max_attempts,omitempty"`
	Timeout     Duration          `json:"timeout_ms,omitzero"`
	Source      string            `json:"source"` // file, api
	Paused      bool              `json:"paused,omitempty"`
	Next        time.Time         `json:"next,omitzero"` // the tick that is due next; zero: none
	LastTick    time.Time         `json:"last_tick,omitzero"`
	LastItem    ID                `json:"last_item,omitzero"`
	LastCode    Code              `json:"last_code,omitempty"` // why the last tick has no item, if its submission was refused
	LastError   string            `json:"last_error,omitempty"`
}

// CauseNoted is the payload of cause_noted: items die of something new, or of
// something that grows fast.
type CauseNoted struct {
	Cause   string `json:"cause"`            // see [policy.CauseOf]
	Why     string `json:"why"`              // new, growing
	Count   int64  `json:"count"`            // deaths of it, in all
	Window  int64  `json:"window,omitempty"` // and in the window
	Reason  string `json:"reason"`
	Code    string `json:"code,omitempty"`
	Error   string `json:"error,omitempty"`
	Example ID     `json:"example"`
}

func (*Paused) Kind() Kind            { return KindPaused }
func (*Resumed) Kind() Kind           { return KindResumed }
func (*CircuitOpened) Kind() Kind     { return KindCircuitOpened }
func (*CircuitHalfOpened) Kind() Kind { return KindCircuitHalfOpened }
func (*CircuitClosed) Kind() Kind     { return KindCircuitClosed }
func (*ScheduleSet) Kind() Kind       { return KindScheduleSet }
func (*ScheduleRemoved) Kind() Kind   { return KindScheduleRemoved }
func (*ScheduleFired) Kind() Kind     { return KindScheduleFired }
func (*CauseNoted) Kind() Kind        { return KindCauseNoted }

// Why a cause_noted says that it does.
const (
	CauseNew     = "new"     // the first death of this cause, or the first since it was forgotten
	CauseGrowing = "growing" // CauseGrowth deaths in a window, or a power of ten more
)

// The reasons of circuit_opened and circuit_closed.
const (
	ReasonConsecutive = "consecutive" // so many failures in a row
	ReasonRatio       = "ratio"       // so many failures in the window
	ReasonProbe       = "probe"       // a run that tried it has failed
	ReasonProbes      = "probes"      // enough runs that tried it have succeeded
	ReasonReset       = "reset"       // by an operator
	ReasonConfigured  = "configured"  // it was switched off
)

// The reasons of drain_ended.
const (
	ReasonUndrained = "undrained" // by an operator
	ReasonLeft      = "left"      // the worker has unregistered
	ReasonUnseen    = "unseen"    // it was not heard of for so long that it won't come back
)

// DrainSet is the payload of drain_set: the event's worker is to finish what it
// runs, and gets nothing new.
type DrainSet struct {
	Reason string `json:"reason,omitempty"`
	By     string `json:"by,omitempty"`
}

// DrainEnded is the payload of drain_ended: the event's worker may have work
// again.
type DrainEnded struct {
	Reason string `json:"reason"` // undrained, left, unseen
	By     string `json:"by,omitempty"`
}

func (*DrainSet) Kind() Kind { return KindDrainSet }

func (*DrainEnded) Kind() Kind { return KindDrainEnded }

// TypeForgotten is the payload of type_forgotten: the event's type has no items,
// and nobody had set anything for it, or it was removed. A later submission makes
// it known again.
type TypeForgotten struct {
	Reason string `json:"reason"` // idle, removed
}

func (*TypeForgotten) Kind() Kind { return KindTypeForgotten }

// The reasons of type_forgotten.
const (
	ReasonIdle    = "idle"    // it has long had no items, or room for other types was needed
	ReasonRemoved = "removed" // by an operator
)

// ReasonUntil is the reason of a resumed whose pause has come to its end.
const ReasonUntil = "until"
