package api

import (
	"context"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

const (
	// maxOutputWrites bounds the chunks that are stored at once.
	maxOutputWrites = 256
	// outputWithin bounds the time for one.
	outputWithin = 4 * time.Second
)

var errNoOutput = events.Refuse(events.CodeUnavailable, "a mirror does not have the items' outputs: ask an engine of the hub")

// output returns a part of an item's output.
func (a *itemAPI) output(ctx context.Context, c *call, req wire.Output) (any, error) {
	id, err := parseID(req.ID)
	if err != nil {
		return nil, err
	}
	it, err := a.item(ctx, id)
	if err != nil {
		return nil, err
	}
	if a.Output == nil {
		return nil, errNoOutput
	}
	return a.Output.After(ctx, it.Type, id, req.After)
}

// writeOutput stores a chunk of the run that has the item.
func (a *itemAPI) writeOutput(ctx context.Context, c *call, req wire.OutputWrite) (any, error) {
	id, err := parseID(req.ID)
	if err != nil {
		return nil, err
	}
	token, err := wire.ParseToken(req.Token)
	if err != nil {
		return nil, err
	}
	data, err := req.Bytes()
	switch {
	case err != nil:
		return nil, events.Refuse(events.CodeBadRequest, "the chunk can't be read: %v", err)
	case len(data) > wire.MaxOutputChunk:
		return nil, events.Refuse(events.CodeTooLarge, "the chunk has %d bytes: send at most %d at once", len(data), wire.MaxOutputChunk)
	case req.Offset != nil && *req.Offset < 0:
		return nil, events.Refuse(events.CodeBadRequest, "offset is %d: it must not be negative", *req.Offset)
	case a.Output == nil:
		return nil, errNoOutput
	}
	if full := a.Full(); full != nil {
		return nil, full.Why
	}
	it, err := a.runs(ctx, id, token)
	if err != nil {
		return nil, err
	}
	return a.Output.Write(ctx, it.Type, id, it.Attempt, token, req.Offset, data)
}

// runs returns an item that the run with a token has, as of all that is decided.
func (a *itemAPI) runs(ctx context.Context, id events.ID, token events.Token) (*events.Item, error) {
	if err := a.await(ctx, wire.PositionOf(a.Core.Position())); err != nil {
		return nil, err
	}
	it, err := a.item(ctx, id)
	if err != nil {
		return nil, err
	}
	if it.Token != token || it.State != events.StateClaimed && it.State != events.StateRunning {
		return nil, events.Refuse(events.CodeStaleToken, "the run does not have the item %s any more, which is %s: stop running it", id, it.State)
	}
	return it, nil
}
