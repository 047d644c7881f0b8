package logtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
)

// pollEvery is the wait before a server is asked again for what it does not have yet.
const pollEvery = time.Second

// ReplicaLog is a writer of a [Replicas], by one of its servers: a Log. Its calls let time
// pass. It is not safe for concurrent use.
type ReplicaLog struct {
	// OnForeign is called with foreign messages. Set it before use.
	OnForeign eventlog.ForeignFunc

	c      *Replicas
	at     int // the server it is connected to
	open   bool
	closed bool
	life   int                     // counts the connections
	strike func(send func()) error // see Strike
}

var _ eventlog.Log = (*ReplicaLog)(nil)

// Open makes a writer that is connected to a server.
func (c *Replicas) Open(at int) *ReplicaLog {
	return &ReplicaLog{c: c, at: at, open: true}
}

// Move connects the writer to another server, as a client of a cluster does by itself. What
// was under way is not answered.
func (l *ReplicaLog) Move(to int) {
	if l.at != to {
		l.at, l.open = to, false
		l.life++
	}
}

// Strike has fn called once, with the next append. If it returns an error, the append has no
// answer. send lets it arrive, then or later.
func (l *ReplicaLog) Strike(fn func(send func()) error) { l.strike = fn }

// Append implements [eventlog.Log].
func (l *ReplicaLog) Append(ctx context.Context, after uint64, w *eventlog.Write) (eventlog.Appended, error) {
	ambiguous := func(cause error) (eventlog.Appended, error) {
		l.open = false
		return eventlog.Appended{}, &eventlog.AmbiguousError{Expected: after, Count: len(w.Events), Cause: cause}
	}
	switch {
	case l.closed:
		return eventlog.Appended{}, eventlog.ErrClosed
	case !l.open:
		return ambiguous(errUnsettled)
	}
	if err := ctx.Err(); err != nil {
		return eventlog.Appended{}, err
	}
	p, err := message(0, after, w)
	if err != nil {
		return eventlog.Appended{}, err
	}
	if strike := l.strike; strike != nil {
		l.strike = nil
		send := func() { l.c.publish(l.c.servers[l.c.Leader()], p, func(error) {}) }
		if err := strike(send); err != nil {
			return ambiguous(err)
		}
	}
	err = l.ask(true, func(s *replica, done func(error)) { l.c.publish(s, p, done) })
	switch {
	case err == nil:
		return p.appended(w), nil
	case !errors.Is(err, eventlog.ErrFenced):
		return ambiguous(err)
	}
	return eventlog.Appended{}, err
}

// ask sends something to the stream's leader, or to each server that thinks that it is, and
// waits for the first answer.
func (l *ReplicaLog) ask(suffers bool, fn func(s *replica, done func(error))) error {
	c, life := l.c, l.life
	var answer error
	answered := false
	for _, s := range c.servers {
		if !s.serves || !c.servers[l.at].up {
			continue
		}
		l.deliver(s, suffers, func() {
			if !s.serves {
				return
			}
			fn(s, func(err error) {
				if suffers && c.sim.Rand().Float64() < c.Trouble.AckLost {
					return
				}
				c.carry(s.n, l.at, func() {
					if life == l.life && !answered {
						answer, answered = err, true
					}
				})
			})
		})
	}
	c.sim.Wait(eventlog.DefaultAckTimeout, func() bool { return answered || life != l.life || !c.servers[l.at].up })
	if !answered {
		answered = true // what comes now is too late
		return fmt.Errorf("%w: %w", eventlog.ErrUnreachable, errNoAnswer)
	}
	return answer
}

// deliver brings a message to a server: at once, late, or never.
func (l *ReplicaLog) deliver(s *replica, suffers bool, fn func()) {
	c, at := l.c, l.at
	if !c.Reaches(at, s.n) {
		return
	}
	d := c.hop()
	if suffers {
		switch p := c.sim.Rand().Float64(); {
		case p < c.Trouble.Lost:
			return
		case p < c.Trouble.Lost+c.Trouble.Late:
			d = time.Duration(c.sim.Rand().Int64N(int64(20 * time.Second)))
		}
	}
	c.sim.After(d, func() { c.arrive(at, s.n, fn) })
}

// Last implements [eventlog.Log].
func (l *ReplicaLog) Last(ctx context.Context) (eventlog.Tip, error) {
	if err := l.usable(ctx); err != nil {
		return eventlog.Tip{}, err
	}
	var tip eventlog.Tip
	got := false
	err := l.ask(false, func(s *replica, done func(error)) {
		t := eventlog.Tip{Seq: s.applied(), First: s.first, Time: l.c.sim.Now().Add(s.skew), Bytes: uint64(s.applied()), Created: l.c.created}
		l.c.carry(s.n, l.at, func() {
			if !got {
				tip, got = t, true
			}
		})
		done(nil)
	})
	if err == nil && !got { // the answer itself is still on its way
		l.c.sim.Wait(eventlog.DefaultAckTimeout, func() bool { return got })
	}
	if !got {
		return eventlog.Tip{}, fmt.Errorf("ask for the end of the event log: %w", eventlog.ErrUnreachable)
	}
	return tip, nil
}

