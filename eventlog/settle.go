package eventlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/streamwright/streamwright/internal/sleep"
)

// Bounds of the wait between two attempts at what may pass.
const (
	RetryMin = 5 * time.Millisecond
	RetryMax = time.Second
)

// maxFences is how often in a row a Settle goes on behind what was stored in its barrier's
// place.
const maxFences = 1000

// Settle makes the caller the log's only writer. It is used alike at start, at
// takeover, and to recover from ErrAmbiguous: it resets the log's connection,
// replays the frames behind the sequence from to apply, and appends the frame
// that barrier makes, again and again until one barrier is stored. That barrier
// it replays too. It returns the barrier's sequence, the stream's last at that
// moment: Append goes on from there.
//
// With from 0 it begins with the first frame that the log keeps.
//
// What was in flight before, of this writer or of any other, can't be stored
// any more once Settle has returned nil. What of it had been stored was given
// to apply.
//
// While the server can't be reached it tries again, until ctx ends. It fails
// with apply's error, unwrapped; with ErrFull, ErrBehind (from is past the
// log's end), ErrTrimmed, an error that wraps events.ErrCorrupt or
// events.ErrNewer, ErrClosed, or the context's; and with ErrFenced if others
// write so fast that maxFences barriers in a row find no place. The frames that apply has
// accepted tell the caller where to begin the next time.
func Settle(ctx context.Context, log Log, from uint64, barrier func() Write, apply func(Frame) error) (uint64, error) {
	s := settler{log: log, through: from, barrier: barrier, apply: apply}
	wait, fences := RetryMin, 0
	for reset := true; ; {
		last, err := s.once(ctx, reset)
		switch {
		case err == nil:
			return last, nil
		case errors.Is(err, ErrFenced):
			if fences++; fences == maxFences {
				return 0, fmt.Errorf("settle the log: %d barriers in a row were refused: keep other programs from writing to the event stream: %w", fences, err)
			}
			reset = false
			continue
		case s.applyErr != nil:
			return 0, s.applyErr
		case ctx.Err() != nil:
			return 0, fmt.Errorf("settle the log behind frame %d: %w (last: %w)", s.through, ctx.Err(), err)
		case !errors.Is(err, ErrUnreachable) && (!errors.Is(err, ErrAmbiguous) || errors.Is(err, ErrFull)):
			return 0, err
		}
		reset, fences = true, 0
		_ = sleep.Longer(ctx, &wait, RetryMax) // its error shows in the next attempt
	}
}

type settler struct {
	log      Log
	through  uint64 // the last sequence consumed
	barrier  func() Write
	apply    func(Frame) error
	applyErr error
}

func (s *settler) once(ctx context.Context, reset bool) (uint64, error) {
	if reset {
		if err := s.log.Reset(ctx); err != nil {
			return 0, err
		}
	}
	tip, err := s.log.Last(ctx)
	if err != nil {
		return 0, err
	}
	if tip.Seq < s.through {
		// The log knows how long to doubt it.
		if _, err := s.log.Checksum(ctx, s.through); err != nil {
			return 0, err
		}
		return 0, fmt.Errorf("the log's end was said to be %d, and it goes on: %w", tip.Seq, ErrUnreachable)
	}
	if s.through == 0 && tip.First > 1 {
		s.through = tip.First - 1 // nothing is known yet: the log that is left says it all
	}
	if err := s.read(ctx, tip.Seq); err != nil {
		return 0, err
	}
	w := s.barrier()
	if _, err := s.log.Append(ctx, tip.Seq, &w); err != nil {
		return 0, err
	}
	return tip.Seq + 1, s.read(ctx, tip.Seq+1)
}

func (s *settler) read(ctx context.Context, to uint64) error {
	if s.through >= to {
		return nil
	}
	err := s.log.Read(ctx, s.through+1, to, func(f Frame) error {
		if err := s.apply(f); err != nil {
			s.applyErr = err
			return err
		}
		s.through = f.Seq
		return nil
	})
	if err == nil {
		s.through = to // there may be foreign messages at the end
	}
	return err
}
