package projector

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/nudge"
	"github.com/streamwright/streamwright/projector/internal/layout"
)

// Store is the projection of one partition's log. It implements [core.Base].
//
// Queries may come from any goroutine, at any time. Commit is for one
// goroutine at a time.
type Store struct {
	opts   Options
	folder *folder // nil for one that is being made
	pos    position
	flush  flusher

	// mu guards live, and the uses of every generation.
	mu   sync.Mutex
	live *generation // nil once closed

	// commitMu is held while writing, and while a generation is replaced.
	commitMu sync.Mutex
	writer   writer

	// proof is held by a Rebuild or Verify.
	proof sync.Mutex

	flushed atomic.Uint64 // a position that has surely reached the disk

	// newest is at or after the id of every item. Ids are ULIDs, and most new
	// ones come after all others, so the disk need not be read to know that they
	// are new. It is raised before an item can be seen.
	newest atomic.Pointer[events.ID]
}

// ErrDiskFull is returned by Close when the store can't be written for want of
// room.
var ErrDiskFull = errors.New("the store's disk is full: it was closed without what is not written yet, which the log has")

// generation is an open Pebble folder, closed when its last user is done.
type generation struct {
	db    *pebble.DB
	uses  int
	gone  bool          // no new users
	quiet chan struct{} // closed when gone and without users
}

func newGeneration(db *pebble.DB) *generation {
	return &generation{db: db, quiet: make(chan struct{})}
}

// Open opens the store in a folder, making it if it is not there. The folder
// belongs to this Store until Close: a second Open, from anywhere, gets
// [ErrInUse]. A store that a newer program wrote is refused with
// [ErrNewerFormat].
func Open(dir string, opts Options) (*Store, error) {
	f, opts, err := openFolder(dir, opts)
	if err != nil {
		return nil, err
	}
	s, err := openIn(f, opts)
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	return s, nil
}

// openIn opens the current generation of a locked folder, or its first one.
func openIn(f *folder, opts Options) (*Store, error) {
	fresh := f.number == 0
	if fresh {
		f.number = 1
	}
	db, err := f.openGeneration(f.number, opts.pebble())
	if err != nil {
		return nil, err
	}
	if fresh {
		if err := f.makeCurrent(f.number); err != nil {
			return nil, errors.Join(fmt.Errorf("open store %s: %w", f.dir, err), db.Close())
		}
	}
	return newStore(db, f, opts)
}

// newStore starts a Store on an open Pebble folder, or closes that.
func newStore(db *pebble.DB, f *folder, opts Options) (*Store, error) {
	s := &Store{opts: opts, folder: f, live: newGeneration(db), pos: position{awaited: make(chan struct{}, 1)}}
	s.writer.limits, s.writer.turn = opts.rejected, opts.Turns.Turn()
	if err := s.load(db); err != nil {
		return nil, errors.Join(fmt.Errorf("open store: %w", err), db.Close())
	}
	s.flush.start(s)
	return s, nil
}

// load reads what the Store keeps in memory of a generation.
func (s *Store) load(db *pebble.DB) error {
	v := layout.View{R: db}
	m, err := v.Meta()
	if err == nil {
		err = s.checkKeeps(db, m.Applied == 0)
	}
	if err != nil {
		return err
	}
	newest, err := v.NewestID()
	if err != nil {
		return err
	}
	s.newest.Store(&newest)
	s.writer.nextExpiry, err = v.FirstExpiries()
	s.pos.advance(m.Applied)
	s.flushed.Store(uint64(m.Applied))
	return err
}

// ErrKeeps is wrapped by the error of Open about a store that was made with another
// [Options.KeepPruned]: make it anew from the log.
var ErrKeeps = errors.New("the store was made with pruned items and is now to be without them, or the other way round")

// checkKeeps refuses a store that was made to keep other items. One that is empty
// becomes what the options say.
func (s *Store) checkKeeps(db *pebble.DB, empty bool) error {
	key := layout.MetaKey(layout.MetaKeeps)
	keeps, err := layout.View{R: db}.Get(key, func([]byte) error { return nil })
	switch want := s.opts.KeepPruned; {
	case err != nil || keeps == want:
		return err
	case !empty:
		return ErrKeeps
	case want:
		return db.Set(key, nil, pebble.NoSync)
	}
	return db.Delete(key, pebble.NoSync)
}

// Close flushes and closes the store, after the queries, and the Rebuild or
// Verify, that are under way. It is idempotent. Everything else returns
// [ErrClosed] from then on.
//
// While the store's disk is full it gives up after a moment, with
// [ErrDiskFull]: what is not written yet is in the log. The store is closed, and
// its folder free, as soon as there is room.
func (s *Store) Close() error {
	done := make(chan error, 1)
	go func() { done <- s.close() }()
	patience := time.NewTicker(closeOnFullDisk)
	defer patience.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-patience.C:
			if s.opts.disk.waiting() {
				return ErrDiskFull
			}
		}
	}
}

