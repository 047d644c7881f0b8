package eventlog_test

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/streamwright/streamwright/eventlog/logtest"
)

// proxy stands between a writer and the server, and does to a frame what a Fault
// says.
type proxy struct {
	t      testing.TB
	ln     net.Listener
	target string
	// drain returns once the stream has dealt with everything that the server
	// had read before.
	drain func()

	wg    sync.WaitGroup
	mu    sync.Mutex
	conns map[net.Conn]struct{}
	armed *proxyFault
	late  *lateMessages
}

type proxyFault struct {
	logtest.Fault
	before func() // for what is stored before the frame
}

type lateMessages struct {
	srv  net.Conn
	data []byte
	pong chan struct{}
}

func newProxy(t testing.TB, s *server.Server, drain func()) *proxy {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{t: t, ln: ln, target: s.Addr().String(), drain: drain, conns: map[net.Conn]struct{}{}}
	p.wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		p.cut()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) url() string { return "nats://" + p.ln.Addr().String() }

func (p *proxy) arm(f logtest.Fault, before func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = &proxyFault{f, before}
}

// disarm returns the fault that strikes a message, if any.
func (p *proxy) disarm(frame bool) *proxyFault {
	if !frame {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.armed
	p.armed = nil
	return f
}

// cut breaks all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

// land lets the late messages reach the server and the stream.
func (p *proxy) land() {
	p.mu.Lock()
	l := p.late
	p.late = nil
	p.mu.Unlock()
	if l == nil {
		return
	}
	p.sync(l.srv, l.data, l.pong)
	_ = l.srv.Close()
}

// sync sends data to the server and waits until the stream has dealt with it.
func (p *proxy) sync(srv net.Conn, data []byte, pong chan struct{}) {
	_, _ = srv.Write(append(data, "PING\r\n"...))
	<-pong
	p.drain()
}

func (p *proxy) track(c net.Conn) net.Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[c] = struct{}{}
	return c
}

// pipe is one proxied connection.
type pipe struct {
	p        *proxy
	cli, srv net.Conn
	pong     chan struct{}
	mu       sync.Mutex
	watching bool // pongs are for the proxy
	muted    bool // and nothing else gets through
}

func (p *proxy) serve(cli net.Conn) {
	srv, err := net.Dial("tcp", p.target)
	if err != nil {
		_ = cli.Close()
		return
	}
	c := &pipe{p: p, cli: p.track(cli), srv: p.track(srv), pong: make(chan struct{}, 16)}
	p.wg.Go(c.answers)
	if keep := c.requests(); !keep {
		_ = srv.Close()
	}
	_ = cli.Close()
}

// answers copies the server's side, less what the pipe's mode keeps.
func (c *pipe) answers() {
	r := bufio.NewReader(c.srv)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			close(c.pong)
			return
		}
		var body []byte
		if bytes.HasPrefix(line, []byte("MSG ")) || bytes.HasPrefix(line, []byte("HMSG ")) {
			body = make([]byte, sizeOf(line)+2)
			if _, err := io.ReadFull(r, body); err != nil {
				close(c.pong)
				return
			}
		}
		c.mu.Lock()
		watching, muted := c.watching, c.muted
		c.mu.Unlock()
		if watching && string(line) == "PONG\r\n" {
			c.pong <- struct{}{}
		} else if !muted {
			_, _ = c.cli.Write(append(line, body...))
		}
	}
}

func (c *pipe) mode(watching, muted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watching, c.muted = watching, muted
}

func sizeOf(line []byte) int {
	f := bytes.Fields(line)
	n, _ := strconv.Atoi(string(f[len(f)-1]))
	return n
}

// requests copies the client's side, under the armed fault. It reports whether
// the connection to the server is to be kept.
func (c *pipe) requests() (keep bool) {
	r := bufio.NewReader(c.cli)
	for {
		msg, err := r.ReadBytes('\n')
		if err != nil {
			return false
		}
		if bytes.HasPrefix(msg, []byte("HPUB ")) || bytes.HasPrefix(msg, []byte("PUB ")) {
			frame := strings.HasPrefix(string(bytes.Fields(msg)[1]), "work.frame.")
			body := make([]byte, sizeOf(msg)+2)
			if _, err := io.ReadFull(r, body); err != nil {
				return false
			}
			msg = append(msg, body...)
			if f := c.p.disarm(frame); f != nil {
				if done, keep := c.strike(f, msg); done {
					return keep
				}
				continue
			}
		}
		if _, err := c.srv.Write(msg); err != nil {
			return false
		}
	}
}

// strike does what the fault says with a frame. done: the connection of the
// client is at its end.
func (c *pipe) strike(f *proxyFault, msg []byte) (done, keep bool) {
	switch f.Kind {
	case logtest.FaultConflict, logtest.FaultForeign:
		f.before()
		_, err := c.srv.Write(msg)
		return err != nil, false
	case logtest.FaultAckLost:
		c.mode(true, true)
		c.p.sync(c.srv, msg, c.pong)
	case logtest.FaultLate:
		c.mode(true, true)
		c.p.mu.Lock()
		c.p.late = &lateMessages{srv: c.srv, data: msg, pong: c.pong}
		c.p.mu.Unlock()
		return true, true
	}
	return true, false // FaultLost: nothing of it
}
