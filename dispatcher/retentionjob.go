package dispatcher

import (
	"context"
	"time"

	"github.com/streamwright/streamwright/events"
)

// RetentionStatus is what is known of retention.
type RetentionStatus struct {
	First    events.Seq // that the log keeps, as far as the engine knows
	Last     events.Seq
	Retained int64 // items
	Held     int   // of them, past their time but still referred to, as of the last look
	Pruned   int64 // in all
	CutAt    time.Time
	Phase    string // of the round under way; empty: none
}

// Retention returns what is known of retention.
func (e *Engine) Retention(ctx context.Context) (RetentionStatus, error) {
	return e.retention(ctx, false)
}

// Cut begins a round of snapshots, behind which the log is cut; if one is under
// way, that one goes on. It returns at once.
func (e *Engine) Cut(ctx context.Context) (RetentionStatus, error) { return e.retention(ctx, true) }

func (e *Engine) retention(ctx context.Context, cut bool) (RetentionStatus, error) {
	j := &retentionJob{cut: cut, out: make(chan retentionReply, 1)}
	if err := e.enqueue(ctx, e.requests, j, overhead); err != nil {
		return RetentionStatus{}, err
	}
	select {
	case r := <-j.out:
		return r.status, r.err
	case <-ctx.Done():
		return RetentionStatus{}, ctx.Err()
	}
}

type retentionJob struct {
	cut    bool
	out    chan retentionReply
	status RetentionStatus
}

type retentionReply struct {
	status RetentionStatus
	err    error
}

func (j *retentionJob) len() int { return 1 }

func (j *retentionJob) decide(l *loop, _ int) error {
	k, m := &l.retention, l.state.Meta()
	if j.cut && (k.phase == cutIdle || k.phase == cutSyncs && l.state.Meta().CutEnd == k.end && k.first == k.began) {
		k.asked, k.phase = true, cutIdle
	}
	j.status = RetentionStatus{First: k.first, Last: m.Applied, Retained: l.retention.retained(), Held: k.heldLast, Pruned: m.Pruned, CutAt: m.CutTime, Phase: phaseNames[k.phase]}
	if k.asked {
		j.status.Phase = phaseNames[cutBegun]
	}
	return nil
}

func (j *retentionJob) finish()                   { j.out <- retentionReply{status: j.status} }
func (j *retentionJob) abandon(err *events.Error) { j.out <- retentionReply{err: err} }
