package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/access/quota"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/sleep"
	"github.com/streamwright/streamwright/wire"
)

// Of several engines on one log (nodes), the owner alone subscribes to the
// endpoints that only it can answer (wire.Endpoint.OwnerOnly), so requests over
// NATS reach it wherever they enter. The others are answered by any node, from its
// own projection. What comes over HTTP to a standby and needs the owner is
// forwarded to it, over NATS.

const (
	// forwardWithin bounds how long a forwarded request looks for an owner: as
	// long as an election of JetStream takes, and some.
	forwardWithin = 15 * time.Second
	// forwardTry bounds one try. A request that changes something is tried again
	// only if it is known that nobody has taken it.
	forwardTry = 30 * time.Second
	minForward = 10 * time.Millisecond
	maxForward = 250 * time.Millisecond
	// cutOffAfter is the time without a word of the log's leader after which a
	// standby counts as cut off.
	cutOffAfter = 5 * time.Second
)

// Serve has the service answer, or no longer answer, what only the log's owner can.
// It takes effect once the service is started.
func (s *Service) Serve(owner bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serves = owner
	if s.micro == nil || s.closed {
		return nil
	}
	return s.serveOwner()
}

// serveOwner brings the owner's endpoints to what s.serves says. REQUIRES: mu.
func (s *Service) serveOwner() error {
	if !s.serves {
		svc, sub := s.owned, s.forwards
		s.owned, s.forwards = nil, nil
		if svc == nil {
			return nil
		}
		_ = sub.Drain() // fails when the connection is closed
		return svc.Stop()
	}
	if s.owned != nil {
		return nil
	}
	svc, err := s.addService(true)
	if err != nil {
		return err
	}
	sub, err := s.Conn.Subscribe(s.Names.Forward("*"), s.forwarded)
	if err == nil {
		err = sub.SetPendingLimits(MaxPendingRequests, MaxPendingBytes)
	}
	if err == nil {
		err = s.Conn.FlushTimeout(controlTimeout) // the server has the subscriptions once it has answered
	}
	if err != nil {
		return errors.Join(fmt.Errorf("start api service: %w", err), svc.Stop())
	}
	s.owned, s.forwards = svc, sub
	return nil
}

// addService subscribes to the endpoints that only the owner answers, or to the
// others.
func (s *Service) addService(owner bool) (micro.Service, error) {
	svc, err := micro.AddService(s.Conn, micro.Config{
		// A node that is cut off, or paused, stays the owner to a NATS server for
		// minutes. In a queue group it would be given its share of the requests, and
		// nobody would answer those; so each owner there is gets all of them.
		QueueGroupDisabled: owner,
		Name:               wire.Service, Version: semver(s.Info.Version), Description: "event-sourced work engine",
		ErrorHandler: func(_ micro.Service, e *micro.NATSError) {
			s.Logger.Warn("a subscription of the api service has failed", "subject", e.Subject, "error", e.Description)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("start api service: %w", err)
	}
	for name, h := range s.direct {
		if s.ownerOnly(name) != owner {
			continue
		}
		err := svc.AddEndpoint(name, s.handler(name, h.serve), micro.WithEndpointSubject(s.Names.API(name)), micro.WithEndpointPendingLimits(MaxPendingRequests, MaxPendingBytes))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("start api service: endpoint %s: %w", name, err), svc.Stop())
		}
	}
	return svc, nil
}

func ownerOnly(endpoint string) bool {
	e, ok := wire.EndpointOf(endpoint)
	return ok && e.OwnerOnly()
}

// ownerOnly reports whether an endpoint is answered by the owner alone.
func (s *Service) ownerOnly(endpoint string) bool {
	return ownerOnly(endpoint) && (s.Mirror == nil || !s.Mirror(endpoint))
}

