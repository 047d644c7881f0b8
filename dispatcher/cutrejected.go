package dispatcher

import (
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// keptPlace is how far a round has come in re-stating what is kept of
// submissions that became no item.
type keptPlace struct {
	next    events.Seq // of the rejected submissions; 0 with begun: all are
	answers uint64     // of the messages of the intake stream, likewise
	begun   bool
	done    bool
}

// carryRejected re-states the next pages of what was rejected, as far as the
// batch has room. What the projection does not know of them yet, the State does.
func (k *retention) carryRejected() error {
	p := &k.rejected
	if !p.begun {
		*p = keptPlace{next: 1, answers: 1, begun: true}
	}
	for (p.next > 0 || p.answers > 0) && k.mayRetain() {
		var c core.CarryRejected
		at, err := *p, error(nil)
		if p.next > 0 {
			if c.Rejected, at.next, err = k.l.cfg.Store.KeptRejected(p.next, k.began, keptPageBytes); err != nil {
				return err
			}
		}
		if p.answers > 0 {
			if c.Answers, at.answers, err = k.l.cfg.Store.KeptAnswers(p.answers, k.began, keptPageAnswers); err != nil {
				return err
			}
		}
		done, err := k.decideLarge(c)
		if err != nil || !done || k.phase != cutCarries {
			return err // the batch has no room for it, or the round was given up
		}
		*p = at
	}
	p.done = p.next == 0 && p.answers == 0
	return nil
}

// snapshotBytes is about how large a snapshot is.
func snapshotBytes(b *events.Snapshot) int {
	const record, answer = 128, 80
	n := overhead + record*(len(b.Records)+len(b.Keys)) + answer*len(b.Answers)
	for i := range b.Rejected {
		n += int(b.Rejected[i].Size) + record
	}
	return n
}
