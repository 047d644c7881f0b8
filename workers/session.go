package workers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/pull"
	"github.com/streamwright/streamwright/wire"
)

// session keeps the worker registered with the engine. Guarded by Worker.mu, except
// tries.
type session struct {
	w    *Worker
	kick chan struct{} // wakes the loop; room for one

	pull.Standing
	id       string     // of this life of the worker
	names    wire.Names // with the JetStream domain that the engine has told
	replaced bool       // another worker has registered under the id
	control  []*nats.Subscription
	called   chan struct{} // wakes the loop even from a backoff; room for one

	tries int // failures in a row; owned by run
}

// tryRegister registers once and takes over what the engine says.
func (s *session) tryRegister(ctx context.Context) error {
	s.w.pulls.registering.Lock()
	defer s.w.pulls.registering.Unlock()
	s.w.mu.Lock()
	if s.w.phase != phaseActive {
		s.w.mu.Unlock()
		return nil
	}
	req, epoch, known := s.request(), s.w.link.epoch, s.w.pulls.consumers
	s.w.mu.Unlock()
	var reply wire.Registered
	sent := time.Now()
	if err := s.w.link.call(ctx, wire.APIRegister, req, &reply, requestTimeout); err != nil {
		return err
	}
	fresh, err := s.w.pulls.openAll(known, &reply, epoch)
	if err != nil {
		return err
	}
	s.adopt(fresh, &reply, epoch, sent)
	return nil
}

// openAll returns the consumers that the engine named: known ones that
// still work, and new ones.
func (p *puller) openAll(known map[string]*consumer, reply *wire.Registered, epoch int) (map[string]*consumer, error) {
	all := map[string]*consumer{}
	for typ, names := range reply.Consumers {
		reg := p.w.types[events.Type(typ)]
		if reg == nil {
			return nil, fmt.Errorf("%w: %q", errNoHandler, typ)
		}
		for _, name := range names {
			if c := known[name]; c != nil && c.epoch == epoch && c.reg == reg && !c.closed {
				all[name] = c
				continue
			}
			c, err := p.open(p.w.session.namesOf(reply), reply.Stream, name, reg, epoch)
			if err != nil {
				dropNew(all, known)
				return nil, err
			}
			all[name] = c
		}
	}
	if err := p.findHomes(all, p.w.session.namesOf(reply), reply.Stream); err != nil {
		dropNew(all, known)
		return nil, err
	}
	return all, nil
}

// dropNew gives up the consumers that were not known before.
func dropNew(all, known map[string]*consumer) {
	for n, c := range all {
		if known[n] != c {
			c.drop()
		}
	}
}

// namesOf returns the names with the JetStream domain in which the engine says
// that this worker has its streams, unless it was told another.
func (s *session) namesOf(r *wire.Registered) wire.Names {
	if s.w.cfg.Names.Domain != "" {
		return s.w.cfg.Names
	}
	return s.w.cfg.Names.In(r.JetStreamDomain)
}

// adopt makes a registration the current one and begins to pull.
func (s *session) adopt(fresh map[string]*consumer, reply *wire.Registered, epoch int, sent time.Time) {
	s.w.mu.Lock()
	old := s.w.pulls.consumers
	s.w.pulls.consumers, s.names = fresh, s.namesOf(reply)
	for _, c := range fresh {
		c.mend()
	}
	s.replaced = false
	s.Confirm(reply, sent)
	s.Registered = epoch == s.w.link.epoch
	s.Ask() // a registration does not say what runs, nor how the worker is: a heartbeat is due
	s.w.log.Info("registered", "session", reply.Session, "consumers", len(fresh))
	s.w.pulls.refillAll()
	s.w.unlock()
	for name, c := range old {
		switch {
		case fresh[name] == c:
		case c.epoch == epoch:
			c.drain(time.After(farewellTimeout))
		default:
			c.drop()
		}
	}
	s.w.reports.retryNow()
}

// run keeps the worker registered: it registers whenever that is
// needed, with backoff, and sends heartbeats.
func (s *session) run() {
	defer s.w.loops.Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(s.step())
		kick := s.kick
		if s.tries > 0 {
			kick = nil // a kick does not cut a backoff short
		}
		select {
		case <-s.w.life.Done():
			return
		case <-timer.C:
		case <-kick:
		case <-s.called:
			s.tries = 0
		}
	}
}

// step closes lanes, registers or sends a heartbeat, whichever is due. It
// returns the wait until the next step.
func (s *session) step() time.Duration {
	w := s.w
	w.mu.Lock()
	active, up, registered, every := w.phase == phaseActive, w.link.connected, s.Registered, s.Every
	rests := !active || w.health.unfit() || s.replaced
	due := !time.Now().Before(s.Due())
	w.mu.Unlock()
	if !up {
		s.tries = 0
		return every
	}
	if rests {
		w.pulls.close()
	}
	var err error
	switch {
	case active && !registered:
		err = s.tryRegister(w.intake)
	case !registered || due:
		// A worker that ends does not pull again, and a heartbeat is enough
		// to make a new engine know it.
		err = s.beat(w.life)
	}
	w.mu.Lock()
	next, replaced := s.Due(), s.replaced
	w.mu.Unlock()
	if err == nil {
		s.tries = 0
		return max(time.Until(next), 0)
	}
	level := w.log.Debug
	if s.tries == 0 || (!transient(err) && !replaced) {
		level = w.log.Warn
	}
	if idInUse(err) && s.giveWay(err) {
		w.pulls.close()
	}
	s.tries++
	level("the engine does not keep this worker registered; trying again", "err", err, "tries", s.tries)
	return backoff(s.tries)
}

