package streamwright

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Get returns an item, with params and result. An unknown id is CodeNotFound.
func (c *Client) Get(ctx context.Context, id string) (WorkItem, error) {
	return c.get(ctx, wire.Get{ID: id})
}

// GetByIntake returns the item that a plain publish became, by the sequence
// number in the publish's ack. It may be asked at once: the engine waits for its
// decision, for two seconds at most. After that, and for a publish that was
// rejected, it is CodeNotFound.
func (c *Client) GetByIntake(ctx context.Context, seq uint64) (WorkItem, error) {
	return c.get(ctx, wire.Get{IntakeSeq: seq})
}

func (c *Client) get(ctx context.Context, g wire.Get) (WorkItem, error) {
	g.MinPosition = c.Position()
	it, err := ask[WorkItem](ctx, c, wire.APIGet, g)
	c.Saw(it.Position)
	return it, err
}

// List returns a page of items, newest change first, without params and
// results. A page may be short, even empty, and still have a NextCursor; go on
// with that as the filter's Cursor until there is none, or use [Client.All].
func (c *Client) List(ctx context.Context, f Filter) (Page, error) {
	if f.MinPosition == "" {
		f.MinPosition = c.Position()
	}
	return ask[Page](ctx, c, wire.APIList, f)
}

// All lists page after page. The filter's Limit is the size of a page. It ends
// after the first error.
func (c *Client) All(ctx context.Context, f Filter) iter.Seq2[WorkItem, error] {
	return func(yield func(WorkItem, error) bool) {
		for {
			page, err := c.List(ctx, f)
			if err != nil {
				yield(WorkItem{}, err)
				return
			}
			for _, it := range page.Items {
				if !yield(it, nil) {
					return
				}
			}
			if f.Cursor = page.NextCursor; f.Cursor == "" {
				return
			}
		}
	}
}

// History returns an item's events, oldest first.
func (c *Client) History(ctx context.Context, id string) ([]Event, error) {
	r, err := ask[wire.HistoryReply](ctx, c, wire.APIHistory, wire.History{ID: id, MinPosition: c.Position()})
	return r.Events, err
}

// Logs returns the last records of an item's log, oldest first: limit of them,
// at most 10,000; 0 means 1,000.
func (c *Client) Logs(ctx context.Context, id string, limit int) ([]LogRecord, error) {
	r, err := ask[wire.LogsReply](ctx, c, wire.APILogs, wire.Logs{ID: id, Limit: limit})
	return r.Records, err
}

// Stats returns the engine at a glance.
func (c *Client) Stats(ctx context.Context) (Stats, error) {
	return ask[Stats](ctx, c, wire.APIStats, wire.See{MinPosition: c.Position()})
}

// Types lists the types and their settings.
func (c *Client) Types(ctx context.Context) ([]TypeInfo, error) {
	r, err := ask[wire.TypesReply](ctx, c, wire.APITypes, wire.See{MinPosition: c.Position()})
	return r.Types, err
}

// Workers lists the registered workers.
func (c *Client) Workers(ctx context.Context) ([]WorkerInfo, error) {
	r, err := ask[wire.WorkersReply](ctx, c, wire.APIWorkers, struct{}{})
	return r.Workers, err
}

// Info describes the engine.
func (c *Client) Info(ctx context.Context) (Info, error) {
	return ask[Info](ctx, c, wire.APIInfo, struct{}{})
}

// Retention is what the engine keeps of the log and of ended items.
type Retention = wire.Retention

// Cut has the engine re-state everything, and cut the log in front of that, now.
// It returns at once; [Client.Info] tells how far it has come.
func (c *Client) Cut(ctx context.Context) (Retention, error) {
	return ask[Retention](ctx, c, wire.APICut, struct{}{})
}

// Clock is the engine's time, and what it makes of the NATS server's.
type Clock = wire.Clock

// Clock returns the engine's time, the NATS server's, and whether that is
// plausible.
func (c *Client) Clock(ctx context.Context) (Clock, error) {
	return ask[Clock](ctx, c, wire.APIClock, struct{}{})
}

// AcceptClock confirms the NATS server's clock, which is the engine's from then
// on; by says who does, and may be empty. Everything that is due by that time
// then happens: items expire, ended ones are pruned. It is recorded in the log,
// and may set the clock back. The engine is away for a moment meanwhile.
func (c *Client) AcceptClock(ctx context.Context, by string) (Clock, error) {
	return ask[Clock](ctx, c, wire.APIClockAccept, wire.AcceptClock{By: by})
}

