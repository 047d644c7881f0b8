package rest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/events"
)

// Bounds of the server.
const (
	// MaxBodyBytes bounds the body of a request: what NATS would carry.
	MaxBodyBytes = 8 << 20

	maxHeaderBytes    = 64 << 10
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 30 * time.Second
	idleTimeout       = 2 * time.Minute
)

// Caller answers the engine's requests; *api.Service is it.
type Caller interface {
	// Call makes a request of an endpoint, such as wire.APISubmit, with the JSON
	// that it has over NATS.
	Call(ctx context.Context, endpoint string, body []byte) ([]byte, error)
}

// Authenticator tells who makes a request. An error with the code
// unauthenticated refuses it.
type Authenticator interface {
	Authenticate(*http.Request) (access.Identity, error)
}

// Config is what a Server is made of. Engine must be set.
type Config struct {
	Engine  Caller
	Auth    Authenticator // nil: everyone may do everything
	TLS     *tls.Config   // nil: plain HTTP
	Version string        // of the engine
	Logger  *slog.Logger  // nil: none
}

// Server is the HTTP server. Mount and API are for before Listen; all else may
// be used by any goroutine.
type Server struct {
	cfg Config
	mux *http.ServeMux
	api huma.API
	srv *http.Server

	ctx    context.Context // of every request; ends when Stop begins
	cancel context.CancelFunc
	addr   net.Addr
	done   chan error
}

// New makes a Server with the engine's API on it.
func New(cfg Config) (*Server, error) {
	if cfg.Engine == nil {
		return nil, errors.New("make HTTP server: Engine must be set")
	}
	if cfg.Auth == nil {
		cfg.Auth = open{}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{cfg: cfg, mux: http.NewServeMux(), done: make(chan error, 1)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	hc := huma.DefaultConfig("Streamwright", cfg.Version)
	hc.CreateHooks = nil // no $schema links in replies
	hc.DocsPath = ""
	s.api = humago.New(s.mux, hc)
	s.api.UseMiddleware(s.authorize)
	s.register()
	return s, nil
}

// open is the Authenticator where nobody has to say who he is.
type open struct{}

func (open) Authenticate(*http.Request) (access.Identity, error) { return access.Anyone, nil }

// register adds the operations of the API.
func (s *Server) register() {
	s.registerWork()
}

// API is for operations that other packages add.
func (s *Server) API() huma.API { return s.api }

// Mount serves a pattern of http.ServeMux by h, for those with any of the roles
// needed; 0: for everyone, known or not.
func (s *Server) Mount(pattern string, needed access.Roles, h http.Handler) {
	if needed == 0 {
		s.mux.Handle(pattern, h)
		return
	}
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		id, err := s.admit(r, needed)
		if err != nil {
			writeProblem(w, err)
			return
		}
		h.ServeHTTP(w, r.WithContext(withIdentity(r.Context(), id)))
	})
}

// Handler answers the requests, for tests that need no port.
func (s *Server) Handler() http.Handler {
	return http.MaxBytesHandler(s.mux, MaxBodyBytes)
}

// Listen opens the address (host:port; port 0 for any free one) and serves
// until Stop.
func (s *Server) Listen(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return events.WithCode(events.CodeCannotListen, fmt.Errorf("serve HTTP: cannot listen on %s: %w: stop what uses it, or choose another address (http), or off for none", addr, err))
	}
	s.addr = l.Addr()
	if s.cfg.TLS != nil {
		l = tls.NewListener(l, s.cfg.TLS)
	}
	s.srv = &http.Server{
		Handler: s.Handler(), ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeaderBytes, ErrorLog: slog.NewLogLogger(s.cfg.Logger.Handler(), slog.LevelWarn),
		BaseContext: func(net.Listener) context.Context { return s.ctx },
	}
	go func() {
		err := s.srv.Serve(l)
		if errors.Is(err, http.ErrServerClosed) {
			err = nil
		} else {
			s.cfg.Logger.Error("HTTP has ended", "error", err)
		}
		s.done <- err
	}()
	return nil
}

// Addr is where it listens; empty before Listen.
func (s *Server) Addr() string {
	if s.addr == nil {
		return ""
	}
	return s.addr.String()
}

// Stop ends live feeds and long polls, lets other requests end, until ctx ends,
// and closes. It is called once, and without Listen does nothing.
func (s *Server) Stop(ctx context.Context) error {
	defer s.cancel()
	if s.srv == nil {
		return nil
	}
	err := s.srv.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("stop HTTP: %w", err), s.srv.Close())
	}
	return errors.Join(err, <-s.done)
}
