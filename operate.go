package streamwright

import (
	"context"
	"encoding/json"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// What the engine answers about dead letters, as it goes over the wire.
type (
	// Selection says which items are meant: the filters of a list, how they
	// ended, and when.
	Selection = wire.Selection
	// CausesQuery asks what items have died of, and Causes answers.
	CausesQuery = wire.CausesQuery
	Causes      = wire.CausesReply
	// Cause is a kind of failure that items have died of.
	Cause = wire.Cause
	// Bulk does one thing to the items of a selection.
	Bulk = wire.Bulk
	// BulkResult is the outcome of a Bulk.
	BulkResult = wire.BulkReply
	// Rejected is a submission that became no item.
	Rejected = wire.Rejected
	// RejectedFilter says which of them to list, and RejectedPage is a page.
	RejectedFilter = wire.ListRejected
	RejectedPage   = wire.RejectedListed
	// Correction changes a rejected submission before it is submitted again.
	Correction = wire.ReplayRejected
)

// bulkTry bounds the time for one page of a bulk.
const bulkTry = 90 * time.Second

// Dead returns a page of dead items, those that died last first, without params
// and results. Go on with NextCursor as the selection's Cursor.
func (c *Client) Dead(ctx context.Context, s Selection) (Page, error) {
	if s.MinPosition == "" {
		s.MinPosition = c.Position()
	}
	return ask[Page](ctx, c, wire.APIDead, s)
}

// Causes returns what items have died of, with counts.
func (c *Client) Causes(ctx context.Context, q CausesQuery) (Causes, error) {
	if q.MinPosition == "" {
		q.MinPosition = c.Position()
	}
	return ask[Causes](ctx, c, wire.APICauses, q)
}

// ReplayOptions holds what a replay changes; fields that are not set keep their values.
type ReplayOptions struct {
	Params      json.RawMessage // nil: as they were
	Patch       json.RawMessage // a JSON merge patch (RFC 7396) applied to the params; not with Params
	Priority    *wire.Priority
	MaxAttempts int    // further ones; 0: the type's
	Reason      string // for the history
}

// Replay queues a dead or cancelled item again. An item in another state, or
// whose dedup key another live item holds, is CodeWrongState.
//
// A replay that is repeated after its reply was lost is refused: the item is
// queued then.
func (c *Client) Replay(ctx context.Context, id string, a ReplayOptions) (events.ItemState, error) {
	r, err := ask[wire.ReplayReply](ctx, c, wire.APIReplay, wire.Replay{ID: id, Params: a.Params, Patch: a.Patch, Priority: a.Priority, MaxAttempts: a.MaxAttempts, Reason: a.Reason})
	c.ObservePosition(r.Position)
	return r.State, err
}

// Purge forgets an item that has ended, with all that is kept of it. One that
// has not is CodeWrongState.
func (c *Client) Purge(ctx context.Context, id, reason string) error {
	r, err := ask[wire.ReplayReply](ctx, c, wire.APIPurge, wire.Purge{ID: id, Reason: reason})
	c.ObservePosition(r.Position)
	return err
}

// BulkPage does a bulk's action to one page of its selection: at most 1,000
// items, each changed on its own.
func (c *Client) BulkPage(ctx context.Context, b Bulk) (BulkResult, error) {
	if b.Select.MinPosition == "" {
		b.Select.MinPosition = c.Position()
	}
	r, err := askFor[BulkResult](ctx, c, wire.APIBulk, b, bulkTry, c.set.patience)
	c.ObservePosition(r.Position)
	return r, err
}

// Bulk does a bulk's action to all of its selection, page after page, and
// returns the sums, with the errors of the first few items that failed.
// progress, which may be nil, is told the sums so far. When it ends early (with
// the context, or an error), what was done stays done, and the result says how
// much that is.
func (c *Client) Bulk(ctx context.Context, b Bulk, progress func(BulkResult)) (BulkResult, error) {
	const keptErrors = 10
	sum := BulkResult{}
	for {
		page, err := c.BulkPage(ctx, b)
		if err != nil {
			return sum, err
		}
		sum.Matched += page.Matched
		sum.Changed += page.Changed
		sum.Failed += page.Failed
		sum.Errors = append(sum.Errors, page.Errors[:min(len(page.Errors), keptErrors-len(sum.Errors))]...)
		sum.Position, sum.NextCursor = page.Position, page.NextCursor
		if len(sum.Sample) == 0 {
			sum.Sample = page.Sample
		}
		for t, n := range page.Types {
			if sum.Types == nil {
				sum.Types = map[string]int{}
			}
			sum.Types[t] += n
		}
		if progress != nil {
			progress(sum)
		}
		if b.Select.Cursor = page.NextCursor; b.Select.Cursor == "" {
			return sum, nil
		}
	}
}

// Rejected returns a page of the submissions that became no item, newest first,
// without their originals.
func (c *Client) Rejected(ctx context.Context, f RejectedFilter) (RejectedPage, error) {
	if f.MinPosition == "" {
		f.MinPosition = c.Position()
	}
	return ask[RejectedPage](ctx, c, wire.APIRejected, f)
}

// GetRejected returns a rejected submission with its original, by the sequence
// of its event.
func (c *Client) GetRejected(ctx context.Context, seq events.Seq) (Rejected, error) {
	return ask[Rejected](ctx, c, wire.APIShowRejected, wire.GetRejected{Seq: seq, MinPosition: c.Position()})
}

// GetRejectedByIntake is GetRejected by the sequence in the publish's ack.
func (c *Client) GetRejectedByIntake(ctx context.Context, seq uint64) (Rejected, error) {
	return ask[Rejected](ctx, c, wire.APIShowRejected, wire.GetRejected{IntakeSeq: seq, MinPosition: c.Position()})
}

// ReplayRejected submits a rejected submission anew, with corrections. The new
// item's trigger is "rejected:SEQ". Like Submit it may be repeated under the id
// that the returned Submitted holds, and still makes one item.
func (c *Client) ReplayRejected(ctx context.Context, fix Correction) (Submitted, error) {
	if fix.ID == "" {
		var err error
		if fix.ID, err = c.ids.next(); err != nil {
			return Submitted{}, err
		}
	}
	out, err := ask[Submitted](ctx, c, wire.APIReplayRejected, fix)
	if err == nil {
		err = out.Error.Err()
	}
	if err != nil {
		return Submitted{ID: fix.ID}, err
	}
	c.ObservePosition(out.Position)
	return out, nil
}

// PurgeRejected forgets a rejected submission.
func (c *Client) PurgeRejected(ctx context.Context, seq events.Seq, reason string) error {
	r, err := ask[wire.PurgedRejected](ctx, c, wire.APIPurgeRejected, wire.PurgeRejected{Seq: seq, Reason: reason})
	c.ObservePosition(r.Position)
	return err
}

// ScheduleInfo is a schedule, and where it is among its ticks.
type ScheduleInfo = wire.ScheduleInfo

// Schedule is periodic work: at each of its ticks the engine makes an item of
// its type. docs/guides/SCHEDULES.md says when ticks come, and what becomes of those
// that are missed. Name, Type and one of Cron and Every must be set.
type Schedule struct {
	Name string // a-z and 0-9 with single - or _ between them, at most 63 bytes
	Type string
	// Cron is an expression of five fields, or a word such as @daily, in Zone:
	// an IANA name such as Europe/Berlin; empty: UTC.
	Cron, Zone string
	// Every, at least a second, is an interval instead. Anchor is one of its
	// ticks; zero: the time at which it is set.
	Every  time.Duration
	Anchor time.Time
	// Missed decides about ticks that came while no engine ran, or in a
	// pause: "skip", "one" item for all of them (empty), or "all", one for each.
	Missed string
	// Overlap decides about a tick whose previous item has not ended:
	// "distinct": both run (empty); "merge": it becomes part of it; "defer": it
	// waits for it; "supersede": it replaces it.
	Overlap     string
	Params      any // of the items, as JSON; at most 64 KiB
	Priority    *wire.Priority
	Tenant      string
	Labels      map[string]string
	MaxAttempts int           // 0: the type's
	Timeout     time.Duration // 0: the type's
	Paused      bool          // it does not tick
}

func (s *Schedule) request() (wire.Schedule, error) {
	params, err := encodeParams(s.Params)
	if err != nil {
		return wire.Schedule{}, err
	}
	if s.Every < 0 || s.Timeout < 0 || s.Every%time.Millisecond != 0 {
		return wire.Schedule{}, events.Refuse(events.CodeBadRequest, "schedule %s: every (%v) and timeout (%v) must not be negative, and every be whole milliseconds", s.Name, s.Every, s.Timeout)
	}
	return wire.Schedule{
		Name: s.Name, Type: s.Type, Cron: s.Cron, EveryMS: s.Every.Milliseconds(), Anchor: s.Anchor, Zone: s.Zone, Missed: s.Missed, Overlap: s.Overlap,
		Params: params, Priority: s.Priority, Tenant: s.Tenant, Labels: s.Labels, MaxAttempts: s.MaxAttempts, TimeoutMS: wire.Millis(s.Timeout), Paused: s.Paused,
	}, nil
}

// Schedules lists the schedules, by name.
func (c *Client) Schedules(ctx context.Context) ([]ScheduleInfo, error) {
	r, err := ask[wire.SchedulesReply](ctx, c, wire.APISchedules, wire.StatsRequest{MinPosition: c.Position()})
	return r.Schedules, err
}

// SetSchedule makes a schedule, or replaces the one of its name. One whose
// timing stays the same keeps its place among its ticks. A schedule that
// engine.toml sets is CodeSetInFile.
func (c *Client) SetSchedule(ctx context.Context, s Schedule) (ScheduleInfo, error) {
	req, err := s.request()
	if err != nil {
		return ScheduleInfo{}, err
	}
	return c.changeSchedule(ctx, wire.APIScheduleSet, req)
}

// PauseSchedule stops a schedule's ticks.
func (c *Client) PauseSchedule(ctx context.Context, name string) (ScheduleInfo, error) {
	return c.changeSchedule(ctx, wire.APISchedulePause, wire.ScheduleName{Name: name})
}

// ResumeSchedule has a paused schedule tick again. The ticks of the pause count
// as missed.
func (c *Client) ResumeSchedule(ctx context.Context, name string) (ScheduleInfo, error) {
	return c.changeSchedule(ctx, wire.APIScheduleResume, wire.ScheduleName{Name: name})
}

func (c *Client) changeSchedule(ctx context.Context, op string, req any) (ScheduleInfo, error) {
	r, err := ask[wire.ScheduleReply](ctx, c, op, req)
	c.ObservePosition(r.Position)
	if r.Schedule == nil {
		return ScheduleInfo{}, err
	}
	return *r.Schedule, err
}

// RemoveSchedule ends a schedule. Items that it has made stay.
func (c *Client) RemoveSchedule(ctx context.Context, name string) error {
	r, err := ask[wire.ScheduleReply](ctx, c, wire.APIScheduleRemove, wire.ScheduleName{Name: name})
	c.ObservePosition(r.Position)
	return err
}

// FireSchedule makes an item of a schedule now, beside its ticks, also of one
// that is paused. It chooses the id, so that trying again makes no second item.
func (c *Client) FireSchedule(ctx context.Context, name string) (Submitted, error) {
	id, err := c.ids.next()
	if err != nil {
		return Submitted{}, err
	}
	s, err := ask[Submitted](ctx, c, wire.APIScheduleFire, wire.ScheduleFire{Name: name, ID: id})
	c.ObservePosition(s.Position)
	return s, err
}

// PauseOptions say why a type is paused, and who has done it.
type PauseOptions struct {
	Reason string // at most 256 bytes
	By     string // at most 256 bytes
	// Until is when the pause ends by itself, For how long it lasts from now on;
	// at most one of them. Neither: until [Client.Resume].
	Until time.Time
	For   time.Duration // at most ten years
}

// Pause holds the items of a type back until [Client.Resume]: none is begun,
// those that run go on, and submissions are accepted. It outlives the engine's
// restart. Of a type that is paused it changes when that ends, if the options say
// otherwise. It reports whether it has changed anything.
func (c *Client) Pause(ctx context.Context, typ string, o PauseOptions) (changed bool, err error) {
	return c.changed(ctx, wire.APIPause, wire.Pause{Type: typ, Reason: o.Reason, By: o.By, Until: o.Until, ForMS: wire.Millis(o.For)})
}

// Resume ends a pause, and reports whether there was one. A type that nobody has
// used is CodeNotFound.
func (c *Client) Resume(ctx context.Context, typ string) (changed bool, err error) {
	return c.changed(ctx, wire.APIResume, wire.Resume{Type: typ})
}

// RemoveType forgets a type that nothing uses, with its settings and its pause. It
// is CodeWrongState while the type has items (those that have ended and are still
// kept, too), a schedule or a worker, CodeSetInFile while engine.toml has a table
// for it, and CodeNotFound if there is no such type. Its next submission makes it
// known again.
func (c *Client) RemoveType(ctx context.Context, typ string) error {
	_, err := c.changed(ctx, wire.APITypeRemove, wire.TypeRemove{Type: typ})
	return err
}

// ResetCircuit closes the circuit of a type at once, and reports whether it was
// not closed.
func (c *Client) ResetCircuit(ctx context.Context, typ string) (changed bool, err error) {
	return c.changed(ctx, wire.APICircuitReset, wire.CircuitReset{Type: typ})
}

// ResetWorkerCircuit is ResetCircuit for that of a worker.
func (c *Client) ResetWorkerCircuit(ctx context.Context, worker string) (changed bool, err error) {
	return c.changed(ctx, wire.APICircuitReset, wire.CircuitReset{Worker: worker})
}

func (c *Client) changed(ctx context.Context, endpoint string, req any) (bool, error) {
	r, err := ask[wire.Changed](ctx, c, endpoint, req)
	c.ObservePosition(r.Position)
	return r.Changed, err
}

// proofSilence bounds how long Verify and Rebuild wait for the next sign of
// progress.
const proofSilence = time.Minute

// Verify has the engine replay the log into a second store and compare that
// with the live one. progress, which may be nil, is told how far it is. A
// difference is no error: look at Equal.
func (c *Client) Verify(ctx context.Context, progress func(Proof)) (Proof, error) {
	return c.prove(ctx, wire.APIVerify, progress)
}

// Rebuild has the engine replace its store by one rebuilt from the log.
func (c *Client) Rebuild(ctx context.Context, progress func(Proof)) (Proof, error) {
	return c.prove(ctx, wire.APIRebuild, progress)
}

// prove makes a request that is answered by a stream of replies. It is not
// repeated: the work is long, and the caller sees that it failed.
func (c *Client) prove(ctx context.Context, op string, progress func(Proof)) (Proof, error) {
	sub, err := c.sendAsync(op, []byte("{}"))
	if err != nil {
		return Proof{}, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	for {
		quiet, cancel := context.WithTimeout(ctx, proofSilence)
		msg, err := sub.NextMsgWithContext(quiet)
		cancel()
		if err != nil {
			if ctx.Err() != nil {
				return Proof{}, endOf(op, ctx.Err(), nil)
			}
			return Proof{}, c.failed(op, err)
		}
		data, err := content(op, msg)
		if err != nil {
			return Proof{}, err
		}
		var p Proof
		if err := json.Unmarshal(data, &p); err != nil {
			return Proof{}, unreadable(op, err)
		}
		if p.Done {
			return p, nil
		}
		if progress != nil {
			progress(p)
		}
	}
}

// Cancel stops an item from running, or from running on; reason may be empty.
// wasRunning is true if a worker had the item: its handler is being told.
func (c *Client) Cancel(ctx context.Context, id, reason string) (state events.ItemState, wasRunning bool, err error) {
	r, err := ask[wire.Cancelled](ctx, c, wire.APICancel, wire.Cancel{ID: id, Reason: reason})
	c.ObservePosition(r.Position)
	return r.State, r.WasRunning, err
}

// RescheduleOptions holds what Reschedule changes of a queued item; fields that are not set keep their values.
type RescheduleOptions struct {
	Priority    *wire.Priority
	AvailableAt time.Time     // at most one of these three
	Delay       time.Duration // from now
	Now         bool          // whatever it waits for
}

// Reschedule changes when and in what order a queued item runs. An item in
// another state is CodeWrongState.
func (c *Client) Reschedule(ctx context.Context, id string, o RescheduleOptions) error {
	r, err := ask[wire.Rescheduled](ctx, c, wire.APIReschedule, wire.Reschedule{
		ID: id, Priority: o.Priority, AvailableAt: o.AvailableAt, DelayMS: wire.Millis(o.Delay), Now: o.Now,
	})
	c.ObservePosition(r.Position)
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

// DrainMark records that a worker is to drain.
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

// Retention describes what the engine keeps of the log and of ended items.
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
