package projector

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/events/eventlog"
)

// Log is the part of a partition's event log that a replay needs.
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

// The bounds of one commit of a replay. A commit ends with the first group that
// reaches one of them.
const (
	ReplayEvents = 4096
	ReplayBytes  = 4 << 20 // of the events as stored in the log
	// replayAhead bounds the commits that may wait while one is written.
	replayAhead = 2
)

// Replay folds the events read from a log into a store: at start and at
// takeover, in a rebuild and a verify, and for a moment of the past. Groups go
// to Apply in order; Finish commits the rest. Every Replay needs Close.
//
// Apply folds each event into the State on the caller's goroutine, and hands
// the changes in bounded batches to a goroutine that commits them, so a replay
// of any length needs the memory of a few batches. Apply waits while commits
// lag behind. The caller may use the State between calls, but must not commit.
//
// After an error the State must be dropped. The store then stands at some
// position in between, whole.
type Replay struct {
	store     *Store
	state     *core.State
	projected func(*core.Changes)

	// Owned by the goroutine that applies.
	ctx      context.Context
	ids      []events.ID // reused by prefetch
	events   int         // applied since the last hand-over
	bytes    int         // of those
	last     events.Seq  // the last event applied
	checksum uint64      // of that event; 0 where a Group was cut short
	until    time.Time   // if set, later events are left out: see pastUntil
	handed   func(through events.Seq)
	closed   bool

	batches   chan *core.Changes
	committed atomic.Uint64 // position
	done      chan struct{} // closed when nothing is committed any more
	err       error         // of the commits; read it only after done is closed
}

// NewReplay begins a replay into a store through a State over it. projected, if
// set, hears of each commit once queries see it, in order, from one goroutine.
// ctx ends the waiting of Apply and Finish.
func NewReplay(ctx context.Context, store *Store, state *core.State, projected func(*core.Changes)) *Replay {
	r := &Replay{store: store, state: state, projected: projected, ctx: ctx,
		batches: make(chan *core.Changes, replayAhead), done: make(chan struct{})}
	r.committed.Store(uint64(store.Applied()))
	go r.commit()
	return r
}

// commit is the committing goroutine.
func (r *Replay) commit() {
	defer close(r.done)
	for c := range r.batches {
		if r.err = r.store.Commit(c); r.err != nil {
			return
		}
		r.committed.Store(uint64(c.Meta.Applied))
		if r.projected != nil {
			r.projected(c)
		}
	}
}

// Apply folds a group of the log, the next one, into the State. Its errors wrap
// [events.ErrCorrupt], or are the store's or the context's.
func (r *Replay) Apply(g eventlog.Group) error {
	if len(g.Events) == 0 {
		return nil // the checksum belongs to a message that is no event
	}
	if err := r.prefetch(g); err != nil {
		return err
	}
	for _, ev := range g.Events {
		if r.pastUntil(ev) {
			return errReached
		}
		if err := r.state.Apply(ev); err != nil {
			return err
		}
		r.last, r.checksum = ev.Seq, 0
		r.events++
	}
	r.checksum = g.Checksum
	if r.bytes += g.Bytes; r.events < ReplayEvents && r.bytes < ReplayBytes {
		return nil
	}
	return r.handOver()
}

// prefetch reads the items that a group's events touch in one go. Those that it
// creates are not in the store.
func (r *Replay) prefetch(g eventlog.Group) error {
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

// errReached ends a Read at the moment that was asked for.
var errReached = errors.New("reached")

// pastUntil reports whether a decision begins with ev behind the moment that was
// asked for. What lies before the event by which the clock was last set back is
// never behind it.
func (r *Replay) pastUntil(ev events.Event) bool {
	return !r.until.IsZero() && ev.Tx.N <= 1 && ev.Seq >= r.store.opts.whole && ev.At.After(r.until)
}

// handOver passes on the changes that the State has collected, and lets it
// forget the committed ones.
func (r *Replay) handOver() error {
	c := r.state.TakeChanges()
	r.events, r.bytes = 0, 0
	r.state.Projected(events.Seq(r.committed.Load()))
	if c == nil {
		return nil
	}
	c.Checksum = r.checksum
	if r.handed != nil {
		r.handed(r.last)
	}
	select {
	case <-r.done: // only a failure ends it before Close
		return r.err
	case <-r.ctx.Done():
		return r.ctx.Err()
	case r.batches <- c:
		return nil
	}
}

// Flush hands over what has been applied and not yet committed.
func (r *Replay) Flush() error {
	if r.events == 0 {
		return nil
	}
	return r.handOver()
}

// Finish commits the rest. The State and the store are then level, and the
// caller may commit.
func (r *Replay) Finish() error {
	err := r.handOver()
	if r.Close(); r.err != nil {
		err = r.err
	}
	if err != nil {
		return err
	}
	r.state.Projected(r.store.Applied())
	return nil
}

// Close ends the replay, after the commits that were handed over. What was not
// is lost to the store, but not to the log. It may be called more than once.
func (r *Replay) Close() {
	if !r.closed {
		r.closed = true
		close(r.batches)
	}
	<-r.done
}

// fill replays a log into a store up to the position to, or, if until is set,
// up to the last event not after that time.
func fill(ctx context.Context, store *Store, log Log, to events.Seq, until time.Time, progress Progress) error {
	state, err := core.NewState(store)
	if err != nil {
		return err
	}
	from := state.Meta().Applied + 1
	if from > to {
		return whole(state)
	}
	report := func(at events.Seq) {
		if progress != nil {
			progress(uint64(at-from+1), uint64(to-from+1))
		}
	}
	r := NewReplay(ctx, store, state, nil)
	defer r.Close()
	r.until, r.handed = until, report
	if err := r.readTo(log, from, to); err != nil {
		return fmt.Errorf("replay the log from event %d: %w", from, err)
	}
	report(to)
	return whole(state)
}

// readTo replays a stretch of a log and finishes.
func (r *Replay) readTo(log Log, from, to events.Seq) error {
	if from == 1 {
		from = 0 // the first that the log keeps
	}
	err := log.Read(r.ctx, from, to, r.Apply)
	if err != nil && !errors.Is(err, errReached) {
		return err
	}
	if r.events > 0 && r.checksum == 0 { // it ended inside a Group, which has only the checksum of its end
		if r.checksum, err = log.Checksum(r.ctx, r.last); err != nil {
			return err
		}
	}
	return r.Finish()
}
