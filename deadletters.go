package streamwright

import (
	"cmp"
	"context"

	"github.com/streamwright/streamwright/wire"
)

// What the engine answers about dead letters.
type (
	// Selection says which items are meant: the filters of a list, and how and
	// when they ended.
	Selection = wire.Selection
	// CausesQuery says which causes to list.
	CausesQuery = wire.CausesQuery
	// Causes is a page of causes.
	Causes = wire.CausesReply
	// Cause is a kind of failure that items have died of.
	Cause = wire.Cause
)

// DeadLetters lists dead items and what they died of. [Client.DeadLetters]
// returns one. [Client.Replay], [Client.Purge] and [Client.Bulk] act on them.
type DeadLetters struct{ c *Client }

// DeadLetters returns the handle for dead items:
//
//	causes, err := client.DeadLetters().Causes(ctx, streamwright.CausesQuery{Type: "email"})
func (c *Client) DeadLetters() DeadLetters { return DeadLetters{c} }

// List returns a page of dead items, the latest death first, without params and
// results. Go on with NextCursor as the selection's Cursor.
func (d DeadLetters) List(ctx context.Context, s Selection) (Page, error) {
	s.MinPosition = cmp.Or(s.MinPosition, d.c.Position())
	return ask[Page](ctx, d.c, wire.APIDead, s)
}

// Causes returns what items have died of, with counts.
func (d DeadLetters) Causes(ctx context.Context, q CausesQuery) (Causes, error) {
	q.MinPosition = cmp.Or(q.MinPosition, d.c.Position())
	return ask[Causes](ctx, d.c, wire.APICauses, q)
}
