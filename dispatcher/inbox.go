package dispatcher

import (
	"context"

	"golang.org/x/sync/semaphore"

	"github.com/streamwright/streamwright/dispatcher/weight"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Bounds in bytes: the number of messages says little about the memory they take.
const (
	maxRequestBytes = 64 << 20 // requests accepted and not yet answered, in each inbox
	maxBatchBytes   = 2 << 20  // above this, or a quarter of a message, a batch takes no further decision

	// maxUnprojectedBytes bounds the batches appended and not yet projected; above it, no
	// further batch is appended.
	maxUnprojectedBytes = 8 * maxBatchBytes
)

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
func (d *Dispatcher) enqueue(ctx context.Context, to inbox, j job, bytes int) error {
	w, err := weigh(ctx, to.budget, maxRequestBytes, j, bytes)
	if err != nil {
		return errBusy
	}
	if err := d.queue(ctx, to.ch, w); err != nil {
		to.budget.Release(w.weight)
		return err
	}
	return nil
}

func (d *Dispatcher) queue(ctx context.Context, to chan<- job, j job) error {
	select {
	case <-d.drain.Done():
		return errClosed
	case <-d.ended:
		return errClosed
	default:
	}
	if s, on := d.StandsBy(); on {
		return errNotOwner(s.Owner)
	}
	select {
	case to <- j:
		select {
		case <-d.ended: // the loop may have ended before taking it
			d.refuseQueued(errClosed)
		default:
		}
		return nil
	case <-d.ended:
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

func (j *commandJob) bytes() int { return weight.Commands(j.cmds) }

func (j *reportJob) bytes() (n int) {
	for i := range j.reports {
		n += reportBytes(j.reports[i].Report)
	}
	return n
}

func reportBytes(r *wire.Report) int { return weight.Overhead + r.Size() }