const (
	// waitFor is how long the engine holds one wait request. Short enough that
	// a wait survives an engine's restart soon, long enough to cost nothing.
	waitFor = 15 * time.Second
	// maxMergeHops bounds how far Wait follows merged items.
	maxMergeHops = 16
)

// Wait returns an item once it is completed, dead or cancelled, trying until
// ctx ends. Of an item that was merged into another it returns that other one.
func (c *Client) Wait(ctx context.Context, id string) (WorkItem, error) {
	for hops := 0; ; {
		it, err := c.waitOnce(ctx, id)
		switch {
		case err != nil:
			return it, err
		case it.State == events.StateMerged && it.MergedInto != "":
			if hops++; hops > maxMergeHops {
				return it, events.Refuse(events.CodeInternal, "item %s was merged more than %d times over", id, maxMergeHops)
			}
			id = it.MergedInto
		case it.State.Terminal():
			return it, nil
		}
	}
}

// waitOnce asks once for an item, as it is when it ends or after waitFor.
func (c *Client) waitOnce(ctx context.Context, id string) (WorkItem, error) {
	hold := waitFor
	if end, ok := ctx.Deadline(); ok {
		hold = max(min(hold, time.Until(end)), time.Millisecond)
	}
	req := wire.Wait{ID: id, TimeoutMS: wire.Millis(hold), MinPosition: c.Position()}
	it, err := askFor[WorkItem](ctx, c, wire.APIWait, req, hold+c.set.tryTimeout, forever)
	c.Saw(it.Position)
	return it, err
}

// Cancel asks that an item be not run, or no longer; reason may be empty.
// wasRunning says that a worker had it: its handler is being told.
func (c *Client) Cancel(ctx context.Context, id, reason string) (state events.ItemState, wasRunning bool, err error) {
	r, err := ask[wire.Cancelled](ctx, c, wire.APICancel, wire.Cancel{ID: id, Reason: reason})
	c.Saw(r.Position)
	return r.State, r.WasRunning, err
}

// Order is what Reschedule changes of a queued item. What is not set stays.
type Order struct {
	Priority    *wire.Priority
	AvailableAt time.Time     // at most one of these three
	Delay       time.Duration // from now
	Now         bool          // whatever it waits for
}

// Reschedule changes when and in what order a queued item runs. An item in
// another state is CodeWrongState.
func (c *Client) Reschedule(ctx context.Context, id string, o Order) error {
	r, err := ask[wire.Rescheduled](ctx, c, wire.APIReschedule, wire.Reschedule{
		ID: id, Priority: o.Priority, AvailableAt: o.AvailableAt, DelayMS: wire.Millis(o.Delay), Now: o.Now,
	})
	c.Saw(r.Position)
	return err
}

// Configure changes some of a type's settings: patch is an object with fields
// of events.TypeSettings, as JSON or as what encodes to it. It returns the type
// as it is then.
func (c *Client) Configure(ctx context.Context, typ string, patch any) (TypeInfo, error) {
	raw, err := json.Marshal(patch)
	if err != nil {
		return TypeInfo{}, events.Refuse(events.CodeBadRequest, "settings of %s can't be written as JSON: %v", typ, err)
	}
	return ask[TypeInfo](ctx, c, wire.APIConfigure, wire.Configure{Type: typ, Settings: raw})
}

// DrainMark is that a worker is to drain.
type DrainMark = wire.DrainMark

// Drains lists the workers that are marked to drain, also those that are not
// registered, by id.
func (c *Client) Drains(ctx context.Context) ([]DrainMark, error) {
	r, err := ask[wire.WorkersReply](ctx, c, wire.APIWorkers, struct{}{})
	return r.Drains, err
}

// Undrain has a worker get work again that was marked by [Client.Drain], and
// reports whether it was. A worker that has heard of the mark may have stopped
// for good.
func (c *Client) Undrain(ctx context.Context, worker string) (changed bool, err error) {
	return c.changed(ctx, wire.APIUndrain, wire.Undrain{Worker: worker})
}

// Drain asks a worker to finish what it runs and take no more. That is recorded,
// and outlives a restart of the engine, and of the worker: it ends when the worker
// unregisters, by [Client.Undrain], or when nothing was heard of the worker for
// 24 hours.
func (c *Client) Drain(ctx context.Context, worker string) error {
	_, err := ask[wire.OK](ctx, c, wire.APIDrain, wire.Drain{Worker: worker})
	return err
}