func (s *Store) close() error {
	s.flush.stop()
	s.proof.Lock()
	defer s.proof.Unlock()
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	s.mu.Lock()
	g := s.live
	s.live = nil
	s.mu.Unlock()
	if g == nil {
		return nil
	}
	s.pos.close()
	var err error
	if s.folder == nil || !s.opts.InMemory { // what is in memory alone is gone in a moment
		err = g.db.Flush()
	}
	err = errors.Join(err, s.retire(g))
	if s.folder != nil {
		err = errors.Join(err, s.folder.close())
	}
	return err
}

// retire closes a generation that gets no new users, once its last user is
// done.
func (s *Store) retire(g *generation) error {
	s.mu.Lock()
	g.gone = true
	if g.uses == 0 {
		close(g.quiet)
	}
	s.mu.Unlock()
	<-g.quiet
	return g.db.Close()
}

func (s *Store) acquire() (*generation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live == nil {
		return nil, ErrClosed
	}
	s.live.uses++
	return s.live, nil
}

func (s *Store) release(g *generation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g.uses--
	if g.gone && g.uses == 0 {
		close(g.quiet)
	}
}

// lookup calls fn with a view for one lookup.
func (s *Store) lookup(fn func(layout.View) error) error {
	g, err := s.acquire()
	if err != nil {
		return err
	}
	defer s.release(g)
	return fn(layout.View{R: g.db})
}

// Snapshot calls fn with a view that stays as it is.
func (s *Store) Snapshot(fn func(layout.View) error) error {
	g, err := s.acquire()
	if err != nil {
		return err
	}
	defer s.release(g)
	snap := g.db.NewSnapshot()
	return errors.Join(fn(layout.View{R: snap, Turns: s.opts.Turns}), snap.Close())
}

// Applied is the position of the last event that is folded in: what a query
// that begins now sees at least.
func (s *Store) Applied() events.Seq { return s.pos.get() }

// Await returns once Applied has reached seq, with ctx's error if that ends
// first, or with [ErrClosed].
func (s *Store) Await(ctx context.Context, seq events.Seq) error { return s.pos.await(ctx, seq) }

// Awaited receives a value when an Await begins to wait: the committer may be
// putting off changes that it has at hand. It is for one goroutine.
func (s *Store) Awaited() <-chan struct{} { return s.pos.awaited }

// Waited reports whether an Await is under way.
func (s *Store) Waited() bool { return s.pos.waited() }

// Flush writes all data held only in memory to disk, and returns once it is
// safe there.
func (s *Store) Flush() error {
	g, err := s.acquire()
	if err != nil {
		return err
	}
	defer s.release(g)
	at := s.Applied()
	if err := g.db.Flush(); err != nil {
		return fmt.Errorf("flush store: %w", err)
	}
	raise(&s.flushed, uint64(at))
	return nil
}

func raise(a *atomic.Uint64, to uint64) {
	for {
		old := a.Load()
		if old >= to || a.CompareAndSwap(old, to) {
			return
		}
	}
}

// DiskBytes is the size of the store's files.
func (s *Store) DiskBytes() uint64 {
	g, err := s.acquire()
	if err != nil {
		return 0
	}
	defer s.release(g)
	return g.db.Metrics().DiskSpaceUsage()
}

// flusher keeps the tail that a crash would cost bounded, from a goroutine of
// its own, so that Commit does not wait for a disk.
type flusher struct {
	dirty chan struct{} // something is unflushed
	full  chan struct{} // FlushEvents of it are
	quit  chan struct{}
	done  chan struct{}
	once  sync.Once
}

func (f *flusher) start(s *Store) {
	f.dirty, f.full = make(chan struct{}, 1), make(chan struct{}, 1)
	f.quit, f.done = make(chan struct{}), make(chan struct{})
	go f.run(s)
}

func (f *flusher) stop() {
	f.once.Do(func() { close(f.quit) })
	<-f.done
}

func (f *flusher) run(s *Store) {
	defer close(f.done)
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	for {
		select {
		case <-f.quit:
			timer.Stop()
			return
		case <-f.dirty:
			timer.Reset(s.opts.FlushEvery)
			continue
		case <-f.full:
		case <-timer.C:
		}
		timer.Stop()
		s.commitMu.Lock()
		s.writer.unflushed = 0 // from here on, a Commit says dirty anew
		s.commitMu.Unlock()
		if err := s.Flush(); err != nil {
			s.opts.Logger.Error("the projection could not be flushed; more of the log would be replayed after a crash", "err", err)
			nudge.Send(f.dirty)
		}
	}
}