// reached is Last for a caller that knows that the log has reached seq: see
// [eventlog.JetStream.Last].
func (l *ReplicaLog) reached(ctx context.Context, seq uint64) (eventlog.Tip, error) {
	for begun := l.c.sim.Now(); ; {
		tip, err := l.Last(ctx)
		if err != nil || tip.Seq >= seq || l.c.sim.Now().Sub(begun) > eventlog.BehindFor {
			return tip, err
		}
		l.c.sim.Wait(pollEvery, func() bool { return false })
	}
}

// holder waits for a server within reach that has come as far as seq.
func (l *ReplicaLog) holder(seq uint64) bool {
	c := l.c
	return c.sim.Wait(eventlog.DefaultAckTimeout, func() bool {
		for _, s := range c.servers {
			if s.works() && s.applied() >= seq && c.servers[l.at].works() && c.Reaches(l.at, s.n) && c.Reaches(s.n, l.at) {
				return true
			}
		}
		return false
	})
}

// Read implements [eventlog.Log].
func (l *ReplicaLog) Read(ctx context.Context, from, to uint64, fn func(eventlog.Frame) error) error {
	if err := l.usable(ctx); err != nil || from > to {
		return err
	}
	tip, err := l.reached(ctx, to)
	if err == nil {
		from, err = tip.Range(from, to)
	}
	if err != nil {
		return err
	}
	if !l.holder(to) {
		return fmt.Errorf("read the event log at %d: %w", from, eventlog.ErrUnreachable)
	}
	if from < l.c.first && l.c.first <= to {
		return &eventlog.TrimmedError{Asked: from, First: l.c.first}
	}
	return l.c.Replay(ctx, from, to, l.OnForeign, fn)
}

// Follow implements [eventlog.Log].
func (l *ReplicaLog) Follow(ctx context.Context, from uint64, fn func(eventlog.Frame) error) error {
	for next := max(from, 1); ; {
		tip, err := l.Last(ctx)
		if err == nil && next < tip.First {
			err = &eventlog.TrimmedError{Asked: next, First: tip.First}
		}
		if err == nil && next <= tip.Seq {
			err = l.Read(ctx, next, tip.Seq, fn)
			next = tip.Seq + 1
		}
		if err != nil {
			return err
		}
		l.c.sim.Wait(pollEvery, func() bool { return false })
	}
}

// Replay gives what is agreed on, without a server, and without time: for a simulation's
// own checks. It begins at the first frame even if that has been cut.
func (c *Replicas) Replay(ctx context.Context, from, to uint64, foreign eventlog.ForeignFunc, fn func(eventlog.Frame) error) error {
	d := eventlog.Delivery{Frames: fn, Foreign: foreign}
	for seq := from; seq <= to; seq++ {
		if err := d.Hand(seq, &c.decoded[seq-1]); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// End implements [eventlog.Log].
func (l *ReplicaLog) End(ctx context.Context) (eventlog.End, error) {
	tip, err := l.Last(ctx)
	if err != nil {
		return eventlog.End{}, err
	}
	return tip.End(func(seq uint64) (eventlog.Stored, error) { return l.c.truth[seq-1], nil })
}

// Purge implements [eventlog.Log].
func (l *ReplicaLog) Purge(ctx context.Context, below uint64) error {
	if err := l.usable(ctx); err != nil {
		return err
	}
	err := l.ask(true, func(s *replica, done func(error)) {
		l.c.propose(s, entry{below: below, last: s.end()}, done)
	})
	if err != nil {
		return fmt.Errorf("cut the event log below frame %d: %w", below, err)
	}
	return nil
}

// Confirm implements [eventlog.Log].
func (l *ReplicaLog) Confirm(ctx context.Context) (eventlog.Tip, error) {
	if err := l.Purge(ctx, 1); err != nil {
		return eventlog.Tip{}, err
	}
	return l.Last(ctx)
}

// Checksum implements [eventlog.Log].
func (l *ReplicaLog) Checksum(ctx context.Context, seq uint64) (uint64, error) {
	if err := l.usable(ctx); err != nil {
		return 0, err
	}
	tip, err := l.reached(ctx, seq)
	if err == nil {
		err = tip.Check(seq, seq)
	}
	if err != nil {
		return 0, err
	}
	return events.Checksum(l.c.truth[seq-1].Data), nil
}

// Reset implements [eventlog.Log].
func (l *ReplicaLog) Reset(ctx context.Context) error {
	if l.closed {
		return eventlog.ErrClosed
	}
	l.life++
	l.open = ctx.Err() == nil
	return ctx.Err()
}

// Close implements [eventlog.Log].
func (l *ReplicaLog) Close() error {
	l.closed = true
	l.life++
	return nil
}

func (l *ReplicaLog) usable(ctx context.Context) error {
	if l.closed {
		return eventlog.ErrClosed
	}
	return ctx.Err()
}

// ChecksumAt is the checksum of what is agreed on at a sequence.
func (c *Replicas) ChecksumAt(seq uint64) uint64 { return events.Checksum(c.truth[seq-1].Data) }
