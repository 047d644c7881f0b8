package projector

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// Log is the part of a partition's event log that a replay needs.
type Log interface {
	// Read replays the frames from to to, both inclusive, to fn, in order,
	// from the caller's goroutine; from 0 means the first that is kept. It ends early
	// with fn's error, unwrapped.
	Read(ctx context.Context, from, to uint64, fn func(eventlog.Frame) error) error
	// Checksum is events.Checksum of the frame at a sequence.
	Checksum(ctx context.Context, seq uint64) (uint64, error)
}

// Progress hears how far a replay has come: events done, of about total. It is
// called from one goroutine at a time, about once a batch, and must not block.
type Progress func(done, total uint64)

// The bounds of one commit of a replay. A commit ends with the first frame that
// reaches one of them.
const (
	ReplayEvents = 4096
	ReplayBytes  = 4 << 20 // of the events as stored in the log
	// replayAhead bounds the commits that may wait while one is written.
	replayAhead = 2
)

// Replay folds the events read from a log into a store: at start and at
// takeover, in a rebuild and a verify, and for a moment of the past. Frames go
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
	ids      []events.ID  // reused by prefetch
	events   int          // applied since the last hand-over
	bytes    int          // of those
	last     events.Event // applied: its position and time
	checksum uint64       // of its frame
	before   uint64       // the events in the log before the first frame
	begun    bool         // there was one
	through  events.Seq   // if set, later events are left out
	until    time.Time    // likewise: see past
	handed   func()
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

// Apply folds a frame of the log, the next one, into the State. Its errors wrap
// [events.ErrCorrupt], or are the store's or the context's.
func (r *Replay) Apply(f eventlog.Frame) error {
	if f.Lost {
		if err := r.bridge(&f); err != nil {
			return err
		}
	}
	if counts, err := r.state.Frame(f.Seq, f.Epoch, f.Before); !counts || err != nil {
		return err
	}
	if err := r.prefetch(f.Events); err != nil {
		return err
	}
	if !r.begun {
		r.before, r.begun = f.Before, true
	}
	for _, ev := range f.Events {
		if r.past(&ev) {
			return errReached
		}
		if err := r.state.Apply(ev); err != nil {
			return err
		}
		r.last, r.checksum = events.Event{Seq: ev.Seq, At: ev.At}, f.Checksum
		r.events++
	}
	if r.bytes += f.Bytes; r.events < ReplayEvents && r.bytes < ReplayBytes {
		return nil
	}
	return r.handOver()
}

// bridge goes on behind frames that the log lacks: a mirror was away while its origin cut
// them. The next frame begins a round, which states all that there is. What the store has is
// kept as it was last seen, and counts as pruned; the State begins anew.
func (r *Replay) bridge(f *eventlog.Frame) error {
	if s, ok := f.Events[0].Body.(*events.Snapshot); !ok || s.Mark != events.MarkBegin || !r.store.opts.KeepPruned {
		return fmt.Errorf("frame %d: %w: frames before it are missing", f.Seq, events.ErrCorrupt)
	}
	if err := r.Finish(); err != nil {
		return err
	}
	if err := r.store.pruneAll(events.SeqOf(f.Seq, 0), f.Before); err != nil {
		return fmt.Errorf("go on with frame %d, behind those that the log lacks: %w", f.Seq, err)
	}
	if err := r.state.Reload(); err != nil {
		return err
	}
	r.closed, r.batches, r.done = false, make(chan *core.Changes, replayAhead), make(chan struct{})
	go r.commit()
	return nil
}

// prefetch reads the items that events touch in one go. Those that they create are
// not in the store.
func (r *Replay) prefetch(evs []events.Event) error {
	r.ids = r.ids[:0]
	fresh := make(map[events.ID]bool, len(evs)/4)
	for i := range evs {
		ev := &evs[i]
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

// past reports whether ev lies behind the moment that was asked for. A position within
// a decision means the whole of it. What lies before the event by which the clock was last
// set back is not behind a time.
func (r *Replay) past(ev *events.Event) bool {
	return r.through > 0 && ev.Seq > r.through && !r.last.Together(ev) ||
		!r.until.IsZero() && ev.Seq >= r.store.opts.whole && ev.At.After(r.until)
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
		r.handed()
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

// moment is where a replay ends.
type moment struct {
	through events.Seq // no later event, but the whole of its decision
	until   time.Time  // if set, no later event
	events  uint64     // in the log up to there, or about so many; 0: not known
}

// count finds out how many events there are.
func (m *moment) count(ctx context.Context, log Log) error {
	end := m.through.Frame()
	return log.Read(ctx, end, end, func(f eventlog.Frame) error {
		m.events = f.Before + uint64(len(f.Events))
		return nil
	})
}

// now is where a store stands.
func (s *Store) now() (moment, error) {
	m, err := s.Meta()
	return moment{through: m.Applied, events: m.Events}, err
}

// fill replays a log into a store up to a moment. The store is at the end of a frame.
func fill(ctx context.Context, store *Store, log Log, to moment, progress Progress) error {
	state, err := core.NewState(store)
	if err != nil {
		return err
	}
	at := state.Meta().Applied
	if at >= to.through {
		return whole(state)
	}
	r := NewReplay(ctx, store, state, nil)
	defer r.Close()
	r.through, r.until = to.through, to.until
	if progress != nil {
		if to.events == 0 {
			if err := to.count(ctx, log); err != nil {
				return err
			}
		}
		r.handed = func() {
			done := state.Meta().Events - r.before
			progress(done, max(done, to.events-min(to.events, r.before)))
		}
	}
	from := at.Frame() + 1
	if at == 0 {
		from = 0 // the first that the log keeps
	}
	err = log.Read(ctx, from, to.through.Frame(), r.Apply)
	if err == nil || errors.Is(err, errReached) {
		err = r.Finish()
	}
	if err != nil {
		return fmt.Errorf("replay the log behind event %d: %w", at, err)
	}
	return whole(state)
}
