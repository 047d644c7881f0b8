package dispatcher

import (
	"time"

	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/events"
)

// A NATS server that was killed has lost what its consumers did in the last tenth
// of a second: they would deliver again what was delivered, and acked, just
// before. That it was acked stands in the streams that capture. So the consumers
// of native workers rest when an ownership begins, until what was said before is
// decided and the messages that are over are removed.

// nativeSettle is how long they rest at most: if the streams that capture can't
// be read for so long, work goes on without.
const nativeSettle = 15 * time.Second

// settling is how far an ownership is with what was said before it began.
type settling struct {
	until   time.Time  // zero: it is settled
	heard   bool       // all of it
	decided bool       // too
	upTo    events.Seq // of the last decision
}

// settleNatives lets the consumers deliver once all that was said before this
// ownership is recorded, and the messages that it was about are gone.
func (a *ackRuns) settleNatives(now time.Time) error {
	s := &a.settling
	if s.until.IsZero() {
		return nil
	}
	if !clock.Passed(s.until, now) {
		done, err := a.nativesSettled()
		if err != nil || !done {
			return err
		}
	} else {
		a.l.cfg.Logger.Warn("what native workers have answered while no engine was there could not be read in time: delivering all the same", "waited", nativeSettle)
	}
	*s = settling{}
	for t := range a.on {
		if a.nativeWants(t).Paused {
			a.withdrawNatives(t)
		} else {
			a.makeNative(t)
		}
	}
	return nil
}

// nativesSettled goes on with settling as far as it can, and reports whether it
// is done.
func (a *ackRuns) nativesSettled() (bool, error) {
	s := &a.settling
	if !s.heard || len(a.words) > 0 || len(a.naks) > 0 {
		return false, nil
	}
	if !s.decided {
		for _, d := range a.l.table.Natives {
			if d.Word == nil || d.Lingering {
				continue
			}
			if !a.l.pipe.room() {
				return false, nil
			}
			w := d.Word // the server's word on it was lost with the server
			d.Word = nil
			if err := a.decideNative(d, w); err != nil {
				return false, err
			}
		}
		s.decided, s.upTo = true, a.l.state.Meta().Applied
	}
	if a.l.pipe.appended < s.upTo {
		return false, nil
	}
	a.cleanNatives()
	return !a.cleaning && len(a.ended) == 0, nil
}
