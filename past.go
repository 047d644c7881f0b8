package streamwright

import (
	"context"
	"encoding/json"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/wire"
)

// What the engine answers about the past, as it goes over the wire.
type (
	// Spans is how long an item has been what.
	Spans = wire.Spans
	// State is the engine as of a moment.
	State = wire.State
	// Replayed is how far a StateAt is.
	Replayed = wire.StateReply
)

// Moment is a point of the log's past: a position, or a time (then its last
// event not after that), or whichever of the two comes first.
type Moment struct {
	Position wire.Position
	Time     time.Time
}

// GetAt returns an item as it was at a moment, folded from its own history. Its
// Notes say what of it is not known any more; its AsOf, as of which event it is
// shown. An item that was not there yet is CodeNotFound.
func (c *Client) GetAt(ctx context.Context, id string, m Moment) (WorkItem, error) {
	return ask[WorkItem](ctx, c, wire.APIGet, wire.Get{ID: id, AtPosition: m.Position, AtTime: m.Time, MinPosition: c.Position()})
}

// Account returns an item's events, oldest first, with what each state has
// taken, and the sums.
func (c *Client) Account(ctx context.Context, id string) ([]Event, Spans, error) {
	r, err := ask[wire.HistoryReply](ctx, c, wire.APIHistory, wire.History{ID: id, MinPosition: c.Position()})
	return r.Events, r.Totals, err
}

// StateAt has the engine replay its log up to a moment, and returns what it was
// like then. progress, which may be nil, is told how far it is. One replay is
// under way at a time; another is CodeUnavailable. A moment before the log's
// first event is CodeNotFound.
func (c *Client) StateAt(ctx context.Context, m Moment, progress func(Replayed)) (State, error) {
	body, err := json.Marshal(wire.StateAt{AtPosition: m.Position, AtTime: m.Time})
	if err != nil {
		return State{}, unreadable(wire.APIState, err)
	}
	sub, err := c.sendAsync(wire.APIState, body)
	if err != nil {
		return State{}, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	for {
		r, err := nextReply[Replayed](ctx, c, wire.APIState, sub)
		if err != nil {
			return State{}, err
		}
		if r.Done && r.State != nil {
			return *r.State, nil
		}
		if progress != nil {
			progress(r)
		}
	}
}

// nextReply reads the next of a stream of replies.
func nextReply[T any](ctx context.Context, c *Client, op string, sub *nats.Subscription) (v T, err error) {
	quiet, cancel := context.WithTimeout(ctx, proofSilence)
	defer cancel()
	msg, err := sub.NextMsgWithContext(quiet)
	if err != nil {
		if ctx.Err() != nil {
			return v, endOf(op, ctx.Err(), nil)
		}
		return v, c.failed(op, err)
	}
	data, err := content(op, msg)
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return v, unreadable(op, err)
	}
	return v, nil
}
