package schedules

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/internal/cron"
)

// Bounds of the work of schedules.
const (
	MaxTicks   = 64   // ticks answered before the loop looks at other work
	MaxCatchUp = 1000 // items made for the missed ticks of one schedule, under the policy all
	maxGrace   = time.Minute
)

// Loop decides ticks.
type Loop interface {
	// Decide decides a tick. A refusal is returned as refused; err stops the partition.
	Decide(core.Fire) (dec core.Decision, refused, err error)
	// TickRoom reports whether the batch being built has room for a tick.
	TickRoom() bool
}

// Schedules answers the ticks of the state's schedules.
type Schedules struct {
	state *core.State
	clock *clock.Clock
	log   *slog.Logger
	loop  Loop

	timings map[string]timing
	broken  map[string]bool // schedules that can't be followed, until they are set anew
	next    time.Time       // the earliest tick of all; zero: none
	stale   bool            // next must be computed anew
	held    bool            // the file's schedules are not decided yet
}

// timing caches a schedule's timing, valid while the schedule's timing is the same as in
// of.
type timing struct {
	of events.Schedule
	t  cron.Timing
}

// New makes the Schedules of an ownership.
func New(state *core.State, clk *clock.Clock, log *slog.Logger, loop Loop) *Schedules {
	return &Schedules{state: state, clock: clk, log: log, loop: loop, timings: map[string]timing{}, broken: map[string]bool{}, stale: true}
}

// timingOf returns the timing that a schedule describes.
func timingOf(s *events.Schedule) (cron.Timing, error) {
	if !s.Every.IsZero() {
		return cron.Every(s.Every.Duration, s.Anchor)
	}
	return cron.New(s.Cron, s.Zone)
}

func (sc *Schedules) timing(s *events.Schedule) (cron.Timing, error) {
	if t, ok := sc.timings[s.Name]; ok && t.of.SameTiming(s) {
		return t.t, nil
	}
	t, err := timingOf(s)
	if err == nil {
		sc.timings[s.Name] = timing{of: *s, t: t}
	}
	return t, err
}

// Plan adds to a command that sets a schedule what depends on the time zones and the
// present time: the anchor of an interval, and the first tick. It must be called right
// before the decision, so that no tick comes between the two.
func (sc *Schedules) Plan(set core.SetSchedule) (core.Command, error) {
	s := set.Schedule
	now := sc.clock.Now()
	every, isEvery, err := cron.ParseEvery(s.Cron)
	switch {
	case err != nil:
		return nil, badTiming(&s, err)
	case isEvery && s.Every.IsZero() && every%time.Millisecond == 0:
		s.Cron, s.Every = "", events.DurationOf(every)
	case isEvery:
		return nil, events.Refuse(events.CodeBadRequest, "schedule %s: %q and every_ms %d: give one interval, in whole milliseconds", s.Name, s.Cron, s.Every.Milliseconds())
	}
	if !s.Every.IsZero() && s.Anchor.IsZero() {
		s.Anchor = now.Truncate(time.Second)
		if cur, has := sc.state.Schedule(s.Name); has && cur.Every == s.Every {
			s.Anchor = cur.Anchor
		}
	}
	s.Next = time.Time{}
	if (s.Cron == "") != (s.Every.IsZero()) { // otherwise Decide says what is wrong
		t, err := timingOf(&s)
		if err != nil {
			return nil, badTiming(&s, err)
		}
		s.Next = t.Next(now)
	}
	delete(sc.broken, s.Name)
	return core.SetSchedule{Schedule: s, Replan: set.Replan}, nil
}

func badTiming(s *events.Schedule, err error) error {
	return events.Refuse(events.CodeBadRequest, "schedule %s: %v", s.Name, err)
}

// Changed notes that the state's schedules have changed.
func (sc *Schedules) Changed() { sc.stale = true }

// Hold stops all ticks, or lets them resume.
func (sc *Schedules) Hold(held bool) { sc.held = held }

// Next returns when the next tick of any schedule can be answered, the zero time for never,
// or not for now.
func (sc *Schedules) Next() time.Time {
	if sc.held || !sc.loop.TickRoom() {
		return time.Time{}
	}
	return sc.nextTick()
}

func (sc *Schedules) nextTick() time.Time {
	if sc.stale {
		sc.stale, sc.next = false, time.Time{}
		sc.state.DueSchedules(func(name string, next time.Time) {
			if !sc.broken[name] {
				sc.next = clock.Sooner(sc.next, next)
			}
		})
	}
	return sc.next
}

// Tick answers the ticks that have come, the longest due first, up to MaxTicks of them. If
// any are left, the loop comes back at once.
func (sc *Schedules) Tick() error {
	now := sc.clock.Due()
	if sc.held || !clock.Passed(sc.nextTick(), now) {
		return nil
	}
	type due struct {
		name string
		at   time.Time
	}
	var list []due
	sc.state.DueSchedules(func(name string, next time.Time) {
		if !next.After(now) && !sc.broken[name] {
			list = append(list, due{name, next})
		}
	})
	slices.SortFunc(list, func(a, b due) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.name, b.name)) })
	left := MaxTicks
	for _, d := range list {
		if err := sc.answer(d.name, now, &left); err != nil {
			return err
		}
		if left == 0 || !sc.loop.TickRoom() {
			break
		}
	}
	return nil
}

