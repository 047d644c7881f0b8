package streamwright

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// What the engine answers about items.
type (
	// WorkItem is a work item as queries show it.
	WorkItem = wire.Item
	// Progress is the progress that a run has reported.
	Progress = wire.Progress
	// ItemWait is what an item waits for.
	ItemWait = wire.WaitShown
	// Signalled is the answer to a signal.
	Signalled = wire.Signalled
	// SignalError is what somebody who presents a token says instead of a result.
	SignalError = events.SignalError
	// Filter says which items to list, and the size of a page.
	Filter = wire.List
	// Page is a page of items.
	Page = wire.Listed
	// Event is one event of an item's history, or of a tail.
	Event = wire.HistoryEvent
	// StateDurations is the time an item has spent in each state.
	StateDurations = wire.StateDurations
	// LogRecord is one line of an item's log.
	LogRecord = wire.LogRecord
	// OutputChunk is a part of an item's output.
	OutputChunk = wire.OutputChunk
	// OutputSummary says how much of an item's output is stored.
	OutputSummary = wire.OutputSummary
	// Tree is an item with the items that it has spawned, and those above it.
	Tree = wire.TreeReply
	// TreeNode is an item in a Tree.
	TreeNode = wire.TreeNode
	// Reason is one reason why an item is not running, in words and as a stable
	// code, which docs/guides/ROUTING.md lists.
	Reason = events.BlockReason
	// Explanation holds the reasons why an item is not running.
	Explanation = wire.WhyReply
	// Waited holds the items of a wait that have ended, in the order asked, and which have
	// not. Merged says into which of Ended an item that was asked for was merged.
	Waited = wire.Waited
	// BulkResult is the outcome of a Bulk.
	BulkResult = wire.BulkReply
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
	c.ObservePosition(it.Position)
	return it, err
}

// List returns a page of items, newest change first, without params and
// results. A page may be short, even empty, and still have a NextCursor; set the
// filter's Cursor to it until there is none, or use [Client.All].
func (c *Client) List(ctx context.Context, f Filter) (Page, error) {
	f.MinPosition = cmp.Or(f.MinPosition, c.Position())
	return ask[Page](ctx, c, wire.APIList, f)
}

// All lists page after page. The filter's Limit is the size of a page. It ends
// after the first error. Where a page may lack items (its Stale says why), it ends with
// CodeUnavailable behind the last item.
func (c *Client) All(ctx context.Context, f Filter) iter.Seq2[WorkItem, error] {
	return func(yield func(WorkItem, error) bool) {
		stale := ""
		for {
			page, err := c.List(ctx, f)
			if err != nil {
				yield(WorkItem{}, err)
				return
			}
			stale = cmp.Or(page.Stale, stale)
			for _, it := range page.Items {
				if !yield(it, nil) {
					return
				}
			}
			if f.Cursor = page.NextCursor; f.Cursor == "" {
				break
			}
		}
		if err := listStale(stale); err != nil {
			yield(WorkItem{}, err)
		}
	}
}

// listStale returns the error that goes with a list that may lack something; nil if it has
// all.
func listStale(stale string) error { return wire.StaleError("the list is", stale) }

// History returns an item's events, oldest first: the first 10,000.
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

// waitFor is the time for which the engine holds one wait request: short enough that
// another engine is asked soon after this one has died, long enough to cost nothing.
const waitFor = 5 * time.Second

// Wait returns an item once it is completed, dead or cancelled, trying until
// ctx ends. Of an item that was merged into another it returns that other one.
func (c *Client) Wait(ctx context.Context, id string) (WorkItem, error) {
	w, err := c.waitFor(ctx, wire.Wait{IDs: []string{id}})
	if err != nil {
		return WorkItem{}, err
	}
	return w.Ended[0], nil
}

// WaitAll returns items once all of them have ended, as [Client.Wait] does one: at most
// 1,000, and an unknown id is CodeNotFound at once. If ctx ends first, the error is
// CodeTimeout, and the result has the items that have ended by then.
//
// An answer of the engine shows items whole up to 1 MiB. Of the others it shows id, type
// and state, and their Notes say so; [Client.Get] returns them.
func (c *Client) WaitAll(ctx context.Context, ids []string) (Waited, error) {
	return c.waitFor(ctx, wire.Wait{IDs: ids})
}

