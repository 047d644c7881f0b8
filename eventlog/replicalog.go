package eventlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// ReplicaLog is a writer of a [Replicas], by one of its servers: a Log. Its calls let time
// pass. It is not safe for concurrent use.
type ReplicaLog struct {
	// OnForeign is called with foreign messages. Set it before use.
	OnForeign ForeignFunc

	c      *Replicas
	at     int // the server it is connected to
	enc    *encoder
	open   bool
	closed bool
	life   int                                 // counts the connections
	strike func(after uint64, p publish) error // if set, it may have the next append fail
}

var _ Log = (*ReplicaLog)(nil)

// Open makes a writer that is connected to a server.
func (c *Replicas) Open(at int) *ReplicaLog {
	return &ReplicaLog{c: c, at: at, enc: newEncoder(wire.Default, 0), open: true}
}

// Move connects the writer to another server, as a client of a cluster does by itself. What
// was under way is not answered.
func (l *ReplicaLog) Move(to int) {
	if l.at != to {
		l.at, l.open = to, false
		l.life++
	}
}

// Append implements Log.
func (l *ReplicaLog) Append(ctx context.Context, after uint64, w *Write) (Appended, error) {
	ambiguous := func(cause error) (Appended, error) {
		l.open = false
		return Appended{}, &AmbiguousError{Expected: after, Count: len(w.Events), Cause: cause}
	}
	switch {
	case l.closed:
		return Appended{}, ErrClosed
	case !l.open:
		return ambiguous(errUnsettled)
	}
	if err := ctx.Err(); err != nil {
		return Appended{}, err
	}
	m, err := l.enc.encode(w, maxMemoryFrame)
	if err != nil {
		return Appended{}, err
	}
	p := publish{message{header: m.Header, data: m.Data}, &after}
	if strike := l.strike; strike != nil {
		l.strike = nil
		if err := strike(after, p); err != nil {
			return ambiguous(err)
		}
	}
	err = l.ask(true, func(s *replica, done func(error)) { l.c.publish(s, p, done) })
	var refused *apiError
	switch {
	case err == nil:
		return appended(after+1, w, m), nil
	case !errors.As(err, &refused):
		return ambiguous(err)
	}
	return Appended{}, &FencedError{Expected: after, Found: refused.found(), Detail: refused.Description}
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
	c.sim.Wait(DefaultAckTimeout, func() bool { return answered || life != l.life || !c.servers[l.at].up })
	if !answered {
		answered = true // what comes now is too late
		return fmt.Errorf("%w: %w", ErrUnreachable, errNoAnswer)
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

// Last implements Log.
func (l *ReplicaLog) Last(ctx context.Context) (Tip, error) {
	if err := l.usable(ctx); err != nil {
		return Tip{}, err
	}
	var tip Tip
	got := false
	err := l.ask(false, func(s *replica, done func(error)) {
		t := Tip{Seq: s.applied(), First: s.first, Time: l.c.sim.Now().Add(s.skew), Bytes: uint64(s.applied()), Created: l.c.created}
		l.c.carry(s.n, l.at, func() {
			if !got {
				tip, got = t, true
			}
		})
		done(nil)
	})
	if err == nil && !got { // the answer itself is still on its way
		l.c.sim.Wait(DefaultAckTimeout, func() bool { return got })
	}
	if !got {
		return Tip{}, fmt.Errorf("ask for the end of the event log: %w", ErrUnreachable)
	}
	return tip, nil
}

// reached is Last for a caller that knows that the log has reached seq: see
// [JetStream.Last].
func (l *ReplicaLog) reached(ctx context.Context, seq uint64) (Tip, error) {
	for begun := l.c.sim.Now(); ; {
		tip, err := l.Last(ctx)
		if err != nil || tip.Seq >= seq || l.c.sim.Now().Sub(begun) > behindFor {
			return tip, err
		}
		l.c.sim.Wait(retryMax, func() bool { return false })
	}
}

// holder waits for a server within reach that has come as far as seq.
func (l *ReplicaLog) holder(seq uint64) bool {
	c := l.c
	return c.sim.Wait(DefaultAckTimeout, func() bool {
		for _, s := range c.servers {
			if s.works() && s.applied() >= seq && c.servers[l.at].works() && c.Reaches(l.at, s.n) && c.Reaches(s.n, l.at) {
				return true
			}
		}
		return false
	})
}

// Read implements Log.
func (l *ReplicaLog) Read(ctx context.Context, from, to uint64, fn func(Frame) error) error {
	if err := l.usable(ctx); err != nil || from > to {
		return err
	}
	tip, err := l.reached(ctx, to)
	if from == 0 {
		from = tip.First
	}
	if err == nil {
		err = checkRange(tip, from, to)
	}
	if err != nil {
		return err
	}
	if !l.holder(to) {
		return fmt.Errorf("read the event log at %d: %w", from, ErrUnreachable)
	}
	if from < l.c.first && l.c.first <= to {
		return &TrimmedError{Asked: from, First: l.c.first}
	}
	return l.c.Replay(ctx, from, to, l.OnForeign, fn)
}

// Follow implements Log.
func (l *ReplicaLog) Follow(ctx context.Context, from uint64, fn func(Frame) error) error {
	for next := max(from, 1); ; {
		tip, err := l.Last(ctx)
		if err == nil && next < tip.First {
			err = &TrimmedError{Asked: next, First: tip.First}
		}
		if err == nil && next <= tip.Seq {
			err = l.Read(ctx, next, tip.Seq, fn)
			next = tip.Seq + 1
		}
		if err != nil {
			return err
		}
		l.c.sim.Wait(retryMax, func() bool { return false })
	}
}

// Replay gives what is agreed on, without a server, and without time: for a simulation's
// own checks. It begins at the first frame even if that has been cut.
func (c *Replicas) Replay(ctx context.Context, from, to uint64, foreign ForeignFunc, fn func(Frame) error) error {
	skipped := 0
	for n, j := range c.judged[from-1 : to] {
		switch {
		case j.err != nil:
			return j.err
		case j.foreign != "":
			skipped++
			if foreign != nil {
				foreign(from+uint64(n), j.foreign)
			}
			continue
		}
		j.frame.Skipped, skipped = skipped, 0
		if err := fn(j.frame); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// End implements Log.
func (l *ReplicaLog) End(ctx context.Context) (End, error) {
	tip, err := l.Last(ctx)
	if err != nil {
		return End{}, err
	}
	return endOf(tip, func(seq uint64) (message, error) { return l.c.truth[seq-1], nil })
}

// Purge implements Log.
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

// Confirm implements Log.
func (l *ReplicaLog) Confirm(ctx context.Context) (Tip, error) {
	if err := l.Purge(ctx, 1); err != nil {
		return Tip{}, err
	}
	return l.Last(ctx)
}

// Checksum implements Log.
func (l *ReplicaLog) Checksum(ctx context.Context, seq uint64) (uint64, error) {
	if err := l.usable(ctx); err != nil {
		return 0, err
	}
	tip, err := l.reached(ctx, seq)
	switch {
	case err != nil:
		return 0, err
	case seq < tip.First:
		return 0, &TrimmedError{Asked: seq, First: tip.First}
	case seq > tip.Seq:
		return 0, &BehindError{Known: seq, Last: tip.Seq}
	}
	return events.Checksum(l.c.truth[seq-1].data), nil
}

// Reset implements Log.
func (l *ReplicaLog) Reset(ctx context.Context) error {
	if l.closed {
		return ErrClosed
	}
	l.life++
	l.open = ctx.Err() == nil
	return ctx.Err()
}

// Close implements Log.
func (l *ReplicaLog) Close() error {
	l.closed = true
	l.life++
	return nil
}

func (l *ReplicaLog) usable(ctx context.Context) error {
	if l.closed {
		return ErrClosed
	}
	return ctx.Err()
}

// ChecksumAt is the checksum of what is agreed on at a sequence.
func (c *Replicas) ChecksumAt(seq uint64) uint64 { return events.Checksum(c.truth[seq-1].data) }
