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
	*base
	guard *guard

	http *http.Server
	addr string
	done chan error
}

// The profiler's time limits; a CPU profile or a trace may take as long as asked
// for, so writing has none.
const (
	profilerHeaderTimeout = 10 * time.Second
	profilerIdleTimeout   = time.Minute
)

// start opens the profiler, if there is to be one. It refuses a request that the guard takes
// to come from another site's page.
func (p *profiler) start(context.Context) error {
	addr, log := p.cfg.Server.PProf, p.log.With("part", "pprof")
	if addr == config.Off {
		return nil
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return events.WithCode(events.CodeCannotListen, fmt.Errorf("serve profiles: cannot listen on %s: %w: stop what uses it, or choose another address (pprof), or off for none", addr, err))
	}
	if at, ok := l.Addr().(*net.TCPAddr); !ok || !at.IP.IsLoopback() {
		_ = l.Close()
		return events.WithCode(events.CodeBadConfig, fmt.Errorf("serve profiles: %s is no address of this machine alone: use one such as 127.0.0.1:6060", addr))
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	p.addr, p.done, p.http = l.Addr().String(), make(chan error, 1), &http.Server{
		Handler: ownPages(p.guard.auth, mux), ReadHeaderTimeout: profilerHeaderTimeout, IdleTimeout: profilerIdleTimeout, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	go func() {
		err := p.http.Serve(l)
		if errors.Is(err, http.ErrServerClosed) {
			err = nil
		} else {
			log.Error("the profiler has ended", "error", err)
		}
		p.done <- err
	}()
	return nil
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

// stop ends the profiles that are being taken, so a stop need not wait for them.
func (p *profiler) stop(context.Context) error {
	if p.http == nil {
		return nil
	}
	return errors.Join(p.http.Close(), <-p.done)
}
