package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/cron"
)

// Schedule is what the file says of one schedule; its name is the table's.
type Schedule struct {
	Type        string
	Cron        string
	Every       time.Duration
	Anchor      time.Time
	Zone        string
	Missed      events.MissedPolicy
	Overlap     events.DedupPolicy
	Params      json.RawMessage
	Priority    *int
	Tenant      string
	Labels      map[string]string
	MaxAttempts int
	Timeout     time.Duration
	Paused      bool
}

func (s *Schedule) fields() []field {
	return []field{
		text("type", &s.Type, "", "type of the items that it makes; must be set"),
		text("cron", &s.Cron, "", "five fields, minute hour day-of-month month day-of-week, or a word such as `@daily`; this or `every_ms` must be set"),
		duration("every_ms", &s.Every, "", "an interval instead, at least a second"),
		text("zone", &s.Zone, "UTC", "time zone of `cron`: an IANA name such as `Europe/Berlin`"),
		moment("anchor", &s.Anchor, "when it is first recorded", "one of the ticks of `every_ms`, from which the others are counted"),
		choice("missed", &s.Missed, "one", "ticks that came while no engine ran: `skip` them, `one` item for all, `all`: one for each", events.MissedSkip, events.MissedOne, events.MissedAll),
		choice("overlap", &s.Overlap, "distinct", "a tick whose last item has not ended: `distinct`: both run, `merge` into it, `defer` until it ends, `supersede` it",
			events.DedupDistinct, events.DedupMerge, events.DedupDefer, events.DedupSupersede),
		document("params", &s.Params, "", "params of the items: a table, or JSON in a string"),
		optional("priority", integer[int], &s.Priority, "5", "0 to 9, higher first"),
		text("tenant", &s.Tenant, "", "for whom the items are"),
		stringTable("labels", &s.Labels, "", "labels of the items: a table of strings"),
		integer("max_attempts", &s.MaxAttempts, "the type's", "attempts before an item is dead"),
		duration("timeout_ms", &s.Timeout, "the type's", "how long an attempt may run"),
		flag("paused", &s.Paused, "false", "it does not tick"),
	}
}

func (c *Config) scheduleFields(key string) ([]field, error) {
	if _, err := events.ParseScheduleName(key); err != nil {
		return nil, err
	}
	s := new(Schedule)
	return after(s.fields(), func() { c.Schedules[key] = *s }), nil
}

// FileSchedules are the schedules as the engine takes them, by name.
func (c Config) FileSchedules() []events.Schedule {
	list := make([]events.Schedule, 0, len(c.Schedules))
	for _, name := range slices.Sorted(maps.Keys(c.Schedules)) {
		s := c.Schedules[name]
		list = append(list, s.schedule(name))
	}
	return list
}

func (s Schedule) schedule(name string) events.Schedule {
	out := events.Schedule{
		Name: name, Type: events.Type(s.Type), Cron: s.Cron, EveryMS: s.Every.Milliseconds(), Anchor: s.Anchor, Zone: s.Zone, Missed: s.Missed, Overlap: s.Overlap,
		Params: s.Params, Tenant: s.Tenant, Labels: s.Labels, MaxAttempts: events.Attempt(s.MaxAttempts), TimeoutMS: s.Timeout.Milliseconds(),
		Source: events.SourceFile, Paused: s.Paused,
	}
	if s.Priority != nil {
		p := events.Priority(*s.Priority)
		out.Priority = &p
	}
	return out.WithDefaults()
}

func (c Config) checkSchedules(ch *checker) {
	ch.in("schedules", int64(len(c.Schedules)), 0, events.MaxSchedules)
	for _, name := range slices.Sorted(maps.Keys(c.Schedules)) {
		s := c.Schedules[name]
		s.check(ch, name)
	}
}

// check reports what is wrong with single keys by their names, and else what
// the core says of the whole.
func (s Schedule) check(c *checker, name string) {
	at, before := "schedules."+name, len(c.errs)
	if _, err := events.ParseType(s.Type); s.Type == "" {
		c.failf(at+".type", "is missing: name the type of the items")
	} else if err != nil {
		c.failf(at+".type", "is wrong: %v", err)
	}
	if s.Priority != nil {
		c.in(at+".priority", int64(*s.Priority), 0, int64(events.MaxPriority))
	}
	if s.Every != 0 {
		c.span(at+".every_ms", &s.Every, events.MinEvery, events.MaxDelay)
	}
	s.checkCron(c, at)
	if len(c.errs) > before {
		return
	}
	var refused *events.Error
	if err := s.schedule(name).Validate(); errors.As(err, &refused) {
		c.failf(at, "is wrong: %s", refused.Message)
	}
}

func (s Schedule) checkCron(c *checker, at string) {
	if _, err := cron.Zone(s.Zone); err != nil {
		c.failf(at+".zone", "is wrong: %v", err)
		return
	}
	if s.Cron == "" {
		return
	}
	every, is, err := cron.ParseEvery(s.Cron)
	if is {
		if err == nil {
			c.span(at+".cron", &every, events.MinEvery, events.MaxDelay)
			return
		}
		c.failf(at+".cron", "is wrong: %v", err)
		return
	}
	t, err := cron.New(s.Cron, s.Zone)
	switch {
	case err != nil:
		c.failf(at+".cron", "is wrong: %v", err)
	case t.Next(time.Now()).IsZero():
		c.failf(at+".cron", "is %q: no moment in the next ten years matches it", s.Cron)
	}
}

// moment is a key that holds a time.
func moment(key string, dst *time.Time, def, doc string) field {
	return field{key: key, kind: "time", def: def, doc: doc, set: func(v any) error {
		switch t := v.(type) {
		case time.Time:
			*dst = t
			return nil
		case string:
			if at, err := time.Parse(time.RFC3339, t); err == nil {
				*dst = at
				return nil
			}
		}
		return fmt.Errorf("is %s: it must be a time with its offset, such as 2030-01-31T08:00:00Z", show(v))
	}}
}

// flag is a key that holds true or false.
func flag(key string, dst *bool, def, doc string) field {
	f := boolean(key, dst, def, doc)
	set := f.set
	f.set = func(v any) error {
		err := set(v) // which sets the opposite
		if err == nil {
			*dst = !*dst
		}
		return err
	}
	return f
}

// document is a key that holds any JSON: as TOML, or in a string.
func document(key string, dst *json.RawMessage, def, doc string) field {
	return field{key: key, kind: "table or string", def: def, doc: doc, set: func(v any) error {
		if s, ok := v.(string); ok {
			if !json.Valid([]byte(s)) {
				return fmt.Errorf("is %s: it must be a JSON document; a text needs its own quotes: '\"text\"'", show(v))
			}
			*dst = json.RawMessage(s)
			return nil
		}
		data, err := json.Marshal(v)
		if err != nil {
			return fmt.Errorf("can't be written as JSON: %v", err)
		}
		*dst = data
		return nil
	}}
}

// stringTable is a key that holds a table of strings.
func stringTable(key string, dst *map[string]string, def, doc string) field {
	return field{key: key, kind: "table", def: def, doc: doc, set: func(v any) error {
		t, ok := v.(map[string]any)
		if !ok {
			return fmt.Errorf("is %s: it must be a table, such as { team = \"billing\" }", show(v))
		}
		out := make(map[string]string, len(t))
		for _, k := range slices.Sorted(maps.Keys(t)) {
			if out[k], ok = t[k].(string); !ok {
				return fmt.Errorf("has %s = %s: it must be a string, in quotes", k, show(t[k]))
			}
		}
		*dst = out
		return nil
	}}
}
