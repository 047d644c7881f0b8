package backup

import (
	"context"
	"errors"
	"time"

	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
)

// moment is where a restored log ends.
type moment struct {
	last events.Seq
	at   time.Time // of the last event up to there
	end  bool      // it is the backup's end
}

var errFound = errors.New("found")

// moment finds where the log is to end: at a position (a position within a decision means
// the whole of it), behind the last event not after a time, or, if neither is given, at its
// end. It is the moment that `engine state --at` shows for the same position or time.
func (b *Backup) moment(ctx context.Context, to events.Seq, at time.Time, progress func(string, int64, int64)) (moment, error) {
	m := b.Manifest
	if to > m.Last {
		return moment{}, events.Refuse(events.CodeNotFound, "the backup ends at position %d: ask for that or an earlier one, or restore a later backup", m.Last)
	}
	if to > 0 && to < m.First {
		return moment{}, b.before()
	}
	s := &search{to: to, until: at}
	if !at.IsZero() {
		if _, _, err := b.events(ctx, progress, s.noteSetBacks); err != nil {
			return moment{}, err
		}
		if !at.Before(s.setBackTo) {
			s.whole = s.setBackAt
		}
		s.lastAt = time.Time{}
	}
	_, _, err := b.events(ctx, progress, s.look)
	if s.found.end = err == nil; err != nil && !errors.Is(err, errFound) {
		return moment{}, err
	}
	if s.found.last < m.First || s.found.at.IsZero() {
		return moment{}, b.before()
	}
	if s.partial {
		return moment{}, events.Refuse(events.CodeNotFound, "that is before the first whole state in the backup, whose log had been cut: ask for a later position or time")
	}
	return s.found, nil
}

func (b *Backup) before() error {
	return events.Refuse(events.CodeNotFound, "that is before the backup's first event: it begins with position %d: ask for a later position or time, or restore an earlier backup", b.Manifest.First)
}

// search looks for a moment in a log.
type search struct {
	to    events.Seq
	until time.Time
	whole events.Seq // before it, no event is later than until

	found   moment
	owned   bool // an ownership has been read
	partial bool // the log had been cut, and its first round is not read yet

	lastAt    time.Time
	setBackAt events.Seq
	setBackTo time.Time
}

// noteSetBacks looks for the event by which the clock was last set back.
func (s *search) noteSetBacks(f eventlog.Frame) error {
	for i := range f.Events {
		ev := &f.Events[i]
		switch b := ev.Body.(type) {
		case *events.Owned:
			if b.Clock != nil && ev.At.Before(s.lastAt) {
				s.setBackAt, s.setBackTo, s.lastAt = ev.Seq, ev.At, ev.At
			}
		case *events.Snapshot:
			if b.Mark == events.MarkEnd && b.Meta != nil && s.setBackAt == 0 {
				s.setBackAt, s.setBackTo = b.Meta.SetBackAt, b.Meta.SetBackTo
			}
		}
		if ev.At.After(s.lastAt) {
			s.lastAt = ev.At
		}
	}
	return nil
}

// look goes on to the moment, and returns errFound there.
func (s *search) look(f eventlog.Frame) error {
	for i := range f.Events {
		ev := &f.Events[i]
		last := events.Event{Seq: s.found.last, At: s.found.at}
		if s.to > 0 && ev.Seq > s.to && !last.Together(ev) || !s.until.IsZero() && ev.Seq >= s.whole && ev.At.After(s.until) {
			return errFound
		}
		s.found.last, s.found.at = ev.Seq, ev.At
		switch b := ev.Body.(type) {
		case *events.Owned:
			s.owned = true
		case *events.Snapshot:
			if b.Mark == events.MarkBegin && !s.owned {
				s.partial = true
			}
			if b.Mark == events.MarkEnd {
				s.owned, s.partial = true, false
			}
		}
	}
	return nil
}
