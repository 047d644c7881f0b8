package projector

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/projector/internal/layout"
)

// ErrProving is returned by a second Rebuild or Verify of a store while one is
// under way.
var ErrProving = errors.New("a rebuild or verify of this store is under way already")

// newBuild opens a generation that is being made, as a store without a folder
// of its own.
func newBuild(f *folder, number int, opts Options) (*Store, error) {
	if err := f.remove(number); err != nil {
		return nil, err
	}
	opts.bulk = true
	db, err := f.openGeneration(number, opts.pebble())
	if err != nil {
		return nil, err
	}
	return newStore(db, nil, opts)
}

// Rebuild makes the store anew from nothing but the log, while queries and
// commits go on, and changes over to the new one in the end: commits wait for
// the moment that it takes to replay what came meanwhile. The position is the
// same before and after.
//
// A State over the store may hold what it read from the old one: its owner
// should go on with a new State, taken when Rebuild has returned. Close waits
// for a Rebuild that is under way: end its context first.
func (s *Store) Rebuild(ctx context.Context, log Log, progress Progress) error {
	if err := s.beginProof(); err != nil {
		return err
	}
	defer s.proof.Unlock()
	return untilUncut(func() error {
		return s.makeAnew("rebuild", func(b *Store, number int) (*generation, error) {
			if err := s.chase(ctx, b, log, progress); err != nil {
				return nil, err
			}
			return s.changeOver(ctx, b, number, log)
		})
	})
}

// makeAnew lets become fill a new store and put it in the place of the live
// one, which become returns and makeAnew then removes. verb names the operation
// in errors.
func (s *Store) makeAnew(verb string, become func(b *Store, number int) (old *generation, err error)) (err error) {
	number := s.folder.number + 1
	b, err := newBuild(s.folder, number, s.opts)
	if err != nil {
		return fmt.Errorf("%s store: %w", verb, err)
	}
	became := false
	defer func() { // also when the goroutine ends, as that of a simulated process does
		if !became {
			err = errors.Join(err, b.Close(), s.folder.remove(number))
		}
	}()
	old, err := become(b, number)
	if err != nil {
		return fmt.Errorf("%s store: %w", verb, err)
	}
	became = true
	if err := errors.Join(s.retire(old), s.folder.remove(number-1)); err != nil {
		return fmt.Errorf("%s store: it is done, but the old one could not be removed: %w", verb, err)
	}
	return nil
}

// beginProof takes s.proof, if the store is open and no rebuild or verify is
// under way.
func (s *Store) beginProof() error {
	if !s.proof.TryLock() {
		return ErrProving
	}
	g, err := s.acquire()
	if err != nil {
		s.proof.Unlock()
		return err
	}
	s.release(g) // Close waits for s.proof
	return nil
}

// closeEnough is the number of events by which the new store may lag when
// commits are made to wait for the rest.
const closeEnough = 2 * ReplayEvents

// chase brings a new store close to the live one. It ends, as a replay is many
// times faster than what appends and projects.
func (s *Store) chase(ctx context.Context, b *Store, log Log, progress Progress) error {
	for {
		to, err := s.now()
		if err == nil {
			err = fill(ctx, b, log, to, progress)
		}
		if err != nil {
			return err
		}
		if now, err := s.now(); err != nil || now.events <= to.events+closeEnough {
			return err
		}
	}
}

// changeOver brings the new store level with the live one, with commits
// waiting, and puts it in its place. It returns the old one.
func (s *Store) changeOver(ctx context.Context, b *Store, number int, log Log) (*generation, error) {
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	to, err := s.now()
	if err == nil {
		err = fill(ctx, b, log, to, nil)
	}
	if err != nil {
		return nil, err
	}
	if b.Applied() != s.Applied() {
		return nil, fmt.Errorf("the log leads to event %d, the store is at %d: it is the store of another log, or the log has lost its end: stop the engine and rebuild", b.Applied(), s.Applied())
	}
	return s.replace(b, number)
}

