package dispatcher

import (
	"context"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

// endUnseenDrains ends the marks of workers that won't come back, while the batch has room.
// Each sweep calls it.
func (wf *workforce) endUnseenDrains(now time.Time) error {
	for _, w := range wf.drains.Unseen(now, wf.registry) {
		if !wf.room() {
			return nil
		}
		if _, _, err := wf.decide(core.EndDrain{Worker: w, Reason: events.ReasonUnseen}); fatal(err) != nil {
			return err
		}
	}
	return nil
}

// Drains returns the workers that are marked to drain, by id, registered or not.
func (d *Dispatcher) Drains() []wire.DrainMark {
	return wire.FromDrains(d.registry.Marks())
}

// Drain asks a worker to take no more work. The mark is recorded: it holds until the worker
// unregisters, until [Dispatcher.Undrain], or until the worker has not been heard of for
// registry.DrainUnseen. by is who asks; see [core.By].
func (d *Dispatcher) Drain(ctx context.Context, r wire.Drain, by string) (Outcome, error) {
	w := events.WorkerID(r.Worker)
	if err := d.registry.Drainable(w); err != nil {
		return Outcome{}, err
	}
	out, err := d.one(ctx, core.By{Name: by, Command: core.DrainWorker{Worker: w, Reason: r.Reason, By: r.By}})
	if err == nil {
		d.tell(w, wire.Control{Drain: true})
	}
	return out, err
}

// Undrain removes a worker's drain mark. A worker that has heard of the mark may have
// stopped for good meanwhile.
func (d *Dispatcher) Undrain(ctx context.Context, r wire.Undrain, by string) (Outcome, error) {
	return d.one(ctx, core.By{Name: by, Command: core.EndDrain{Worker: events.WorkerID(r.Worker), By: r.By}})
}

// Unregister removes a worker and ends its drain: the next worker with its id starts
// afresh. It requires the worker's session, which nobody else has.
func (d *Dispatcher) Unregister(ctx context.Context, u wire.Unregister) error {
	w := events.WorkerID(u.Worker)
	if u.Session == "" {
		return events.Refuse(events.CodeBadRequest, "the session is missing: send the one that the registration was answered with")
	}
	if free := d.registry.Leave(w, u.Session); !free || !d.registry.Marked(w) {
		return nil
	}
	_, err := d.one(ctx, core.EndDrain{Worker: w, Reason: events.ReasonLeft})
	return err
}
