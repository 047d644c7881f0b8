package core

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/streamwright/streamwright/events"
)

// scheduleCommand sets, pauses, removes and fires schedules, rightly and amiss.
func (s *sim) scheduleCommand() Command {
	name := pick(s, "schedule", "a", "a", "a", "a", "b", "b", "No Name")
	switch pick(s, "schedule command", "set", "set", "fire", "fire", "fire", "fire", "pause", "remove") {
	case "set":
		return SetSchedule{Schedule: s.aSchedule(name)}
	case "pause":
		return PauseSchedule{Name: name, Paused: s.chance("paused", 30)}
	case "remove":
		return RemoveSchedule{Name: name, Source: pick(s, "source", events.SourceAPI, events.SourceFile, "")}
	}
	return s.aTick(name)
}

// aSchedule is one that can be set, mostly.
func (s *sim) aSchedule(name string) events.Schedule {
	c := events.Schedule{
		Name: name, Type: pick(s, "type", events.Type("email"), "call"), Missed: pick(s, "missed", events.MissedPolicy(""), events.MissedAll),
		Overlap: pick(s, "overlap", events.DedupPolicy(""), events.DedupMerge), Source: pick(s, "source", events.SourceAPI, events.SourceAPI, events.SourceFile),
		Params: json.RawMessage(pick(s, "params", "", "null", " {\"a\" : \"<&>\u2028\"} ")), Labels: pick(s, "labels", nil, map[string]string{}, map[string]string{"k": "v"}),
		MaxAttempts: pick(s, "attempts", events.Attempt(0), 1), Timeout: events.Millis(pick(s, "timeout", int64(0), 1000)), Paused: s.chance("paused", 10),
		Next: s.now.Add(pick(s, "first", time.Second, time.Minute)).In(time.FixedZone("elsewhere", 3600)),
	}
	if s.chance("cron", 50) {
		c.Cron, c.Zone = pick(s, "cron", "* * * * *", "@hourly"), pick(s, "zone", "", "Europe/Berlin")
	} else {
		c.Every, c.Anchor = events.Millis(pick(s, "every", int64(1000), 60_000)), s.now.Truncate(time.Hour)
	}
	if s.chance("priority", 30) {
		p := pick(s, "priority", events.Priority(0), 9)
		c.Priority = &p
	}
	if s.chance("spoilt", 20) {
		s.spoil(&c)
	}
	return c
}

func (s *sim) spoil(c *events.Schedule) {
	switch rapid.IntRange(0, 8).Draw(s.t, "how") {
	case 0:
		c.Type = "Bad Type"
	case 1:
		c.Missed = "never"
	case 2:
		c.Overlap = "both"
	case 3:
		c.Source = ""
	case 4:
		c.Params = json.RawMessage("[1,2")
	case 5:
		c.MaxAttempts = -1
	case 6:
		c.Next = time.Time{}
	case 7:
		c.Next = s.now.Add(-time.Hour)
	case 8:
		c.Cron, c.Every = "* * * * *", events.Millis(10)
	}
}

// aTick is the one that is due, mostly; or one before, or far ahead, or with a
// next one that can't be.
func (s *sim) aTick(name string) Command {
	cur, ok := s.oracle.Schedule(name)
	if !ok || s.chance("by hand", 10) {
		return Fire{Name: name, NewID: s.freshID()}
	}
	f := Fire{Name: name, Tick: cur.Next.Add(pick(s, "off", 0, 0, 0, 0, time.Second, time.Hour, -time.Second)), Skip: s.chance("skip", 20), NewID: s.freshID(),
		Skipped: pick(s, "skipped", 0, 0, 5, -1)}
	f.Next = f.Tick.Add(pick(s, "until next", time.Second, time.Minute, 0, -time.Minute))
	if s.chance("none", 10) {
		f.Next = time.Time{}
	}
	if s.chance("answered", 15) {
		f.Tick = cur.LastTick
	}
	if s.chance("wait for it", 70) && f.Tick.After(s.now) && f.Tick.Before(s.now.Add(2*time.Hour)) {
		s.now = f.Tick
	}
	return f
}

// scheduleChanged holds what is always so: no tick is answered twice, none
// before its time, and the next one lies behind those that have been answered.
func (s *sim) scheduleChanged(b events.Body) {
	if s.ticks == nil {
		s.ticks = map[string]events.Schedule{}
	}
	switch b := b.(type) {
	case *events.ScheduleSet:
		was, now := s.ticks[b.Schedule.Name], b.Schedule
		if !now.LastTick.Equal(was.LastTick) || now.LastItem != was.LastItem || !now.Next.IsZero() && !now.Next.After(was.LastTick) {
			s.t.Fatalf("%+v is set to %+v", was, now)
		}
		s.ticks[now.Name] = now
	case *events.ScheduleRemoved:
		delete(s.ticks, b.Name)
	case *events.ScheduleFired:
		was := s.ticks[b.Name]
		if !b.Tick.After(was.LastTick) || b.Tick.Before(was.Next) || b.Tick.After(s.now) && b.Tick.After(s.live.meta.LastAt) || was.Paused ||
			!b.Next.IsZero() && !b.Next.After(b.Tick) {
			s.t.Fatalf("%+v fires %+v at %s", was, b, s.now)
		}
		was.LastTick, was.Next = b.Tick, b.Next
		if !b.Item.IsZero() {
			was.LastItem = b.Item
		}
		s.ticks[b.Name] = was
		live, _ := s.live.Schedule(b.Name)
		if !live.LastTick.Equal(was.LastTick) || !live.Next.Equal(was.Next) || live.LastItem != was.LastItem {
			s.t.Fatalf("the events say %+v, the state %+v", was, live)
		}
	}
}

// As TestAnySequenceOfCommands, with schedules in most of it.
func TestAnySequenceOfScheduleCommands(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSim(t)
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			if s.chance("schedule", 70) {
				s.do(s.scheduleCommand())
			} else {
				s.step()
			}
		}
		s.settle()
		want := s.base.dump()
		for _, every := range []int{1, 7} {
			if got := s.replay(every, false); got != want {
				t.Fatalf("replayed in batches of %d:\n%s\nlive:\n%s", every, got, want)
			}
		}
		if got := s.replay(3, true); got != want {
			t.Fatalf("replayed with restarts:\n%s\nlive:\n%s", got, want)
		}
	})
}
