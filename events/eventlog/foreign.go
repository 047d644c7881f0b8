package eventlog

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/directget"
	"github.com/streamwright/streamwright/wire"
)

const (
	// foreignGets bounds the messages that are fetched one by one, all at once;
	// more are read as a replay does.
	foreignGets = 64
	// foreignWithin bounds one look.
	foreignWithin = 30 * time.Second
)

// seenForeign remembers up to where the messages behind a position are foreign:
// a stored message never changes.
type seenForeign struct {
	mu        sync.Mutex // guards what follows
	after, to events.Seq
}

// behind returns the position behind which to look.
func (s *seenForeign) behind(after, to events.Seq) events.Seq {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.after == after && s.to <= to {
		return s.to
	}
	return after
}

func (s *seenForeign) note(after, to events.Seq) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.after, s.to = after, to
}

// Foreign implements Log. It reads from the stream's leader, or what the
// replicas have agreed on.
func (l *JetStream) Foreign(ctx context.Context, after, to events.Seq) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, foreignWithin)
	defer cancel()
	from := l.foreign.behind(after, to) + 1
	var alone bool
	var err error
	if to+1-from <= foreignGets {
		alone, err = l.foreignEach(ctx, from, to)
	} else {
		alone, err = l.foreignRun(ctx, from, to)
	}
	if alone && err == nil {
		l.foreign.note(after, to)
	}
	return alone && err == nil, err
}

// foreignNow reads on from a position and returns the last one up to which no
// engine wrote anything, after itself if it can't tell. One request brings them
// all, which leaves little time for more of them to arrive before the append
// that is to go behind them. Any server with the stream may answer: all have
// the same message at a position.
func (l *JetStream) foreignNow(ctx context.Context, after events.Seq) events.Seq {
	nc, err := l.conn()
	if err != nil {
		return after
	}
	ctx, cancel := context.WithTimeout(ctx, l.cfg.AckTimeout)
	defer cancel()
	msgs, _, err := directget.Get(ctx, nc, l.cfg.Names.JetStream("DIRECT.GET."+l.stream), directget.Request{Seq: uint64(after + 1), Batch: foreignGets})
	if err != nil {
		return after
	}
	last := after
	for _, m := range msgs {
		// The answer's own headers make each look like a fetched one (headerID): an
		// append id decides, whosever it is.
		if events.Seq(m.Seq) != last+1 || isAppendID(m.Header.Get(nats.MsgIdHdr)) {
			return after
		}
		last++
	}
	return last
}

func (l *JetStream) foreignEach(ctx context.Context, from, to events.Seq) (bool, error) {
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex // guards what follows
		alone = true
		fault error
	)
	for seq := from; seq <= to; seq++ {
		wg.Go(func() {
			m, err := l.get(ctx, seq)
			is := err == nil && newDecoder(l.cfg.Names, l.cfg.Partition).isForeign(m)
			mu.Lock()
			defer mu.Unlock()
			alone = alone && is
			if err != nil {
				fault = err
			}
		})
	}
	wg.Wait()
	return alone, fault
}

// foreignRun reads all of it. Each message must be foreign by itself: a group
// that was cut short is skipped as they are, but an engine wrote it.
func (l *JetStream) foreignRun(ctx context.Context, from, to events.Seq) (bool, error) {
	n := events.Seq(0)
	count := func(events.Seq, string, string) { n++ }
	f := &fetcher{log: l, next: from, to: to}
	err := replay(ctx, l.cfg.Names, l.cfg.Partition, count, f.run, func(Group) error { return nil })
	return n == to+1-from, err
}

// isForeign reports whether no engine wrote m.
func (d *decoder) isForeign(m message) bool {
	j := d.decode(m)
	return j.err == nil && j.foreign != ""
}

// Foreign implements Log.
func (m *Memory) Foreign(ctx context.Context, after, to events.Seq) (bool, error) {
	if err := m.usable(ctx); err != nil {
		return false, err
	}
	m.stream.mu.Lock()
	defer m.stream.mu.Unlock()
	return m.stream.foreign(after, to), nil
}

// foreign reports whether no engine wrote what lies behind after, up to to.
// REQUIRES: mu.
func (s *MemoryStream) foreign(after, to events.Seq) bool {
	if after+1 < s.first || to > s.last() {
		return false
	}
	d := newDecoder(wire.Default, s.partition)
	for seq := after + 1; seq <= to; seq++ {
		if !d.isForeign(s.msgs[seq-s.first]) {
			return false
		}
	}
	return true
}