// forwarded answers a request that another node has forwarded. That one has
// authorised it, and counted it against its maker's quota.
func (s *Service) forwarded(m *nats.Msg) {
	name := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
	c := &call{s: s, data: m.Data, limit: s.Conn.MaxPayload(), endpoint: name, start: time.Now()}
	c.respond = func(data []byte, err *wire.Error) { c.publish(m.Reply, data, err) }
	h, ok := s.direct[name]
	if !ok || !ownerOnly(name) {
		c.send(nil, events.Refuse(events.CodeNotFound, "the owner has no endpoint %q: do all nodes run the same version?", events.Clip(name, 64)))
		return
	}
	if !s.begin() {
		c.send(nil, events.ErrShuttingDown)
		return
	}
	h.serve(c)
}

// forward has the owner answer a request of this process. It looks for the owner
// while there is none, or it is changing.
func (s *Service) forward(ctx context.Context, endpoint string, body []byte) ([]byte, error) {
	if err := s.chargeForward(ctx, endpoint, body); err != nil {
		return nil, err
	}
	e, _ := wire.EndpointOf(endpoint)
	begun, wait := time.Now(), minForward
	for {
		data, err := s.forwardOnce(ctx, endpoint, body)
		if err == nil {
			return data, nil
		}
		code := events.CodeOf(err)
		again := code == events.CodeNotOwner || code == events.CodeUnavailable || code == events.CodeTimeout && e.ReadOnly
		if !again || ctx.Err() != nil || time.Since(begun)+wait > forwardWithin {
			return nil, err
		}
		if sleep.For(ctx, wait) != nil {
			return nil, err
		}
		wait = min(2*wait, maxForward)
	}
}

func (s *Service) forwardOnce(ctx context.Context, endpoint string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, forwardTry)
	defer cancel()
	m, err := s.Conn.RequestWithContext(ctx, s.Names.Forward(endpoint), body)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return nil, events.Refuse(events.CodeUnavailable, "no node owns the log just now: ask again")
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return nil, events.Refuse(events.CodeTimeout, "the owner of the log did not answer in time: what was asked may have been done")
	case errors.Is(err, nats.ErrMaxPayload):
		return nil, events.Refuse(events.CodeTooLarge, "the request has %d bytes: the NATS server takes at most %d", len(body), s.Conn.MaxPayload())
	case err != nil:
		return nil, known(err)
	}
	if err := wire.Refusal(m.Data); err != nil {
		return nil, err
	}
	return m.Data, nil
}

// chargeForward counts submissions against the quota of who makes them.
func (s *Service) chargeForward(ctx context.Context, endpoint string, body []byte) error {
	id, ok := access.IdentityOf(ctx)
	if !ok || id == access.Anyone || endpoint != wire.APISubmit {
		return nil
	}
	n := 1
	if isArray(body) {
		var list []json.RawMessage
		if json.Unmarshal(body, &list) == nil {
			n = len(list)
		}
	}
	return s.Quotas.User(quota.HTTP, id.Name, id.Roles).Submit(n, int64(len(body)))
}

// standing describes a node that stands by.
type standing struct {
	owner  string
	cutOff error // why it knows no more of the log; nil: it follows it
}

// standsBy returns nil if this node is the owner, or no other can be.
func (e *engine) standsBy() *standing {
	st, on := e.Core.StandsBy()
	if !on {
		return nil
	}
	now := &standing{owner: st.Owner, cutOff: st.Fault}
	if silent := time.Since(st.Heard); silent > cutOffAfter && now.cutOff == nil {
		now.cutOff = fmt.Errorf("the leader of the log has not answered for %s", silent.Round(time.Second))
		if st.Heard.IsZero() {
			now.cutOff = errors.New("the leader of the log has not answered yet")
		}
	}
	return now
}

// errStale refuses a query to a node that is cut off.
func errStale(at events.Seq, why error) error {
	return events.Refuse(events.CodeUnavailable, "this node is cut off from the log (%v), and its configuration refuses reads then (stale_reads): ask another node; what it has is as of position %s", why, wire.PositionOf(at))
}
