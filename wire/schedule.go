package wire

import (
	"encoding/json"
	"time"

	"github.com/streamwright/streamwright/events"
)

// Schedule sets a schedule: periodic work.
type Schedule struct {
	Name        string            `json:"name"` // the schedule's name
	Type        string            `json:"type"`
	Cron        string            `json:"cron,omitempty"`                      // five fields, or @hourly and the like
	Every       events.Duration   `json:"every_ms,omitzero" strict:"positive"` // instead of Cron
	Anchor      time.Time         `json:"anchor,omitzero"`                     // of an interval: one of its ticks; left out: now, or as it was
	Zone        string            `json:"zone,omitempty"`                      // IANA name; left out: UTC
	Missed      string            `json:"missed,omitempty"`                    // skip, one (left out), all
	Overlap     string            `json:"overlap,omitempty"`                   // distinct (left out), merge, defer, supersede
	Params      json.RawMessage   `json:"params,omitempty"`
	Priority    *Priority         `json:"priority,omitempty"`
	Tenant      string            `json:"tenant,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	MaxAttempts int               `json:"max_attempts,omitempty" strict:"positive"`
	Timeout     events.Duration   `json:"timeout_ms,omitzero" strict:"positive"`
	Paused      bool              `json:"paused,omitempty"`
}

// ScheduleInfo is a schedule and its place among its ticks.
type ScheduleInfo struct {
	Schedule
	Source    string           `json:"source"`        // file, api
	Next      time.Time        `json:"next,omitzero"` // left out: no tick will come
	LastTick  time.Time        `json:"last_tick,omitzero"`
	LastItem  string           `json:"last_item,omitempty"`
	LastState events.ItemState `json:"last_state,omitempty"` // of LastItem, while the engine keeps it
	LastError *Error           `json:"last_error,omitempty"` // why the last tick's item was refused
}

// ScheduleName names a schedule to remove, pause or resume.
type ScheduleName struct {
	Name string `json:"name"` // the schedule's name
}

// ScheduleFire asks for an item beside the ticks, answered with a Submitted. ID,
// if given, is the item's: the same request again then gives the same item.
type ScheduleFire struct {
	Name string `json:"name"` // the schedule's name
	ID   string `json:"id,omitempty"`
}

// ScheduleReply answers a change of a schedule; Schedule is left out of the
// answer to a removal.
type ScheduleReply struct {
	Schedule *ScheduleInfo `json:"schedule,omitempty"`
	Repeat   bool          `json:"repeat,omitempty"` // it was so already
	Position Position      `json:"position,omitempty"`
}

// SchedulesReply lists the schedules, by name.
type SchedulesReply struct {
	Schedules []ScheduleInfo `json:"schedules"`
	Position  Position       `json:"position,omitempty"`
	Stale     string         `json:"stale,omitempty"` // as in [Listed]
}

// Bounds of the ticks that a request shows.
const (
	DefaultTicks = 5
	MaxTicks     = 100
)

// Ticks previews the ticks of a timing. It needs no schedule.
type Ticks struct {
	Cron   string          `json:"cron,omitempty"`                      // five fields, or @hourly and the like
	Every  events.Duration `json:"every_ms,omitzero" strict:"positive"` // an interval in milliseconds, in place of cron
	Anchor time.Time       `json:"anchor,omitzero"`                     // one of the interval's ticks; now if left out
	Zone   string          `json:"zone,omitempty"`                      // the time zone of cron, such as Europe/Berlin; UTC if left out
	Count  int             `json:"count,omitempty" strict:"positive"`   // how many: 1 to 100, 5 if left out
}

// TicksReply has the ticks, each with the offset of its time zone. There are fewer
// than asked for where the next is more than ten years after the one before.
type TicksReply struct {
	Ticks []time.Time `json:"ticks"`
}

// FromSchedule is a schedule as queries show it, but for the state of its last
// item.
func FromSchedule(s *events.Schedule) ScheduleInfo {
	out := ScheduleInfo{
		Schedule: Schedule{
			Name: s.Name, Type: string(s.Type), Cron: s.Cron, Every: s.Every, Anchor: s.Anchor, Zone: s.Zone,
			Missed: string(s.Missed), Overlap: string(s.Overlap), Params: s.Params, Tenant: s.Tenant, Labels: s.Labels,
			MaxAttempts: int(s.MaxAttempts), Timeout: s.Timeout, Paused: s.Paused,
		},
		Source: s.Source, Next: s.Next, LastTick: s.LastTick,
	}
	if s.Priority != nil {
		p := Priority(*s.Priority)
		out.Priority = &p
	}
	if !s.LastItem.IsZero() {
		out.LastItem = s.LastItem.String()
	}
	if s.LastCode != "" {
		out.LastError = &Error{Code: s.LastCode, Message: s.LastError}
	}
	return out
}
