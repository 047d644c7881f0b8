package retention

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector"
)

// ErrTooLarge is returned by Salvage for a store that no round can re-state.
var ErrTooLarge = errors.New("the store holds more than a round of snapshots can say")

// SalvageConfig configures a salvage.
type SalvageConfig struct {
	Log      eventlog.Log
	Store    *projector.Store
	Defaults events.TypeSettings
	Limits   events.Limits
	Logger   *slog.Logger
}

// Salvage writes the content of a store into a log that has no events and begins right
// after the store's position, as a round, which stands alone. The store advances with the
// round, so it should be a copy. Nobody else may write to the log. What was claimed or
// running stays so: the log's next owner finds that its lease is lost. progress, which may
// be nil, is called with the number of items carried, and of all items.
func Salvage(ctx context.Context, cfg SalvageConfig, progress func(done, total int64)) error {
	store := cfg.Store
	tip, err := cfg.Log.Last(ctx)
	if err != nil {
		return fmt.Errorf("salvage: %w", err)
	}
	at := store.Applied()
	if tip.Seq != at.Frame() || tip.First <= tip.Seq {
		return fmt.Errorf("salvage: the log holds frames %d to %d, the store is at frame %d: it must be empty and go on there", tip.First, tip.Seq, at.Frame())
	}
	state, err := core.NewState(store)
	if err != nil {
		return fmt.Errorf("salvage: %w", err)
	}
	if state.Meta().Partial {
		return fmt.Errorf("salvage: the store was made from a log whose round of snapshots does not end: %w", events.ErrCorrupt)
	}
	state.SetDefaults(cfg.Defaults)
	state.SetLimits(cfg.Limits)
	if err := state.SetFormatLevel(events.FormatLevel); err != nil {
		return fmt.Errorf("salvage: %w", err)
	}
	// The round has the time of the last event, whatever the clock says, so that nothing
	// expires by it.
	last := state.Meta().LastAt
	clk := clock.New(clock.Source{Local: time.Now, MaxJump: -1}, clock.Start{Server: last, LastEvent: last})
	w := &writer{state: state, store: store, clock: clk, log: cfg.Log, last: at.Frame()}
	k := &Retention{Config: Config{State: state, Store: store, Clock: clk, Log: cfg.Logger, Batch: w}, asked: true}
	total := k.retained()
	for k.phase != syncs || len(w.events) > 0 {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("salvage: %w", err)
		}
		if k.phase != syncs {
			if err := k.cut(clk.Now()); err != nil {
				return fmt.Errorf("salvage: %w", err)
			}
			if k.phase == idle {
				return fmt.Errorf("salvage: %w", ErrTooLarge)
			}
		}
		if err := w.write(ctx); err != nil {
			return fmt.Errorf("salvage: %w", err)
		}
		if progress != nil {
			progress(w.carried, total)
		}
	}
	return store.Flush()
}

// writer is the Batch of a salvage: decisions are appended and projected at once.
type writer struct {
	state  *core.State
	store  *projector.Store
	clock  *clock.Clock
	log    eventlog.Log
	last   uint64         // frame
	before uint64         // events in the log before these
	events []events.Event // of the next frame
	rest   []events.Event // of a decision, of the frames behind that
	bytes  int            // of events

	carried int64 // items
}

// Decide implements [Batch].
func (w *writer) Decide(c core.Command) (refused, err error) {
	dec, err := core.Decide(w.state, c, w.clock.Now())
	if err != nil {
		return nil, err // nobody else could have changed anything
	}
	return nil, w.Add(dec.Events)
}

// Add implements [Batch].
func (w *writer) Add(evs []events.Event) error {
	w.rest = append(w.rest, evs...)
	return w.fill()
}

// fill takes what has room into the frame.
func (w *writer) fill() error {
	for len(w.rest) > 0 && len(w.events) < eventlog.MaxEvents && (len(w.events) == 0 || w.bytes+w.rest[0].MaxJSON() < salvageBytes) {
		ev := w.rest[0]
		if len(w.events) == 0 {
			w.before = w.state.Meta().Events
		}
		ev.Seq = events.SeqOf(w.last+1, len(w.events))
		if err := w.state.Apply(ev); err != nil {
			return fmt.Errorf("apply what was just decided: %w", err)
		}
		if c, ok := ev.Body.(*events.Carried); ok && c.Part == 1 {
			w.carried++
		}
		w.bytes += ev.MaxJSON()
		w.events, w.rest = append(w.events, ev), w.rest[1:]
	}
	return nil
}

// salvageBytes bounds a frame, roughly.
const salvageBytes = 1 << 20

// Size implements [Batch].
func (w *writer) Size() (n, bytes int) { return len(w.events) + len(w.rest), w.bytes }

// write appends what was decided and projects it.
func (w *writer) write(ctx context.Context) error {
	for len(w.events) > 0 {
		if err := w.writeFrame(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) writeFrame(ctx context.Context) error {
	changes := w.state.TakeChanges()
	m := w.state.Meta()
	done, err := w.log.Append(ctx, w.last, &eventlog.Write{Epoch: m.Epoch, Node: m.Owner, Level: m.Level, Before: w.before, Events: w.events})
	if err != nil {
		return err
	}
	w.last, changes.Checksum = done.Last.Frame(), done.Checksum
	if err := w.store.Commit(changes); err != nil {
		return err
	}
	w.state.Projected(done.Last)
	w.events, w.bytes = nil, 0
	return w.fill()
}
