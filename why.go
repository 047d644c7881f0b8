package streamwright

import (
	"context"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Reason is one reason why an item is not running, in words and as a stable
// code (the Why… constants of package events).
type Reason = events.Obstacle

// Explanation is why an item is not running.
type Explanation = wire.WhyReply

// Why says why an item is not running now: all reasons at once, the most
// telling first. Of a running one it says that it runs, of an ended one how it
// ended. An unknown id is CodeNotFound.
func (c *Client) Why(ctx context.Context, id string) (Explanation, error) {
	return ask[Explanation](ctx, c, wire.APIWhy, wire.Why{ID: id, MinPosition: c.Position()})
}