// replace puts a new store in the place of the live one, which it returns.
// REQUIRES: s.commitMu is held.
func (s *Store) replace(b *Store, number int) (*generation, error) {
	id, err := s.Identity()
	if err != nil {
		id = "" // the old store is damaged; the engine notes it anew at its start
	}
	if err := errors.Join(b.SetIdentity(id), b.Close()); err != nil {
		return nil, err
	}
	db, err := s.folder.openGeneration(number, s.opts.pebble())
	if err != nil {
		return nil, err
	}
	first, err1 := layout.View{R: db}.FirstExpiries()
	newest, err2 := layout.View{R: db}.NewestID()
	if err = errors.Join(err1, err2); err == nil {
		err = s.folder.makeCurrent(number)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := *s.newest.Load(); bytes.Compare(newest[:], old[:]) > 0 {
		s.newest.Store(&newest) // the old store had lost it
	}
	old := s.live
	s.live = newGeneration(db)
	s.writer.nextExpiry = first
	s.writer.unflushed = 0
	raise(&s.flushed, uint64(b.Applied()))
	return old, nil
}

// StateAt makes a store as of a moment of the past: the position through, or,
// if until is set, the last event not after that time, whichever comes first.
// It is an ordinary Store, to be queried, closed, and its folder removed by the
// caller; with [Options.InMemory], dir is not used. The folder must be new.
func StateAt(ctx context.Context, log Log, through events.Seq, until time.Time, dir string, opts Options, progress Progress) (*Store, error) {
	return stateAt(ctx, log, moment{through: through, until: until}, dir, opts, progress)
}

func stateAt(ctx context.Context, log Log, to moment, dir string, opts Options, progress Progress) (*Store, error) {
	opts.bulk = true
	s, err := Open(dir, opts)
	if err != nil {
		return nil, err
	}
	if at := s.Applied(); at != 0 {
		return nil, errors.Join(fmt.Errorf("state at %d: the folder %s holds a store at %d already: use a new one", to.through, dir, at), s.Close())
	}
	if err := fill(ctx, s, log, to, progress); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// AsOf calls fn with a store as of a moment of the past (see [StateAt]; a position
// within a decision means the whole of it), which is made beside this one and removed at the end. Queries and commits go on meanwhile. It needs the
// disk space of both; one AsOf, Verify or Rebuild of a store can be under way,
// another gets [ErrProving]. A moment before the log's first event is refused.
func (s *Store) AsOf(ctx context.Context, log Log, through events.Seq, until time.Time, progress Progress, fn func(*Store) error) (err error) {
	if err := s.beginProof(); err != nil {
		return err
	}
	defer s.proof.Unlock()
	meta, err := s.Meta()
	if err != nil {
		return err
	}
	then, remove, err := s.beside(ctx, log, moment{through, until, meta.Events}, layout.WholeTo(meta, until), progress)
	var trimmed *eventlog.TrimmedError
	switch {
	case errors.As(err, &trimmed) && trimmed.First > through.Frame():
		return beforeLog(events.SeqOf(trimmed.First, 0))
	case err != nil:
		return fmt.Errorf("state as of %d: %w", through, err)
	}
	defer func() { err = errors.Join(err, remove()) }()
	meta, err = then.Meta()
	switch {
	case err != nil:
		return err
	case meta.Applied == 0:
		return beforeLog(events.SeqOf(1, 0))
	case meta.Partial:
		return events.Refuse(events.CodeNotFound, "that is before the log's first whole state: the log has been cut; ask for a later position or time")
	}
	return fn(then)
}

// beside is StateAt in a folder beside the live one's generation; remove closes
// it and removes that. whole is as in Options.
func (s *Store) beside(ctx context.Context, log Log, to moment, whole events.Seq, progress Progress) (then *Store, remove func() error, err error) {
	opts, fs := s.opts, s.folder.fs
	opts.InMemory = false // it shares the live store's file system, whatever that is
	opts.whole = whole
	dir := fs.PathJoin(s.folder.dir, verifyName)
	if err := fs.RemoveAll(dir); err != nil {
		return nil, nil, err
	}
	if then, err = stateAt(ctx, log, to, dir, opts, progress); err != nil {
		return nil, nil, errors.Join(err, fs.RemoveAll(dir))
	}
	return then, func() error { return errors.Join(then.Close(), fs.RemoveAll(dir)) }, nil
}

func beforeLog(first events.Seq) error {
	return events.Refuse(events.CodeNotFound, "that is before the log's first event: it begins with event %d; ask for a later position or time", first)
}
