package bridge

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"math/rand/v2"
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
	id      string
	token   string
	by      string        // who has registered it
	reg     wire.Register // as the engine hears it
	resumed bool          // it was known to an earlier bridge, or to this one before it was silent

	registering chan struct{} // holds a token while a registration is under way

	registered bool      // the engine knows the worker, and consumers are current
	told       time.Time // when the engine last heard of the worker
	seen       time.Time // when this worker last asked for something
	calls      int       // its requests under way
	closed     bool
	taken      bool // closed since another session has the worker's id

	stream    string
	consumers []string
	turn      int // which consumer is asked first
	leases    map[string]int64
	longest   time.Duration // lease of its types
	heartbeat time.Duration

	draining bool
	status   wire.WorkerStatus
	reason   string
	benched  time.Time // nothing is pulled before

	prober *probeWait // the open wait for probes; nil: there is none
	nonce  string     // of a probe that the worker has not seen; empty: there is none

	poll  *poll
	batch *batch           // what the last named poll has returned; nil: the worker has it
	inbox []*run           // arrived, not handed out
	runs  map[string]*run  // handed out and not ended, by token
	gone  []string         // tokens of runs that ended or whose lease is over, the last ones, oldest first
	lanes map[string]*lane // by consumer
}

// poke has the open poll look again. REQUIRES: mu.
func (s *session) poke() {
	if s.poll != nil {
		select {
		case s.poll.wake <- struct{}{}:
		default:
		}
	}
}

// Register makes a session for a worker.
func (b *Bridge) Register(ctx context.Context, reg wire.WorkerRegistration) (wire.WorkerSession, error) {
	if reg.Worker == "" {
		reg.Worker = "http-" + freshName()
	}
	if _, err := events.ParseWorkerID(reg.Worker); err != nil {
		return wire.WorkerSession{}, events.Refuse(events.CodeBadRequest, "%v", err)
	}
	token, err := b.newToken(ctx, reg)
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
	return wire.WorkerSession{Worker: s.id, Session: s.token, HeartbeatMS: s.heartbeat.Milliseconds(), LeaseMS: s.leases}, nil
}

// freshName returns a part of an id that no other worker has.
func freshName() string {
	const digits = "0123456789abcdefghjkmnpqrstvwxyz"
	var out [12]byte
	for i := range out {
		out[i] = digits[rand.IntN(len(digits))]
	}
	return string(out[:])
}

// open registers a worker with the engine and makes its session, with a request
// under way.
func (b *Bridge) open(ctx context.Context, reg wire.WorkerRegistration, token string, resumed bool) (*session, error) {
	now := time.Now()
	s := &session{
		id: reg.Worker, token: token, by: access.NameOf(ctx), resumed: resumed, registering: make(chan struct{}, 1), seen: now, calls: 1,
		reg: wire.Register{
			Worker: reg.Worker, Types: reg.Types, Capabilities: reg.Capabilities, Slots: reg.Slots,
			Host: reg.Host, Version: reg.Version, Probe: reg.Probe, Session: engineSession(token),
		},
		runs: map[string]*run{}, lanes: map[string]*lane{},
	}
	if err := b.roomFor(s.id); err != nil {
		return nil, err
	}
	var reply wire.Registered
	if err := b.call(ctx, wire.APIRegister, s.reg, &reply); err != nil {
		return nil, err
	}
	fresh, err := b.openLanes(s, reply.Consumers)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.unlock()
	known := b.sessions[s.id]
	switch {
	case known != nil && resumed && sameToken(known.token, token): // another of its requests was quicker
		b.idle = append(b.idle, fresh...)
		known.calls++
		return known, nil
	case known != nil:
		known.taken = true // the engine holds it for dead
		b.drop(known)
	case b.stopping:
		b.idle = append(b.idle, fresh...)
		return nil, errStopping
	case len(b.sessions) >= b.cfg.MaxWorkers:
		b.idle = append(b.idle, fresh...)
		return nil, errFull
	}
	s.take(&reply, now)
	b.addLanes(s, fresh)
	b.sessions[s.id] = s
	b.lookAgain()
	b.log.Info("an HTTP worker has registered", "worker", s.id, "types", s.reg.Types, "slots", s.reg.Slots, "again", resumed)
	return s, nil
}

