package dispatcher

import (
	"maps"
	"slices"
	"time"

	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/dispatcher/table"
	"github.com/streamwright/streamwright/events"
)

// A NATS server that was killed loses what its consumers did in the last tenth of a second:
// they would deliver again what was delivered and acked just before. The stream that
// captures the acks still has those. So the consumers of ack types rest when an
// ownership begins, until all earlier words are decided and the messages that are over are
// removed.

// ackSettle is the longest that the consumers rest: if the capturing streams can't be
// read for so long, work goes on without them.
const ackSettle = 15 * time.Second

// settling is an ownership's progress with the words from before it began.
type settling struct {
	until   time.Time  // zero: settled
	heard   bool       // all earlier words are heard
	decided bool       // all of them are decided
	upTo    events.Seq // position of the last of these decisions
}

// settle lets the consumers deliver once all words from before this ownership are
// recorded, and the messages they were about are gone.
func (a *ackRuns) settle(now time.Time) error {
	s := &a.settling
	if s.until.IsZero() {
		return nil
	}
	if !clock.Passed(s.until, now) {
		done, err := a.settled()
		if err != nil || !done {
			return err
		}
	} else {
		a.cfg.Logger.Warn("what the workers of ack types have answered while no engine was there could not be read in time: delivering all the same", "waited", ackSettle)
	}
	*s = settling{}
	for _, t := range slices.Sorted(maps.Keys(a.on)) {
		if a.wants(t).Paused {
			a.withdraw(t)
		} else {
			a.make(t)
		}
	}
	return nil
}

// settled continues settling as far as it can, and reports whether it is done.
func (a *ackRuns) settled() (bool, error) {
	s := &a.settling
	if !s.heard || len(a.words) > 0 || len(a.naks) > 0 {
		return false, nil
	}
	if !s.decided {
		for d := range table.InOrder(a.table.Acks) {
			if d.Word == nil || d.Lingering {
				continue
			}
			if !a.room() {
				return false, nil
			}
			w := d.Word // the server's word on it died with the server
			d.Word = nil
			if err := a.record(d, w); err != nil {
				return false, err
			}
		}
		s.decided, s.upTo = true, a.state.Meta().Applied
	}
	if a.pipe.appended < s.upTo {
		return false, nil
	}
	a.clean()
	return !a.cleaning && len(a.ended) == 0, nil
}
