package streamwright

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/streamwright/streamwright/events"
)

// Settings are settings of a type to change. Nil fields stay as they are; new(20) sets
// one. A field that is a struct or a slice replaces what was there as a whole, and an
// empty slice removes it; the entries of a map are added to those that are there. What
// each does, its bounds and its default are those of the same setting in engine.toml.
// Durations are rounded up to milliseconds.
type Settings struct {
	Capacity      *int                     `json:"capacity"`
	Lease         *time.Duration           `json:"lease_ms"`
	Timeout       *time.Duration           `json:"timeout_ms"`
	MaxAttempts   *int                     `json:"max_attempts"`
	Backoff       *Backoff                 `json:"backoff"`
	AgeStep       *time.Duration           `json:"age_step_ms"`
	MaxParams     *int                     `json:"max_params_bytes"`
	PerPriority   map[int]PriorityOverride `json:"per_priority"` // 0 to 9
	DedupPolicy   *DedupPolicy             `json:"dedup_policy"`
	DedupWindow   *time.Duration           `json:"dedup_window_ms"`
	Codes         map[string]CodePolicy    `json:"codes"` // by the code of a failure
	PoisonAfter   *int                     `json:"poison_after"`
	Circuit       *CircuitSettings         `json:"circuit"`
	MaxQueued     *int                     `json:"max_queued"`
	QueueSteps    []QueueStep              `json:"queue_steps"`
	Rates         []RateLimit              `json:"rates"`
	Pool          *string                  `json:"pool"`
	PoolWeight    *int                     `json:"pool_weight"`
	GroupBy       *string                  `json:"group_by"`
	GroupCapacity *int                     `json:"group_capacity"`
	Retain        *ItemRetention           `json:"retain"`
	Protocol      *Protocol                `json:"protocol"`
	AssignBy      *string                  `json:"assign_by"`
}

// Backoff sets the wait before a retry: Initial × Factor^(attempt-1), at most Max,
// lengthened by up to Jitter (a fraction of it).
type Backoff struct {
	Initial time.Duration `json:"initial_ms"`
	Factor  float64       `json:"factor"`
	Max     time.Duration `json:"max_ms"`
	Jitter  float64       `json:"jitter"`
}

// CircuitSettings say when a circuit opens and how it closes again. With neither
// Consecutive nor Ratio there is no circuit; of the others, 0 is the default.
type CircuitSettings struct {
	Consecutive  int           `json:"consecutive"` // failures in a row that open it
	Ratio        float64       `json:"ratio"`       // share of failures in the window that opens it
	Window       time.Duration `json:"window_ms"`
	MinRuns      int           `json:"min_runs"`        // in the window, before the ratio counts
	Cooldown     time.Duration `json:"cooldown_ms"`     // open for so long, doubled each time in a row
	MaxCooldown  time.Duration `json:"max_cooldown_ms"` // up to this
	Probes       int           `json:"probes"`          // runs at once that try a half-open one, and successes that close it
	CountNoRetry bool          `json:"count_no_retry"`  // failures that are not retried count too
}

// RateLimit lets N items through per Interval, and up to Burst at once. Unless Burst
// is set, a limit at submit lets N through at once, and one at dispatch never lets more
// than N begin in any Interval.
type RateLimit struct {
	Per      string        `json:"per"` // type, tenant, or label:NAME
	At       string        `json:"at"`  // submit, dispatch
	N        int           `json:"n"`
	Interval time.Duration `json:"interval_ms"`
	Burst    int           `json:"burst"` // 0: not set
}

// QueueStep narrows what is accepted as a queue grows: where more than Over items would
// wait, it admits only items of MinPriority and above (0: of no priority), or from one of
// Sources. The last step that is exceeded counts.
type QueueStep struct {
	Over        int      `json:"over"`
	MinPriority int      `json:"min_priority"` // 0 to 9
	Sources     []string `json:"sources"`
}

// CodePolicy says how failures with one code are retried. Zero fields follow the type.
type CodePolicy struct {
	NoRetry       bool          `json:"no_retry"`
	MaxAttempts   int           `json:"max_attempts"`
	DelayFactor   float64       `json:"delay_factor"`   // of the backoff
	TimeoutFactor float64       `json:"timeout_factor"` // by which the item's timeout grows
	TimeoutMax    time.Duration `json:"timeout_max_ms"` // up to this
}

// PriorityOverride holds the settings that a priority has of its own. Nil fields follow
// the type.
type PriorityOverride struct {
	Timeout     *time.Duration `json:"timeout_ms"`
	MaxAttempts *int           `json:"max_attempts"`
	Backoff     *Backoff       `json:"backoff"`
}

// ItemRetention says how long items are kept once they have ended. Zero fields have the
// defaults.
type ItemRetention struct {
	Completed time.Duration `json:"completed_ms"`
	Dead      time.Duration `json:"dead_ms"`
	Cancelled time.Duration `json:"cancelled_ms"`
	Merged    time.Duration `json:"merged_ms"`
}

// patch returns the settings as the engine takes them: those that are not nil, with every
// field of a struct, so that one that is zero is set as well.
func (s Settings) patch() (json.RawMessage, error) { return json.Marshal(setting(reflect.ValueOf(s))) }

// setting returns a value of settings as JSON has it. Of a struct it leaves out fields that
// are nil.
func setting(v reflect.Value) any {
	if v.Type() == reflect.TypeFor[time.Duration]() {
		return events.DurationOf(time.Duration(v.Int()))
	}
	switch v.Kind() {
	case reflect.Pointer:
		return setting(v.Elem())
	case reflect.Struct:
		set := map[string]any{}
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			switch f := v.Field(i); f.Kind() {
			case reflect.Pointer, reflect.Map, reflect.Slice:
				if !f.IsNil() {
					set[name] = setting(f)
				}
			default:
				set[name] = setting(f)
			}
		}
		return set
	case reflect.Map:
		set := map[string]any{}
		for key, value := range v.Seq2() {
			set[fmt.Sprint(key)] = setting(value)
		}
		return set
	case reflect.Slice:
		list := make([]any, v.Len())
		for i := range list {
			list[i] = setting(v.Index(i))
		}
		return list
	}
	return v.Interface()
}
