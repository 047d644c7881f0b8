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
	Status    string        `json:"status"` // ok, or what is wrong: not_owner, behind, disk_low, store_full
	Owner     string        `json:"owner"`
	Epoch     uint64        `json:"epoch"`
	Position  wire.Position `json:"position"`
	Projected wire.Position `json:"projected"`
	Lag       uint64        `json:"lag_events"`
}

// Health is the engine's health now.
func (s *Service) Health() Health {
	pos, applied := s.Core.Position(), s.Queries.Applied()
	h := Health{Status: "ok", Owner: s.Info.Owner, Epoch: uint64(s.Core.Epoch()), Position: wire.PositionOf(pos), Projected: wire.PositionOf(applied), Lag: lag(pos, applied)}
	full := s.Full()
	switch {
	case full != nil:
		h.Status = full.Status
	case !s.Metrics.owned.Load():
		h.Status = "not_owner"
	case h.Lag > MaxLag:
		h.Status = "behind"
	}
	return h
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
