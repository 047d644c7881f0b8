package dispatcher

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/dispatcher/schedules"
	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/eventlog/logtest"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

func (s *sim) setSchedule(c events.Schedule) {
	s.t.Helper()
	c.Source = events.SourceAPI
	if c.Type == "" {
		c.Type = "clean"
	}
	if o := s.do(core.SetSchedule{Schedule: c}); len(o) != 1 || o[0].Err != nil {
		s.t.Fatalf("set %+v: %+v", c, o)
	}
}

// events reads the log.
func (s *sim) events() (all []events.Event) {
	s.t.Helper()
	s.ok(s.log.Read(s.t.Context(), 1, s.l.pipe.appended.Frame(), func(f eventlog.Frame) error {
		all = append(all, f.Events...)
		return nil
	}))
	return all
}

// fired are the ticks that the log says were answered, with an item and without,
// by schedule. It fails when one was answered twice.
func (s *sim) fired() (made map[string][]time.Time, skipped map[string]int) {
	s.t.Helper()
	made, skipped = map[string][]time.Time{}, map[string]int{}
	last := map[string]time.Time{}
	for _, ev := range s.events() {
		b, ok := ev.Body.(*events.ScheduleFired)
		if !ok {
			continue
		}
		if !b.Tick.After(last[b.Name]) {
			s.t.Fatalf("%s: tick %s after %s", b.Name, b.Tick, last[b.Name])
		}
		last[b.Name] = b.Tick
		skipped[b.Name] += b.Skipped
		if !b.Item.IsZero() {
			made[b.Name] = append(made[b.Name], b.Tick)
		}
	}
	return made, skipped
}

// followAnyClock is for tests in which nothing runs for months.
func followAnyClock(c *Config) { c.MaxClockJump = -1 }

// Many missed ticks are made up for up to a bound, oldest first, and the rest
// counted; no turn of the loop is long.
func TestCatchingUpIsBounded(t *testing.T) {
	s := newSim(t, followAnyClock)
	s.setSchedule(events.Schedule{Name: "all", Cron: "* * * * *", Missed: events.MissedAll})
	s.setSchedule(events.Schedule{Name: "one", Every: events.Millis(1000)})
	s.setSchedule(events.Schedule{Name: "skip", Every: events.Millis(7000), Missed: events.MissedSkip})
	s.at = s.at.Add(100*time.Hour + 8*time.Second)
	s.crash()
	made, skipped := s.fired()
	if n := len(made["all"]); n != schedules.MaxCatchUp || skipped["all"] != 6000-schedules.MaxCatchUp {
		t.Errorf("all: %d items, %d skipped", n, skipped["all"])
	}
	for i, tick := range made["all"] {
		if want := simStart.Add(time.Duration(6000-schedules.MaxCatchUp+1+i) * time.Minute); !tick.Equal(want) {
			t.Fatalf("tick %d is %s, want %s", i, tick, want)
		}
	}
	if len(made["one"]) != 1 || skipped["one"] != 360_007 || len(made["skip"]) != 0 || skipped["skip"] != 51429 {
		t.Errorf("one: %v, %d; skip: %v, %d", made["one"], skipped["one"], made["skip"], skipped["skip"])
	}
}

// A turn answers at most schedules.MaxTicks, so that what else there is to do gets its
// turn: a request that comes meanwhile is decided before all ticks are answered.
func TestTicksLeaveRoomForOthers(t *testing.T) {
	s := newSim(t, followAnyClock)
	for i := range events.MaxSchedules {
		s.setSchedule(events.Schedule{Name: fmt.Sprintf("s%d", i), Every: events.Millis(3_600_000)})
	}
	s.at = s.at.Add(time.Hour)
	before := s.l.state.Meta().Events
	s.ok(s.l.schedules.Tick())
	if n := s.l.state.Meta().Events - before; n == 0 || n > schedules.MaxTicks*maxDecision {
		t.Errorf("one turn has made %d events", n)
	}
	s.settle()
	if made, _ := s.fired(); len(made) != events.MaxSchedules {
		t.Errorf("%d of %d schedules have ticked", len(made), events.MaxSchedules)
	}
	if got := s.l.schedules.Next(); !got.Equal(simStart.Add(2 * time.Hour)) {
		t.Errorf("the loop wakes at %s", got)
	}
}

