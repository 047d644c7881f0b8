package bridge

import (
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/pull"
)

const (
	sweepLimit = 2 * time.Second // for a request that does not wait
	shortPause = 50 * time.Millisecond
	longPause  = time.Second
)

// lane is the inbox that the pull requests of one session to one consumer are
// answered to, one request at a time. A delivered message does not name the request
// that it answers, but its subscription does. Guarded by Bridge.mu.
type lane struct {
	s        *session
	consumer string
	inbox    string
	sub      *nats.Subscription
	pull     *request // nil: none is outstanding
}

// request is a pull request that the server has not answered in full. It may
// outlive its poll, even its session: a request can't be taken back without
// risk for what the server is just sending. Guarded by Bridge.mu.
type request struct {
	left  int // messages that may still come
	got   int
	until time.Time // when it surely is over
}

// openLanes subscribes an inbox for each consumer that has none. Call it without mu,
// and not twice at once for one session.
func (s *session) openLanes(consumers map[string][]string) (fresh []*lane, err error) {
	s.b.mu.Lock()
	known := maps.Clone(s.lanes)
	s.b.mu.Unlock()
	for _, name := range slices.Concat(slices.Collect(maps.Values(consumers))...) {
		if known[name] != nil {
			continue
		}
		l := &lane{s: s, consumer: name, inbox: s.b.cfg.Conn.NewInbox()}
		if l.sub, err = s.b.cfg.Conn.ChanSubscribe(l.inbox, s.b.arriving); err != nil {
			closeLanes(fresh)
			return nil, events.Refuse(events.CodeUnavailable, "subscribe to an inbox for consumer %s: %v", name, err)
		}
		fresh = append(fresh, l)
	}
	return fresh, nil
}

func closeLanes(lanes []*lane) {
	for _, l := range lanes {
		_ = l.sub.Unsubscribe() // fails only when the connection is closed
	}
}

// close has a lane closed that nothing comes to any more. REQUIRES: mu.
func (l *lane) close() {
	delete(l.s.b.lanes, l.sub)
	l.s.b.idle = append(l.s.b.idle, l)
}

// ask sends a pull request for n messages: for what is there, or, for that long,
// for what comes first. REQUIRES: mu; the lane has none outstanding.
func (l *lane) ask(n int, wait time.Duration, now time.Time) *request {
	p := &request{left: n, until: now.Add(sweepLimit)}
	// With no_wait the server ends the request when there is nothing more, so
	// that the request is over when its poll has returned.
	if wait > 0 {
		p.until = now.Add(wait + pull.Grace)
	}
	body := pull.Request{Batch: n, NoWait: true, Expires: wait}.Body()
	l.pull = p
	b := l.s.b
	b.outbox.Add(b.cfg.Names.JetStream("CONSUMER.MSG.NEXT."+l.s.stream+"."+l.consumer), l.inbox, body)
	return p
}

// endPull forgets the lane's pull request, which is over. REQUIRES: mu.
func (l *lane) endPull() {
	l.pull.left = 0
	l.pull = nil
	if l.s.closed {
		l.close()
	}
	l.s.polling.poke()
}

// giveUpPulls gives up the pull requests that the server should have
// answered long ago. What comes of them after all is taken in. REQUIRES: mu.
func (s *session) giveUpPulls(now time.Time) {
	for _, l := range s.lanes {
		if l.pull != nil && !now.Before(l.pull.until) {
			l.endPull()
		}
	}
}

// takeArriving takes in what the server sends to the lanes, until Stop.
func (b *Bridge) takeArriving() {
	for {
		select {
		case <-b.ctx.Done():
			return
		case m := <-b.arriving:
			b.arrived(m)
		}
	}
}

// arrived takes in one answer to a pull request: a dispatched message, or the
// server's word that the request has ended.
func (b *Bridge) arrived(m *nats.Msg) {
	now := time.Now()
	b.mu.Lock()
	defer b.unlock()
	l := b.lanes[m.Sub]
	if status, ok := pull.ReadStatus(m); ok {
		if l != nil && l.pull != nil && status.End != pull.Alive {
			l.endPull()
			l.ended(status, now)
		}
		return
	}
	r, err := readRun(m, now)
	if err != nil {
		b.log.Error("a dispatched message can't be read and is dropped", "subject", m.Subject, "error", err)
		b.outbox.Add(m.Reply, "", pull.Ack)
		return
	}
	if l == nil { // it was closed, and the server has sent something after all
		(&session{b: b, id: "http"}).release(r, "late")
		return
	}
	s := l.s
	switch {
	case s.closed || s.polling == nil || s.Draining || b.stopping:
		s.release(r, "no_poll")
	case b.loaded > 0 && b.loaded+len(m.Data) > b.cfg.MaxLoadedBytes:
		// Not again at once: another engine's worker, or this one's in a while.
		s.benched = later(s.benched, now.Add(longPause))
		s.release(r, "no_room")
	default:
		r.loaded = len(r.item.Params)
		b.loaded += r.loaded
		s.inbox = append(s.inbox, r)
		s.polling.poke()
	}
	if p := l.pull; p != nil {
		p.got++
		if p.left--; p.left <= 0 {
			l.endPull()
		}
	}
}

// ended acts on why a pull request has ended. REQUIRES: mu.
func (l *lane) ended(why pull.Status, now time.Time) {
	s := l.s
	switch why.End {
	case pull.Empty:
	case pull.Busy, pull.Moved:
		s.benched = later(s.benched, now.Add(shortPause)) // it will have passed in a moment
	case pull.Gone:
		s.Registered = false
		s.benched = later(s.benched, now.Add(shortPause))
	default:
		s.b.log.Warn("a pull request was refused; trying again", "worker", s.id, "consumer", l.consumer, "status", why.Code, "description", why.Text)
		s.Registered = false
		s.benched = later(s.benched, now.Add(longPause))
	}
}

// reconnected: what the server knew of this connection's pull requests is gone.
func (b *Bridge) reconnected() {
	b.mu.Lock()
	defer b.unlock()
	for _, l := range b.lanes {
		if l.pull != nil {
			l.endPull()
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// sooner returns the earlier of two times. Zero stands for never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
