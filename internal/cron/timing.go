package cron

import (
	"fmt"
	"math"
	"time"
)

// MaxCounted bounds the ticks of an expression that are counted one by one. If
// more have passed, Passed.N is MaxCounted.
const MaxCounted = 10_000

// searchYears bounds the search for the next tick. The 29th of February is at most
// eight years ahead.
const searchYears = 10

// Timing says when something is due. New or Every makes it.
type Timing struct {
	spec   *spec // nil: an interval
	every  time.Duration
	anchor time.Time
}

// New returns the timing of an expression (not one with @every) in a zone.
func New(expr, zone string) (Timing, error) {
	loc, err := Zone(zone)
	if err != nil {
		return Timing{}, err
	}
	s, err := parse(expr, loc)
	return Timing{spec: s}, err
}

// Every returns the timing of an interval: tick k is at anchor + k×every, for k
// from 0 on.
func Every(every time.Duration, anchor time.Time) (Timing, error) {
	if every <= 0 {
		return Timing{}, fmt.Errorf("the interval %s must be longer than nothing", every)
	}
	return Timing{every: every, anchor: anchor.UTC().Round(0)}, nil
}

// Next returns the first tick after a moment, in UTC; the zero time if none comes
// within ten years.
func (t Timing) Next(after time.Time) time.Time {
	switch {
	case t.spec == nil && after.Before(t.anchor):
		return t.anchor
	case t.spec == nil:
		passed := after.Sub(t.anchor) / t.every
		return t.anchor.Add((passed + 1) * t.every).UTC()
	case t.spec.everyHour():
		return t.spec.nextReal(after)
	}
	return t.spec.nextWall(after)
}

// nextReal goes by real time.
func (s *spec) nextReal(after time.Time) time.Time {
	at := after.In(s.loc)
	end := at.AddDate(searchYears, 0, 0)
	at = at.Add(-time.Duration(at.Second())*time.Second - time.Duration(at.Nanosecond())).Add(time.Minute)
	for at.Before(end) {
		switch {
		case s.month&(1<<int(at.Month())) == 0 || !s.day(at):
			// The day's end may be an hour off where the clock changes at midnight.
			next := s.moment(time.Date(at.Year(), at.Month(), at.Day()+1, 0, 0, 0, 0, time.UTC)).In(s.loc)
			if !next.After(at) {
				next = at.Add(time.Minute)
			}
			at = next
		case s.minute&(1<<at.Minute()) == 0:
			at = at.Add(time.Minute)
		default:
			return at.UTC()
		}
	}
	return time.Time{}
}

// nextWall goes by the clock on the wall. Times of that clock are written as if
// they were UTC, where none is skipped or repeated; their moments never go
// backwards, so the first that lies after is the one.
func (s *spec) nextWall(after time.Time) time.Time {
	local := after.In(s.loc)
	wall := time.Date(local.Year(), local.Month(), local.Day(), local.Hour(), local.Minute(), 0, 0, time.UTC)
	end := wall.AddDate(searchYears, 0, 0)
	for wall = s.match(wall, end); wall.Before(end); wall = s.match(wall.Add(time.Minute), end) {
		if at := s.moment(wall); at.After(after) {
			return at
		}
	}
	return time.Time{}
}

// match returns the first time of the wall clock, from a minute on, that the
// expression names; end if none comes before it.
func (s *spec) match(wall, end time.Time) time.Time {
	for wall.Before(end) {
		switch {
		case s.month&(1<<int(wall.Month())) == 0:
			wall = time.Date(wall.Year(), wall.Month()+1, 1, 0, 0, 0, 0, time.UTC)
		case !s.day(wall):
			wall = time.Date(wall.Year(), wall.Month(), wall.Day()+1, 0, 0, 0, 0, time.UTC)
		case s.hour&(1<<wall.Hour()) == 0:
			wall = wall.Truncate(time.Hour).Add(time.Hour)
		case s.minute&(1<<wall.Minute()) == 0:
			wall = wall.Add(time.Minute)
		default:
			return wall
		}
	}
	return end
}

// moment returns the moment at which the wall clock shows a time: the first of two,
// and the end of the gap if it never does.
func (s *spec) moment(wall time.Time) time.Time {
	at := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), 0, 0, s.loc)
	start, end := at.ZoneBounds()
	shown := time.Date(at.Year(), at.Month(), at.Day(), at.Hour(), at.Minute(), 0, 0, time.UTC)
	switch {
	case shown.After(wall): // in a gap: time.Date gave its far side
		return start.UTC()
	case shown.Before(wall):
		return end.UTC()
	case start.IsZero():
		return at.UTC()
	}
	_, before := start.Add(-time.Second).Zone()
	if first := wall.Add(-time.Duration(before) * time.Second); first.Before(start) && first.Before(at) {
		return first
	}
	return at.UTC()
}

// Passed tells which ticks have passed.
type Passed struct {
	N    int         // how many; MaxCounted may stand for more
	Last []time.Time // the last of them, oldest first
	Next time.Time   // the one after; zero: none
}

// Passed finds the ticks from first to now, and returns the last keep of them.
// REQUIRES: first is a tick and not after now, and keep is at least 1.
func (t Timing) Passed(first, now time.Time, keep int) Passed {
	if t.spec == nil {
		n := int(now.Sub(first)/t.every) + 1
		p := Passed{N: n, Next: first.Add(time.Duration(n) * t.every)}
		for k := max(n-keep, 0); k < n; k++ {
			p.Last = append(p.Last, first.Add(time.Duration(k)*t.every))
		}
		return p
	}
	p := t.count(first, now, keep, MaxCounted)
	for back := time.Hour; p.N == MaxCounted && !p.Next.IsZero() && !p.Next.After(now); back *= 2 {
		// Too many to walk along: look for the last ones from the other end.
		if from := now.Add(-back); from.After(first) {
			if q := t.count(t.Next(from), now, keep, math.MaxInt); q.N >= keep {
				p.Last, p.Next = q.Last, q.Next
			}
		} else {
			p = t.count(first, now, keep, math.MaxInt)
		}
	}
	return p
}

// count walks along the ticks, at most most of them.
func (t Timing) count(first, now time.Time, keep, most int) Passed {
	p := Passed{Next: first}
	for !p.Next.IsZero() && !p.Next.After(now) && p.N < most {
		p.Last = append(p.Last, p.Next)
		p.N++
		p.Next = t.Next(p.Next)
		if len(p.Last) >= 2*keep+16 {
			p.Last = append(p.Last[:0], p.Last[len(p.Last)-keep:]...)
		}
	}
	p.Last = p.Last[max(len(p.Last)-keep, 0):]
	return p
}
