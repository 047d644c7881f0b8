package workers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// errDisconnected ends the requests that were outstanding when the connection
// was lost: their replies will not come.
var errDisconnected = errors.New("the connection was lost")

// request asks the engine and returns the reply's body. An error reply is an
// *events.Error. It ends early when the connection is lost.
func (w *Worker) request(ctx context.Context, endpoint string, body []byte, limit time.Duration) ([]byte, error) {
	w.mu.Lock()
	conn, up := w.conn, w.connected
	w.mu.Unlock()
	if !up {
		return nil, errDisconnected
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	defer context.AfterFunc(conn, cancel)()
	msg, err := w.nc.RequestWithContext(ctx, w.cfg.Names.API(endpoint), body)
	if err != nil {
		return nil, fmt.Errorf("ask the engine to %s: %w", endpoint, err)
	}
	if len(msg.Data) > 0 && msg.Data[0] == '{' {
		var e wire.ErrorReply
		if json.Unmarshal(msg.Data, &e) == nil && e.Error != nil {
			return nil, e.Error.Err()
		}
	}
	return msg.Data, nil
}

// call is request with JSON at both ends.
func (w *Worker) call(ctx context.Context, endpoint string, req, reply any, limit time.Duration) error {
	body, err := json.Marshal(req)
	if err != nil {
		return fmt.Errorf("encode %s: %w", endpoint, err)
	}
	answer, err := w.request(ctx, endpoint, body, limit)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(answer, reply); err != nil {
		return fmt.Errorf("decode the engine's answer to %s: %w", endpoint, err)
	}
	return nil
}

// transient reports whether asking again may help: no answer, or one that says
// so.
func transient(err error) bool {
	var e *events.Error
	return !errors.As(err, &e) || transientCode(e.Code)
}

// tryRegister registers once and takes over what the engine says.
func (w *Worker) tryRegister(ctx context.Context) error {
	w.registering.Lock()
	defer w.registering.Unlock()
	w.mu.Lock()
	if w.phase != phaseActive {
		w.mu.Unlock()
		return nil
	}
	req, epoch := w.registerRequest(), w.connEpoch
	w.mu.Unlock()
	var reply wire.Registered
	if err := w.call(ctx, wire.APIRegister, req, &reply, requestTimeout); err != nil {
		return err
	}
	w.mu.Lock()
	known := w.consumers
	w.mu.Unlock()
	fresh, err := w.openConsumers(known, &reply, epoch)
	if err != nil {
		return err
	}
	w.adopt(fresh, &reply, epoch)
	return nil
}

// openConsumers returns the consumers that the engine named: known ones that
// still work, and new ones.
func (w *Worker) openConsumers(known map[string]*consumer, reply *wire.Registered, epoch int) (map[string]*consumer, error) {
	all := map[string]*consumer{}
	for typ, names := range reply.Consumers {
		reg := w.types[events.Type(typ)]
		if reg == nil {
			return nil, fmt.Errorf("%w: %q", errNoHandler, typ)
		}
		for _, name := range names {
			if c := known[name]; c != nil && c.epoch == epoch && c.reg == reg && !c.closed {
				all[name] = c
				continue
			}
			c, err := w.openConsumer(w.namesOf(reply), reply.Stream, name, reg, epoch)
			if err != nil {
				for n, c := range all {
					if known[n] != c {
						c.drop()
					}
				}
				return nil, err
			}
			all[name] = c
		}
	}
	return all, nil
}

// namesOf returns the names with the JetStream domain in which the engine says
// that this worker has its streams, unless it was told another.
func (w *Worker) namesOf(r *wire.Registered) wire.Names {
	if w.cfg.Names.Domain != "" {
		return w.cfg.Names
	}
	return w.cfg.Names.In(r.JetStreamDomain)
}

// adopt makes a registration the current one and begins to pull.
func (w *Worker) adopt(fresh map[string]*consumer, reply *wire.Registered, epoch int) {
	w.mu.Lock()
	old := w.consumers
	w.consumers, w.names = fresh, w.namesOf(reply)
	for _, c := range fresh {
		c.mend()
	}
	w.session = reply.Session
	if reply.HeartbeatMS > 0 {
		w.heartbeat = max(time.Duration(reply.HeartbeatMS)*time.Millisecond, minHeartbeat)
	}
	w.registered, w.replaced = epoch == w.connEpoch, false
	w.log.Info("registered", "session", reply.Session, "consumers", len(fresh))
	w.refillAll()
	w.unlock()
	for name, c := range old {
		switch {
		case fresh[name] == c:
		case c.epoch == epoch:
			c.drain(time.After(farewellTimeout))
		default:
			c.drop()
		}
	}
	w.reports.retryNow()
}

// runSession keeps the worker registered: it registers whenever that is
// needed, with backoff, and sends heartbeats.
func (w *Worker) runSession() {
	defer w.loops.Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	s := session{w: w}
	if st := w.Stats(); st.Registered {
		s.registered(st.Unhealthy == "")
	}
	for {
		timer.Reset(s.step())
		kick := w.kick
		if s.tries > 0 {
			kick = nil // a kick does not cut a backoff short
		}
		select {
		case <-w.life.Done():
			return
		case <-timer.C:
		case <-kick:
		}
	}
}

// session is the session loop's own state.
type session struct {
	w      *Worker
	tries  int       // failures in a row
	beatAt time.Time // when the next heartbeat is due
}

// registered notes that the engine has just heard of the worker, and whether
// all that it should know.
func (s *session) registered(all bool) {
	s.beatAt = time.Now()
	if all {
		s.beatAt = s.beatAt.Add(s.interval())
	}
}

func (s *session) interval() time.Duration {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	return s.w.heartbeat
}

// step does what is needed now: it closes lanes, registers or sends a
// heartbeat. It returns the wait until the next step.
func (s *session) step() time.Duration {
	w := s.w
	w.mu.Lock()
	p, up, registered, unfit, confirm, replaced := w.phase, w.connected, w.registered, w.unfit(), w.confirm, w.replaced
	w.confirm = false
	w.mu.Unlock()
	if !up {
		s.tries = 0
		return s.interval()
	}
	if p != phaseActive || unfit || replaced {
		w.closeLanes()
	}
	var err error
	switch {
	case p == phaseActive && !registered:
		if err = w.tryRegister(w.intake); err == nil {
			s.registered(!unfit) // a registration does not say so
		}
	case !registered || confirm || !time.Now().Before(s.beatAt):
		// A worker that ends does not pull again, and a heartbeat is enough
		// to make a new engine know it.
		if err = w.beat(w.life); err == nil {
			s.registered(true)
		}
	}
	if err == nil {
		s.tries = 0
		return max(time.Until(s.beatAt), 0)
	}
	level := w.log.Debug
	if s.tries == 0 || (!transient(err) && !replaced) {
		level = w.log.Warn
	}
	if idInUse(err) && w.giveWay(err) {
		w.closeLanes()
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

// giveWay yields to the worker that has registered under this one's id: what
// runs is stopped at once and handed back as its handlers end, as is what is held.
// It reports whether that is news. The worker goes on asking for its
// registration, and has it back when the other one has left.
func (w *Worker) giveWay(cause error) (news bool) {
	w.mu.Lock()
	defer w.unlock()
	if w.replaced {
		return false
	}
	w.replaced, w.registered = true, false
	stopped := 0
	for _, r := range w.runs {
		if r.state == running {
			w.endRun(r, ErrLeaseLost, false)
			stopped++
		}
	}
	w.log.Error("another worker has registered under this worker's id: its runs are stopped; give each worker an id of its own", "stopped", stopped, "err", cause)
	w.handBackHeld("replaced")
	return true
}

// beat sends a heartbeat.
func (w *Worker) beat(ctx context.Context) error {
	health := w.checkUp(ctx)
	w.mu.Lock()
	hb := wire.Heartbeat{Register: w.registerRequest(), Health: health}
	for _, r := range w.runs {
		if r.state == running || r.state == settling {
			hb.InFlight = append(hb.InFlight, wire.RunRef{ID: r.rawID, Token: r.token})
		}
	}
	w.mu.Unlock()
	var reply wire.HeartbeatReply
	err := w.call(ctx, wire.APIHeartbeat, hb, &reply, requestTimeout)
	w.mu.Lock()
	defer w.unlock()
	if err != nil {
		if !transient(err) {
			w.registered = false
		}
		return err
	}
	w.registered = w.registered || w.phase != phaseActive
	w.endRuns(reply.Cancel, ErrLeaseLost)
	if reply.ShouldDrain {
		w.drainByEngine()
	}
	w.takenFor(reply.Status, reply.Reason)
	return nil
}

// endRuns ends runs that the engine no longer counts. REQUIRES: mu.
func (w *Worker) endRuns(refs []wire.RunRef, cause error) {
	for _, ref := range refs {
		if r := w.runs[ref.Token]; r != nil && r.rawID == ref.ID {
			w.endRun(r, cause, true)
		}
	}
}

// onControl hears what the engine has to say at once.
func (w *Worker) onControl(m *nats.Msg) {
	if m.Subject != w.cfg.Names.Control(w.cfg.ID) || m.Reply != "" || wire.ServersHeader(m.Header) != "" {
		return // an answer of the NATS server to somebody who named this for his reply subject
	}
	var c wire.Control
	if err := json.Unmarshal(m.Data, &c); err != nil {
		w.log.Warn("a control message can't be read", "err", err)
		return
	}
	w.mu.Lock()
	defer w.unlock()
	w.endRuns(c.Cancel, ErrCancelled)
	if c.Drain {
		w.drainByEngine()
	}
	w.takenFor(c.Status, c.Reason)
	if c.Register {
		w.needRegister()
	}
}

// watchConnection follows the connection's status.
func (w *Worker) watchConnection(status chan nats.Status) {
	defer w.loops.Done()
	defer w.nc.RemoveStatusListener(status)
	for {
		select {
		case <-w.life.Done():
			return
		case s, ok := <-status:
			if !ok {
				return
			}
			w.setConnected(s == nats.CONNECTED)
			if s == nats.CLOSED {
				w.connectionClosed()
				return
			}
		}
	}
}

// setConnected takes note of the connection's state. A new connection is a new
// epoch: pulls and requests of the one before are void.
func (w *Worker) setConnected(up bool) {
	w.mu.Lock()
	defer w.unlock()
	if up == w.connected {
		return
	}
	w.connected = up
	w.reports.setUp(up)
	if up {
		w.conn, w.connLost = context.WithCancelCause(context.Background())
		w.kickSession()
		w.reports.retryNow()
		now := time.Now()
		for _, r := range w.runs {
			r.renewAt = now
		}
		w.dueBy(now)
		return
	}
	w.connEpoch++
	w.registered = false
	w.connLost(errDisconnected)
}

// connectionClosed ends everything: without a connection no lease can be kept.
func (w *Worker) connectionClosed() {
	w.mu.Lock()
	defer w.unlock()
	for _, r := range w.runs {
		w.endRun(r, ErrLeaseLost, true)
	}
	close(w.closed)
}
