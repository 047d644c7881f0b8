package bridge

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/nudge"
	"github.com/streamwright/streamwright/internal/standing"
	"github.com/streamwright/streamwright/wire"
)

// session is one HTTP worker. What is not marked is guarded by Bridge.mu.
type session struct {
	// Immutable.
	b       *Bridge
	id      string
	token   string
	by      string        // who has registered it
	reg     wire.Register // as the engine hears it
	resumed bool          // it was known to another bridge, or to this one before it was silent, or may have been

	registering chan struct{} // holds a token while a registration or a subscription is under way

	standing.Standing
	seen   time.Time // when this worker last asked for something
	calls  int       // its requests under way
	closed bool
	taken  bool // closed since another session has the worker's id

	leases  map[string]events.Duration
	longest time.Duration // lease of its types
	fence   events.Token  // from the last heartbeat's reply: an item with a lesser token came too late
	benched time.Time     // nothing is offered before

	sub   *nats.Subscription // to its items; nil: the worker has not polled here yet
	offer offer

	probing *waiter // the open wait for probes; nil: none
	nonce   string  // of a probe that the worker has not seen; empty: none

	polling *waiter         // the open poll; nil: none
	batch   *batch          // what the last named poll has returned; nil: the worker has it
	inbox   []*run          // arrived, not handed out, oldest first
	runs    map[string]*run // handed out and not ended, by token
}

// well reports whether the engine takes the worker for fit. REQUIRES: mu.
func (s *session) well() bool { return s.Status == "" || s.Status == wire.WorkerActive }

// Register makes a session for a worker.
func (b *Bridge) Register(ctx context.Context, reg wire.WorkerRegistration) (wire.WorkerSession, error) {
	if reg.Worker == "" {
		reg.Worker = "http-" + strings.ToLower(rand.Text()[:12])
	}
	if _, err := events.ParseWorkerID(reg.Worker); err != nil {
		return wire.WorkerSession{}, events.Refuse(events.CodeBadRequest, "%v", err)
	}
	token, err := b.key.newToken(ctx, reg)
	if err != nil {
		return wire.WorkerSession{}, err
	}
	s, err := b.open(ctx, reg, token, false)
	if err != nil {
		return wire.WorkerSession{}, err
	}
	defer b.leave(s)
	b.mu.Lock()
	defer b.unlock()
	return wire.WorkerSession{Worker: s.id, Session: s.token, Heartbeat: events.DurationOf(s.Every), Lease: s.leases}, nil
}

// open registers a worker with the engine and makes its session, with a request
// under way.
func (b *Bridge) open(ctx context.Context, reg wire.WorkerRegistration, token string, resumed bool) (*session, error) {
	now := time.Now()
	s := &session{
		b: b, id: reg.Worker, token: token, by: access.NameOf(ctx), resumed: resumed || b.cfg.Shared, registering: make(chan struct{}, 1), seen: now, calls: 1,
		reg: wire.Register{
			Worker: reg.Worker, Types: reg.Types, Capabilities: reg.Capabilities, Slots: reg.Slots,
			Host: reg.Host, Version: reg.Version, Probe: reg.Probe, Session: engineSession(token), Offers: true,
		},
		runs: map[string]*run{},
	}
	b.mu.Lock()
	err := b.room(s.id)
	b.mu.Unlock()
	if err != nil {
		return nil, err
	}
	r, err := s.register(ctx)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.unlock()
	known := b.sessions[s.id]
	switch {
	case known == nil:
		err = b.room(s.id)
	case resumed && sameToken(known.token, token): // another of its requests was quicker
		known.calls++
		return known, nil
	default:
		known.taken = true // the engine holds it for dead
		known.drop()
	}
	if err != nil {
		return nil, err
	}
	s.take(r)
	b.sessions[s.id], b.listening[s.reg.Session] = s, s
	nudge.Send(b.kick)
	b.log.Info("an HTTP worker has registered", "worker", s.id, "types", s.reg.Types, "slots", s.reg.Slots, "again", resumed)
	return s, nil
}

// room refuses one worker too many. REQUIRES: mu.
func (b *Bridge) room(id string) error {
	switch {
	case b.stopping:
		return errStopping
	case b.sessions[id] == nil && len(b.sessions) >= b.cfg.MaxWorkers:
		return errFull
	}
	return nil
}

var (
	errStopping = events.ErrShuttingDown
	errFull     = &events.Error{Code: events.CodeUnavailable, Message: "this engine has as many HTTP workers as it takes: give each more slots, or let some of them speak NATS", RetryAfter: 10 * time.Second}
)

// registered is the engine's answer to a registration.
type registered struct {
	wire.Registered
	sent time.Time
}

// register registers the worker with the engine. It is not called twice at once
// for one session.
func (s *session) register(ctx context.Context) (*registered, error) {
	r := &registered{sent: time.Now()}
	return r, s.b.call(ctx, wire.APIRegister, s.reg, &r.Registered)
}

// take takes over what the engine says to a registration. REQUIRES: mu.
func (s *session) take(r *registered) {
	s.Confirm(&r.Registered, r.sent)
	s.leases, s.longest, s.offer.told = r.Lease, 0, unknown
	for _, lease := range r.Lease {
		s.longest = max(s.longest, lease.Duration)
	}
}

// is reports whether a request belongs to this session, and comes from the user who
// registered it.
func (s *session) is(ctx context.Context, token string) bool {
	return sameToken(s.token, token) && s.by == access.NameOf(ctx)
}

