package top

import (
	"context"

	"github.com/streamwright/streamwright"
)

// Source is the engine as the screen asks it. Its errors are shown as they are.
type Source interface {
	Overview(context.Context) (Overview, error)
	Workers(context.Context) ([]streamwright.WorkerInfo, error)
	// Items returns at most f.Limit items.
	Items(ctx context.Context, f streamwright.Filter) (Items, error)
	Item(ctx context.Context, id string) (Item, error)

	// These report what has come of it, in words.
	Pause(ctx context.Context, typ string) (string, error)
	Resume(ctx context.Context, typ string) (string, error)
	Cancel(ctx context.Context, id string) (string, error)
	Replay(ctx context.Context, id string) (string, error)
}

// Overview is shown above every page.
type Overview struct {
	Stats streamwright.Stats
	Info  streamwright.Info
	Nodes *streamwright.Nodes // nil: there is but one, or they are unknown
}

// Items are items, last changed first.
type Items struct {
	Items []streamwright.WorkItem
	More  bool   // there are others behind them
	Stale string // why some may be missing; empty: none is
}

// Item is all that is known of one item.
type Item struct {
	streamwright.WorkItem
	Events []streamwright.Event // oldest first
	Totals streamwright.StateDurations
	Why    []streamwright.Reason // why it is not running; nil once it has ended
}
