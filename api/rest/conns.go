package rest

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"golang.org/x/net/netutil"

	"github.com/streamwright/streamwright/events"
)

// MaxConns bounds the connections that are open at once. More wait, unaccepted,
// until one is closed; idle ones are closed after two minutes.
const MaxConns = 4096

// serve opens the address and serves on at most so many connections at once, in TLS
// if certs is set. The channel gets nil, or what went wrong, once the server has
// ended.
func serve(srv *http.Server, addr string, conns int, certs *tls.Config, log *slog.Logger) (net.Addr, <-chan error, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, nil, events.WithCode(events.CodeCannotListen, fmt.Errorf("serve HTTP: cannot listen on %s: %w: stop what uses it, or choose another address (http), or off for none", addr, err))
	}
	at := l.Addr()
	l = netutil.LimitListener(l, conns)
	if certs != nil {
		l = tls.NewListener(l, certs)
	}
	srv.MaxHeaderBytes, srv.ErrorLog = maxHeaderBytes, slog.NewLogLogger(log.Handler(), slog.LevelWarn)
	ended := make(chan error, 1)
	go func() {
		err := srv.Serve(l)
		if errors.Is(err, http.ErrServerClosed) {
			err = nil
		} else {
			log.Error("HTTP has ended", "error", err)
		}
		ended <- err
	}()
	return at, ended, nil
}
