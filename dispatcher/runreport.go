package dispatcher

import (
	"github.com/streamwright/streamwright/dispatcher/table"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

// sizer is a job with commands whose decisions may be larger than others.
type sizer interface {
	// need returns the most events that the decision of the i-th command makes.
	need(i int) int
}

// needs returns how many events the decision of a job's i-th command may take in a batch.
func needs(j job, i int) int {
	if s, ok := j.(sizer); ok {
		return max(s.need(i), maxDecision)
	}
	return maxDecision
}

func (w *weighed) need(i int) int { return needs(w.job, i) }

func (j *commandJob) need(i int) int { return core.MaxEvents(j.cmds[i]) }

func (j *reportJob) need(i int) int {
	r, n := &j.reports[i], maxDecision
	switch r.Event {
	case wire.ReportStart, wire.ReportComplete, wire.ReportFail, wire.ReportRelease:
	default:
		if cmd, err := r.Command(0); err == nil { // else it will be refused
			n = core.MaxEvents(cmd)
		}
	}
	if r.Start {
		n++
	}
	return n
}

// runCommand decides a worker's report of a run, and answers it. d is the dispatch under
// whose token it came, nil for none.
func (l *loop) runCommand(cmd core.Command, d *table.Dispatch) (wire.Reported, error) {
	switch c := cmd.(type) {
	case core.SpawnInParts:
		if full := l.halt.noRoom(); full != nil {
			return wire.Reported{Error: wire.FromError(full)}, nil
		}
	case core.Spawn:
		if full := l.halt.noRoom(); full != nil {
			return wire.Reported{Error: wire.FromError(full)}, nil
		}
		l.nameChildren(&c)
		cmd = c
	}
	_, it, err := l.decide(cmd)
	if err := fatal(err); err != nil {
		return wire.Reported{}, err
	}
	if d != nil && d.Lingering && endsRun(cmd) {
		l.flight.letGo(d)
	}
	if err != nil {
		return wire.Reported{Error: wire.FromError(err)}, nil
	}
	if endsRun(cmd) {
		l.assigner.reported(d)
	}
	return wire.Reported{
		OK: true, Attempt: int(it.Attempt), Deadline: it.Deadline, Timeout: events.DurationOf(it.Timeout),
		State: it.State, Position: wire.PositionOf(l.state.Meta().Applied),
	}, nil
}

// nameChildren gives the children of a spawn fresh ids.
func (l *loop) nameChildren(c *core.Spawn) {
	for i := range c.Children {
		if c.Children[i].NewID.IsZero() {
			c.Children[i].NewID = l.newID()
		}
	}
}

// endsRun reports whether a worker that reports this command has let go of the run.
func endsRun(c core.Command) bool {
	switch c.(type) {
	case core.Complete, core.Fail, core.Release, core.Snooze, core.Park, core.Spawn, core.SpawnInParts:
		return true
	}
	return false
}
