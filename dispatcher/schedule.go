package dispatcher

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/events/eventlog"
	"github.com/streamwright/streamwright/internal/cron"
)

// Bounds of what schedules do.
const (
	maxTicks   = 64   // answered before the loop looks at what else there is to do
	maxCatchUp = 1000 // items made for the missed ticks of one schedule, under the policy all
	maxGrace   = time.Minute
)

// schedules is the loop's knowledge of when what ticks. All of it follows from
// the state; which ticks have been answered is the state's alone.
type schedules struct {
	l *loop

	timings map[string]timing
	broken  map[string]bool // what can't be followed, until it is set anew
	next    time.Time       // the earliest tick of all; zero: none
	stale   bool            // next is to be found anew
	held    bool            // what the file says is not decided yet
}

// timing is a schedule's, kept as long as it is that of of.
type timing struct {
	of events.Schedule
	t  cron.Timing
}

// timingOf computes from what a schedule says when it ticks.
func timingOf(s *events.Schedule) (cron.Timing, error) {
	if s.EveryMS != 0 {
		return cron.Every(s.Every(), s.Anchor)
	}
	return cron.New(s.Cron, s.Zone)
}

func (sc *schedules) timing(s *events.Schedule) (cron.Timing, error) {
	if t, ok := sc.timings[s.Name]; ok && t.of.SameTiming(s) {
		return t.t, nil
	}
	t, err := timingOf(s)
	if err == nil {
		sc.timings[s.Name] = timing{of: *s, t: t}
	}
	return t, err
}

// plan completes a command that sets a schedule with what needs the time zones
// and the present time: the anchor of an interval, and the first tick. It is
// done right before the decision, so that no tick comes between the two. A type
// is not removed that somebody uses of whom the log knows nothing.
func (sc *schedules) plan(c core.Command) (core.Command, error) {
	if remove, ok := c.(core.RemoveType); ok {
		return c, sc.l.mayRemove(remove.Type)
	}
	set, ok := c.(core.SetSchedule)
	if !ok {
		return c, nil
	}
	s := set.Schedule
	now := sc.l.clock.Now()
	every, isEvery, err := cron.ParseEvery(s.Cron)
	switch {
	case err != nil:
		return nil, badTiming(&s, err)
	case isEvery && s.EveryMS == 0 && every%time.Millisecond == 0:
		s.Cron, s.EveryMS = "", every.Milliseconds()
	case isEvery:
		return nil, events.Refuse(events.CodeBadRequest, "schedule %s: %q and every_ms %d: give one interval, in whole milliseconds", s.Name, s.Cron, s.EveryMS)
	}
	if s.EveryMS != 0 && s.Anchor.IsZero() {
		s.Anchor = now.Truncate(time.Second)
		if cur, has := sc.l.state.Schedule(s.Name); has && cur.EveryMS == s.EveryMS {
			s.Anchor = cur.Anchor
		}
	}
	s.Next = time.Time{}
	if (s.Cron == "") != (s.EveryMS == 0) { // else Decide says what is wrong
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

// nextTick is when the next tick of any schedule is due, the zero time for
// never.
func (sc *schedules) nextTick() time.Time {
	if sc.stale {
		sc.stale, sc.next = false, time.Time{}
		sc.l.state.DueSchedules(func(name string, next time.Time) {
			if !sc.broken[name] {
				sc.next = clock.Sooner(sc.next, next)
			}
		})
	}
	return sc.next
}

// tickRoom reports whether the batch has room for a tick: for what a submission
// makes, and one event more.
func (sc *schedules) tickRoom() bool { return sc.l.roomBelow(eventlog.MaxAppend - 1) }

// tick answers the ticks that have come, the longest due first, up to maxTicks
// of them. What is left makes the loop come back at once.
func (sc *schedules) tick() error {
	now := sc.l.clock.Due()
	if sc.held || sc.l.halt.on() || !clock.Passed(sc.nextTick(), now) {
		return nil
	}
	type due struct {
		name string
		at   time.Time
	}
	var list []due
	sc.l.state.DueSchedules(func(name string, next time.Time) {
		if !next.After(now) && !sc.broken[name] {
			list = append(list, due{name, next})
		}
	})
	slices.SortFunc(list, func(a, b due) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.name, b.name)) })
	left := maxTicks
	for _, d := range list {
		if err := sc.answer(d.name, now, &left); err != nil {
			return err
		}
		if left == 0 || !sc.tickRoom() {
			break
		}
	}
	return nil
}

// answer answers a schedule's passed ticks, by its policy for those that were
// missed.
func (sc *schedules) answer(name string, now time.Time, left *int) error {
	s, ok := sc.l.state.Schedule(name)
	if !ok {
		return nil
	}
	t, err := sc.timing(&s)
	if err != nil {
		sc.breakOff(name, err)
		return nil
	}
	p := t.Passed(s.Next, now, maxCatchUp)
	for _, f := range fires(&s, t, p, now) {
		if *left == 0 || !sc.tickRoom() {
			return nil
		}
		*left--
		if err := sc.fire(f); err != nil {
			return err
		}
	}
	return nil
}

