package workers

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/internal/pull"
	"github.com/streamwright/streamwright/wire"
)

// puller pulls from the consumers that the engine has named. Guarded by Worker.mu.
type puller struct {
	w           *Worker
	registering sync.Mutex           // held while consumers are opened and closed; taken before Worker.mu
	consumers   map[string]*consumer // by name
}

// consumer is one consumer of the dispatch stream that this worker pulls from.
type consumer struct {
	name    string
	subject string // of pull requests
	reg     *registration
	epoch   int // of the connection that its lanes belong to

	// All lanes are answered into one channel, so that what the server has sent
	// is taken in its order: first in, first out would not hold otherwise.
	in      chan *nats.Msg
	ending  chan struct{} // closed when nothing more is sent
	ended   chan struct{} // closed by take
	once    sync.Once     // closes ending
	dropped atomic.Bool   // what is in the channel counts no more

	// Guarded by Worker.mu.
	lanes  []*lane
	closed bool      // no more pulls
	broken bool      // gone at the server: register again before pulling
	home   string    // see home; guarded by puller.registering
	pause  time.Time // no pulls before
}

// lane is an inbox for the answers to one pull request at a time, so the number
// of messages still to come is known exactly.
type lane struct {
	inbox   string
	sub     *nats.Subscription
	left    int       // messages still to come; guarded by Worker.mu
	expires time.Time // when they surely no longer come; guarded by Worker.mu
}

// open subscribes the lanes of a consumer. It talks to the network.
func (p *puller) open(names wire.Names, stream, name string, reg *registration, epoch int) (*consumer, error) {
	c := &consumer{
		name: name, reg: reg, epoch: epoch, subject: names.JetStream("CONSUMER.MSG.NEXT." + stream + "." + name),
		in: make(chan *nats.Msg, p.most()), ending: make(chan struct{}), ended: make(chan struct{}),
	}
	for range pullLanes {
		l := &lane{inbox: p.w.nc.NewInbox()}
		sub, err := p.w.nc.ChanSubscribe(l.inbox, c.in)
		if err != nil {
			c.drop()
			return nil, fmt.Errorf("subscribe to the inbox of consumer %s: %w", name, err)
		}
		l.sub = sub
		c.lanes = append(c.lanes, l)
	}
	p.w.loops.Add(1) // the caller is one of the loops, or the first to begin them
	go p.take(c)
	return c, nil
}

// most bounds the messages that may wait to be taken in: the most that is asked
// for, by expired requests as well as the ones that followed them, and the
// server's status messages about each.
func (p *puller) most() int {
	return pullLanes * (p.w.cfg.Concurrency + p.w.cfg.Prefetch + 8)
}

// take receives what the server sends to a consumer's lanes, until it is
// dropped or drained.
func (p *puller) take(c *consumer) {
	defer p.w.loops.Done()
	defer close(c.ended)
	for {
		select {
		case m := <-c.in:
			p.onPulled(c, m)
			continue
		case <-c.ending:
		}
		for !c.dropped.Load() {
			select {
			case m := <-c.in:
				p.onPulled(c, m)
				continue
			default:
			}
			return
		}
		return
	}
}

// lane returns the one that a message came to.
func (c *consumer) lane(sub *nats.Subscription) *lane {
	for _, l := range c.lanes {
		if l.sub == sub {
			return l
		}
	}
	return nil // not of ours: nothing else feeds the channel
}

// mend makes a consumer that was gone usable again. REQUIRES: Worker.mu.
func (c *consumer) mend() {
	if !c.broken {
		return
	}
	c.broken = false
	for _, l := range c.lanes {
		l.left = 0
	}
}

// drop gives up the lanes at once. What the server has sent and this worker
// has not yet seen is lost to it; only its lease brings it back.
func (c *consumer) drop() {
	c.dropped.Store(true)
	for _, l := range c.lanes {
		_ = l.sub.Unsubscribe() // fails only when it is gone already
	}
	c.once.Do(func() { close(c.ending) })
}

