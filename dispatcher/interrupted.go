package dispatcher

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Messages that no engine wrote may enter the event stream of a shared account. They decide
// nothing, but they take positions: an append continues after them, and its events get
// other positions than they were decided under. The decisions stand, and only the positions
// are corrected. The state is loaded anew from the projection, once that has all earlier
// events, and the same events are applied again at their real positions, by the one apply
// path. Nothing is forgotten, nobody has to ask again, and nothing is appended meanwhile.

// errMoved ends an ownership whose positions can't be corrected.
var errMoved = errors.New("foreign messages came between the events of a round of snapshots")

// interrupt notes that a batch was appended with foreign messages before or between its
// events.
func (l *loop) interrupt(r appendResult) {
	l.pipe.interrupted = &r
	l.pipe.strangers.note(l, int(r.res.Last-r.b.after)-len(r.b.events))
	if len(l.pipe.unprojected) == 0 {
		return
	}
	select {
	case l.pipe.hurry <- struct{}{}:
	default:
	}
}

// stepOver applies the decided events at their real positions, and goes on with what
// follows from the append. It reports false while the projection lacks an earlier event.
func (l *loop) stepOver() (done bool, err error) {
	p := &l.pipe
	if len(p.unprojected) > 0 {
		return false, nil
	}
	r := *p.interrupted
	b := r.b
	p.interrupted, p.appending = nil, false
	lost := func(err error) (bool, error) {
		p.building.done = append(b.done, p.building.done...)
		return false, err
	}
	if slices.ContainsFunc(b.events, tellsPositions) || slices.ContainsFunc(p.building.events, tellsPositions) {
		return lost(errMoved)
	}
	if err := l.state.Reload(); err != nil {
		return lost(err)
	}
	last := b.after + events.Seq(len(b.events)) // as assumed
	moved := func(seq events.Seq) events.Seq {
		switch {
		case seq <= b.after:
			return seq
		case seq <= last:
			return r.res.PlaceOf(b.after, int(seq-b.after-1))
		}
		return seq - last + r.res.Last
	}
	if err := l.reapply(b.events, moved); err != nil {
		return lost(err)
	}
	b.changes = l.state.TakeChanges()
	if err := l.reapply(p.building.events, moved); err != nil {
		return lost(err)
	}
	l.state.TakeFollowUps() // already known
	l.renumber(b, moved)
	r.res.Places = nil
	return true, l.onAppended(r)
}

// tellsPositions reports whether an event holds positions of other events that may not have
// been durable when it was decided.
func tellsPositions(ev events.Event) bool { return ev.Kind == events.KindSnapshot }

// reapply applies decided events at their new positions.
func (l *loop) reapply(evs []events.Event, moved func(events.Seq) events.Seq) error {
	for i := range evs {
		evs[i].Seq = moved(evs[i].Seq)
		if err := l.state.Apply(evs[i]); err != nil {
			return fmt.Errorf("apply again what was decided: %w", err)
		}
	}
	return nil
}

// renumber corrects the positions that were given to jobs, or noted, before they were
// durable.
func (l *loop) renumber(b *batch, moved func(events.Seq) events.Seq) {
	for _, jobs := range [][]job{b.done, l.pipe.building.done, l.queues.urgent.jobs, l.queues.bulk.jobs, l.queues.door.jobs} {
		for _, j := range jobs {
			renumber(j, moved)
		}
	}
	l.retention.Renumber(moved)
	l.assigner.fresh.Renumber(moved)
	for _, seq := range []*events.Seq{&l.acked.settling.upTo, &l.follow.from} {
		*seq = moved(*seq)
	}
}

// renumbered is a job whose answer contains positions.
type renumbered interface {
	renumber(moved func(events.Seq) events.Seq)
}

func renumber(j job, moved func(events.Seq) events.Seq) {
	if r, ok := j.(renumbered); ok {
		r.renumber(moved)
	}
}

func (j *commandJob) renumber(moved func(events.Seq) events.Seq) {
	for i := range j.outcomes {
		o := &j.outcomes[i]
		o.Position = moved(o.Position)
		if o.Item != nil && moved(o.Item.Seq) != o.Item.Seq {
			it := *o.Item // others may hold it
			it.Seq, it.CreatedSeq, it.BaseSeq = moved(it.Seq), moved(it.CreatedSeq), moved(it.BaseSeq)
			o.Item = &it
		}
	}
}

func (j *reportJob) renumber(moved func(events.Seq) events.Seq) {
	for i := range j.answers {
		movePosition(&j.answers[i].Position, moved)
	}
}

func movePosition(p *wire.Position, moved func(events.Seq) events.Seq) {
	if seq, err := p.Seq(); err == nil {
		*p = wire.PositionOf(moved(seq))
	}
}

// strangersEvery is the shortest time between two warnings about foreign messages.
const strangersEvery = time.Minute

// strangers counts the foreign messages that were stepped over.
type strangers struct {
	n    int
	next time.Time
}

func (s *strangers) note(l *loop, n int) {
	s.n += n
	if now := l.clock.Now(); !now.Before(s.next) {
		l.cfg.Logger.Warn("messages that no engine wrote are in the event stream, and are passed over: let nobody else publish to its subjects", "messages", s.n)
		*s = strangers{next: now.Add(strangersEvery)}
	}
}
