package workers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/nudge"
	"github.com/streamwright/streamwright/internal/standing"
	"github.com/streamwright/streamwright/wire"
)

// session keeps the worker registered with the engine. Guarded by Worker.mu, except
// tries.
type session struct {
	w    *Worker
	kick chan struct{} // wakes the loop; room for one

	standing.Standing
	id       string // of this life of the worker
	replaced bool   // another worker has registered under the id
	control  []*nats.Subscription
	called   chan struct{} // wakes the loop even from a backoff; room for one

	tries int // failures in a row; owned by run
}

// tryRegister registers once and takes over what the engine says.
func (s *session) tryRegister(ctx context.Context) error {
	s.w.mu.Lock()
	if s.w.phase != phaseActive {
		s.w.mu.Unlock()
		return nil
	}
	req, epoch := s.request(), s.w.link.epoch
	s.w.mu.Unlock()
	var reply wire.Registered
	sent := time.Now()
	if err := s.w.link.call(ctx, wire.APIRegister, req, &reply, requestTimeout); err != nil {
		return err
	}
	s.w.mu.Lock()
	s.replaced = false
	s.Confirm(&reply, sent)
	s.Registered = epoch == s.w.link.epoch
	s.Ask() // a registration does not say what runs, nor how the worker is: a heartbeat is due
	s.w.mu.Unlock()
	s.w.log.Info("registered", "session", req.Session)
	s.w.reports.retryNow()
	return nil
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

// step registers or sends a heartbeat, whichever is due. It returns the wait until the next step.
func (s *session) step() time.Duration {
	w := s.w
	w.mu.Lock()
	active, up, registered, every := w.phase == phaseActive, w.link.connected, s.Registered, s.Every
	due := !time.Now().Before(s.Due())
	w.mu.Unlock()
	if !up {
		s.tries = 0
		return every
	}
	var err error
	switch {
	case active && !registered:
		err = s.tryRegister(w.intake)
	case !registered || due:
		// A heartbeat is enough to make a new engine know a worker that ends.
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
	if idInUse(err) {
		s.giveWay(err)
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
// items are stopped at once and handed back as their handlers end. The worker keeps
// asking for its registration, and gets it back when the other one has left.
func (s *session) giveWay(cause error) {
	s.w.mu.Lock()
	defer s.w.unlock()
	if s.replaced {
		return
	}
	s.replaced, s.Registered = true, false
	stopped := 0
	for _, r := range s.w.table.runs {
		if r.state == running {
			s.w.endRun(r, ErrLeaseLost, false)
			stopped++
		}
	}
	s.w.reviewHeld(time.Now())
	s.w.log.Error("another worker has registered under this worker's id: its runs are stopped; give each worker an id of its own", "stopped", stopped, "err", cause)
}

// beat sends a heartbeat, unless the worker has nothing and may be silent.
func (s *session) beat(ctx context.Context) error {
	health := s.w.health.checkUp(ctx)
	s.w.mu.Lock()
	hb := wire.Heartbeat{Register: s.request(), Health: health}
	for _, r := range s.w.table.runs {
		hb.InFlight = append(hb.InFlight, wire.RunRef{ID: r.msg.ID, Token: r.msg.Token})
	}
	sent := time.Now()
	idle := s.idle(health)
	if idle && s.Rest(sent) {
		s.w.mu.Unlock()
		return nil
	}
	hb.Idle = events.DurationOf(s.Beat(idle).Truncate(time.Millisecond))
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
	s.w.receiver.fence = reply.Fence
	s.endRuns(reply.Cancel, ErrLeaseLost)
	s.follow()
	return nil
}

// idle reports whether the worker has nothing, and nothing is wrong with it: then the
// engine need not hear of it often. REQUIRES: mu.
func (s *session) idle(health *wire.Health) bool {
	return s.Registered && s.w.phase == phaseActive && len(s.w.table.runs) == 0 &&
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
		if r := s.w.table.runs[ref.Token]; r != nil && r.msg.ID == ref.ID {
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
	return s.w.receiver.open(s.id)
}

// onCall registers at once with an engine that has become the owner, and asks it what the
// one before has not answered.
func (s *session) onCall(m *nats.Msg) {
	var c wire.Control
	if m.Subject != s.w.cfg.Names.ControlAll() || !standing.FromEngine(m) || json.Unmarshal(m.Data, &c) != nil || !c.Register {
		return
	}
	s.w.mu.Lock()
	defer s.w.unlock()
	s.Registered = false
	s.w.link.newOwner()
	nudge.Send(s.called)
}

// onControl hears what the engine has to say at once.
func (s *session) onControl(m *nats.Msg) {
	if m.Subject != s.w.cfg.Names.Control(s.w.cfg.ID) || !standing.FromEngine(m) {
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

func (s *session) wake() { nudge.Send(s.kick) }
