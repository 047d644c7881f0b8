package dispatcher

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// sweep looks for what a lost signal missed: a dispatch stream that is gone,
// an item whose message was delivered and never claimed, a run whose worker
// has not been heard of for longer than its lease and a heartbeat's grace. It
// corrects the clock, and gives free what of the intake is answered. It costs
// a few requests each time.
func (l *loop) sweep(now time.Time) error {
	l.nextSweep = now.Add(l.cfg.Sweep)
	l.pusher.chore(func(ctx context.Context) {
		if err := l.topology.ensureStreams(ctx); err != nil {
			l.log.Warn("sweep: the streams could not be looked at", "error", err)
		}
		if tip, err := l.cfg.Log.Last(ctx); err == nil {
			if d := l.clock.correct(tip.Time); d > time.Second || d < -time.Second {
				l.log.Warn("sweep: the server's clock differs from the partition's: slewing towards it", "difference", d)
			}
		}
	})
	l.pusher.purgeIntake(l.answered())
	for _, d := range l.table.byToken {
		set, _ := l.state.Settings(d.typ)
		switch {
		case d.orphan: // expireOrphans has its own time
		case !d.claimed && !d.lingering:
			if now.Sub(d.at) > 2*set.Lease() {
				l.pusher.check(d.typ, d.lane, d.token, d.seq)
			}
		case now.Sub(later(d.heard, d.at)) > set.Lease()+l.cfg.Gone:
			if d.lingering {
				l.letGo(d)
			} else if err := l.expire(d.id, d.token); err != nil {
				return err
			}
		}
	}
	return nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// answered is the intake position that was already in the log at the last
// sweep: the events that say so have surely been synced since.
func (l *loop) answered() uint64 {
	seq := l.intakeAtSweep
	l.intakeAtSweep = l.durableIntake
	return seq
}

// purgeIntake gives free what lies at or before an intake position.
func (p *pusher) purgeIntake(through uint64) {
	if through == 0 || through == p.purged {
		return
	}
	p.purged = through
	p.chore(func(ctx context.Context) {
		s, err := p.js.Stream(ctx, p.cfg.Names.IntakeStream())
		if err == nil {
			err = s.Purge(ctx, jetstream.WithPurgeSequence(through+1))
		}
		if err != nil {
			p.log.Warn("the answered part of the intake could not be purged", "through", through, "error", err)
		}
	})
}

// check finds out whether an unclaimed dispatch has lost its message, or had
// its one delivery, and leaves word if so.
func (p *pusher) check(typ events.Type, lane string, token events.Token, seq uint64) {
	p.chore(func(ctx context.Context) {
		s, err := p.js.Stream(ctx, p.cfg.Names.DispatchStream())
		if err != nil {
			return
		}
		if seq != 0 {
			if _, err := s.GetMsg(ctx, seq); err == nil {
				cons, err := s.Consumer(ctx, wire.Consumer(typ, lane))
				if err == nil && cons.CachedInfo().Delivered.Stream < seq {
					return // it still waits for a worker to pull it
				}
				_ = s.DeleteMsg(ctx, seq)
			} else if !gone(err) {
				return
			}
		}
		p.signals.pushFailed(token)
	})
}
