package eventlog

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
)

// proxy stands between a writer and the server, and does to the event
// messages of an append what a Fault says.
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
	Fault
	count int    // messages of the append
	rival func() // for FaultConflict
	seen  int
	held  bytes.Buffer
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
		p.mu.Lock()
		for c := range p.conns {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) url() string { return "nats://" + p.ln.Addr().String() }

func (p *proxy) arm(f Fault, count int, rival func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = &proxyFault{Fault: f, count: count, rival: rival}
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
		line, err := r.ReadBytes('\n')
		if err != nil {
			return false
		}
		msg := line
		event := false
		if bytes.HasPrefix(line, []byte("HPUB ")) || bytes.HasPrefix(line, []byte("PUB ")) {
			body := make([]byte, sizeOf(line)+2)
			if _, err := io.ReadFull(r, body); err != nil {
				return false
			}
			event = strings.HasPrefix(string(bytes.Fields(line)[1]), "work.event.")
			msg = append(line, body...)
		}
		c.p.mu.Lock()
		f := c.p.armed
		c.p.mu.Unlock()
		if !event || f == nil {
			if _, err := c.srv.Write(msg); err != nil {
				return false
			}
			continue
		}
		if done, keep := c.strike(f, msg); done {
			return keep
		}
	}
}

// strike does what the fault says with one event message. done: the
// connection of the client is at its end.
func (c *pipe) strike(f *proxyFault, msg []byte) (done, keep bool) {
	i := f.seen
	f.seen++
	last := f.seen == f.count
	if last {
		c.p.mu.Lock()
		c.p.armed = nil
		c.p.mu.Unlock()
	}
	switch f.Kind {
	case FaultConflict:
		if i == f.N {
			// What was sent before must be dealt with before the rival comes.
			c.mode(true, false)
			c.p.sync(c.srv, nil, c.pong)
			c.mode(false, false)
			f.rival()
		}
		_, _ = c.srv.Write(msg)
		return false, false
	case FaultLost:
		return last, false
	case FaultAckLost:
		c.mode(true, true)
		f.held.Write(msg)
		if last {
			c.p.sync(c.srv, f.held.Bytes(), c.pong)
		}
		return last, false
	}
	c.mode(true, true)
	if i < f.N {
		c.p.sync(c.srv, msg, c.pong)
	} else {
		f.held.Write(msg)
	}
	if last && f.Kind == FaultLate {
		c.p.mu.Lock()
		c.p.late = &lateMessages{srv: c.srv, data: f.held.Bytes(), pong: c.pong}
		c.p.mu.Unlock()
		return true, true
	}
	return last, false
}
