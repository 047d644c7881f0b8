package streamwright

import (
	"encoding/json"
	"reflect"
	"strings"
	"time"

	"github.com/streamwright/streamwright/events"
)

// What settings are made of.
type (
	// Backoff is the waits before retries.
	Backoff = events.Backoff
	// CircuitSettings say when a circuit opens and how it closes again.
	CircuitSettings = events.CircuitSettings
	// RateLimit lets N items through per interval.
	RateLimit = events.RateLimit
	// ItemRetention says how long items are kept once they have ended.
	ItemRetention = events.Retention
)

// Settings are settings of a type to change. Nil fields stay as they are; new(20) sets
// one. A field that is a struct or a slice replaces what was there as a whole, and an
// empty slice removes it; the entries of a map are added to those that are there. What
// each does, its bounds and its default are those of the same setting in engine.toml.
type Settings struct {
	Capacity      *int                                        `json:"capacity"`
	Lease         *time.Duration                              `json:"lease_ms"`
	Timeout       *time.Duration                              `json:"timeout_ms"`
	MaxAttempts   *int                                        `json:"max_attempts"`
	Backoff       *Backoff                                    `json:"backoff"`
	AgeStep       *time.Duration                              `json:"age_step_ms"`
	MaxParams     *int                                        `json:"max_params_bytes"`
	PerPriority   map[events.Priority]events.PriorityOverride `json:"per_priority"`
	DedupPolicy   *events.DedupPolicy                         `json:"dedup_policy"`
	DedupWindow   *time.Duration                              `json:"dedup_window_ms"`
	Codes         map[string]events.CodePolicy                `json:"codes"`
	PoisonAfter   *int                                        `json:"poison_after"`
	Circuit       *CircuitSettings                            `json:"circuit"`
	MaxQueued     *int                                        `json:"max_queued"`
	QueueSteps    []events.QueueStep                          `json:"queue_steps"`
	Rates         []RateLimit                                 `json:"rates"`
	Pool          *string                                     `json:"pool"`
	PoolWeight    *int                                        `json:"pool_weight"`
	GroupBy       *string                                     `json:"group_by"`
	GroupCapacity *int                                        `json:"group_capacity"`
	Retain        *ItemRetention                              `json:"retain"`
	Protocol      *events.Protocol                            `json:"protocol"`
	AssignBy      *string                                     `json:"assign_by"`
}

// patch returns the settings as the engine takes them: those that are not nil, with every
// field of a struct, so that one that is zero is set as well.
func (s Settings) patch() (json.RawMessage, error) { return json.Marshal(fields(reflect.ValueOf(s))) }

// fields returns a struct's fields that are not nil, by their names in JSON.
func fields(v reflect.Value) map[string]any {
	set := map[string]any{}
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		f := v.Field(i)
		switch f.Kind() {
		case reflect.Pointer, reflect.Map, reflect.Slice:
			if f.IsNil() {
				continue
			}
		}
		switch x := reflect.Indirect(f); {
		case x.Type() == reflect.TypeFor[time.Duration]():
			set[name] = time.Duration(x.Int()).Milliseconds()
		case x.Kind() == reflect.Struct:
			set[name] = fields(x)
		default:
			set[name] = x.Interface()
		}
	}
	return set
}
