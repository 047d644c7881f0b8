package bridge

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/pull"
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

	registering chan struct{} // holds a token while a registration is under way

	pull.Standing
	seen   time.Time // when this worker last asked for something
	calls  int       // its requests under way
	closed bool
	taken  bool // closed since another session has the worker's id

	stream    string
	consumers []string
	turn      int // which consumer is asked first
	leases    map[string]int64
	longest   time.Duration // lease of its types
	benched   time.Time     // nothing is pulled before

	probing *waiter // the open wait for probes; nil: none
	nonce   string  // of a probe that the worker has not seen; empty: none

	polling *waiter          // the open poll; nil: none, and inbox is empty
	batch   *batch           // what the last named poll has returned; nil: the worker has it
	inbox   []*run           // arrived, not handed out
	runs    map[string]*run  // handed out and not ended, by token
	gone    []string         // tokens of runs that ended or whose lease is over, the last ones, oldest first
	lanes   map[string]*lane // by consumer
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
	return wire.WorkerSession{Worker: s.id, Session: s.token, HeartbeatMS: s.Every.Milliseconds(), LeaseMS: s.leases}, nil
}

// open registers a worker with the engine and makes its session, with a request
// under way.
func (b *Bridge) open(ctx context.Context, reg wire.WorkerRegistration, token string, resumed bool) (*session, error) {
	now := time.Now()
	s := &session{
		b: b, id: reg.Worker, token: token, by: access.NameOf(ctx), resumed: resumed || b.cfg.Shared, registering: make(chan struct{}, 1), seen: now, calls: 1,
		reg: wire.Register{
			Worker: reg.Worker, Types: reg.Types, Capabilities: reg.Capabilities, Slots: reg.Slots,
			Host: reg.Host, Version: reg.Version, Probe: reg.Probe, Session: engineSession(token), Pull: true,
		},
		runs: map[string]*run{}, lanes: map[string]*lane{},
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
		b.idle = append(b.idle, r.fresh...)
		known.calls++
		return known, nil
	default:
		known.taken = true // the engine holds it for dead
		known.drop()
	}
	if err != nil {
		b.idle = append(b.idle, r.fresh...)
		return nil, err
	}
	s.take(r)
	b.sessions[s.id] = s
	b.kick.send()
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
	sent  time.Time
	fresh []*lane // to its consumers that had none
}

// register registers the worker with the engine. It is not called twice at once
// for one session.
func (s *session) register(ctx context.Context) (*registered, error) {
	r := &registered{sent: time.Now()}
	err := s.b.call(ctx, wire.APIRegister, s.reg, &r.Registered)
	if err == nil {
		r.fresh, err = s.openLanes(r.Consumers)
	}
	return r, err
}

// take takes over what the engine says to a registration. REQUIRES: mu.
func (s *session) take(r *registered) {
	s.Confirm(&r.Registered, r.sent)
	s.stream, s.leases, s.longest = r.Stream, r.LeaseMS, 0
	s.consumers = slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Values(r.Consumers))...)))
	for _, ms := range r.LeaseMS {
		s.longest = max(s.longest, time.Duration(ms)*time.Millisecond)
	}
	for _, l := range r.fresh {
		s.lanes[l.consumer] = l
		s.b.lanes[l.sub] = l
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

// renew registers a worker again: the engine is to hear that it lives, or has
// lanes that the session does not know of.
func (s *session) renew(ctx context.Context) error {
	b := s.b
	select {
	case s.registering <- struct{}{}:
		defer func() { <-s.registering }()
	case <-ctx.Done():
		return ctx.Err()
	}
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
	if s.closed {
		b.idle = append(b.idle, r.fresh...)
		return nil
	}
	s.take(r)
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
	}
	s.giveBack("worker_gone")
	for _, l := range s.lanes {
		if l.pull == nil {
			l.close()
		}
	}
	s.polling.poke()
	s.probing.poke()
	s.acknowledge()
	clear(s.runs)
	s.gone = nil
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

// Unregister ends a session. Items that were handed out and not claimed go
// back at once.
func (b *Bridge) Unregister(ctx context.Context, worker, token string) error {
	b.mu.Lock()
	s, err := b.find(ctx, worker, token)
	if s != nil {
		for _, r := range s.runs {
			if !r.claimed {
				s.release(r, "unregistered")
			}
		}
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
	if !ok || !pull.FromEngine(m) {
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
	for _, ref := range c.Cancel {
		if r := s.runs[ref.Token]; r != nil && r.id == ref.ID {
			r.cancelled = true
		}
	}
	s.Told(&c)
	s.polling.poke()
}
