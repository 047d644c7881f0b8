package dispatcher

import (
	"context"
	"errors"

	"github.com/streamwright/streamwright/dispatcher/weight"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/wire/command"
)

// job is a list of commands that is answered as a whole, once all are durable. A long one
// may be decided over several batches.
type job interface {
	len() int
	// decide decides the i-th command, in order. Called by the loop. Its error
	// stops the partition.
	decide(l *loop, i int) error
	// finish answers: all commands are durable. Called from the replying goroutine.
	finish()
	// abandon answers that the outcome is unknown, or that nothing was done.
	abandon(err *events.Error)
}

// question is a job that reads the loop's state, and decides nothing.
type question[T any] struct {
	read   func(*loop) (T, error)
	out    chan answer[T]
	answer answer[T]
}

type answer[T any] struct {
	value T
	err   error // an *events.Error
}

// ask has the loop answer a question. A refusal by read is returned as the answer; any
// other error of read stops the partition.
func ask[T any](ctx context.Context, d *Dispatcher, read func(*loop) (T, error)) (T, error) {
	j := &question[T]{read: read, out: make(chan answer[T], 1)}
	if err := d.enqueue(ctx, d.requests, j, weight.Overhead); err != nil {
		return j.answer.value, err
	}
	select {
	case a := <-j.out:
		return a.value, a.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

func (j *question[T]) len() int { return 1 }

func (j *question[T]) decide(l *loop, _ int) error {
	j.answer.value, j.answer.err = j.read(l)
	return fatal(j.answer.err)
}

func (j *question[T]) finish()                   { j.out <- j.answer }
func (j *question[T]) abandon(err *events.Error) { j.out <- answer[T]{err: err} }

// commandJob is the job of a call of Do.
type commandJob struct {
	cmds     []core.Command
	outcomes []Outcome
	done     func([]Outcome)
}

func (j *commandJob) len() int { return len(j.cmds) }

func (j *commandJob) decide(l *loop, i int) error {
	cmd, err := l.plan(j.cmds[i])
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

// plan adds to a command what the log does not know, or refuses the command.
func (l *loop) plan(c core.Command) (core.Command, error) {
	switch c := c.(type) {
	case core.By:
		var err error
		c.Command, err = l.plan(c.Command)
		return c, err
	case core.RemoveType:
		return c, l.mayRemove(c.Type)
	case core.SetSchedule:
		return l.schedules.Plan(c)
	}
	return c, nil
}

// tells reports whether a decision makes the loop tell a registered worker to stop its run:
// see tableFollows.
func (l *loop) tells(dec *core.Decision, it *events.Item) bool {
	if !dec.WasRunning || it == nil {
		return false
	}
	d := l.table.ByID[dec.ID]
	return d != nil && d.Token == it.Token && l.workforce.registry.Knows(it.Worker)
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
	if _, refused := errors.AsType[*events.Error](err); refused || err == nil {
		return nil
	}
	return err
}

// reportJob is the job of a call of Report.
type reportJob struct {
	reports []command.Report
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
	if err != nil {
		return err
	}
	j.answers = append(j.answers, answer)
	return nil
}

func (j *reportJob) finish() { j.done(j.answers) }

func (j *reportJob) abandon(err *events.Error) {
	j.answers = j.answers[:0]
	for range j.reports {
		j.answers = append(j.answers, wire.Reported{Error: wire.FromError(err)})
	}
	j.done(j.answers)
}

// report decides one report.
func (l *loop) report(r *command.Report) (wire.Reported, error) {
	tok, err := wire.ParseToken(r.Token)
	if err != nil {
		return wire.Reported{Error: wire.FromError(err)}, nil
	}
	d := l.table.ByToken[tok]
	if d != nil && d.Ack {
		d = nil // nobody may report on it
	}
	cmd, err := r.Command(random())
	if err != nil {
		return wire.Reported{Error: wire.FromError(err)}, nil
	}
	if err := l.assigner.begin(d, r.Report); err != nil {
		return wire.Reported{}, err
	}
	answer, err := l.runCommand(cmd, d)
	if err == nil && answer.Error != nil && d != nil && d.ID.String() == r.ID {
		// A worker whose run was cancelled may report on it before it hears of that.
		it, err := l.state.Item(d.ID)
		if err != nil {
			return wire.Reported{}, err
		}
		if it != nil && it.State == events.StateCancelled {
			answer.State = it.State
		}
	}
	return answer, err
}
