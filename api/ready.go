package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
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
}

// Check is one thing that must hold for the engine to be ready.
type Check struct {
	Check string `json:"check"` // running, owner, projection, jetstream
	OK    bool   `json:"ok"`
	Why   string `json:"why,omitempty"` // it is not
}

// Ready says whether the engine can do work for others now: it is not stopping,
// owns the partition, its projection is near the log's end, and JetStream
// answers. A lack of room for new work is no reason not to be ready, since what
// was accepted goes on and queries are answered: that is /healthz's to tell.
func (s *Service) Ready(ctx context.Context) Readiness {
	s.mu.Lock()
	running := !s.closed && s.micro != nil
	s.mu.Unlock()
	applied := s.Queries.Applied() // first, for it goes on
	behind := lag(s.Core.Position(), applied)
	r := Readiness{Ready: true}
	check := func(name string, ok bool, why string) {
		c := Check{Check: name, OK: ok}
		if !ok {
			c.Why, r.Ready = why, false
		}
		r.Checks = append(r.Checks, c)
	}
	check("running", running, "the engine is starting or shutting down")
	check("owner", s.Metrics.owned.Load(), "another process owns the partition, or this one is recovering")
	check("projection", behind <= MaxReadyLag, fmt.Sprintf("queries are %d events behind the log", behind))
	err := s.jetStreamAnswers(ctx)
	check("jetstream", err == nil, fmt.Sprintf("JetStream does not answer: %v", err))
	return r
}

// jetStreamAnswers asks JetStream, unless it has just answered.
func (s *Service) jetStreamAnswers(ctx context.Context) error {
	s.asked.Lock()
	defer s.asked.Unlock()
	if !s.askedAt.IsZero() && time.Since(s.askedAt) < readyFor {
		return s.answer
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	_, err := s.js.AccountInfo(ctx)
	s.askedAt, s.answer = time.Now(), err
	return err
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