// idInUse reports whether the engine says that the worker's id is another
// session's.
func idInUse(err error) bool {
	return errors.Is(err, &events.Error{Code: events.CodeWorkerIDInUse})
}

// giveWay yields to the worker that has registered under this one's id: running
// items are stopped at once and handed back as their handlers end; held ones
// are handed back, too. It reports whether that is news. The worker keeps
// asking for its registration, and gets it back when the other one has left.
func (s *session) giveWay(cause error) (news bool) {
	s.w.mu.Lock()
	defer s.w.unlock()
	if s.replaced {
		return false
	}
	s.replaced, s.Registered = true, false
	stopped := 0
	for _, r := range s.w.table.runs {
		if r.state == running {
			s.w.endRun(r, ErrLeaseLost, false)
			stopped++
		}
	}
	s.w.log.Error("another worker has registered under this worker's id: its runs are stopped; give each worker an id of its own", "stopped", stopped, "err", cause)
	s.w.handBackHeld("replaced")
	return true
}

// beat sends a heartbeat, unless the worker has nothing and may be silent.
func (s *session) beat(ctx context.Context) error {
	health := s.w.health.checkUp(ctx)
	s.w.mu.Lock()
	hb := wire.Heartbeat{Register: s.request(), Health: health}
	for _, r := range s.w.table.runs {
		if r.state == running || r.state == settling || r.assigned {
			hb.InFlight = append(hb.InFlight, wire.RunRef{ID: r.msg.RawID, Token: r.msg.Token})
		}
	}
	sent := time.Now()
	idle := s.idle(health)
	if idle && s.Rest(sent) {
		s.w.mu.Unlock()
		return nil
	}
	hb.IdleMS = s.Beat(idle).Milliseconds()
	s.w.mu.Unlock()
	var reply wire.HeartbeatReply
	err := s.w.link.call(ctx, wire.APIHeartbeat, hb, &reply, requestTimeout)
	s.w.mu.Lock()
	defer s.w.unlock()
	if err != nil {
		if !transient(err) {
			s.Registered = false
		}
		return err
	}
	s.Registered = s.Registered || s.w.phase != phaseActive
	s.Beaten(&reply, sent)
	s.w.inbox.fence = reply.Fence
	s.endRuns(reply.Cancel, ErrLeaseLost)
	s.follow()
	return nil
}

// idle reports whether the worker has nothing, and nothing is wrong with it: then the
// engine need not hear of it often. REQUIRES: mu.
func (s *session) idle(health *wire.Health) bool {
	return s.Registered && s.w.phase == phaseActive && len(s.w.table.runs) == 0 && len(s.w.table.held) == 0 &&
		(health == nil || len(health.Failing) == 0) && s.Status == wire.WorkerActive
}

// follow acts on what the engine has said of the worker. REQUIRES: mu.
func (s *session) follow() {
	if s.Draining {
		s.w.drainByEngine()
	}
	s.w.health.review()
}

// endRuns ends runs that the engine no longer counts. REQUIRES: mu.
func (s *session) endRuns(refs []wire.RunRef, cause error) {
	for _, ref := range refs {
		if r := s.w.table.runs[ref.Token]; r != nil && r.msg.RawID == ref.ID {
			s.w.endRun(r, cause, true)
		}
	}
}

// listen subscribes to what the engine says to this worker, and to all.
func (s *session) listen() error {
	names := s.w.cfg.Names
	for subject, hear := range map[string]nats.MsgHandler{names.Control(s.w.cfg.ID): s.onControl, names.ControlAll(): s.onCall} {
		sub, err := s.w.nc.Subscribe(subject, hear)
		if err != nil {
			return fmt.Errorf("subscribe to the control subject: %w", err)
		}
		s.w.mu.Lock()
		s.control = append(s.control, sub)
		s.w.mu.Unlock()
	}
	return s.w.inbox.open(s.id)
}

// onCall registers at once with an engine that has become the owner.
func (s *session) onCall(m *nats.Msg) {
	var c wire.Control
	if m.Subject != s.w.cfg.Names.ControlAll() || !pull.FromEngine(m) || json.Unmarshal(m.Data, &c) != nil || !c.Register {
		return
	}
	s.w.mu.Lock()
	defer s.w.unlock()
	s.Registered = false
	select {
	case s.called <- struct{}{}:
	default:
	}
}

// onControl hears what the engine has to say at once.
func (s *session) onControl(m *nats.Msg) {
	if m.Subject != s.w.cfg.Names.Control(s.w.cfg.ID) || !pull.FromEngine(m) {
		return
	}
	var c wire.Control
	if err := json.Unmarshal(m.Data, &c); err != nil {
		s.w.log.Warn("a control message can't be read", "err", err)
		return
	}
	s.w.mu.Lock()
	defer s.w.unlock()
	s.Told(&c)
	s.endRuns(c.Cancel, ErrCancelled)
	s.follow()
	if c.Register {
		s.needed()
	}
}

// needed makes the session loop register. REQUIRES: mu.
func (s *session) needed() {
	s.Registered = false
	s.wake()
}

func (s *session) wake() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}
