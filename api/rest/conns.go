package rest

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"

	"github.com/streamwright/streamwright/events"
)

// MaxConns bounds the connections that are open at once. More wait, unaccepted,
// until one is closed; idle ones are closed after two minutes.
const MaxConns = 4096

// bounded is a listener of at most so many open connections.
type bounded struct {
	net.Listener
	places chan struct{} // holds one for each open connection
	closed chan struct{}
	once   sync.Once
}

func newBounded(l net.Listener, n int) *bounded {
	return &bounded{Listener: l, places: make(chan struct{}, n), closed: make(chan struct{})}
}

// Accept implements net.Listener.
func (b *bounded) Accept() (net.Conn, error) {
	select {
	case b.places <- struct{}{}:
	case <-b.closed:
		return nil, net.ErrClosed
	}
	conn, err := b.Listener.Accept()
	if err != nil {
		<-b.places
		return nil, err
	}
	return &place{Conn: conn, leave: func() { <-b.places }}, nil
}

// Close implements net.Listener.
func (b *bounded) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.Listener.Close()
}

// place is a connection that gives its place back once.
type place struct {
	net.Conn
	once  sync.Once
	leave func()
}

// Close implements net.Conn.
func (p *place) Close() error {
	err := p.Conn.Close()
	p.once.Do(p.leave)
	return err
}

// serve opens the address and serves on at most so many connections at once, in TLS
// if certs is set. The channel gets nil, or what went wrong, once the server has
// ended.
func serve(srv *http.Server, addr string, conns int, certs *tls.Config, log *slog.Logger) (net.Addr, <-chan error, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, nil, events.WithCode(events.CodeCannotListen, fmt.Errorf("serve HTTP: cannot listen on %s: %w: stop what uses it, or choose another address (http), or off for none", addr, err))
	}
	at := l.Addr()
	l = newBounded(l, conns)
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
