package schedules

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/internal/cron"
)

var start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// loop decides at once, by a clock of its own.
type loop struct {
	t     *testing.T
	now   time.Time
	state *core.State
	clock *clock.Clock
	ids   byte

	schedules     *Schedules
	made, skipped map[string]int
}

func newLoop(t *testing.T) *loop {
	state, err := core.NewState(core.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	l := &loop{t: t, now: start, state: state, made: map[string]int{}, skipped: map[string]int{}}
	l.clock = clock.New(clock.Source{Local: func() time.Time { return l.now }, MaxJump: -1}, clock.Start{Server: start})
	return l
}

func (l *loop) begin() *Schedules {
	l.schedules = New(l.state, l.clock, slog.New(slog.DiscardHandler), l)
	return l.schedules
}

func (l *loop) TickRoom() bool { return true }

func (l *loop) Decide(f core.Fire) (dec core.Decision, refused, err error) {
	l.ids++
	f.NewID = events.ID{15: l.ids}
	return l.decide(f), nil, nil
}

func (l *loop) decide(c core.Command) core.Decision {
	dec, err := core.Decide(l.state, c, l.clock.Now())
	if err != nil {
		l.t.Fatal(err)
	}
	frame := l.state.Meta().Applied.Frame() + 1
	for i, ev := range dec.Events {
		ev.Seq = events.SeqOf(frame, i)
		if err := l.state.Apply(ev); err != nil {
			l.t.Fatal(err)
		}
		if b, ok := ev.Body.(*events.ScheduleFired); ok {
			l.skipped[b.Name] += b.Skipped
			if !b.Item.IsZero() {
				l.made[b.Name]++
			}
		}
	}
	l.schedules.Changed()
	return dec
}

func (l *loop) set(sc *Schedules, s events.Schedule) {
	s.Source, s.Type = events.SourceAPI, "clean"
	c, err := sc.Plan(core.SetSchedule{Schedule: s})
	if err != nil {
		l.t.Fatal(err)
	}
	l.decide(c)
}

// What this program can't compute does not stop the others, and its ticks are
// missed ones for a program that can.
func TestABrokenScheduleRests(t *testing.T) {
	l := newLoop(t)
	sc := l.begin()
	l.set(sc, events.Schedule{Name: "good", Every: events.Millis(60_000)})
	l.set(sc, events.Schedule{Name: "odd", Cron: "* * * * *"})
	sc.breakOff("odd", fmt.Errorf("no such zone here"))
	tick := func() {
		if err := sc.Tick(); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		l.now = l.now.Add(time.Minute)
		tick()
	}
	if l.made["good"] != 3 || l.made["odd"] != 0 {
		t.Errorf("%v", l.made)
	}
	if at := sc.Next(); !at.Equal(start.Add(4 * time.Minute)) {
		t.Errorf("the next tick is due at %s", at)
	}
	sc = l.begin()
	tick()
	if l.made["odd"] != 1 || l.skipped["odd"] != 2 {
		t.Errorf("%v %v", l.made, l.skipped)
	}
}

func TestHeldSchedulesRest(t *testing.T) {
	l := newLoop(t)
	sc := l.begin()
	l.set(sc, events.Schedule{Name: "good", Every: events.Millis(60_000)})
	sc.Hold(true)
	l.now = l.now.Add(time.Minute)
	if err := sc.Tick(); err != nil || l.made["good"] != 0 || !sc.Next().IsZero() {
		t.Errorf("%v, %v, the next at %s", err, l.made, sc.Next())
	}
	sc.Hold(false)
	if err := sc.Tick(); err != nil || l.made["good"] != 1 {
		t.Errorf("%v, %v", err, l.made)
	}
}

func TestGrace(t *testing.T) {
	tick := start
	for every, want := range map[time.Duration]time.Duration{time.Second: time.Second / 2, time.Minute: 30 * time.Second, time.Hour: time.Minute} {
		e, err := cron.Every(every, tick)
		if err != nil {
			t.Fatal(err)
		}
		if got := grace(e, tick); got != want {
			t.Errorf("every %s: %s, want %s", every, got, want)
		}
	}
}
