package rest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/access/httpauth"
	"github.com/streamwright/streamwright/access/quota"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Bounds of the server.
const (
	maxHeaderBytes    = 64 << 10
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 30 * time.Second
	idleTimeout       = 2 * time.Minute
)

// Caller answers the engine's requests, implemented by *api.Service.
type Caller interface {
	// Call makes a request of an endpoint, such as wire.APISubmit, with the JSON
	// that it has over NATS.
	Call(ctx context.Context, endpoint string, body []byte) ([]byte, error)
	// Document returns an item's params or result, byte for byte.
	Document(ctx context.Context, id string, result bool) ([]byte, error)
}

// Authenticator identifies who makes a request. An error with the code
// unauthenticated refuses it.
type Authenticator interface {
	Authenticate(*http.Request) (access.Identity, error)
	// Changed returns a context that ends once others may be known than now.
	Changed() context.Context
}

// Config configures a Server. Engine must be set.
type Config struct {
	Engine    Caller
	Events    Events        // nil: the engine has no feed of events
	Logs      Logs          // nil: the items' logs can't be followed
	Output    Output        // nil: the items' outputs can't be followed
	Documents Documents     // the object store; nil: none
	Auth      Authenticator // nil: everyone may do everything
	Quotas    *quota.Book   // what each may ask; nil: anything
	// Starting, if set, says why an engine that is not there yet can't answer; then what no
	// route is known for is refused with that, too.
	Starting func() error
	// Namespaces returns what answers a request for what is in a namespace, whose path is the
	// one in there, or why nothing does; nil: nothing is in a namespace.
	Namespaces func(*http.Request, events.Namespace) (http.Handler, error)
	// Only, if set, is the one namespace that there is: what it has is below /ns/NAME/, as in an
	// engine that has others too, and nothing is in the namespace default.
	Only    events.Namespace
	TLS     *tls.Config  // nil: plain HTTP
	Version string       // of the engine
	Logger  *slog.Logger // nil: none
}

// Server is the HTTP server. Mount and API are for before Listen; all else may
// be used by any goroutine.
type Server struct {
	cfg Config
	mux *http.ServeMux
	api huma.API
	srv *http.Server

	// stopping ends when Stop begins. It is the context of every request, but
	// for the ordinary operations, which may end in peace: see limit.
	stopping context.Context
	stop     context.CancelFunc
	streams  chan struct{} // holds one for each feed that is open
	bodies   chan struct{} // holds one for each large body in memory
	uploads  chan struct{} // holds one for each document that is being put
	misses   *misses

	readTime, writeTime, heartbeat time.Duration
	maxConns                       int

	handler atomic.Pointer[http.Handler] // of what has the port
	takes   map[string]takes             // by pattern; set by Handler
	doc     document
	addr    net.Addr
	done    <-chan error
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
	s := &Server{cfg: cfg, mux: http.NewServeMux(), streams: make(chan struct{}, MaxStreams), bodies: make(chan struct{}, MaxLargeBodies), uploads: make(chan struct{}, MaxUploads), misses: newMisses(),
		readTime: readTimeout, writeTime: WriteTime, heartbeat: Heartbeat, maxConns: MaxConns}
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.api = humago.New(s.mux, describe(cfg.Version))
	s.doc.OpenAPI = s.api.OpenAPI()
	s.api.UseMiddleware(s.authorize, s.limit)
	s.register()
	s.registerDocs()
	return s, nil
}

// open is the Authenticator of an engine without logins.
type open struct{}

func (open) Authenticate(*http.Request) (access.Identity, error) { return access.Anyone, nil }

func (open) Changed() context.Context { return context.Background() }

// register adds the operations of the API.
func (s *Server) register() {
	s.registerRoutes()
	s.registerComposed()
	s.registerLogs()
	s.registerOutput()
	s.mountDocuments()
	s.mountUploads()
	s.registerEvents()
	s.doc.describeSchemas()
}

// API is for operations that other packages add.
func (s *Server) API() huma.API { return s.api }

// Mount serves a pattern of http.ServeMux by h, for those with any of the roles
// needed; 0: for everyone, known or not. The context of its requests ends when
// Stop begins, so that what streams must watch it. A pattern with a method that
// is not a page gets into the OpenAPI document: see Describe.
func (s *Server) Mount(pattern string, needed access.Roles, h http.Handler) {
	s.doc.mounted(pattern, needed)
	if needed == 0 {
		s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := s.strict(r); err != nil {
				writeProblem(w, err)
				return
			}
			h.ServeHTTP(w, r)
		})
		return
	}
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		ctx, release, err := s.guarded(r.Context(), r, needed)
		if err != nil {
			writeProblem(w, err)
			return
		}
		defer release()
		h.ServeHTTP(w, r.WithContext(ctx))
	})
}

