package dispatcher

import (
	"context"
	"errors"
	"slices"

	"github.com/streamwright/streamwright/dispatcher/dedup"
	"github.com/streamwright/streamwright/dispatcher/door"
	"github.com/streamwright/streamwright/dispatcher/intake"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

// The types of a host's dedup hook, also over NATS.
type (
	DedupHook     = dedup.Hook
	DedupQuestion = dedup.Question
	DedupConfig   = dedup.Config
	NATSDedupHook = dedup.NATSHook
)

// askFirst scores the submissions of a job. If the dedup hook must be asked about any of
// them, a goroutine asks and then hands the job over. askFirst reports whether it has taken
// the job.
func (d *Dispatcher) askFirst(ctx context.Context, j *commandJob) (bool, error) {
	if d.cfg.Score == nil && d.cfg.Dedup.Hook == nil {
		return false, nil
	}
	j.cmds = slices.Clone(j.cmds)
	var subs []*core.Submit
	var places []int // where each of subs stands in the commands
	asks := false
	for i, cmd := range j.cmds {
		if c, ok := cmd.(core.Submit); ok {
			d.cfg.Rate(&c)
			j.cmds[i], asks = c, asks || d.dedup.Asks(c.Type)
			subs, places = append(subs, &c), append(places, i)
		}
	}
	if !asks {
		return false, nil
	}
	if err := d.beginAsking(ctx); err != nil {
		return true, err
	}
	g := d.dedup.Enter(subs)
	answer := j.done
	j.done = func(out []Outcome) {
		for n, i := range places {
			g.Became(subs[n], out[i].Decision.ID)
		}
		g.End()
		answer(out)
	}
	go func() {
		defer d.dedup.Done()
		g.Ask(d.drain)
		for n, i := range places {
			j.cmds[i] = *subs[n]
		}
		d.enqueueAsked(d.submits, j, j.bytes())
	}()
	return true, nil
}

// reportAsked starts a goroutine that asks the dedup hook about the children of spawns and
// then hands the job over.
func (d *Dispatcher) reportAsked(ctx context.Context, j *reportJob) error {
	if err := d.beginAsking(ctx); err != nil {
		return err
	}
	go func() {
		defer d.dedup.Done()
		var answered func([]wire.Reported)
		j.refused, answered = d.dedup.Spawns(j.reports)
		answer := j.done
		j.done = func(answers []wire.Reported) {
			answered(answers)
			answer(answers)
		}
		d.enqueueAsked(d.requests, j, j.bytes())
	}()
	return nil
}

func (d *Dispatcher) beginAsking(ctx context.Context) error {
	switch {
	case d.dedup.Begin(ctx):
		return nil
	case d.drain.Err() != nil:
		return errClosed
	}
	return errBusy
}

// enqueueAsked hands over a job whose submissions the dedup hook was asked about. The job
// has been accepted, so it waits for its place until the engine stops.
func (d *Dispatcher) enqueueAsked(to inbox, j job, bytes int) {
	err := d.enqueue(d.drain, to, j, bytes)
	if err == nil {
		return
	}
	var refused *events.Error
	if !errors.As(err, &refused) {
		refused = errClosed
	}
	j.abandon(refused)
}

// newIntakes makes the readers of the intake stream, and of those of the sites, for an
// ownership.
func newIntakes(d *Dispatcher, l *loop, front *door.Door) []*intake.Reader {
	meta := l.state.Meta()
	readers := []*intake.Reader{d.newIntake(l, front, "", meta.IntakeSeq)}
	for _, site := range d.cfg.Sites {
		readers = append(readers, d.newIntake(l, nil, site, meta.SiteSeq(site)))
	}
	return readers
}

// newIntake makes the reader of a site's stream, or of the intake stream if site is empty.
func (d *Dispatcher) newIntake(l *loop, front *door.Door, site string, after uint64) *intake.Reader {
	return intake.NewReader(intake.Config{
		Site: site, Topology: d.topology, Names: d.cfg.Names, Logger: d.cfg.Logger, NewID: d.NewID,
		Read: func(seq uint64) {
			d.read.Store(max(d.read.Load(), seq)) // one reader at a time
			front.Strayed(seq)
		},
		Ask: func(ctx context.Context, subs []*core.Submit) *dedup.Group {
			for _, c := range subs {
				d.cfg.Rate(c)
			}
			g := d.dedup.Enter(subs)
			g.Ask(ctx)
			return g
		},
		Take: func(ctx context.Context, b *intake.Batch) bool {
			select {
			case l.queues.intake.in <- &intakeJob{b}:
				return true
			case <-ctx.Done():
				return false
			}
		},
	}, after)
}

// intakeJob decides a batch of the intake stream. When it is abandoned, the next
// ownership reads its messages again: the log has not answered them.
type intakeJob struct{ *intake.Batch }

func (j *intakeJob) len() int { return len(j.Messages) }

// decide answers a message with events, even if they only reject it.
func (j *intakeJob) decide(l *loop, i int) error {
	m := j.Messages[i]
	if m.Answered(l.state.Meta()) {
		return nil // read again after a disturbance
	}
	err := m.Err
	if err == nil {
		var dec core.Decision
		if dec, _, err = l.decide(m.Submit); err == nil {
			j.Asked.Became(&m.Submit, dec.ID)
			return nil
		}
	}
	var refused *events.Error
	if !errors.As(err, &refused) {
		return err
	}
	_, _, err = l.decide(m.Reject(refused))
	return err
}

func (j *intakeJob) finish()               { j.End() }
func (j *intakeJob) abandon(*events.Error) { j.End() }