// WaitAny is [Client.WaitAll] until one of the items has ended. It returns all that have
// ended by then.
func (c *Client) WaitAny(ctx context.Context, ids []string) (Waited, error) {
	return c.waitFor(ctx, wire.Wait{IDs: ids, Any: true})
}

// waitFor waits until ctx ends. Each request is for the items that have not ended yet.
func (c *Client) waitFor(ctx context.Context, req wire.Wait) (Waited, error) {
	known := Waited{Merged: map[string]string{}}
	asked, heard := make([]string, len(req.IDs)), time.Time{}
	for i, id := range req.IDs {
		if parsed, err := events.ParseID(id); err == nil {
			id = parsed.String() // as answers have it
		}
		asked[i] = id
		known.Pending = append(known.Pending, wire.PendingItem{ID: id})
	}
	for {
		w, err := c.waitOnce(ctx, req)
		var end *ended
		switch {
		case errors.As(err, &end) && (!end.tried || time.Since(heard) < 2*waitFor): // else it says why nobody answers
			return inOrder(asked, known), notEnded(known.Pending, len(asked), end.cause)
		case err != nil:
			return inOrder(asked, known), err
		}
		heard = time.Now()
		known.Ended = append(known.Ended, w.Ended...)
		maps.Copy(known.Merged, w.Merged)
		known.Pending = w.Pending
		if len(w.Pending) == 0 || req.Any && len(w.Ended) > 0 {
			return inOrder(asked, known), nil
		}
		req.IDs = nil
		for _, p := range w.Pending {
			req.IDs = append(req.IDs, p.ID)
		}
	}
}

// inOrder returns a result with its items in the order asked, each once.
func inOrder(asked []string, w Waited) Waited {
	if len(w.Ended) < 2 {
		return w
	}
	byID := make(map[string]WorkItem, len(w.Ended))
	for _, it := range w.Ended {
		byID[it.ID] = it
	}
	w.Ended = make([]WorkItem, 0, len(byID))
	for _, id := range asked {
		id = cmp.Or(w.Merged[id], id)
		if it, ok := byID[id]; ok {
			w.Ended = append(w.Ended, it)
			delete(byID, id)
		}
	}
	return w
}

// waitOnce asks once for items, as they are when they end or after waitFor. Of the time of
// ctx it leaves a tenth for the answer.
func (c *Client) waitOnce(ctx context.Context, req wire.Wait) (Waited, error) {
	hold := waitFor
	if end, ok := ctx.Deadline(); ok {
		left := time.Until(end)
		hold = max(min(hold, left-left/10), time.Millisecond)
	}
	req.Timeout, req.MinPosition = events.DurationOf(hold), c.Position()
	w, err := askFor[Waited](ctx, c, wire.APIWait, req, hold, forever)
	for _, it := range w.Ended {
		c.ObservePosition(it.Position)
	}
	return w, err
}

// PointInTime is a point of the log's past: a position, or a time (then its last
// event not after that), or whichever of the two comes first.
type PointInTime struct {
	Position Position
	Time     time.Time
}

// GetAt returns an item as it was at a moment, folded from its own history. Its
// Notes name the parts that are no longer known, its AsOf the last event that was
// folded. An item that did not exist yet is CodeNotFound.
func (c *Client) GetAt(ctx context.Context, id string, m PointInTime) (WorkItem, error) {
	return ask[WorkItem](ctx, c, wire.APIGet, wire.Get{ID: id, AtPosition: m.Position, AtTime: m.Time, MinPosition: c.Position()})
}

// Account returns an item's events, oldest first, with the time spent in each
// state, and the sums.
func (c *Client) Account(ctx context.Context, id string) ([]Event, StateDurations, error) {
	r, err := ask[wire.HistoryReply](ctx, c, wire.APIHistory, wire.History{ID: id, MinPosition: c.Position()})
	return r.Events, r.Totals, err
}

