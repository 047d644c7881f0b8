package api

import (
	"context"
	"fmt"
	"net/textproto"

	"github.com/streamwright/streamwright/dispatcher"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

func (s *Service) rejected(ctx context.Context, c *call) (any, error) {
	req, err := decode[wire.ListRejected](c.data)
	if err != nil {
		return nil, err
	}
	if err := s.await(ctx, req.MinPosition); err != nil {
		return nil, err
	}
	page, err := s.Queries.Rejected(req)
	return page, err
}

func (s *Service) showRejected(ctx context.Context, c *call) (any, error) {
	req, err := decode[wire.GetRejected](c.data)
	if err != nil {
		return nil, err
	}
	if (req.Seq == 0) == (req.IntakeSeq == 0) {
		return nil, events.Refuse(events.CodeBadRequest, "give either seq or intake_seq")
	}
	if err := s.await(ctx, req.MinPosition); err != nil {
		return nil, err
	}
	seq := req.Seq
	if seq == 0 {
		var of events.ID
		var found bool
		if seq, of, found, err = s.Queries.Answer(req.IntakeSeq); err != nil {
			return nil, err
		}
		if !found || !of.IsZero() {
			return nil, events.Refuse(events.CodeNotFound, "intake message %d was not rejected, or too long ago: ask for the item (get, intake_seq)", req.IntakeSeq)
		}
	}
	return s.rejectedOf(seq)
}

func (s *Service) rejectedOf(seq events.Seq) (wire.Rejected, error) {
	r, found, err := s.Queries.RejectedOf(seq)
	if err == nil && !found {
		err = events.Refuse(events.CodeNotFound, "no rejected submission of event %d is kept: the newest %d are, up to %d MiB; list them (rejected)", seq, events.MaxRejectedKept, events.MaxRejectedKeptBytes>>20)
	}
	return r, err
}

// replayRejected submits a rejected submission anew, with corrections.
func (s *Service) replayRejected(c *call) {
	if full := s.Full(); full != nil {
		c.reply(nil, full.Why)
		return
	}
	cmd, err := s.corrected(c)
	if err != nil {
		c.reply(nil, err)
		return
	}
	c.do([]core.Command{cmd}, func(o []dispatcher.Outcome) { c.reply(submitted(o[0]), o[0].Err) })
}

// corrected is the submission that a replay of a rejected one makes.
func (s *Service) corrected(c *call) (cmd core.Submit, err error) {
	req, err := decode[wire.ReplayRejected](c.data)
	if err != nil {
		return cmd, err
	}
	r, err := s.rejectedOf(req.Seq)
	if err != nil {
		return cmd, err
	}
	if r.Truncated && req.Params == nil {
		return cmd, events.Refuse(events.CodeBadRequest, "of the submission of event %d only a part is kept (%d bytes were sent): give the params", req.Seq, r.Size)
	}
	sub, err := wire.ParseSubmission(s.correctedSubject(r, req.Type), correctedHeaders(r.Headers, req.Headers), original(r), s.Names)
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
	return sub.Command(s.Core.NewID(), events.MaxParamsCeiling)
}

// correctedSubject is where the submission would have been published to.
func (s *Service) correctedSubject(r wire.Rejected, typ string) string {
	if typ == "" {
		return r.Subject
	}
	return s.Names.Submit(events.Type(typ))
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

// purgeRejected forgets a rejected submission.
func (s *Service) purgeRejected(c *call) {
	req, err := decode[wire.PurgeRejected](c.data)
	if err != nil {
		c.reply(nil, err)
		return
	}
	r, err := s.rejectedOf(req.Seq)
	if err != nil {
		c.reply(nil, err)
		return
	}
	cmd := core.PurgeRejected{Seq: req.Seq, Type: events.Type(r.Type), Reason: req.Reason}
	c.do([]core.Command{cmd}, func(o []dispatcher.Outcome) {
		c.reply(wire.PurgedRejected{Seq: req.Seq, Position: wire.PositionOf(o[0].Position)}, o[0].Err)
	})
}
