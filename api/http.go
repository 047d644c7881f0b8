package api

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/streamwright/streamwright/wire"
)

const (
	// MaxLag is how many events the projection may be behind before the engine
	// counts as unhealthy.
	MaxLag = 100_000
	// maxScrapes is how many scrapes run at once.
	maxScrapes = 4
)

// Health is the body of /healthz.
type Health struct {
	Status    string        `json:"status"` // ok, standby, or what is wrong: nats_disconnected, not_owner, disk_low, store_full, clock_implausible, behind
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

// Health is the engine's health now.
func (s *Service) Health() Health {
	pos, applied := s.Core.Position(), s.Queries.Applied()
	h := Health{Owner: s.Info.Owner, Epoch: uint64(s.Core.Epoch()), Position: wire.PositionOf(pos), Projected: wire.PositionOf(applied), Lag: lag(pos, applied)}
	c := s.look()
	h.Status = c.status()
	h.Refused, h.Held = c.full.texts()
	return h
}

// texts says why new work is refused, and why nothing new is begun.
func (f *Full) texts() (refused, held string) {
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

// MetricsHandler answers /metrics.
func (s *Service) MetricsHandler() http.Handler {
	return promhttp.HandlerFor(s.Metrics.registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: maxScrapes, Timeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(s.Logger.Handler(), slog.LevelWarn),
	})
}

func (s *Service) healthz(w http.ResponseWriter, _ *http.Request) {
	h := s.Health()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if h.Status != "ok" {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	if err := json.NewEncoder(w).Encode(h); err != nil {
		s.Logger.Debug("a health reply could not be sent", "error", err)
	}
}