// answer answers a schedule's passed ticks; the schedule's policy decides about missed
// ones.
func (sc *Schedules) answer(name string, now time.Time, left *int) error {
	s, ok := sc.state.Schedule(name)
	if !ok {
		return nil
	}
	t, err := sc.timing(&s)
	if err != nil {
		sc.breakOff(name, err)
		return nil
	}
	p := t.Passed(s.Next, now, MaxCatchUp)
	for _, f := range fires(&s, t, p, now) {
		if *left == 0 || !sc.loop.TickRoom() {
			return nil
		}
		*left--
		if err := sc.fire(f); err != nil {
			return err
		}
	}
	return nil
}

// breakOff stops a schedule that can't be followed.
func (sc *Schedules) breakOff(name string, err error) {
	sc.log.Error("a schedule can't be followed: set it anew", "schedule", name, "error", err)
	sc.broken[name], sc.stale = true, true
}

// fires returns the commands that answer the ticks that have passed.
func fires(s *events.Schedule, t cron.Timing, p cron.Passed, now time.Time) []core.Fire {
	last := p.Last[len(p.Last)-1]
	switch {
	case s.Missed == events.MissedAll:
		all := make([]core.Fire, len(p.Last))
		for i, tick := range p.Last {
			all[i] = core.Fire{Name: s.Name, Tick: tick, Next: p.Next}
			if i > 0 {
				all[i-1].Next = tick
			}
		}
		all[0].Skipped = p.N - len(p.Last)
		return all
	case s.Missed == events.MissedSkip && now.Sub(last) > grace(t, last):
		return []core.Fire{{Name: s.Name, Tick: last, Next: p.Next, Skip: true, Skipped: p.N}}
	}
	return []core.Fire{{Name: s.Name, Tick: last, Next: p.Next, Skipped: p.N - 1}}
}

// grace returns how late a tick may be answered without counting as missed.
func grace(t cron.Timing, tick time.Time) time.Duration {
	if next := t.Next(tick); !next.IsZero() {
		return min(maxGrace, next.Sub(tick)/2)
	}
	return maxGrace
}

// fire decides the answer to a tick.
func (sc *Schedules) fire(f core.Fire) error {
	dec, refused, err := sc.loop.Decide(f)
	if err != nil {
		return err
	}
	s, _ := sc.state.Schedule(f.Name)
	switch {
	case refused != nil:
		sc.breakOff(f.Name, refused)
	case s.LastCode != "":
		sc.log.Error("a schedule's item was refused: it is left out", "schedule", f.Name, "tick", f.Tick, "code", s.LastCode, "error", s.LastError)
	case f.Skipped > 0:
		sc.log.Warn("a schedule has missed ticks", "schedule", f.Name, "tick", f.Tick, "missed", f.Skipped, "policy", s.Missed, "item", dec.ID)
	}
	return nil
}

// Replan returns the commands that plan schedules anew after the clock was set back, if
// they wait for a later tick than their next one by the new time.
func (sc *Schedules) Replan() (cmds []core.Command) {
	if sc.state.Meta().SetBackAt == 0 {
		return nil
	}
	now := sc.clock.Due()
	for _, name := range sc.state.ScheduleNames() {
		s, _ := sc.state.Schedule(name)
		t, err := sc.timing(&s)
		if err != nil || s.Next.IsZero() {
			continue // it is reported as broken when it is due
		}
		if next := t.Next(now); !next.IsZero() && s.Next.After(next) {
			cmds = append(cmds, core.SetSchedule{Schedule: s, Replan: true})
		}
	}
	return cmds
}

// FromFile returns the commands that make the log's schedules those of engine.toml.
// Schedules that the file no longer has come first, or there could be too many.
func FromFile(file []events.Schedule, state *core.State) (cmds []core.Command) {
	named := map[string]bool{}
	var set []core.Command
	for _, s := range file {
		s.Source = events.SourceFile
		named[s.Name] = true
		set = append(set, core.SetSchedule{Schedule: s})
	}
	for _, name := range state.ScheduleNames() {
		if s, _ := state.Schedule(name); s.Source == events.SourceFile && !named[name] {
			cmds = append(cmds, core.RemoveSchedule{Name: name, Source: events.SourceFile})
		}
	}
	return append(cmds, set...)
}

// CheckFile returns what is wrong with the schedules of engine.toml.
func CheckFile(file []events.Schedule) (errs []error) {
	if n := len(file); n > events.MaxSchedules {
		errs = append(errs, fmt.Errorf("dispatcher: the file sets %d schedules: at most %d", n, events.MaxSchedules))
	}
	for _, s := range file {
		s.Source = events.SourceFile
		if err := s.WithDefaults().Validate(); err != nil {
			errs = append(errs, fmt.Errorf("dispatcher: %w", err))
		}
	}
	return errs
}