// Why explains why an item is not running now: all reasons at once, the most
// telling first. For a running item it says so; for an ended one, how it ended. An
// unknown id is CodeNotFound.
func (c *Client) Why(ctx context.Context, id string) (Explanation, error) {
	return ask[Explanation](ctx, c, wire.APIWhy, wire.Why{ID: id, MinPosition: c.Position()})
}

// Tree returns an item with the items that it has spawned, to a depth of 10 and at
// most 200 items, and with the path of items that spawned it.
func (c *Client) Tree(ctx context.Context, id string) (Tree, error) {
	return c.TreeWithin(ctx, id, 0, 0)
}

// TreeWithin is Tree with other bounds: at most depth levels (up to 100) and limit
// items (up to 10,000) below the item; 0 is the default.
func (c *Client) TreeWithin(ctx context.Context, id string, depth, limit int) (Tree, error) {
	return ask[Tree](ctx, c, wire.APITree, wire.Tree{ID: id, Depth: depth, Limit: limit, MinPosition: c.Position()})
}

// Cancel stops an item before or during its run; reason may be empty. wasRunning is
// true if a worker had the item; its handler is being notified.
func (c *Client) Cancel(ctx context.Context, id, reason string) (state ItemState, wasRunning bool, err error) {
	r, err := ask[wire.Cancelled](ctx, c, wire.APICancel, wire.Cancel{ID: id, Reason: reason})
	c.ObservePosition(r.Position)
	return r.State, r.WasRunning, err
}

// Signal is a signal to an item.
type Signal struct {
	Name    string // 1 to 256 bytes
	Payload any    // as JSON, at most 64 KiB; a json.RawMessage as it is; nil: none
	// MsgID tells the signal from others: one with the id of another is that one. Empty: a
	// fresh one, so that this call sends one signal however often it has to ask.
	MsgID string // at most 256 bytes
}

// first returns the signal as a submission has it; nil for none.
func (s *Signal) first() (*wire.FirstSignal, error) {
	if s == nil {
		return nil, nil
	}
	payload, err := encodeDocument("the payload of the signal "+s.Name, "is", s.Payload)
	return &wire.FirstSignal{Name: s.Name, Payload: payload, MsgID: s.MsgID}, err
}

// Signal sends an item a signal, which comes into its mailbox whatever the item is doing,
// and is kept there until the outcome of a run that was given it (see [workers.Wait]).
// Errors are CodeNotFound, CodeEnded for an item that has ended, CodeWrongState for one
// that was merged or is a batch, and CodeMailboxFull.
func (c *Client) Signal(ctx context.Context, id string, s Signal) (Signalled, error) {
	req := wire.Signal{ID: id, Name: s.Name, MsgID: s.MsgID}
	var err error
	if req.MsgID == "" {
		if req.MsgID, err = c.ids.next(); err != nil {
			return Signalled{}, err
		}
	}
	if req.Payload, err = encodeDocument("the payload of the signal "+s.Name, "is", s.Payload); err != nil {
		return Signalled{}, err
	}
	r, err := ask[Signalled](ctx, c, wire.APISignal, req)
	c.ObservePosition(r.Position)
	return r, err
}

// TokenResult is what is said with a token: a result, or an error.
type TokenResult struct {
	Result any // as JSON, at most 64 KiB; a json.RawMessage as it is; nil: none
	Error  *SignalError
}

// PresentToken presents a token that a handler has made (see [workers.Token]): its item gets the
// signal that the token is for. The same answer again does nothing more. Errors are CodeNotFound
// for an unknown token, CodeAlreadyCompleted after another answer, CodeEnded for one
// whose item has ended without it, and CodeMailboxFull.
func (c *Client) PresentToken(ctx context.Context, token string, a TokenResult) error {
	result, err := encodeDocument("the result", "is", a.Result)
	if err != nil {
		return err
	}
	_, err = ask[wire.TokenPresented](ctx, c, wire.APIToken, wire.PresentToken{Token: token, Result: result, Error: a.Error})
	return err
}

// RescheduleOptions holds what Reschedule changes of a queued item; fields that are not set keep their values.
type RescheduleOptions struct {
	Priority    int           // 1 to 9, or [Lowest]
	AvailableAt time.Time     // at most one of these three
	Delay       time.Duration // from now
	Now         bool          // whatever it waits for
}

