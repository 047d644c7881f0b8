package projector

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/events/eventlog"
)

// Log is what a replay needs of a partition's event log.
type Log interface {
	// Read replays the positions from to to, both inclusive, to fn, in order,
	// from the caller's goroutine. It ends early with fn's error, unwrapped.
	Read(ctx context.Context, from, to events.Seq, fn func(eventlog.Group) error) error
	// Checksum is events.Checksum of the stored bytes of the event at seq.
	Checksum(ctx context.Context, seq events.Seq) (uint64, error)
}

// Progress hears how far a replay has come: positions done, of total. It is
// called from one goroutine at a time, about once a batch, and must not block.
type Progress func(done, total uint64)

// The bounds of one batch of a replay. A batch ends with the first group that
// reaches one of them.
const (
	ReplayEvents = 4096
	ReplayBytes  = 4 << 20 // of params and results
	// replayAhead is how many batches may wait to be committed.
	replayAhead = 2
)

// CatchUp brings a store up to a position of the log, through a State over it,
// in which every event is applied: at a restart, in a follower. Events that
// the State has applied already are not read again. Both are at to afterwards,
// or at the last event in front of it.
//
// It applies and commits in two goroutines; the caller must not use the State
// meanwhile, nor Commit. After an error (one that wraps [events.ErrCorrupt], or
// the log's, the store's or the context's) the State must be dropped; the store
// stands at some position in between, whole.
func CatchUp(ctx context.Context, store *Store, state *core.State, log Log, to events.Seq, progress Progress) error {
	r := replay{store: store, state: state, log: log, to: to, progress: progress}
	return r.run(ctx)
}

// replay is one run of CatchUp.
type replay struct {
	store    *Store
	state    *core.State
	log      Log
	to       events.Seq
	until    time.Time // if set, events after it are left out
	progress Progress

	ids []events.ID // reused by prefetch

	batches   chan *core.Changes
	committed atomic.Uint64

	// Owned by the goroutine that reads.
	from     events.Seq // 0: the first that the log keeps
	last     events.Seq // the last event applied
	lastSum  uint64     // its checksum, if lastHas
	lastHas  bool
	events   int // in the batch that is being collected
	bytes    int
	finished bool
}

// errReached ends a Read at the moment that was asked for.
var errReached = errors.New("reached")

func (r *replay) run(ctx context.Context) error {
	r.from = r.state.Meta().Applied + 1
	if r.from > r.to {
		return nil
	}
	if r.from == 1 {
		r.from = 0 // the first that the log keeps
	}
	r.batches = make(chan *core.Changes, replayAhead)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.commit(ctx) })
	g.Go(func() error {
		defer close(r.batches)
		return r.read(ctx)
	})
	if err := g.Wait(); err != nil {
		return fmt.Errorf("replay the log from event %d: %w", r.from, err)
	}
	r.state.Projected(r.store.Applied())
	r.report(r.to)
	return nil
}

// commit writes the batches.
func (r *replay) commit(ctx context.Context) error {
	for c := range r.batches {
		if err := r.store.Commit(c); err != nil {
			return err
		}
		r.committed.Store(uint64(c.Meta.Applied))
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// read applies the groups and hands out the batches.
func (r *replay) read(ctx context.Context) error {
	err := r.log.Read(ctx, r.from, r.to, func(g eventlog.Group) error {
		if err := r.apply(g); err != nil {
			return err
		}
		if r.finished {
			return errReached
		}
		if r.events < ReplayEvents && r.bytes < ReplayBytes {
			return nil
		}
		r.report(g.Through)
		return r.handOut(ctx)
	})
	if err != nil && !errors.Is(err, errReached) {
		return err
	}
	return r.handOut(ctx)
}

// prefetch reads the items that a group's events touch in one go. Those that it
// creates are not in the store.
func (r *replay) prefetch(g eventlog.Group) error {
	r.ids = r.ids[:0]
	fresh := make(map[events.ID]bool, len(g.Events)/4)
	for i := range g.Events {
		ev := &g.Events[i]
		switch {
		case ev.ID.IsZero():
		case ev.Kind == events.KindCreated:
			fresh[ev.ID] = true
		case !fresh[ev.ID]:
			r.ids = append(r.ids, ev.ID)
		}
	}
	return r.state.Prefetch(r.ids, false)
}

func (r *replay) apply(g eventlog.Group) error {
	if err := r.prefetch(g); err != nil {
		return err
	}
	for _, ev := range g.Events {
		if !r.until.IsZero() && ev.Tx.N <= 1 && ev.Seq >= r.store.opts.whole && ev.At.After(r.until) {
			r.finished = true
			return nil
		}
		if err := r.state.Apply(ev); err != nil {
			return err
		}
		r.last, r.lastHas = ev.Seq, false
		r.events++
		switch b := ev.Body.(type) {
		case *events.Created:
			r.bytes += len(b.Params)
		case *events.Completed:
			r.bytes += len(b.Result)
		case *events.Replayed:
			r.bytes += len(b.Params)
		case *events.Carried:
			r.bytes += carriedSize(b)
		case *events.Snapshot:
			for _, k := range b.Rejected {
				r.bytes += int(k.Size)
			}
		}
	}
	if len(g.Events) > 0 {
		r.lastSum, r.lastHas = g.Checksum, true
	}
	return nil
}

// handOut passes on what the State has collected, and lets it forget what is
// written.
func (r *replay) handOut(ctx context.Context) error {
	c := r.state.TakeChanges()
	r.events, r.bytes = 0, 0
	r.state.Projected(events.Seq(r.committed.Load()))
	if c == nil {
		return nil
	}
	if !r.lastHas {
		// The replay ends inside a group, which has the checksum of its end.
		sum, err := r.log.Checksum(ctx, r.last)
		if err != nil {
			return err
		}
		r.lastSum, r.lastHas = sum, true
	}
	c.Checksum = r.lastSum
	select {
	case r.batches <- c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *replay) report(at events.Seq) {
	if r.progress != nil {
		from := max(r.from, 1)
		r.progress(uint64(at-from+1), uint64(r.to-from+1))
	}
}

// fill replays a log into an empty store.
func fill(ctx context.Context, store *Store, log Log, to events.Seq, until time.Time, progress Progress) error {
	state, err := core.NewState(store)
	if err != nil {
		return err
	}
	r := replay{store: store, state: state, log: log, to: to, until: until, progress: progress}
	if err := r.run(ctx); err != nil {
		return err
	}
	return whole(state)
}