func sameToken(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// find returns the session of a request, nil if this bridge does not know it, and an
// error if the worker's session is another. REQUIRES: mu.
func (b *Bridge) find(ctx context.Context, worker, token string) (*session, error) {
	s := b.sessions[worker]
	if s != nil && !s.is(ctx, token) {
		return nil, errNotYours(worker)
	}
	return s, nil
}

// enter finds the session of a request, and makes it anew if this bridge does
// not know it. The caller ends the request with leave.
func (b *Bridge) enter(ctx context.Context, worker, token string) (*session, error) {
	b.mu.Lock()
	s, err := b.find(ctx, worker, token)
	if s != nil {
		s.calls++
		s.seen = time.Now()
	}
	b.mu.Unlock()
	if s != nil || err != nil {
		return s, err
	}
	reg, err := b.key.readToken(ctx, worker, token)
	if err != nil {
		return nil, err
	}
	return b.open(ctx, reg, token, true)
}

// leave ends a request of a session.
func (b *Bridge) leave(s *session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s.calls--
	s.seen = time.Now()
}

// serialize waits for its turn among what a session does one at a time.
func (s *session) serialize(ctx context.Context) (unlock func(), err error) {
	select {
	case s.registering <- struct{}{}:
		return func() { <-s.registering }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// renew registers a worker again: the engine is to hear that it lives, or does not know it.
func (s *session) renew(ctx context.Context) error {
	b := s.b
	unlock, err := s.serialize(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	b.mu.Lock()
	fresh := s.fresh(time.Now())
	b.mu.Unlock()
	if fresh {
		return nil // somebody else has just done it
	}
	r, err := s.register(ctx)
	if err != nil {
		return s.idTaken(err)
	}
	b.mu.Lock()
	defer b.unlock()
	if !s.closed {
		s.take(r)
	}
	return nil
}

// fresh reports whether the engine has heard of the worker of late and knows it.
// REQUIRES: mu.
func (s *session) fresh(now time.Time) bool {
	return s.Registered && now.Before(s.Due())
}

// drop forgets a session. What it runs is left to its leases; what was not
// handed out goes back. REQUIRES: mu.
func (s *session) drop() {
	if s.closed {
		return
	}
	s.closed = true
	if s.b.sessions[s.id] == s {
		delete(s.b.sessions, s.id)
		delete(s.b.listening, s.reg.Session)
	}
	s.silence()
	s.giveBack(s.inbox, "worker_gone")
	s.polling.poke()
	s.probing.poke()
	s.acknowledge()
	clear(s.runs)
}

// idTaken drops a session if err, an answer of the engine, says that another one
// has its worker's id: the worker has no runs any more, and nothing renews them.
func (s *session) idTaken(err error) error {
	if events.CodeOf(err) != events.CodeWorkerIDInUse {
		return err
	}
	s.b.mu.Lock()
	defer s.b.unlock()
	if !s.closed {
		s.b.log.Warn("another worker has registered under the id of an HTTP worker, which is to stop what it runs", "worker", s.id, "runs", len(s.runs))
		s.taken = true
		s.drop()
	}
	return err
}

// whyClosed returns the answer to a request of a closed session. REQUIRES: mu.
func (s *session) whyClosed() error {
	if s.taken {
		return errNotYours(s.id)
	}
	return errNoSession(s.id)
}

// Unregister ends a session. The engine takes back at once what has not started.
func (b *Bridge) Unregister(ctx context.Context, worker, token string) error {
	b.mu.Lock()
	s, err := b.find(ctx, worker, token)
	if s != nil {
		s.drop()
	}
	b.unlock()
	if s == nil && err == nil {
		_, err = b.key.readToken(ctx, worker, token)
	}
	if err != nil {
		return err
	}
	var ok wire.OK
	return b.call(ctx, wire.APIUnregister, wire.Unregister{Worker: worker, Session: engineSession(token)}, &ok)
}

// called has all workers registered again, with an engine that has become the owner. Those
// who wait for work are registered at once, others by their next poll. REQUIRES: mu.
func (b *Bridge) called(c *wire.Control) {
	for _, s := range b.sessions {
		s.Registered = s.Registered && !c.Register
		s.polling.poke()
	}
}

// onControl hears what the engine says to workers at once.
func (b *Bridge) onControl(m *nats.Msg) {
	worker, ok := strings.CutPrefix(m.Subject, b.cfg.Names.Control(""))
	if !ok || !standing.FromEngine(m) {
		return
	}
	var c wire.Control
	b.mu.Lock()
	defer b.unlock()
	s := b.sessions[worker]
	if s == nil && m.Subject != b.cfg.Names.ControlAll() {
		return // it speaks NATS
	}
	if err := json.Unmarshal(m.Data, &c); err != nil {
		b.log.Warn("a control message can't be read", "error", err)
		return
	}
	if s == nil {
		b.called(&c)
		return
	}
	if c.Polls != "" {
		s.movedTo(c.Polls)
	}
	for _, ref := range c.Cancel {
		if r := s.runs[ref.Token]; r != nil && r.id == ref.ID {
			r.cancelled = true
		}
		s.inbox = slices.DeleteFunc(s.inbox, func(r *run) bool {
			if r.token != ref.Token {
				return false
			}
			s.release(r, "cancelled")
			return true
		})
	}
	s.Told(&c)
	s.polling.poke()
}
