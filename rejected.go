package streamwright

import (
	"cmp"
	"context"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// What the engine answers about rejected submissions.
type (
	// Rejected is a submission that became no item.
	Rejected = wire.Rejected
	// RejectedFilter says which of them to list.
	RejectedFilter = wire.ListRejected
	// RejectedPage is a page of them.
	RejectedPage = wire.RejectedListed
	// Correction changes a rejected submission before it is submitted again.
	Correction = wire.ReplayRejected
)

// RejectedSubmissions manages submissions that became no item.
// [Client.Rejected] returns one.
type RejectedSubmissions struct{ c *Client }

// Rejected returns the handle for rejected submissions:
//
//	page, err := client.Rejected().List(ctx, streamwright.RejectedFilter{})
func (c *Client) Rejected() RejectedSubmissions { return RejectedSubmissions{c} }

// List returns a page of rejected submissions, newest first, without their
// originals.
func (r RejectedSubmissions) List(ctx context.Context, f RejectedFilter) (RejectedPage, error) {
	f.MinPosition = cmp.Or(f.MinPosition, r.c.Position())
	return ask[RejectedPage](ctx, r.c, wire.APIRejected, f)
}

// Get returns a rejected submission with its original, by the sequence of its
// event.
func (r RejectedSubmissions) Get(ctx context.Context, seq events.Seq) (Rejected, error) {
	return ask[Rejected](ctx, r.c, wire.APIShowRejected, wire.GetRejected{Seq: seq, MinPosition: r.c.Position()})
}

// GetByIntake is Get by the sequence in the publish's ack.
func (r RejectedSubmissions) GetByIntake(ctx context.Context, seq uint64) (Rejected, error) {
	return ask[Rejected](ctx, r.c, wire.APIShowRejected, wire.GetRejected{IntakeSeq: seq, MinPosition: r.c.Position()})
}

// Replay submits a rejected submission anew, with corrections. The new item's
// trigger is "rejected:SEQ". Like [Client.Submit], it may be repeated under the id
// in the returned Submitted, and still makes one item.
func (r RejectedSubmissions) Replay(ctx context.Context, fix Correction) (Submitted, error) {
	if fix.ID == "" {
		var err error
		if fix.ID, err = r.c.ids.next(); err != nil {
			return Submitted{}, err
		}
	}
	out, err := ask[Submitted](ctx, r.c, wire.APIReplayRejected, fix)
	return r.c.accepted(fix.ID, out, err)
}

// Purge forgets a rejected submission. The event log holds its original until it is
// cut ([Engine.CutPast]); backups hold what they held.
func (r RejectedSubmissions) Purge(ctx context.Context, seq events.Seq, reason string) error {
	out, err := ask[wire.PurgedRejected](ctx, r.c, wire.APIPurgeRejected, wire.PurgeRejected{Seq: seq, Reason: reason})
	r.c.ObservePosition(out.Position)
	return err
}
