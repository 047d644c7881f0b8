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

// Bounds in bytes, since a number of messages says little about the memory
// that they take.
const (
	maxRequestBytes = 64 << 20 // of requests accepted and not yet answered, in each inbox
	maxBatchBytes   = 8 << 20  // past which a batch takes no further decision

	// maxUnprojectedBytes is that of the batches appended and not yet projected,
	// past which no further one is appended.
	maxUnprojectedBytes = 8 * maxBatchBytes
)

// overhead is what a command or an event costs beside its documents, roughly.
const overhead = 512

// idBytes is what an id takes in an event's JSON.
const idBytes = 29

// inbox is where requests wait for the loop, bounded in number and in bytes.
// There are two, so that a flood of submissions holds up nothing else.
type inbox struct {
	ch     chan job
	budget *semaphore.Weighted
}

func newInbox() inbox {
	return inbox{ch: make(chan job, MaxRequests), budget: semaphore.NewWeighted(maxRequestBytes)}
}

// errBusy is what an engine answers that can take no more for now.
var errBusy = events.Refuse(events.CodeUnavailable, "the engine has more requests than it can take: ask again later")

// enqueue hands a job to the loop, when its queue has room for it in number
// and in bytes.
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
	select {
	case to <- j:
		select {
		case <-e.ended: // nobody may be left to take it
			e.refuseAll()
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

// weigh waits for a job's part of a budget of so many bytes. One that is larger
// than all of it waits until it has it alone.
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

// eventBytes is about how long an event's JSON is.
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