// drain gives up the lanes, having taken in everything that the server had sent
// before limit was over.
func (c *consumer) drain(limit <-chan time.Time) {
	done := make(chan struct{}, len(c.lanes))
	n := 0
	for _, l := range c.lanes {
		l.sub.SetClosedHandler(func(string) { done <- struct{}{} })
		if err := l.sub.Drain(); err == nil {
			n++
		}
	}
wait:
	for ; n > 0; n-- {
		select {
		case <-done:
		case <-limit:
			c.drop()
			break wait
		}
	}
	c.once.Do(func() { close(c.ending) })
	<-c.ended
}

// outstanding returns the number of messages still to come. REQUIRES: Worker.mu.
func (c *consumer) outstanding() (n int) {
	for _, l := range c.lanes {
		n += l.left
	}
	return n
}

// free returns the number of messages that the worker wants from c. With
// several consumers they share the free slots, each getting at least one.
// REQUIRES: mu.
func (p *puller) free(c *consumer) int {
	n := max(p.w.table.room(), 0) + p.w.table.allowance() - len(p.w.table.held)
	if limit := c.reg.limit; limit > 0 {
		n = min(n, limit-c.reg.inSlots-c.reg.held)
	}
	if n <= 0 {
		return 0
	}
	k := len(p.consumers)
	return (n + k - 1) / k
}

// pulling reports whether the worker takes work now. REQUIRES: mu.
func (p *puller) pulling() bool {
	return p.w.phase == phaseActive && p.w.session.Registered && p.w.link.connected && !p.w.health.unfit()
}

// refillAll asks every consumer for what there is room for. REQUIRES: mu.
func (p *puller) refillAll() {
	if !p.pulling() {
		return
	}
	for _, c := range p.consumers {
		p.refill(c)
	}
}

// refill asks c for more once half of what was asked for has come. REQUIRES:
// mu, and what refillAll checks.
func (p *puller) refill(c *consumer) {
	if c.closed || c.broken {
		return
	}
	want, coming := p.free(c), c.outstanding()
	if want <= 0 || 2*coming > want {
		return
	}
	now := time.Now()
	if now.Before(c.pause) {
		p.w.clock.dueBy(c.pause)
		return
	}
	for _, l := range c.lanes {
		if l.left > 0 {
			continue
		}
		l.left = want - coming
		l.expires = now.Add(pull.Expires + pull.Grace)
		p.w.clock.dueBy(l.expires)
		p.w.publish(c.subject, l.inbox, pull.Request{Batch: l.left, Expires: pull.Expires}.Body())
		return
	}
}

// bench makes the worker pull nothing for a while, since the engine has opened
// its circuit, and leaves the items that it holds to others. REQUIRES: mu.
func (p *puller) bench(wait time.Duration) {
	until := time.Now().Add(wait)
	p.w.log.Warn("the engine lets this worker run nothing for now: it has failed what others complete", "pulls_again", until)
	for _, c := range p.consumers {
		c.pause = until
	}
	p.w.handBackHeld("circuit_open")
}

// onPulled takes in one answer to a pull request: a dispatched message, or the
// server's word that the request has ended.
func (p *puller) onPulled(c *consumer, m *nats.Msg) {
	l := c.lane(m.Sub)
	if l == nil {
		return
	}
	p.w.mu.Lock()
	defer p.w.unlock()
	if status, ok := pull.ReadStatus(m); ok {
		p.onStatus(c, l, status)
		return
	}
	l.left = max(l.left-1, 0)
	p.w.arrive(m)
	if p.pulling() {
		p.refill(c)
	}
}

// onStatus ends a pull request. REQUIRES: mu.
func (p *puller) onStatus(c *consumer, l *lane, s pull.Status) {
	if s.End == pull.Alive {
		return // we ask for none
	}
	l.left = 0
	switch s.End {
	case pull.Empty, pull.Busy:
	case pull.Moved:
		c.pause = time.Now().Add(backoffMin)
	case pull.Gone:
		if !c.broken {
			p.w.log.Info("a consumer is gone: registering again", "consumer", c.name, "status", s.Code, "description", s.Text)
		}
		c.broken = true
		p.w.session.needed()
	default:
		p.w.log.Warn("a pull request was refused; trying again", "consumer", c.name, "status", s.Code, "description", s.Text)
		c.pause = time.Now().Add(backoffMax)
		p.w.session.needed()
	}
	p.refillAll()
}

var errNoHandler = errors.New("the engine named a type that this worker did not register")