// breakOff has a schedule rest that can't be followed, as when its zone is not
// in the time zone database here. Its ticks are missed ones, should an engine
// come that can.
func (sc *schedules) breakOff(name string, err error) {
	sc.l.log.Error("a schedule can't be followed: set it anew", "schedule", name, "error", err)
	sc.broken[name], sc.stale = true, true
}

// fires are the commands that answer the ticks which have passed.
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

// grace is how late a tick may be answered and does not count as missed.
func grace(t cron.Timing, tick time.Time) time.Duration {
	if next := t.Next(tick); !next.IsZero() {
		return min(maxGrace, next.Sub(tick)/2)
	}
	return maxGrace
}

// fire decides the answer to a tick.
func (sc *schedules) fire(f core.Fire) error {
	f.NewID = sc.l.newID()
	dec, _, err := sc.l.decide(f)
	if fatal(err) != nil {
		return err
	}
	s, _ := sc.l.state.Schedule(f.Name)
	switch {
	case err != nil:
		sc.breakOff(f.Name, err)
	case s.LastCode != "":
		sc.l.log.Error("a schedule's item was refused: it is left out", "schedule", f.Name, "tick", f.Tick, "code", s.LastCode, "error", s.LastError)
	case f.Skipped > 0:
		sc.l.log.Warn("a schedule has missed ticks", "schedule", f.Name, "tick", f.Tick, "missed", f.Skipped, "policy", s.Missed, "item", dec.ID)
	}
	return nil
}

// holdSchedules has nothing tick until the file's schedules are those of the
// log: one that is no longer in it must not tick again.
func (sc *schedules) holdSchedules() {
	*sc = schedules{l: sc.l, timings: map[string]timing{}, broken: map[string]bool{}, stale: true}
	j := fileSchedules(sc.l.cfg, sc.l.state)
	if len(j.cmds) > 0 {
		sc.held = true
		sc.l.urgent.jobs = append(sc.l.urgent.jobs, j)
	}
	if j := sc.replan(); j.len() > 0 {
		sc.l.urgent.jobs = append(sc.l.urgent.jobs, j)
	}
}

// replan has the schedules tick again at their next moment that, since the
// clock was set back, wait for one which lies beyond it.
func (sc *schedules) replan() *commandJob {
	j := &commandJob{}
	if sc.l.state.Meta().SetBackAt == 0 {
		return j
	}
	now := sc.l.clock.Due()
	for _, name := range sc.l.state.ScheduleNames() {
		s, _ := sc.l.state.Schedule(name)
		t, err := sc.timing(&s)
		if err != nil || s.Next.IsZero() {
			continue // when it is due to tick it is said to be broken
		}
		if next := t.Next(now); !next.IsZero() && s.Next.After(next) {
			j.cmds = append(j.cmds, core.SetSchedule{Schedule: s, Replan: true})
		}
	}
	j.done = func(outcomes []Outcome) {
		for i, o := range outcomes {
			if o.Err != nil && events.CodeOf(o.Err) != events.CodeUnavailable {
				sc.l.log.Error("a schedule could not be planned anew after the clock was set back: set it again", "command", j.cmds[i], "error", o.Err)
			}
		}
	}
	return j
}

// fileSchedulesJob records what engine.toml says of schedules, where it differs
// from the log.
type fileSchedulesJob struct{ commandJob }

func (j *fileSchedulesJob) decide(l *loop, i int) error {
	l.schedules.held = i < len(j.cmds)-1
	return j.commandJob.decide(l, i)
}

func fileSchedules(cfg *Config, state *core.State) *fileSchedulesJob {
	j, named := &fileSchedulesJob{}, map[string]bool{}
	for _, s := range cfg.FileSchedules {
		s.Source = events.SourceFile
		named[s.Name] = true
		j.cmds = append(j.cmds, core.SetSchedule{Schedule: s})
	}
	var gone []core.Command
	for _, name := range state.ScheduleNames() {
		if s, _ := state.Schedule(name); s.Source == events.SourceFile && !named[name] {
			gone = append(gone, core.RemoveSchedule{Name: name, Source: events.SourceFile})
		}
	}
	j.cmds = append(gone, j.cmds...) // first, or there may be too many
	j.done = func(outcomes []Outcome) {
		for i, o := range outcomes {
			if o.Err != nil && events.CodeOf(o.Err) != events.CodeUnavailable {
				cfg.Logger.Error("a schedule of the file could not be recorded", "command", j.cmds[i], "error", o.Err)
			}
		}
	}
	return j
}

// checkSchedules reports what is wrong with the file's.
func (c *Config) checkSchedules() (errs []error) {
	if n := len(c.FileSchedules); n > events.MaxSchedules {
		errs = append(errs, fmt.Errorf("dispatcher: the file sets %d schedules: at most %d", n, events.MaxSchedules))
	}
	for _, s := range c.FileSchedules {
		s.Source = events.SourceFile
		if err := s.WithDefaults().Validate(); err != nil {
			errs = append(errs, fmt.Errorf("dispatcher: %w", err))
		}
	}
	return errs
}
