package events

import (
	"fmt"
	"time"
)

// Bounds of a schedule.
const (
	MaxScheduleText   = 256      // bytes of a cron expression, and of a zone's name
	MaxScheduleParams = 64 << 10 // bytes: all schedules are in memory
	MinEvery          = time.Second
)

// Where the items of schedules come from: their provenance's source (its
// trigger is the schedule's name), and the label that has the tick.
const (
	SourceSchedule = "schedule"
	LabelTick      = "schedule_tick"
)

// MissedPolicy says what becomes of ticks that nobody could answer in time.
type MissedPolicy string

// The policies for missed ticks; the empty one means MissedOne.
const (
	MissedSkip MissedPolicy = "skip" // they are left out, but for one that is only just past
	MissedOne  MissedPolicy = "one"  // one item for all of them
	MissedAll  MissedPolicy = "all"  // an item for each, up to a bound
)

// ParseScheduleName checks a schedule's name, which follows the rules of a
// type's.
func ParseScheduleName(s string) (string, error) {
	if len(s) > MaxTypeLen || !words(s, "_-") {
		return "", fmt.Errorf("%q is no name of a schedule: use at most %d characters of a-z and 0-9, with single - or _ between them", Clip(s, 80), MaxTypeLen)
	}
	return s, nil
}

// SchedulesKey is the dedup key of a schedule's items, unless its overlap is
// distinct.
func SchedulesKey(name string) string { return SourceSchedule + ":" + name }

// SameTiming reports whether two schedules have the same ticks.
func (s *Schedule) SameTiming(o *Schedule) bool {
	return s.Cron == o.Cron && s.Every == o.Every && s.Zone == o.Zone && s.Anchor.Equal(o.Anchor)
}

// WithDefaults fills in what is not set.
func (s Schedule) WithDefaults() Schedule {
	if s.Missed == "" {
		s.Missed = MissedOne
	}
	if s.Overlap == "" {
		s.Overlap = DedupDistinct
	}
	return s
}

// Validate checks all that needs no time zone: that the expression and the zone
// can be read is for whoever computes the ticks. It expects the defaults to be
// filled in. Its errors are of type [*Error].
func (s Schedule) Validate() error {
	if _, err := ParseScheduleName(s.Name); err != nil {
		return Refuse(CodeBadRequest, "%v", err)
	}
	if _, err := ParseType(string(s.Type)); err != nil {
		return Refuse(CodeBadType, "schedule %s: %v", s.Name, err)
	}
	if err := s.CheckTiming(); err != nil {
		return err
	}
	switch s.Missed {
	case MissedSkip, MissedOne, MissedAll:
	default:
		return s.bad("missed is %q: it must be skip, one or all", Clip(string(s.Missed), 64))
	}
	switch s.Overlap {
	case DedupDistinct, DedupMerge, DedupDefer, DedupSupersede:
	default:
		return s.bad("overlap is %q: it must be distinct, merge, defer or supersede", Clip(string(s.Overlap), 64))
	}
	if s.Source != SourceFile && s.Source != SourceAPI {
		return s.bad("%q is no source: use %s or %s", Clip(s.Source, 64), SourceFile, SourceAPI)
	}
	return s.checkItem()
}

func (s *Schedule) bad(format string, args ...any) error {
	said := fmt.Sprintf(format, args...)
	if s.Name != "" {
		said = "schedule " + s.Name + ": " + said
	}
	return Refuse(CodeBadRequest, "%s", said)
}

// CheckTiming checks what a schedule says of its ticks; whether the expression and
// the zone can be read is known elsewhere (internal/cron).
func (s *Schedule) CheckTiming() error {
	switch {
	case (s.Cron == "") == s.Every.IsZero():
		return s.bad("give either cron or every_ms")
	case len(s.Cron) > MaxScheduleText || len(s.Zone) > MaxScheduleText || !plain(s.Zone):
		return s.bad("cron and zone must have at most %d bytes each", MaxScheduleText)
	case !s.Every.IsZero() && (s.Every.Duration < MinEvery || s.Every.Duration > MaxDelay):
		return s.bad("every_ms is %d: it must be %s to %s", s.Every.Milliseconds(), MinEvery, MaxDelay)
	case !s.Every.IsZero() && s.Zone != "":
		return s.bad("an interval goes by real time: leave the zone out")
	case s.Every.IsZero() && !s.Anchor.IsZero():
		return s.bad("an anchor is for an interval: leave it out")
	case !s.Anchor.IsZero() && (s.Anchor.Year() < 1970 || s.Anchor.Year() > 2200):
		return s.bad("the anchor %s is out of range: choose a year from 1970 to 2200", s.Anchor.UTC().Format(time.RFC3339))
	}
	_, err := CheckText("cron", s.Cron, MaxScheduleText)
	return err
}

// checkItem checks the parts of the items that are known in advance.
func (s *Schedule) checkItem() error {
	if s.Priority != nil && *s.Priority > MaxPriority {
		return BadPriority(*s.Priority)
	}
	if s.MaxAttempts < 0 || s.MaxAttempts > MaxAttemptsCeiling {
		return s.bad("max_attempts is %d: it must be 1 to %d, or left out", s.MaxAttempts, MaxAttemptsCeiling)
	}
	if s.Timeout.Duration < 0 || s.Timeout.Duration > MaxTimeout {
		return s.bad("the timeout is %d ms: it must be 1 ms to %s, or left out", s.Timeout.Milliseconds(), MaxTimeout)
	}
	if _, err := CheckText("tenant", s.Tenant, MaxNameLen); err != nil {
		return err
	}
	if _, has := s.Labels[LabelTick]; has {
		return s.bad("the label %s is the engine's: choose another name", LabelTick)
	}
	if len(s.Labels) >= MaxLabels {
		return Refuse(CodeTooLarge, "schedule %s has %d labels: at most %d", s.Name, len(s.Labels), MaxLabels-1)
	}
	if _, err := CheckLabels(s.Labels); err != nil {
		return err
	}
	_, err := CheckDocument("the params document", s.Params, MaxScheduleParams, "store it elsewhere and have the schedule submit a reference to it")
	return err
}
