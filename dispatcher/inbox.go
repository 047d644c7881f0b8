package dispatcher

import (
	"context"

	"golang.org/x/sync/semaphore"

	"github.com/streamwright/streamwright/dispatcher/intake"
	"github.com/streamwright/streamwright/dispatcher/retention"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

// Bounds in bytes: the number of messages says little about the memory they take.
const (
	maxRequestBytes = 64 << 20 // requests accepted and not yet answered, in each inbox
	maxBatchBytes   = 8 << 20  // above this, a batch takes no further decision

	// maxUnprojectedBytes bounds the batches appended and not yet projected; above it, no
	// further batch is appended.
	maxUnprojectedBytes = 8 * maxBatchBytes
)

// overhead is roughly the size of a command or an event without its documents.
const overhead = 512

// idBytes is the size of an id in an event's JSON.
const idBytes = 29

// inbox queues requests for the loop, bounded in number and in bytes. There are two, so
// that a flood of submissions holds up nothing else.
type inbox struct {
	ch     chan job
	budget *semaphore.Weighted
}

func newInbox() inbox {
	return inbox{ch: make(chan job, MaxRequests), budget: semaphore.NewWeighted(maxRequestBytes)}
}

// errBusy is the answer of an engine that can take no more for now.
var errBusy = events.Refuse(events.CodeUnavailable, "the engine has more requests than it can take: ask again later")

// enqueue hands a job to the loop, once its queue has room in number and in bytes.
func (e *Engine) enqueue(ctx context.Context, to inbox, j job, bytes int) error {
	w, err := weigh(ctx, to.budget, maxRequestBytes, j, bytes)
	if err != nil {
		return errBusy
	}
	if err := e.queue(ctx, to.ch, w); err != nil {
		to.budget.Release(w.weight)
		return err
	}
	return nil
}

func (e *Engine) queue(ctx context.Context, to chan<- job, j job) error {
	select {
	case <-e.drain.Done():
		return errClosed
	case <-e.ended:
		return errClosed
	default:
	}
	if s, on := e.StandsBy(); on {
		return errNotOwner(s.Owner)
	}
	select {
	case to <- j:
		select {
		case <-e.ended: // the loop may have ended before taking it
			e.refuseQueued(errClosed)
		default:
		}
		return nil
	case <-e.ended:
		return errClosed
	case <-ctx.Done():
		return errBusy
	}
}

// weighed is a job that holds a part of a byte budget until it is answered.
type weighed struct {
	job
	budget *semaphore.Weighted
	weight int64
}

// weigh waits for a job's share of a budget of most bytes. A job larger than the whole
// budget waits until it has all of it.
func weigh(ctx context.Context, budget *semaphore.Weighted, most int, j job, bytes int) (*weighed, error) {
	w := &weighed{job: j, budget: budget, weight: int64(min(bytes, most))}
	return w, budget.Acquire(ctx, w.weight)
}

func (w *weighed) finish() {
	w.job.finish()
	w.budget.Release(w.weight)
}

func (w *weighed) abandon(err *events.Error) {
	w.job.abandon(err)
	w.budget.Release(w.weight)
}

func (w *weighed) renumber(moved func(events.Seq) events.Seq) { renumber(w.job, moved) }

func (j *commandJob) bytes() (n int) {
	for _, c := range j.cmds {
		n += overhead
		switch c := c.(type) {
		case core.Submit:
			n += len(c.Params)
		case core.Complete:
			n += len(c.Result)
		case core.SaveCheckpoint:
			n += len(c.Checkpoint)
		case core.Spawn:
			for i := range c.Children {
				n += overhead + len(c.Children[i].Params)
			}
		case core.SpawnPart:
			for i := range c.Children {
				n += overhead + len(c.Children[i].Params)
			}
		case core.SetSchedule:
			n += len(c.Schedule.Params)
		}
	}
	return n
}

func (j *reportJob) bytes() (n int) {
	for i := range j.reports {
		n += reportBytes(&j.reports[i])
	}
	return n
}

func reportBytes(r *wire.Report) int { return overhead + r.Size() }

// eventBytes returns roughly the length of an event's JSON.
func eventBytes(ev *events.Event) int {
	switch b := ev.Body.(type) {
	case *events.Created:
		return overhead + len(b.Params)
	case *events.Completed:
		return overhead + len(b.Result)
	case *events.ScheduleSet:
		return overhead + len(b.Schedule.Params)
	case *events.Failed:
		return overhead + len(b.Error)
	case *events.Queued:
		return overhead + len(b.Outcomes)
	case *events.Checkpointed:
		return overhead + len(b.Checkpoint)
	case *events.Waiting:
		return overhead + idBytes*len(b.For)
	case *events.Spawned:
		return overhead + idBytes*len(b.Children)
	case *events.Rejected:
		return overhead + len(b.Text) + 4*len(b.Bytes)/3 + intake.HeaderBytes(b.Headers)
	}
	return overhead + retention.Bytes(ev)
}
