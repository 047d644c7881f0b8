package rest

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/streamwright/streamwright/events"
)

// StandbyConfig is what a Standby is made of.
type StandbyConfig struct {
	TLS     *tls.Config // nil: none
	Handler http.Handler
	Logger  *slog.Logger
}

// Standby is the HTTP server of an engine that does not work yet.
type Standby struct {
	cfg  StandbyConfig
	srv  *http.Server
	done chan struct{}
}

// Bounds of a Standby's requests, which have no bodies to speak of.
const (
	standbyTimeout  = 5 * time.Second
	standbyMaxConns = 64
)

// NewStandby makes a server, which does nothing until Listen.
func NewStandby(cfg StandbyConfig) *Standby { return &Standby{cfg: cfg, done: make(chan struct{})} }

// Listen opens the address and serves until Close.
func (s *Standby) Listen(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return events.WithCode(events.CodeCannotListen, fmt.Errorf("serve HTTP: cannot listen on %s: %w: stop what uses it, or choose another address (http), or off for none", addr, err))
	}
	l = newBounded(l, standbyMaxConns)
	if s.cfg.TLS != nil {
		l = tls.NewListener(l, s.cfg.TLS)
	}
	s.srv = &http.Server{
		Handler: s.cfg.Handler, ReadHeaderTimeout: standbyTimeout, ReadTimeout: standbyTimeout, WriteTimeout: standbyTimeout, IdleTimeout: standbyTimeout,
		MaxHeaderBytes: maxHeaderBytes, ErrorLog: slog.NewLogLogger(s.cfg.Logger.Handler(), slog.LevelWarn),
	}
	s.srv.SetKeepAlivesEnabled(false) // the next answer may be another server's
	go func() {
		defer close(s.done)
		if err := s.srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.cfg.Logger.Error("HTTP has ended", "error", err)
		}
	}()
	return nil
}

// Close ends it, and the requests under way.
func (s *Standby) Close() {
	_ = s.srv.Close()
	<-s.done
}