// Handler answers the requests, for tests that need no port. What a browser
// says comes from a page of another origin is refused if it changes something,
// and below /api/ and at /metrics also if it only reads: an engine that is open
// to all on this machine is not open to the pages that its users visit. The page
// itself and the documentation may be linked to from anywhere.
func (s *Server) Handler() http.Handler {
	s.takes = s.doc.takesOf()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.inNamespace(w, r) && !s.outside(w, r) {
			s.own(w, r)
		}
	})
}

// own answers what is in no other namespace.
func (s *Server) own(w http.ResponseWriter, r *http.Request) {
	r, forget := s.bound(w, r)
	defer forget()
	if !linkable(r) {
		if err := httpauth.CheckOrigin(r); err != nil {
			writeProblem(w, err)
			return
		}
	}
	s.route(w, r)
}

// Inside answers what is in a namespace, by way of another server's port. Its requests end with
// Stop, too.
func (s *Server) Inside() http.Handler {
	own := s.Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(s.stopping, cancel)()
		own.ServeHTTP(w, r.WithContext(ctx))
	})
}

// linkable reports whether a page of another origin may send a browser here.
func linkable(r *http.Request) bool {
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions
	return reads && !strings.HasPrefix(r.URL.Path, apiPath) && r.URL.Path != "/metrics"
}

// route answers what leads nowhere with a problem document; the rest is the
// mux's.
func (s *Server) route(w http.ResponseWriter, r *http.Request) {
	_, pattern := s.mux.Handler(r)
	if pattern == "" || strings.HasPrefix(r.URL.Path, apiPath) && !strings.Contains(pattern, apiPath) && !strings.HasPrefix(pattern, "CONNECT ") {
		if s.cfg.Starting != nil {
			writeProblem(w, s.cfg.Starting())
			return
		}
		s.leadsNowhere(w, r)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// lacks refuses what the server has no part for, at least not yet.
func (s *Server) lacks(what string) error {
	if s.cfg.Starting != nil {
		return s.cfg.Starting()
	}
	return events.Refuse(events.CodeUnavailable, "this server %s", what)
}

// apiPath is the prefix of the API's paths.
const apiPath = "/api/"

func (s *Server) leadsNowhere(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, method := range methods {
		other := &http.Request{Method: method, URL: r.URL, Host: r.Host}
		if _, pattern := s.mux.Handler(other); strings.HasPrefix(pattern, method+" ") && (strings.Contains(pattern, apiPath) || !strings.HasPrefix(r.URL.Path, apiPath)) {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		writeProblem(w, events.Refuse(events.CodeNotFound, "there is nothing at %s: see /docs for what there is", events.Clip(r.URL.Path, 200)))
		return
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	what := events.Clip(r.URL.Path, 200)
	if strings.HasPrefix(what, wire.TokensPath) {
		what = wire.TokensPath + "…" // a secret
	}
	p := problemOf(events.Refuse(events.CodeBadRequest, "%s takes %s, not %s: see /docs", what, strings.Join(allowed, ", "), events.Clip(r.Method, 20)))
	p.Status, p.Title = http.StatusMethodNotAllowed, http.StatusText(http.StatusMethodNotAllowed)
	p.write(w)
}

// Listen opens the address (host:port; port 0 for any free one) and serves
// until Stop.
func (s *Server) Listen(addr string) (err error) {
	own := s.Handler()
	s.handler.Store(&own)
	s.srv = &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			to := &reply{ResponseWriter: w, rc: http.NewResponseController(w), patience: s.writeTime}
			(*s.handler.Load()).ServeHTTP(to, r)
			to.renew() // for what is still in buffers
		}),
		ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: s.readTime, IdleTimeout: idleTimeout,
		BaseContext: func(net.Listener) context.Context { return s.stopping },
	}
	s.addr, s.done, err = serve(s.srv, addr, s.maxConns, s.cfg.TLS, s.cfg.Logger)
	if err != nil {
		s.srv = nil
	}
	return err
}

// Succeed takes over the port of a server that listens, with its connections. The old one is
// not to be used any more; what it has under way, it ends.
func (s *Server) Succeed(old *Server) {
	s.srv, s.addr, s.done = old.srv, old.addr, old.done
	stop := s.stop
	s.stop = func() { stop(); old.stop() } // the connections' contexts are the old one's
	own := s.Handler()
	old.handler.Store(&own)
}

// Addr returns the address that it listens on; empty before Listen.
func (s *Server) Addr() string {
	if s.addr == nil {
		return ""
	}
	return s.addr.String()
}

// Stop ends live feeds and long polls, waits for other requests until ctx ends, and
// closes. Call it once; without Listen it does nothing.
func (s *Server) Stop(ctx context.Context) error {
	s.stop()
	if s.srv == nil {
		return nil
	}
	err := s.srv.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("stop HTTP: %w", err), s.srv.Close())
	}
	return errors.Join(err, <-s.done)
}
