package api

import (
	"context"
	"fmt"
	"net/textproto"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/wire/command"
)

// rejectedAPI shows rejected submissions, and submits or purges them.
type rejectedAPI struct{ *engine }

func (a *rejectedAPI) handle(h *handlers) {
	projected(h, wire.APIRejected, func(ctx context.Context, _ *call, r wire.ListRejected) (any, error) {
		page, err := a.Queries.Rejected(r)
		if err == nil {
			page.Stale = a.lacking(ctx)
		}
		return page, err
	})
	projected(h, wire.APIShowRejected, a.show)
	on(h, wire.APIReplayRejected, a.replay)
	on(h, wire.APIPurgeRejected, a.purge)
}

func (a *rejectedAPI) show(ctx context.Context, c *call, req wire.GetRejected) (any, error) {
	if (req.Seq == 0) == (req.IntakeSeq == 0) {
		return nil, events.Refuse(events.CodeBadRequest, "give either seq or intake_seq")
	}
	seq := req.Seq
	if at, direct := wire.DirectPosition(req.IntakeSeq); direct {
		seq = at
	}
	if seq == 0 {
		var of events.ID
		var found bool
		var err error
		if seq, of, found, err = a.Queries.Answer(req.IntakeSeq); err != nil {
			return nil, err
		}
		if !found || !of.IsZero() {
			return nil, events.Refuse(events.CodeNotFound, "intake message %d was not rejected, or too long ago: ask for the item (get, intake_seq)", req.IntakeSeq)
		}
	}
	return a.find(seq)
}

func (a *rejectedAPI) find(seq events.Seq) (wire.Rejected, error) {
	r, found, err := a.Queries.RejectedOf(seq)
	if err == nil && !found {
		err = core.RejectedGone(seq)
	}
	return r, err
}

// latest is find once the projection has come to the event: it may be new.
func (a *rejectedAPI) latest(ctx context.Context, seq events.Seq) (wire.Rejected, error) {
	if seq <= a.Core.Position() {
		if err := a.awaitSeq(ctx, seq, awaitTimeout); err != nil {
			return wire.Rejected{}, err
		}
	}
	return a.find(seq)
}

// replay submits a rejected submission anew, with corrections.
func (a *rejectedAPI) replay(ctx context.Context, _ *call, req wire.ReplayRejected) (any, error) {
	if full := a.Full(); full != nil {
		return nil, full.Why
	}
	r, err := a.latest(ctx, req.Seq)
	if err != nil {
		return nil, err
	}
	cmd, err := a.corrected(r, req)
	if err != nil {
		return nil, err
	}
	o, err := a.one(ctx, cmd)
	return submitted(o), err
}

// corrected returns the submission that a replay of a rejected one makes.
func (a *rejectedAPI) corrected(r wire.Rejected, req wire.ReplayRejected) (cmd core.Submit, err error) {
	if r.Truncated && req.Params == nil {
		return cmd, events.Refuse(events.CodeBadRequest, "of the submission of event %d only a part is kept (%d bytes were sent): give the params", req.Seq, r.Size)
	}
	sub, err := wire.ParseSubmission(a.correctedSubject(r, req.Type), correctedHeaders(r.Headers, req.Headers), original(r), a.Names)
	if err != nil {
		return cmd, err
	}
	if req.Params != nil {
		sub.Params = req.Params
	}
	if req.ID != "" {
		sub.ID = req.ID
	}
	sub.Trigger = fmt.Sprintf("rejected:%d", req.Seq)
	cmd, err = command.OfSubmit(sub, a.Core.NewID(), events.MaxParamsCeiling)
	cmd.Rejected = req.Seq
	return cmd, err
}

// correctedSubject returns where the submission would have been published to.
func (a *rejectedAPI) correctedSubject(r wire.Rejected, typ string) string {
	if typ == "" {
		return r.Subject
	}
	return a.Names.Submit(events.Type(typ))
}

func original(r wire.Rejected) []byte {
	if r.Text != "" {
		return []byte(r.Text)
	}
	return r.Bytes
}

// correctedHeaders replaces headers by name, whatever its case; an empty value
// drops one.
func correctedHeaders(had map[string][]string, corrections map[string]string) map[string][]string {
	out := map[string][]string{}
	for name, values := range had {
		out[textproto.CanonicalMIMEHeaderKey(name)] = values
	}
	for name, value := range corrections {
		name = textproto.CanonicalMIMEHeaderKey(name)
		if delete(out, name); value != "" {
			out[name] = []string{value}
		}
	}
	return out
}

// purge forgets a rejected submission.
func (a *rejectedAPI) purge(ctx context.Context, _ *call, req wire.PurgeRejected) (any, error) {
	r, err := a.latest(ctx, req.Seq)
	if err != nil {
		return nil, err
	}
	o, err := a.one(ctx, core.PurgeRejected{Seq: req.Seq, Type: events.Type(r.Type), Reason: req.Reason})
	return wire.PurgedRejected{Seq: req.Seq, Position: wire.PositionOf(o.Position)}, err
}
