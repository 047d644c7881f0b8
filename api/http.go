package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/streamwright/streamwright/events"
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

// HTTP serves /healthz and /metrics.
type HTTP struct {
	srv  *http.Server
	addr net.Addr
	done chan error
}

// ListenHTTP opens the address (host:port; port 0 for any free one) and serves
// the engine's health and metrics there until Stop. Call it before Start, so
// that the info reply has the address.
func (s *Service) ListenHTTP(addr string) (*HTTP, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, events.WithCode(events.CodeCannotListen, fmt.Errorf("serve HTTP: cannot listen on %s: %w: stop what uses it, or choose another address (http), or off for none", addr, err))
	}
	h := &HTTP{addr: l.Addr(), done: make(chan error, 1)}
	s.mu.Lock()
	s.Info.HTTP = h.Addr()
	s.mu.Unlock()
	h.srv = &http.Server{
		Handler: s.Handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(s.Logger.Handler(), slog.LevelWarn),
	}
	go func() {
		err := h.srv.Serve(l)
		if errors.Is(err, http.ErrServerClosed) {
			err = nil
		} else {
			s.Logger.Error("HTTP has ended", "error", err)
		}
		h.done <- err
	}()
	return h, nil
}

// Addr is where it listens.
func (h *HTTP) Addr() string { return h.addr.String() }

// Stop lets requests end, until ctx ends, and closes. It is called once.
func (h *HTTP) Stop(ctx context.Context) error {
	err := h.srv.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("stop HTTP: %w", err), h.srv.Close())
	}
	return errors.Join(err, <-h.done)
}

// Handler answers the HTTP requests.
func (s *Service) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", s.healthz)
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.Metrics.registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: maxScrapes, Timeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(s.Logger.Handler(), slog.LevelWarn),
	}))
	return mux
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
