package dispatcher

import (
	"errors"
	"math/rand/v2"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// job is a run of commands that is answered as a whole, once all are durable.
// A long one may be decided over several batches.
type job interface {
	len() int
	// decide decides the i-th command, in order. Called by the loop. Its error
	// stops the partition.
	decide(l *loop, i int) error
	// finish answers; all is durable. Called from the replying goroutine.
	finish()
	// abandon answers that the outcome is not known, or that nothing was done.
	abandon(err *events.Error)
}

// commandJob is a Do.
type commandJob struct {
	cmds     []events.Command
	outcomes []Outcome
	done     func([]Outcome)
}

func (j *commandJob) len() int { return len(j.cmds) }

func (j *commandJob) decide(l *loop, i int) error {
	dec, it, err := l.decide(j.cmds[i])
	if err := fatal(err); err != nil {
		return err
	}
	j.outcomes = append(j.outcomes, Outcome{Decision: dec, Item: it, Position: l.state.Meta().Applied, Err: err})
	return nil
}

func (j *commandJob) finish() { j.done(j.outcomes) }

func (j *commandJob) abandon(err *events.Error) {
	j.outcomes = j.outcomes[:0]
	for range j.cmds {
		j.outcomes = append(j.outcomes, Outcome{Err: err})
	}
	j.done(j.outcomes)
}

// fatal returns err unless it is a refusal, which concerns its caller alone.
func fatal(err error) error {
	var refused *events.Error
	if err == nil || errors.As(err, &refused) {
		return nil
	}
	return err
}

// reportJob is a Report.
type reportJob struct {
	reports []wire.Report
	answers []wire.Reported
	done    func([]wire.Reported)
}

func (j *reportJob) len() int { return len(j.reports) }

func (j *reportJob) decide(l *loop, i int) error {
	answer, err := l.report(&j.reports[i])
	j.answers = append(j.answers, answer)
	return err
}

func (j *reportJob) finish() { j.done(j.answers) }

func (j *reportJob) abandon(err *events.Error) {
	j.answers = j.answers[:0]
	for range j.reports {
		j.answers = append(j.answers, wire.Reported{Error: wire.FromError(err)})
	}
	j.done(j.answers)
}

// report decides one report. What is volatile (the current token, who is
// registered) is looked up here, at the moment of the decision.
func (l *loop) report(r *wire.Report) (wire.Reported, error) {
	tok, err := wire.ParseToken(r.Token)
	if err != nil {
		return wire.Reported{Error: wire.FromError(err)}, nil
	}
	d := l.table.byToken[tok]
	switch r.Event {
	case wire.ReportClaim:
		if err := l.registry.mayClaim(r.Worker, r.Session); err != nil {
			if d != nil && !d.claimed && events.CodeOf(err) == events.CodeDraining {
				l.putBack(d)
			}
			return wire.Reported{Error: wire.FromError(err)}, nil
		}
	case wire.ReportRelease:
		if d != nil && !d.claimed && !d.lingering && l.isQueued(d) {
			l.putBack(d)
			return wire.Reported{OK: true, State: events.StateQueued}, nil
		}
	}
	var current events.Token
	if d != nil && !d.lingering && d.id.String() == r.ID {
		current = d.token
	}
	cmd, err := r.Command(current, rand.Uint64())
	if err != nil {
		return wire.Reported{Error: wire.FromError(err)}, nil
	}
	dec, it, err := l.decide(cmd)
	if err := fatal(err); err != nil {
		return wire.Reported{}, err
	}
	if d != nil && d.lingering && r.Event != wire.ReportClaim && r.Event != wire.ReportStart {
		l.letGo(d)
	}
	if err != nil {
		return wire.Reported{Error: wire.FromError(err)}, nil
	}
	_ = dec
	return wire.Reported{
		OK: true, Attempt: int(it.Attempt), Deadline: it.Deadline, TimeoutMS: it.Timeout.Milliseconds(),
		State: it.State, Position: wire.PositionOf(l.state.Meta().Applied),
	}, nil
}

// isQueued reports whether the dispatch's item has not been claimed, also in
// the batch that is being built.
func (l *loop) isQueued(d *dispatched) bool {
	it, err := l.state.Item(d.id)
	return err == nil && it != nil && it.State == events.StateQueued
}

// intakeJob is a run of messages of the intake stream.
type intakeJob struct {
	msgs []intakeMsg
}

func (j *intakeJob) len() int { return len(j.msgs) }

func (j *intakeJob) decide(l *loop, i int) error {
	m := &j.msgs[i]
	if m.seq <= l.state.Meta().IntakeSeq {
		return nil
	}
	err := m.err
	if err == nil {
		if _, _, err = l.decide(m.submit); err == nil {
			return nil
		}
		if err := fatal(err); err != nil {
			return err
		}
	}
	var refused *events.Error
	errors.As(err, &refused)
	_, _, err = l.decide(m.reject(refused))
	return err
}

func (j *intakeJob) finish()               {}
func (j *intakeJob) abandon(*events.Error) {}
