package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/streamwright/streamwright/access/httpauth"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/events"
)

// profiler serves Go's profiles on an address of its own, which must be of this
// machine: a profile shows what the engine has in memory, and taking one costs
// it time.
type profiler struct {
	srv  *http.Server
	addr string
	done chan error
}

// The profiler's time limits; a CPU profile or a trace may take as long as asked
// for, so writing has none.
const (
	profilerHeaderTimeout = 10 * time.Second
	profilerIdleTimeout   = time.Minute
)

// startProfiler listens on addr. It refuses a request that auth takes to come
// from another site's page.
func startProfiler(addr string, auth *httpauth.Authenticator, log *slog.Logger) (*profiler, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, events.WithCode(events.CodeCannotListen, fmt.Errorf("serve profiles: cannot listen on %s: %w: stop what uses it, or choose another address (pprof), or off for none", addr, err))
	}
	if at, ok := l.Addr().(*net.TCPAddr); !ok || !at.IP.IsLoopback() {
		_ = l.Close()
		return nil, events.WithCode(events.CodeBadConfig, fmt.Errorf("serve profiles: %s is no address of this machine alone: use one such as 127.0.0.1:6060", addr))
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	p := &profiler{addr: l.Addr().String(), done: make(chan error, 1), srv: &http.Server{
		Handler: ownPages(auth, mux), ReadHeaderTimeout: profilerHeaderTimeout, IdleTimeout: profilerIdleTimeout, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}}
	go func() {
		err := p.srv.Serve(l)
		if errors.Is(err, http.ErrServerClosed) {
			err = nil
		} else {
			log.Error("the profiler has ended", "error", err)
		}
		p.done <- err
	}()
	return p, nil
}

// ownPages refuses what a browser may send for a page of somebody else.
func ownPages(auth *httpauth.Authenticator, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := errors.Join(auth.CheckHost(r), httpauth.CheckOrigin(r)); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// startPProf opens the profiler, if there is to be one.
func (e *Engine) startPProf(context.Context) (err error) {
	if e.cfg.Server.PProf == config.Off {
		return nil
	}
	e.profiler, err = startProfiler(e.cfg.Server.PProf, e.auth, e.log.With("part", "pprof"))
	return err
}

// stop ends the profiles that are being taken, so a stop need not wait for them.
func (p *profiler) stop() error {
	if p == nil {
		return nil
	}
	return errors.Join(p.srv.Close(), <-p.done)
}

// PProf returns the profiler's address, or "" if there is none.
func (e *Engine) PProf() string {
	if e.profiler == nil {
		return ""
	}
	return e.profiler.addr
}