// Reschedule changes when and in what order a queued item runs. An item in
// another state is CodeWrongState.
func (c *Client) Reschedule(ctx context.Context, id string, o RescheduleOptions) error {
	r, err := ask[wire.Rescheduled](ctx, c, wire.APIReschedule, wire.Reschedule{
		ID: id, Priority: priority(o.Priority), AvailableAt: o.AvailableAt, Delay: events.DurationOf(o.Delay), Now: o.Now,
	})
	c.ObservePosition(r.Position)
	return err
}

// ReplayOptions holds what a replay changes; fields that are not set keep their values.
type ReplayOptions struct {
	Params      json.RawMessage // nil: as they were
	Patch       json.RawMessage // a JSON merge patch (RFC 7396) applied to the params; not with Params
	Priority    int             // 1 to 9, or [Lowest]
	MaxAttempts int             // further ones; 0: as many as its submission or last replay chose, else the type's
	Reason      string          // for the history
}

// Replay queues a dead or cancelled item again. An item in another state, or
// whose dedup key another live item holds, is CodeWrongState.
//
// A replay that is repeated after its reply was lost is refused: the item is
// queued then.
func (c *Client) Replay(ctx context.Context, id string, a ReplayOptions) (ItemState, error) {
	r, err := ask[wire.ReplayReply](ctx, c, wire.APIReplay, wire.Replay{ID: id, Params: a.Params, Patch: a.Patch, Priority: priority(a.Priority), MaxAttempts: a.MaxAttempts, Reason: a.Reason})
	c.ObservePosition(r.Position)
	return r.State, err
}

// Purge forgets an item that has ended, with all that is kept of it. One that
// has not is CodeWrongState. The event log holds its params and result until it is
// cut ([Engine.CutPast]); backups hold what they held.
func (c *Client) Purge(ctx context.Context, id, reason string) error {
	r, err := ask[wire.ReplayReply](ctx, c, wire.APIPurge, wire.Purge{ID: id, Reason: reason})
	c.ObservePosition(r.Position)
	return err
}

// Bulk does one thing to the items of a selection. Items in a state that does not allow the
// action are skipped.
type Bulk struct {
	Action string // BulkReplay, BulkPurge, BulkCancel or BulkReschedule
	Select Selection
	All    bool // the selection may name nothing but a state
	DryRun bool // only return what would change

	Params      json.RawMessage // replay: the same for all of them
	Patch       json.RawMessage // replay: a JSON merge patch, applied to each item's own params
	MaxAttempts int             // replay
	Priority    int             // replay, reschedule: 1 to 9, or [Lowest]
	Now         bool            // reschedule
	Delay       time.Duration   // reschedule; rounded up to ms
	AvailableAt time.Time       // reschedule
	Reason      string          // replay, purge, cancel
}

func (b *Bulk) request() wire.Bulk {
	return wire.Bulk{
		Action: b.Action, Select: b.Select, All: b.All, DryRun: b.DryRun,
		Params: b.Params, Patch: b.Patch, MaxAttempts: b.MaxAttempts, Priority: priority(b.Priority),
		Now: b.Now, Delay: events.DurationOf(b.Delay), AvailableAt: b.AvailableAt, Reason: b.Reason,
	}
}

// bulkTry bounds the time for one page of a bulk.
const bulkTry = 90 * time.Second

// BulkPage does a bulk's action to one page of its selection: at most 1,000
// items, each changed on its own.
func (c *Client) BulkPage(ctx context.Context, b Bulk) (BulkResult, error) {
	b.Select.MinPosition = cmp.Or(b.Select.MinPosition, c.Position())
	r, err := askFor[BulkResult](ctx, c, wire.APIBulk, b.request(), bulkTry, c.set.patience)
	c.ObservePosition(r.Position)
	return r, err
}

// Bulk does a bulk's action to all of its selection, page after page, and
// returns the sums, with the errors of the first few items that failed. It calls
// progress, if not nil, with the sums so far. When it ends early (with the context,
// or an error), what was done stays done, and the result says how much that is.
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
