package workers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// ProgressEvery is the least time between two reports of a run's progress.
const ProgressEvery = time.Second

// ErrNoItem is returned for a context that does not come from a handler.
var ErrNoItem = errors.New("the context is not that of a handler: pass on the one that the handler was given")

// itemKey is the key of the running item in its handler's context.
type itemKey struct{}

func itemOf(ctx context.Context) *RawItem {
	item, _ := ctx.Value(itemKey{}).(*RawItem)
	return item
}

// Progress reports how far the run has come: percent (0 to 100; anything else is
// cut) and a message, at most 1 KiB. It never blocks. What is said more than
// once in [ProgressEvery] is not all told: the latest is, when the time has
// passed, and 100 percent at once. Outside a handler it does nothing.
func Progress(ctx context.Context, percent int, message string) {
	if item := itemOf(ctx); item != nil && item.OnProgress != nil {
		item.OnProgress(min(max(percent, 0), 100), events.CutText(message, events.MaxProgressText))
	}
}

// Checkpoint saves v, as JSON of at most 64 KiB, for the item's next attempt,
// which finds it in [RawItem].Checkpoint; each replaces the one before. It
// returns nil once the engine has it durably, so work that it records as done
// need not be done again after a crash. It waits for as long as that takes (the
// engine may be restarting), up to the end of ctx, whose cause it then returns;
// [ErrLeaseLost] if the engine no longer counts the run, [ErrCancelled] if it was cancelled.
func Checkpoint(ctx context.Context, v any) error {
	item := itemOf(ctx)
	if item == nil {
		return fmt.Errorf("save a checkpoint: %w", ErrNoItem)
	}
	doc, err := encodeDocument("checkpoint", v)
	if err == nil {
		err = wire.CheckCheckpoint(doc)
	}
	if err == nil {
		err = context.Cause(ctx) // what can't be waited for is not sent
	}
	if err == nil && item.OnCheckpoint != nil {
		err = item.OnCheckpoint(ctx, doc)
	}
	if err != nil {
		return fmt.Errorf("save a checkpoint of item %s: %w", item.ID, err)
	}
	return nil
}

// LoadCheckpoint reads the checkpoint that an earlier attempt has saved into v.
// Without one it leaves v as it is and returns false.
func (it *RawItem) LoadCheckpoint(v any) (found bool, err error) {
	if len(it.Checkpoint) == 0 {
		return false, nil
	}
	if err := json.Unmarshal(it.Checkpoint, v); err != nil {
		return true, fmt.Errorf("read the checkpoint of item %s: %w", it.ID, err)
	}
	return true, nil
}

// takeLeft gives an item what earlier runs have left for this one.
func takeLeft(item *RawItem, left *wire.Left) error {
	item.Checkpoint = left.Checkpoint
	if err := takeWaited(item, left.Waited); err != nil {
		return err
	}
	if left.Continuation == nil {
		return nil
	}
	item.Continuation = &Continuation{Name: left.Continuation.Name}
	if len(left.Continuation.Children) == 0 {
		return nil
	}
	if err := json.Unmarshal(left.Continuation.Children, &item.Continuation.Children); err != nil {
		return fmt.Errorf("read how the children have ended: %w", err)
	}
	return nil
}
