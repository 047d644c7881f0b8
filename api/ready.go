package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

const (
	// readyTimeout bounds what /readyz waits for JetStream.
	readyTimeout = 2 * time.Second
	// readyFor is the time for which JetStream's answer, or the lack of one, stands: however
	// many ask, it is asked once in that time.
	readyFor = time.Second
	// MaxReadyLag bounds how many events the projection may be behind for the engine to
	// be ready: a second's worth or so. Being behind for longer makes queries
	// old; it does not stop work.
	MaxReadyLag = 10_000
)

// Readiness is the body of /readyz.
type Readiness struct {
	Ready  bool         `json:"ready"`
	Checks []ReadyCheck `json:"checks"`
	// Refused says why new work is refused for want of room, and Held why nothing
	// new is begun either. The engine is ready all the same.
	Refused string `json:"refused,omitempty"`
	Held    string `json:"held,omitempty"`
}

// ReadyCheck is one thing that must hold for the engine to be ready.
type ReadyCheck struct {
	Check string `json:"check"` // running, owner (of a standby: standby), projection, clock, jetstream
	OK    bool   `json:"ok"`
	Why   string `json:"why,omitempty"` // it is not
}

// Ready says whether the engine can do work for others now: it is not stopping,
// owns the log or follows it, its projection is near the log's end, the NATS server's
// clock is plausible, and JetStream answers. An engine without room for new work is
// still ready, since accepted work continues and queries are answered: /healthz reports
// the lack.
func (s *Service) Ready(ctx context.Context) Readiness {
	c := s.look()
	if c.connected {
		_, c.jetStream = s.askJetStream(ctx, false)
	}
	return c.readiness()
}

// readiness returns what /readyz says.
func (c condition) readiness() Readiness {
	r := Readiness{Ready: true}
	r.Refused, r.Held = c.full.texts()
	check := func(name string, ok bool, why string) {
		c := ReadyCheck{Check: name, OK: ok}
		if !ok {
			c.Why, r.Ready = why, false
		}
		r.Checks = append(r.Checks, c)
	}
	check("running", c.running, "the engine is starting or shutting down")
	if st := c.standby; st != nil {
		check("standby", st.cutOff == nil, fmt.Sprintf("cut off from the log: %v", st.cutOff))
	} else {
		why := "the engine is taking its log over"
		if c.apart != nil {
			why = fmt.Sprintf("cut off from most of the nodes: %v", c.apart)
		}
		check("owner", c.owned && c.apart == nil, why)
	}
	check("projection", c.lag <= MaxReadyLag, fmt.Sprintf("queries are %s behind the log", events.Count(int64(c.lag), "event")))
	check("clock", c.clock == nil, fmt.Sprintf("clock_implausible: %v", c.clock))
	silent := c.jetStream
	if !c.connected {
		silent = nats.ErrConnectionClosed
	}
	check("jetstream", silent == nil, fmt.Sprintf("JetStream does not answer: %v", silent))
	return r
}

// ReadyHandler answers /readyz: 200 if the engine is ready, else 503.
func (s *Service) ReadyHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r := s.Ready(req.Context())
		answer(w, r.Ready, r)
	})
}

// answer sends a JSON document, with 503 unless all is well.
func answer(w http.ResponseWriter, ok bool, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !ok {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(body) // who has gone needs no answer
}

const (
	// MaxLag is the number of events that the projection may be behind before the engine
	// counts as unhealthy.
	MaxLag = 100_000
)

// Health is the body of /healthz.
type Health struct {
	Status string `json:"status"` // ok, standby, mirror, starting, or what is wrong: nats_disconnected, not_owner, cut_off, disk_low, store_full, clock_implausible, behind
	// Starting says what an engine that starts does, or waits for.
	Starting string `json:"starting,omitempty"`
	// Warnings say what is at risk among several nodes, as `engine cluster` does, and which replicas
	// are damaged.
	Warnings []string `json:"warnings,omitempty"`
	// AtRisk are the warnings because of which no other node should be stopped now: all but
	// those of settings that differ, as they do while they are changed node by node.
	AtRisk []string `json:"at_risk,omitempty"`
	// NodesAt is when this node last asked all nodes how they are, which it does every ten seconds
	// for each namespace: Warnings and AtRisk are from then or later.
	NodesAt   time.Time     `json:"nodes_at,omitzero"`
	Now       time.Time     `json:"now"` // of this machine, as NodesAt
	Owner     string        `json:"owner"`
	Epoch     uint64        `json:"epoch"`
	Position  wire.Position `json:"position"`
	Projected wire.Position `json:"projected"`
	Lag       uint64        `json:"lag_events"`
	// Refused says why new work is refused for want of room, and Held why nothing
	// new is begun either.
	Refused string `json:"refused,omitempty"`
	Held    string `json:"held,omitempty"`
}

// Health returns the engine's health now.
func (s *Service) Health() Health {
	pos, applied := s.Core.Position(), s.Queries.Applied()
	h := Health{Owner: s.Info.Owner, Epoch: uint64(s.Core.Epoch()), Position: wire.PositionOf(pos), Projected: wire.PositionOf(applied), Lag: s.lag(), Now: time.Now().UTC()}
	c := s.look()
	h.Status = c.status()
	if c.standby != nil {
		h.Owner = c.standby.owner
		if h.Status == "ok" {
			h.Status = string(s.standbyRole())
		}
	}
	h.Refused, h.Held = c.full.texts()
	h.NodesAt = s.seen.looked()
	if c.nodes != nil {
		h.Warnings = c.nodes.Warnings
		h.AtRisk, _ = s.AtRisk()
		s.othersAtRisk(&h)
	} else {
		for _, d := range c.replicas.Damaged {
			h.Warnings = append(h.Warnings, damageText(c.me, d)+": "+d.Repair)
		}
	}
	return h
}

// AtRisk returns what is at risk among several nodes, and when this node looked.
func (s *Service) AtRisk() ([]string, time.Time) {
	at := s.seen.looked()
	if r := s.seen.now(); r != nil {
		return atRisk(r), at
	}
	return nil, at
}

// othersAtRisk adds that something is at risk in other namespaces: default tells of all. It names
// none of them, since anybody may ask.
func (s *Service) othersAtRisk(h *Health) {
	if s.Namespaces == nil {
		return
	}
	n, at := s.Namespaces.AtRisk(h.AtRisk, h.NodesAt)
	if h.NodesAt = at; n > 0 {
		text := fmt.Sprintf("%d of the other namespaces are at risk: engine cluster --namespace NAME says why", n)
		h.AtRisk, h.Warnings = append(h.AtRisk, text), append(slices.Clip(h.Warnings), text)
	}
}

// OK reports whether the engine is well.
func (h Health) OK() bool {
	return slices.Contains([]string{"ok", string(wire.RoleStandby), string(wire.RoleMirror)}, h.Status)
}

// texts says why new work is refused, and why nothing new is begun.
func (f *RoomAlarm) texts() (refused, held string) {
	if f == nil {
		return "", ""
	}
	refused = f.Why.Message
	if f.Hold {
		held = refused
	}
	return refused, held
}

// ServesHTTP tells where the engine's HTTP server listens, for the info reply.
func (s *Service) ServesHTTP(addr string) {
	s.mu.Lock()
	s.Info.HTTP = addr
	s.mu.Unlock()
}

// HealthHandler answers /healthz.
func (s *Service) HealthHandler() http.Handler { return http.HandlerFunc(s.healthz) }

func (s *Service) healthz(w http.ResponseWriter, _ *http.Request) {
	h := s.Health()
	answer(w, h.OK(), h)
}
