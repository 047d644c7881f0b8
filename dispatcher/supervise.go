package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/sleep"
	"github.com/streamwright/streamwright/projector"
)

// Waits before the partition is taken over again: after an error, and after another engine
// has taken it, which is given time to show that it works.
const (
	minRetake    = 10 * time.Millisecond
	maxRetake    = 2 * time.Second
	fencedRetake = time.Second
)

// maxStrange is the number of ownerships in a row, each shorter than fencedRetake, that
// foreign messages may end before the next takeover waits as for a rival.
const maxStrange = 5

// rivalledWithin bounds the look whether another engine has written.
const rivalledWithin = 2 * time.Second

// takeOverWithin bounds one attempt to take over. What it has read of the log is projected,
// and the next attempt continues from there.
const takeOverWithin = time.Minute

// supervise runs one ownership after another; nil: it begins as a standby.
func (d *Dispatcher) supervise(ctx context.Context, l *loop) {
	defer d.refuseQueued(errClosed)
	defer close(d.ended)
	if l == nil {
		if l = d.ownAgain(ctx, 0); l == nil {
			return
		}
	}
	for strange := 0; ; {
		began, epoch := time.Now(), l.state.Meta().Epoch
		err := d.serve(ctx, l)
		if h := d.cfg.Hooks.Lost; h != nil {
			h(err)
		}
		if err == nil || ctx.Err() != nil {
			return
		}
		wait := time.Duration(0)
		if strange++; time.Since(began) > fencedRetake {
			strange = 1
		}
		if errors.Is(err, eventlog.ErrFenced) && !d.cfg.Alone && (strange > maxStrange || rivalled(ctx, d.cfg.Log, epoch, err)) {
			wait = fencedRetake/2 + rand.N(fencedRetake)
		}
		if errors.Is(err, errReload) {
			d.cfg.Logger.Info("starting again from the log, as asked to")
		} else {
			d.cfg.Logger.Error("the ownership of the partition has ended: starting again from the log", "error", err, "in", wait)
		}
		d.standby.failed(err, false)
		if l = d.ownAgain(ctx, wait); l == nil {
			return
		}
	}
}

// rivalled reports whether another engine may have taken the partition from the owner of an
// epoch, whose append was refused with err. Else a foreign message was in its way.
func rivalled(ctx context.Context, log eventlog.Log, epoch events.Epoch, err error) bool {
	var fenced *eventlog.FencedError
	if !errors.As(err, &fenced) {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, rivalledWithin)
	defer cancel()
	tip, err := log.Last(ctx)
	if err == nil {
		err = log.Read(ctx, fenced.Expected+1, tip.Seq, func(f eventlog.Frame) error {
			if f.Epoch > epoch {
				return errRival
			}
			return nil
		})
	}
	return err != nil // errRival, or nobody knows
}

var errRival = errors.New("another engine has appended")

// ownAgain stands by while another engine has the lease, and tries to take over until it
// succeeds, is stopped (nil), or finds that it can't (nil, with e.err set).
func (d *Dispatcher) ownAgain(ctx context.Context, wait time.Duration) *loop {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.drain, cancel)()
	late := false
	for {
		if by, mine := d.standby.takeLease(ctx); !mine {
			if err := d.standby.standBy(ctx, by); err != nil {
				if ctx.Err() == nil {
					d.err = err
					d.cfg.Logger.Error("the log can't be followed", "error", err)
				}
				return nil
			}
			wait = 0
		}
		if sleep.For(ctx, wait) != nil {
			return nil
		}
		wait = min(max(2*wait, minRetake), maxRetake)
		l, err := d.tryToOwn(ctx, late)
		late = errors.Is(err, errLate)
		if err == nil {
			return l
		}
		if ctx.Err() != nil {
			return nil
		}
		// What was cut off meanwhile is caught up with at the next attempt.
		over := final(err) && !errors.Is(err, eventlog.ErrTrimmed)
		d.standby.failed(err, over)
		if over {
			d.err = err
			d.cfg.Logger.Error("the partition can't be served", "error", err)
			return nil
		}
		d.cfg.Logger.Warn("the partition could not be taken over: trying again", "error", err, "in", wait)
	}
}

// errLate ends an attempt to take over that has had its time.
var errLate = errors.New("it took too long")

// tryToOwn is one attempt to take over, after one that was late or not. A projection is made anew
// in one piece: an attempt that is cut short begins again with nothing. So after a late one that
// is done first, however long it takes.
func (d *Dispatcher) tryToOwn(ctx context.Context, late bool) (*loop, error) {
	if late {
		tip, err := d.cfg.Log.Last(undated{ctx})
		if err == nil {
			err = fit(undated{ctx}, &d.cfg, tip)
		}
		if err != nil {
			return nil, fmt.Errorf("take over: %w", err)
		}
	}
	try, cancel := context.WithTimeout(ctx, takeOverWithin)
	defer cancel()
	l, err := d.own(try)
	if err != nil && try.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", errLate, err)
	}
	return l, err
}

// final reports whether an error will not go away by itself: the log and the projection
// don't belong together, or can't be read. A missing log may come back from a backup.
func final(err error) bool {
	for _, e := range []error{events.ErrCorrupt, events.ErrNewer, eventlog.ErrBehind, eventlog.ErrTrimmed, eventlog.ErrClosed, projector.ErrOtherLog} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// refuseQueued refuses the jobs that wait.
func (d *Dispatcher) refuseQueued(why *events.Error) {
	for {
		select {
		case j := <-d.requests.ch:
			j.abandon(why)
		case j := <-d.submits.ch:
			j.abandon(why)
		default:
			return
		}
	}
}