// roomFor refuses one worker too many.
func (b *Bridge) roomFor(id string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
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

// take takes over what the engine says to a registration. REQUIRES: mu, or s is
// not shared yet.
func (s *session) take(r *wire.Registered, now time.Time) {
	s.registered, s.told = true, now
	s.stream, s.leases, s.consumers, s.longest = r.Stream, r.LeaseMS, nil, 0
	s.heartbeat = time.Duration(r.HeartbeatMS) * time.Millisecond
	for _, names := range r.Consumers {
		s.consumers = append(s.consumers, names...)
	}
	slices.Sort(s.consumers)
	for _, ms := range r.LeaseMS {
		s.longest = max(s.longest, time.Duration(ms)*time.Millisecond)
	}
}

// is reports whether a request belongs to this session, and comes from the user who
// registered it.
func (s *session) is(ctx context.Context, token string) bool {
	return sameToken(s.token, token) && s.by == access.NameOf(ctx)
}

func sameToken(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// enter finds the session of a request, and makes it anew if this bridge does
// not know it. The caller ends the request with leave.
func (b *Bridge) enter(ctx context.Context, worker, token string) (*session, error) {
	b.mu.Lock()
	s := b.sessions[worker]
	if s != nil && s.is(ctx, token) {
		s.calls++
		s.seen = time.Now()
		b.mu.Unlock()
		return s, nil
	}
	b.mu.Unlock()
	if s != nil {
		return nil, errNotYours(worker)
	}
	reg, err := b.readToken(ctx, worker, token)
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
func (b *Bridge) renew(ctx context.Context, s *session) error {
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
	asked := time.Now()
	var reply wire.Registered
	if err := b.call(ctx, wire.APIRegister, s.reg, &reply); err != nil {
		return b.idTaken(s, err)
	}
	lanes, err := b.openLanes(s, reply.Consumers)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.unlock()
	if s.closed {
		b.idle = append(b.idle, lanes...)
		return nil
	}
	s.take(&reply, asked)
	b.addLanes(s, lanes)
	return nil
}

// fresh reports whether the engine has heard of the worker of late and knows it.
// REQUIRES: mu.
func (s *session) fresh(now time.Time) bool {
	return s.registered && now.Before(s.renewAt())
}

// renewAt returns when the engine is to hear again of a worker that waits. REQUIRES:
// mu.
func (s *session) renewAt() time.Time { return s.told.Add(max(s.heartbeat, 100*time.Millisecond)) }

// drop forgets a session. What it runs is left to its leases; what was not
// handed out goes back. REQUIRES: mu.
func (b *Bridge) drop(s *session) {
	if s.closed {
		return
	}
	s.closed = true
	if b.sessions[s.id] == s {
		delete(b.sessions, s.id)
	}
	b.giveBack(s, "worker_gone")
	for _, l := range s.lanes {
		if l.pull == nil {
			b.closeLane(l)
		}
	}
	s.poke()
	s.prober.poke()
	b.acknowledge(s)
	clear(s.runs)
	s.gone = nil
}

// idTaken drops a session if err, an answer of the engine, says that another one
// has its worker's id: the worker has no runs any more, and nothing renews them.
func (b *Bridge) idTaken(s *session, err error) error {
	if events.CodeOf(err) != events.CodeWorkerIDInUse {
		return err
	}
	b.mu.Lock()
	defer b.unlock()
	if !s.closed {
		b.log.Warn("another worker has registered under the id of an HTTP worker, which is to stop what it runs", "worker", s.id, "runs", len(s.runs))
		s.taken = true
		b.drop(s)
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
	s := b.sessions[worker]
	b.mu.Unlock()
	if s == nil {
		if _, err := b.readToken(ctx, worker, token); err != nil {
			return err
		}
	} else if !s.is(ctx, token) {
		return errNotYours(worker)
	}
	if s != nil {
		b.mu.Lock()
		for _, r := range s.runs {
			if !r.claimed {
				b.release(s, r, "unregistered")
			}
		}
		b.drop(s)
		b.unlock()
	}
	var ok wire.OK
	return b.call(ctx, wire.APIUnregister, wire.Unregister{Worker: worker, Session: engineSession(token)}, &ok)
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
	if s == nil {
		return // it speaks NATS
	}
	if err := json.Unmarshal(m.Data, &c); err != nil {
		b.log.Warn("a control message can't be read", "error", err)
		return
	}
	for _, ref := range c.Cancel {
		if r := s.runs[ref.Token]; r != nil && r.id == ref.ID {
			r.cancelled = true
		}
	}
	s.draining = s.draining || c.Drain
	if c.Status != "" {
		s.status, s.reason = c.Status, c.Reason
	}
	if c.Register {
		s.registered = false
	}
	s.poke()
}
