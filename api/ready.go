package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
)

const (
	// readyTimeout bounds what /readyz waits for JetStream.
	readyTimeout = 2 * time.Second
	// readyFor is how long JetStream's answer, or the want of one, stands: however
	// many ask, it is asked once in that time.
	readyFor = time.Second
	// MaxReadyLag is how many events the projection may be behind for the engine to
	// be ready: a second's worth or so. Being behind for longer makes queries
	// old; it does not stop work.
	MaxReadyLag = 10_000
)

// Readiness is the body of /readyz.
type Readiness struct {
	Ready  bool    `json:"ready"`
	Checks []Check `json:"checks"`
	// Refused says why new work is refused for want of room, and Held why nothing
	// new is begun either. The engine is ready all the same.
	Refused string `json:"refused,omitempty"`
	Held    string `json:"held,omitempty"`
}

// Check is one thing that must hold for the engine to be ready.
type Check struct {
	Check string `json:"check"` // running, owner, projection, clock, jetstream
	OK    bool   `json:"ok"`
	Why   string `json:"why,omitempty"` // it is not
}

// Ready says whether the engine can do work for others now: it is not stopping,
// owns the partition, its projection is near the log's end, the NATS server's
// clock is plausible, and JetStream answers. A lack of room for new work is no reason not to be ready, since what
// was accepted goes on and queries are answered: that is /healthz's to tell.
func (s *Service) Ready(ctx context.Context) Readiness {
	c := s.look()
	if c.connected {
		_, c.jetStream = s.askJetStream(ctx, false)
	}
	return c.readiness()
}

// readiness is what /readyz says.
func (c condition) readiness() Readiness {
	r := Readiness{Ready: true}
	r.Refused, r.Held = c.full.texts()
	check := func(name string, ok bool, why string) {
		c := Check{Check: name, OK: ok}
		if !ok {
			c.Why, r.Ready = why, false
		}
		r.Checks = append(r.Checks, c)
	}
	check("running", c.running, "the engine is starting or shutting down")
	check("owner", c.owned, "another process owns the partition, or this one is recovering")
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
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		if !r.Ready {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		if err := json.NewEncoder(w).Encode(r); err != nil {
			s.Logger.Debug("a readiness reply could not be sent", "error", err)
		}
	})
}
