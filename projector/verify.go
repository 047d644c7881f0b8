package projector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/projector/internal/layout"
)

// MaxDifferences bounds the differences that Verify names.
const MaxDifferences = 20

// Verified is the result of a Verify.
type Verified struct {
	Equal    bool
	Position events.Seq // as of which both stores were compared
	Digest   string     // of the store rebuilt from the log
	Live     string     // of the live store
	Diff     []string   // the first differences, in words, if not Equal
	Elapsed  time.Duration
}

// Verify replays the log into a second store, in a folder beside the live
// one's generation, and compares the two as of the live store's position when
// it was called. Queries and commits go on meanwhile. The second store is
// removed in the end; it needs the disk space of the first. Close waits for a
// Verify that is under way: end its context first.
//
// A difference is no error: see Verified. One Verify or Rebuild of a store can
// be under way, another gets [ErrProving].
func (s *Store) Verify(ctx context.Context, log Log, progress Progress) (res Verified, err error) {
	if err := s.beginProof(); err != nil {
		return res, err
	}
	defer s.proof.Unlock()
	start := time.Now()
	err = untilUncut(func() error {
		return s.Snapshot(func(live layout.View) error {
			m, err := live.Meta()
			if err != nil {
				return err
			}
			res = Verified{Position: m.Applied}
			return s.verify(ctx, live, log, moment{through: m.Applied, events: m.Events}, &res, progress)
		})
	})
	if err != nil {
		return res, fmt.Errorf("verify store: %w", err)
	}
	res.Elapsed = time.Since(start)
	return res, nil
}

func (s *Store) verify(ctx context.Context, live layout.View, log Log, at moment, res *Verified, progress Progress) (err error) {
	second, remove, err := s.beside(ctx, log, at, s.opts.whole, progress)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	return second.Snapshot(func(rebuilt layout.View) error {
		if res.Live, err = digestView(ctx, live); err != nil {
			return err
		}
		if res.Digest, err = digestView(ctx, rebuilt); err != nil {
			return err
		}
		if res.Equal = res.Live == res.Digest; res.Equal {
			return nil
		}
		res.Diff, err = diffViews(ctx, live, rebuilt, "the live store", "the rebuilt one", MaxDifferences)
		return err
	})
}

// ErrDiverged is wrapped by the errors of CheckLog about a store that is not
// the projection of the log. It must be rebuilt.
var ErrDiverged = errors.New("the store is not the projection of this log: rebuild it from the log (engine rebuild)")

// ErrOtherLog is wrapped, beside ErrDiverged, by the errors of CheckLog about a
// log that is not the one from which the store was made.
var ErrOtherLog = errors.New("it is another log")

// CheckLog checks that the store is the projection of a log: that the log has
// the identity noted by SetIdentity (if one was), and that the frame of the last event
// folded in stands in it unchanged. It finds a log that was replaced, or that
// has lost its end in a power loss and gone on differently. Errors about the
// store wrap [ErrDiverged]; others are the log's own.
func (s *Store) CheckLog(ctx context.Context, identity string, log Log) error {
	var (
		m     events.Meta
		noted string
		sum   uint64
	)
	err := s.Snapshot(func(v layout.View) (err error) {
		if m, err = v.Meta(); err != nil {
			return err
		}
		if noted, err = v.Identity(); err != nil {
			return err
		}
		sum, err = v.Checksum()
		return err
	})
	if err != nil || m.Applied == 0 {
		return err
	}
	found, err := log.Checksum(ctx, m.Applied.Frame())
	elsewhere := err == nil || errors.Is(err, eventlog.ErrTrimmed) || errors.Is(err, eventlog.ErrBehind)
	if noted != "" && noted != identity && elsewhere && (err != nil || found != sum) {
		// A log with the very frame that the store folded last is the same log,
		// restored.
		return errors.Join(fmt.Errorf("check store: it was made from the log %q up to event %d, this one is %q: %w: %w", noted, m.Applied, identity, ErrOtherLog, ErrDiverged), err)
	}
	var trimmed *eventlog.TrimmedError
	switch {
	case errors.As(err, &trimmed) && trimmed.First <= m.Applied.Frame()+1:
		return nil // cut right behind our position: what follows is there
	case errors.Is(err, eventlog.ErrTrimmed), errors.Is(err, eventlog.ErrBehind):
		return fmt.Errorf("check store: it is at event %d: %w: %w", m.Applied, err, ErrDiverged)
	case err != nil:
		return fmt.Errorf("check store: read frame %d of the log: %w", m.Applied.Frame(), err)
	}
	if found != sum {
		return fmt.Errorf("check store: frame %d of the log has checksum %016x, the store has folded one with %016x: %w", m.Applied.Frame(), found, sum, ErrDiverged)
	}
	return nil
}
