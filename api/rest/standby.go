package rest

import (
	"crypto/tls"
	"log/slog"
	"net/http"
	"time"
)

// StandbyConfig configures a Standby.
type StandbyConfig struct {
	TLS     *tls.Config // nil: none
	Handler http.Handler
	Logger  *slog.Logger
}

// Standby is the HTTP server of an engine that does not work yet.
type Standby struct {
	cfg  StandbyConfig
	srv  *http.Server
	done <-chan error
}

// Bounds of a Standby's requests, which have no bodies to speak of.
const (
	standbyTimeout  = 5 * time.Second
	standbyMaxConns = 64
)

// NewStandby makes a server, which does nothing until Listen.
func NewStandby(cfg StandbyConfig) *Standby { return &Standby{cfg: cfg} }

// Listen opens the address and serves until Close.
func (s *Standby) Listen(addr string) error {
	s.srv = &http.Server{
		Handler: s.cfg.Handler, ReadHeaderTimeout: standbyTimeout, ReadTimeout: standbyTimeout, WriteTimeout: standbyTimeout, IdleTimeout: standbyTimeout,
	}
	s.srv.SetKeepAlivesEnabled(false) // the next answer may be another server's
	_, ended, err := serve(s.srv, addr, standbyMaxConns, s.cfg.TLS, s.cfg.Logger)
	s.done = ended
	return err
}

// Close ends it, and the requests under way.
func (s *Standby) Close() {
	_ = s.srv.Close()
	<-s.done
}
