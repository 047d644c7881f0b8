package config

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/cron"
)

// Schedule holds the settings of one schedule in the file; its name is the table's.
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
		Name: name, Type: events.Type(s.Type), Cron: s.Cron, Every: events.DurationOf(s.Every), Anchor: s.Anchor, Zone: s.Zone, Missed: s.Missed, Overlap: s.Overlap,
		Params: s.Params, Tenant: s.Tenant, Labels: s.Labels, MaxAttempts: events.Attempt(s.MaxAttempts), Timeout: events.DurationOf(s.Timeout),
		Source: events.SourceFile, Paused: s.Paused,
	}
	if s.Priority != nil {
		p := events.Priority(*s.Priority)
		out.Priority = &p
	}
	return out.WithDefaults()
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
	s.checkCron(c, at)
	if len(c.errs) > before {
		return
	}
	var refused *events.Error
	if err := s.schedule(name).Validate(); errors.As(err, &refused) {
		c.failf(at, "is wrong: %s", Spell(refused.Message))
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
			c.report(at+".cron", between(every, events.MinEvery, events.MaxDelay))
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
