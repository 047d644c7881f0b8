package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/dispatcher/natsio"
	"github.com/streamwright/streamwright/dispatcher/registry"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// ErrTooLarge is returned by Salvage for a store that no round can re-state.
var ErrTooLarge = errors.New("the store holds more than a round of snapshots can say")

// Salvage writes what a store holds into a log that has no events and begins
// right behind the store's position: a round of snapshots, such as retention
// writes, which stands alone. cfg needs Log and Store; the store moves on with
// the round, so it should be a copy. Nobody else may write to the log. What was
// claimed or running stays so: whoever owns the log next finds that its lease is
// lost. progress, which may be nil, hears how many items are carried, of how many.
func Salvage(ctx context.Context, cfg Config, progress func(done, total int64)) error {
	cfg = cfg.WithDefaults()
	tip, err := cfg.Log.Last(ctx)
	if err != nil {
		return fmt.Errorf("salvage: %w", err)
	}
	at := cfg.Store.Applied()
	if tip.Seq != at || tip.First <= tip.Seq {
		return fmt.Errorf("salvage: the log holds events %d to %d, the store is at %d: it must be empty and go on there", tip.First, tip.Seq, at)
	}
	state, err := core.NewState(cfg.Store)
	if err != nil {
		return fmt.Errorf("salvage: %w", err)
	}
	if state.Meta().Partial {
		return fmt.Errorf("salvage: the store was made from a log whose round of snapshots does not end: %w", events.ErrCorrupt)
	}
	state.SetDefaults(cfg.Defaults)
	state.SetLimits(cfg.Limits)
	// The round is of the time of the last event, whatever the clock says: nothing
	// expires by it.
	last := state.Meta().LastAt
	clk := clock.New(clock.Source{Local: time.Now, MaxJump: -1}, clock.Start{Server: last, LastEvent: last})
	l, err := newLoop(&cfg, state, clk, at, registry.New(cfg.Gone, func() {}), nil, natsio.NewSignals(0))
	if err != nil {
		return fmt.Errorf("salvage: %w", err)
	}
	l.retention = retention{l: l, asked: true}
	carried, total := int64(0), l.retention.retained()
	for l.retention.phase != cutSyncs || len(l.building.events) > 0 {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("salvage: %w", err)
		}
		if l.retention.phase != cutSyncs {
			if err := l.retention.cut(l.clock.Now()); err != nil {
				return fmt.Errorf("salvage: %w", err)
			}
			if l.retention.phase == cutIdle {
				return fmt.Errorf("salvage: %w", ErrTooLarge)
			}
		}
		for i := range l.building.events {
			if c, ok := l.building.events[i].Body.(*events.Carried); ok && c.Part == 1 {
				carried++
			}
		}
		if err := l.write(ctx); err != nil {
			return fmt.Errorf("salvage: %w", err)
		}
		if progress != nil {
			progress(carried, total)
		}
	}
	return cfg.Store.Flush()
}

// write appends the batch that is being built and projects it.
func (l *loop) write(ctx context.Context) error {
	b := l.building
	if len(b.events) == 0 {
		return nil
	}
	b.changes = l.state.TakeChanges()
	done, err := l.cfg.Log.Append(ctx, l.appended, b.events)
	if err != nil {
		return err
	}
	l.appended, b.changes.Checksum = done.Last, done.Checksum
	if err := l.cfg.Store.Commit(b.changes); err != nil {
		return err
	}
	l.state.Projected(done.Last)
	l.building = &batch{}
	return nil
}
