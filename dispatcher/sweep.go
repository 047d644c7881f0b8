package dispatcher

import (
	"time"

	"github.com/streamwright/streamwright/dispatcher/lanes"
	"github.com/streamwright/streamwright/dispatcher/natsio"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// doubtSweep is the time between looks at the server's clock while it is implausible.
const doubtSweep = 10 * time.Second

// sweeper looks periodically for what no signal has reported.
type sweeper struct {
	l    *loop
	next time.Time
	idle map[events.Type]time.Time // since when types have been idle
}

// sweep looks for what a lost signal missed: streams that are gone, messages that nobody
// will get any more, runs whose worker has been silent for longer than the lease and a
// heartbeat's grace. It costs a few requests to the server, and one for each lane where
// something has waited long.
func (sw *sweeper) sweep(now time.Time) error {
	l := sw.l
	sw.next = now.Add(l.cfg.Sweep)
	if l.clock.Doubtful() {
		sw.next = now.Add(min(l.cfg.Sweep, doubtSweep))
	}
	l.flight.noteAcks()
	l.ready.ReleaseWaiting()
	waiting := map[lanes.Key][]natsio.Stored{}
	live := make(map[events.Token]bool, l.table.Total())
	for tok, d := range l.table.ByToken {
		live[tok] = true
		lease := l.leases.leaseOf(d)
		switch {
		case d.Orphan: // expireOrphans has its own time
		case d.Native && !d.Lingering: // see sweepNatives
		case !d.Claimed:
			if d.Seq != 0 && now.Sub(d.At) > 2*lease {
				key := lanes.Key{Type: d.Type, Name: d.Lane}
				waiting[key] = append(waiting[key], natsio.Stored{Token: tok, Seq: d.Seq})
			}
		case now.Sub(d.LeaseFrom()) <= lease+l.cfg.Gone:
		case d.Lingering:
			l.flight.letGo(d)
		case len(l.leases.late) < natsio.MaxSignals:
			l.leases.late = append(l.leases.late, natsio.Expiry{ID: d.ID, Token: tok, Seq: d.Seq})
			d.KeptFrom = now // until the decision is durable and frees it
		}
	}
	l.ready.CloseLanes(now)
	l.out.FindConsumers()
	l.out.LookAround(live, events.NewToken(l.state.Meta().Epoch, l.sender.tokens))
	for key, list := range waiting {
		l.out.Inspect(key, list)
	}
	if err := l.workforce.endUnseenDrains(now); err != nil {
		return err
	}
	if err := sw.forgetTypes(now); err != nil {
		return err
	}
	return l.acked.sweepNatives(now)
}

// spent handles unclaimed dispatches whose message has had its only delivery, or is gone. A
// worker may have pulled the message just now, or may hold it on purpose and renew it; so
// such a dispatch is taken back only after two leases.
func (f *flight) spent(tokens []events.Token, now time.Time) error {
	for _, tok := range tokens {
		d := f.l.table.ByToken[tok]
		if d == nil || d.Claimed {
			continue
		}
		if d.Spent.IsZero() {
			d.Spent = now
			continue
		}
		if now.Sub(d.Spent) <= 2*f.l.leases.leaseOf(d) {
			continue
		}
		back, err := f.putBack(d)
		if err != nil {
			return err
		}
		if back {
			f.returned(d.Type, wire.RecoveryUnclaimed, 1)
			f.l.out.DeleteMsg(d.Seq)
		}
	}
	return nil
}
