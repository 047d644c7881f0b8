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
	// Cause is what items have died of.
	Cause = wire.Cause
	// Bulk does one thing to the items of a selection.
	Bulk = wire.Bulk
	// BulkResult says what became of them.
	BulkResult = wire.BulkReply
	// Rejected is a submission that became no item.
	Rejected = wire.Rejected
	// RejectedFilter says which of them to list, and RejectedPage is a page.
	RejectedFilter = wire.ListRejected
	RejectedPage   = wire.RejectedListed
	// Correction is what of a rejected submission is submitted differently.
	Correction = wire.ReplayRejected
)

// bulkTry is how long one page of a bulk may take.
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

// Again is what a replay changes. What is not set stays as it was.
type Again struct {
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
func (c *Client) Replay(ctx context.Context, id string, a Again) (events.ItemState, error) {
	r, err := ask[wire.ReplayReply](ctx, c, wire.APIReplay, wire.Replay{ID: id, Params: a.Params, Patch: a.Patch, Priority: a.Priority, MaxAttempts: a.MaxAttempts, Reason: a.Reason})
	c.Saw(r.Position)
	return r.State, err
}

// Purge forgets an item that has ended, with all that is kept of it. One that
// has not is CodeWrongState.
func (c *Client) Purge(ctx context.Context, id, reason string) error {
	r, err := ask[wire.ReplayReply](ctx, c, wire.APIPurge, wire.Purge{ID: id, Reason: reason})
	c.Saw(r.Position)
	return err
}

// BulkPage does a bulk's action to one page of its selection: at most 1,000
// items, each changed on its own.
func (c *Client) BulkPage(ctx context.Context, b Bulk) (BulkResult, error) {
	if b.Select.MinPosition == "" {
		b.Select.MinPosition = c.Position()
	}
	r, err := askFor[BulkResult](ctx, c, wire.APIBulk, b, bulkTry, c.set.patience)
	c.Saw(r.Position)
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
	c.Saw(out.Position)
	return out, nil
}

// PurgeRejected forgets a rejected submission.
func (c *Client) PurgeRejected(ctx context.Context, seq events.Seq, reason string) error {
	r, err := ask[wire.PurgedRejected](ctx, c, wire.APIPurgeRejected, wire.PurgeRejected{Seq: seq, Reason: reason})
	c.Saw(r.Position)
	return err
}