// The ticks of a daily schedule over both clock changes of a year, with a restart
// in each hour that matters.
func TestTicksOverClockChanges(t *testing.T) {
	s := newSim(t, followAnyClock)
	s.setSchedule(events.Schedule{Name: "wall", Cron: "30 2 * * *", Zone: "Europe/Berlin"})
	s.setSchedule(events.Schedule{Name: "real", Cron: "30 * * * *", Zone: "Europe/Berlin"})
	for _, day := range []time.Time{time.Date(2030, 3, 30, 12, 0, 0, 0, time.UTC), time.Date(2030, 10, 26, 12, 0, 0, 0, time.UTC)} {
		s.at = day
		s.crash()
		from, _ := s.fired()
		for range 24 * 3 {
			s.tick(20 * time.Minute)
			s.crash()
		}
		made, _ := s.fired()
		if n := len(made["wall"]) - len(from["wall"]); n != 1 {
			t.Errorf("%s: %d ticks at 02:30", day, n)
		}
		if n := len(made["real"]) - len(from["real"]); n != 24 {
			t.Errorf("%s: %d hourly ticks in 24 hours", day, n)
		}
	}
}

// Whatever happens to two engines on one log, each tick has exactly one item:
// they lose appends, crash at any stage, take over from each other, and have
// clocks that disagree.
func TestEachTickHasOneItem(t *testing.T) {
	slow(t)
	stages := []string{"decide", "append", "appended", "project", "projected"}
	faults := []logtest.FaultKind{logtest.FaultLost, logtest.FaultAckLost, logtest.FaultLate}
	rapid.Check(t, func(rt *rapid.T) {
		stream := logtest.NewMemoryStream(0)
		a := newSimOn(t, stream, nil, followAnyClock)
		a.setSchedule(events.Schedule{Name: "wall", Cron: "*/3 * * * *", Zone: "Europe/Berlin", Missed: events.MissedAll})
		a.setSchedule(events.Schedule{Name: "every", Every: events.Millis(45_000), Missed: events.MissedAll, Overlap: events.DedupMerge})
		b := newSimOn(t, stream, nil, followAnyClock)
		b.ids = 1 << 32
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			s := rapid.SampledFrom([]*sim{a, b}).Draw(rt, "engine")
			stream.Now = s.now
			switch rapid.IntRange(0, 5).Draw(rt, "what") {
			case 0:
				s.crash()
			case 1:
				s.log.Script(logtest.Fault{Kind: rapid.SampledFrom(faults).Draw(rt, "fault"), Land: logtest.LandAfterLast})
			case 2:
				at := rapid.SampledFrom(stages).Draw(rt, "stage")
				s.onStage = func(stage string) {
					if stage == at {
						s.onStage = nil
						s.crash()
					}
				}
			case 3:
				jump := rapid.IntRange(-600, 600).Draw(rt, "jump")
				s.at = s.at.Add(time.Duration(jump) * time.Second)
				if jump < 0 {
					s.crash() // the clock of one process does not go back
				}
			default:
				s.tick(time.Duration(rapid.IntRange(1, 400).Draw(rt, "seconds")) * time.Second)
			}
		}
		a.onStage, b.onStage = nil, nil
		a.at = clock.Later(a.at, b.at)
		stream.Now = a.now
		a.crash()
		a.tick(10 * time.Minute)
		made, skipped := a.fired()
		for name, period := range map[string]time.Duration{"wall": 3 * time.Minute, "every": 45 * time.Second} {
			for i, tick := range made[name] {
				if want := simStart.Add(time.Duration(i+1) * period); !tick.Equal(want) {
					rt.Fatalf("%s: tick %d is %s, want %s", name, i, tick, want)
				}
			}
			if len(made[name]) < int(10*time.Minute/period) || skipped[name] != 0 {
				rt.Fatalf("%s: %d ticks, %d skipped", name, len(made[name]), skipped[name])
			}
			if n := a.itemsOf(name); n != len(made[name]) {
				rt.Fatalf("%s: %d ticks have made %d items", name, len(made[name]), n)
			}
		}
	})
}

// itemsOf counts the items that the log has of a schedule.
func (s *sim) itemsOf(name string) (n int) {
	for _, ev := range s.events() {
		if b, ok := ev.Body.(*events.Created); ok && b.Provenance.Trigger == name {
			n++
		}
	}
	return n
}
