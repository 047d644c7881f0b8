package streamwright

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/tracing"
	"github.com/streamwright/streamwright/wire"
)

// Submit asks the engine for a new item and returns once that is durable (as
// the engine's durability setting has it), or refused. A repeat, a merge into
// an item with the same dedup key, and a new item are told apart in the answer.
//
// The id is chosen before the first try, so it tries until ctx ends, through
// timeouts and restarts of the engine, and still makes one item. When ctx ends
// first, the item may or may not have been accepted: submit it again with the
// id that the returned Submitted holds even then.
//
// Params larger than events.MaxParamsBytes (see [WithInlineParams]) are put into
// the object store first, and submitted by reference; a repeat finds them there.
//
// The item goes on in the trace of ctx (OpenTelemetry), unless it names one.
func (c *Client) Submit(ctx context.Context, item Item) (out Submitted, err error) {
	ctx, span := startSubmit(ctx, "submit", item.Type)
	defer func() { endSubmit(span, out.ID, err) }()
	s, err := c.prepare(ctx, &item)
	if err != nil {
		return Submitted{}, err
	}
	out, err = c.submit(ctx, s)
	if err == nil {
		err = out.Error.Err()
	}
	if err != nil {
		return Submitted{ID: s.ID}, err
	}
	c.Saw(out.Position)
	return out, nil
}

// prepare makes an item ready to be sent, with an id.
func (c *Client) prepare(ctx context.Context, item *Item) (wire.Submit, error) {
	s, err := item.submission()
	if s.Trace == "" {
		s.Trace = tracing.From(ctx)
	}
	if err == nil && s.ID == "" {
		s.ID, err = c.ids.next()
	}
	return s, err
}

// Published is where a plain publish has been stored.
type Published struct {
	ID        string // of the item that it will become
	IntakeSeq uint64 // in the intake stream; see GetByIntake
	Duplicate bool   // the intake had it already, for at most 100 ms; the engine finds later repeats
}

// Publish submits by a plain JetStream publish to work.submit.<type>: it
// returns once the submission is stored in the intake, from where the engine
// takes it, also if none runs now. What can't become an item is not refused
// here but becomes a rejected event; Submit tells at once. It tries until ctx
// ends, under one message id.
func (c *Client) Publish(ctx context.Context, item Item) (out Published, err error) {
	ctx, span := startSubmit(ctx, "publish", item.Type)
	defer func() { endSubmit(span, out.ID, err) }()
	s, err := c.prepare(ctx, &item)
	if err != nil {
		return Published{}, err
	}
	typ, err := events.ParseType(s.Type) // it becomes part of the subject
	if err != nil {
		return Published{}, events.Refuse(events.CodeBadType, "%v", err)
	}
	if s, err = c.offload(ctx, s); err != nil {
		return Published{ID: s.ID}, err
	}
	header, err := s.Headers()
	if err != nil {
		return Published{}, err
	}
	header[jetstream.MsgIDHeader] = []string{s.ID}
	if len(s.Params) == 0 {
		s.Params = []byte("null")
	}
	msg := &nats.Msg{Subject: c.set.names.Submit(typ), Header: header, Data: s.Params}
	var ack *jetstream.PubAck
	err = c.retry(ctx, "publish", forever, func(ctx context.Context) (err error) {
		ctx, cancel := c.trying(ctx, msg.Subject, c.set.tryTimeout)
		defer cancel()
		ack, err = c.js.PublishMsg(ctx, msg, jetstream.WithRetryAttempts(0))
		return c.publishFailed(msg.Subject, lostOr(ctx, err))
	})
	if err != nil {
		return Published{ID: s.ID}, err
	}
	return Published{ID: s.ID, IntakeSeq: ack.Sequence, Duplicate: ack.Duplicate}, nil
}

// publishFailed turns the failure of one publish into an *events.Error.
func (c *Client) publishFailed(subject string, err error) error {
	var api *jetstream.APIError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders):
		return events.Refuse(events.CodeUnavailable, "no stream takes %s at %s: has `engine serve` run there?", subject, c.where())
	case errors.As(err, &api):
		return c.intakeRefused(subject, api)
	}
	return c.failed("publish", err)
}

// The server's codes for what is too large, and for a stream or a server that
// is at its limits.
const (
	natsMsgTooLarge     = 10054
	natsNoResources     = 10023
	natsNoMemory        = 10028
	natsNoStorage       = 10047
	natsStoreFailed     = 10077 // also: maximum bytes reached
	natsTooManyRequests = 10167
)

func (c *Client) intakeRefused(subject string, api *jetstream.APIError) error {
	switch int(api.ErrorCode) {
	case natsMsgTooLarge:
		return events.Refuse(events.CodeTooLarge, "publish to %s: the submission is larger than the intake takes (%s)", subject, api.Description)
	case natsNoResources, natsNoMemory, natsNoStorage, natsStoreFailed, natsTooManyRequests:
		return events.Refuse(events.CodeUnavailable, "publish to %s: the intake does not accept now (%s): the engine has to catch up first", subject, api.Description)
	}
	return events.Refuse(events.CodeInternal, "publish to %s: %s (NATS error %d)", subject, api.Description, api.ErrorCode)
}
