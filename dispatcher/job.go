package dispatcher

import (
	"errors"
	"math/rand/v2"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
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
	cmds     []core.Command
	outcomes []Outcome
	done     func([]Outcome)
}

func (j *commandJob) len() int { return len(j.cmds) }

func (j *commandJob) decide(l *loop, i int) error {
	cmd, err := l.schedules.plan(j.cmds[i])
	var dec core.Decision
	var it *events.Item
	if err == nil {
		dec, it, err = l.decide(cmd)
	}
	if err := fatal(err); err != nil {
		return err
	}
	j.outcomes = append(j.outcomes, Outcome{Decision: dec, Item: it, Position: l.state.Meta().Applied, Err: err, WorkerTold: l.tells(&dec, it)})
	return nil
}

// tells reports whether the effects of a decision tell a registered worker to
// stop its run: see tableFollows.
func (l *loop) tells(dec *core.Decision, it *events.Item) bool {
	if !dec.WasRunning || it == nil {
		return false
	}
	d := l.table.byID[dec.ID]
	return d != nil && d.token == it.Token && l.registry.Knows(it.Worker)
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
	refused map[int]*events.Error // reports that are not decided
	done    func([]wire.Reported)
}

func (j *reportJob) len() int { return len(j.reports) }

func (j *reportJob) decide(l *loop, i int) error {
	if err := j.refused[i]; err != nil {
		j.answers = append(j.answers, wire.Reported{Error: wire.FromError(err)})
		return nil
	}
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
	if d != nil && d.native {
		d = nil // it is nobody's to claim, or to report of
	}
	switch r.Event {
	case wire.ReportClaim:
		if err := l.registry.MayClaim(r.Worker, r.Session); err != nil {
			granted, fault := l.keptFrom(d, r, events.CodeOf(err))
			if fault != nil {
				return wire.Reported{}, fault
			}
			if !granted {
				return wire.Reported{Error: wire.FromError(err)}, nil
			}
		}
	case wire.ReportRelease:
		if d == nil || d.id.String() != r.ID {
			break
		}
		if back, err := l.flight.putBack(d); back || err != nil {
			return wire.Reported{OK: true, State: events.StateQueued}, err
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
	return l.runCommand(cmd, d)
}

// backlog is what the loop has taken and not yet decided in full.
type backlog struct {
	jobs []job
	next int // commands of jobs[0] that are decided
	// held, if set, says that no further command may be decided for now.
	held func() bool
}

func (q *backlog) room() bool { return len(q.jobs) < maxPendingJobs }

// take takes a job, and those that wait behind it, as long as there is room.
func (q *backlog) take(j job, more <-chan job) {
	q.jobs = append(q.jobs, j)
	for q.room() {
		select {
		case j := <-more:
			q.jobs = append(q.jobs, j)
		default:
			return
		}
	}
}

// keptFrom is what follows from the refusal of a worker's claim. What an
// unhealthy or draining worker may not have is dispatched again at once, to
// others. granted says that the claim is a repeat: it was decided before, and
// gets the same answer again.
func (l *loop) keptFrom(d *dispatched, r *wire.Report, code events.Code) (granted bool, err error) {
	if d == nil || (code != events.CodeDraining && code != events.CodeUnhealthy) {
		return false, nil
	}
	back, err := l.flight.putBack(d)
	return err == nil && !back && d.id.String() == r.ID, err
}
