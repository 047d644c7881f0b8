package clustertest

import (
	"fmt"
	"io"
	"net"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/streamwright/streamwright/internal/need"
)

// proxies is a network on the loopback: each place listens on ports of its own,
// and reaches each other place through a proxy, which can stop in either
// direction, as a broken link does, or be slow.
type proxies struct {
	t     *testing.T
	ports map[string]string    // place:port to the address
	links map[string]*listener // from>place:port

	mu      sync.Mutex // guards what follows
	changed *sync.Cond
	isCut   map[[2]string]bool
	isSlow  map[string]bool
	closed  bool
}

func newProxies(t *testing.T) *proxies {
	p := &proxies{t: t, ports: map[string]string{}, links: map[string]*listener{}, isCut: map[[2]string]bool{}, isSlow: map[string]bool{}}
	p.changed = sync.NewCond(&p.mu)
	t.Cleanup(func() {
		p.set(func() { p.closed = true })
		for _, l := range p.links {
			l.close()
		}
	})
	return p
}

func (p *proxies) set(fn func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fn()
	p.changed.Broadcast()
}

func (p *proxies) add(string) {}

func (p *proxies) local() bool { return true }

func (p *proxies) listen(place string, port int) string {
	key := fmt.Sprint(place, ":", port)
	if p.ports[key] == "" {
		p.ports[key] = need.Address(p.t).String()
	}
	return p.ports[key]
}

func (p *proxies) dial(from, to string, port int) string {
	if from == to {
		return p.listen(to, port)
	}
	key := fmt.Sprint(from, ">", to, ":", port)
	if p.links[key] == nil {
		p.links[key] = p.proxy(from, to, p.listen(to, port))
	}
	return p.links[key].Addr().String()
}

func (p *proxies) command(_, name string, args ...string) *exec.Cmd {
	return exec.Command(name, args...)
}

func (p *proxies) cut(from, to string) { p.set(func() { p.isCut[[2]string{from, to}] = true }) }
func (p *proxies) slow(place string)   { p.set(func() { p.isSlow[place] = true }) }
func (p *proxies) heal()               { p.set(func() { clear(p.isCut); clear(p.isSlow) }) }

// listener is one proxy with its connections.
type listener struct {
	net.Listener
	mu    sync.Mutex // guards conns
	conns map[net.Conn]bool
	wg    sync.WaitGroup
}

func (l *listener) close() {
	_ = l.Close()
	l.mu.Lock()
	for c := range l.conns {
		_ = c.Close()
	}
	l.conns = nil
	l.mu.Unlock()
	l.wg.Wait()
}

// keep remembers a connection; it reports false if the proxy is closed.
func (l *listener) keep(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns == nil {
		_ = c.Close()
		return false
	}
	l.conns[c] = true
	return true
}

func (p *proxies) proxy(from, to, addr string) *listener {
	p.t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		p.t.Fatal(err)
	}
	l := &listener{Listener: inner, conns: map[net.Conn]bool{}}
	l.wg.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			if l.keep(in) {
				l.wg.Go(func() { p.connect(l, from, to, addr, in) })
			}
		}
	})
	return l
}

// connect serves a connection. One that is made while a direction is cut waits:
// its packets arrive nowhere.
func (p *proxies) connect(l *listener, from, to, addr string, in net.Conn) {
	defer in.Close()
	if !p.pass(from, to) || !p.pass(to, from) {
		return
	}
	out, err := net.Dial("tcp", addr)
	if err != nil || !l.keep(out) {
		return
	}
	defer out.Close()
	ended := make(chan struct{}, 2)
	for _, way := range []struct {
		from, to string
		r, w     net.Conn
	}{{from, to, in, out}, {to, from, out, in}} {
		l.wg.Go(func() {
			p.copy(way.from, way.to, way.w, way.r)
			ended <- struct{}{}
		})
	}
	<-ended
}

// copy copies one direction until either end closes. What is under way when the
// direction is cut waits for its healing, as TCP would send it again.
func (p *proxies) copy(from, to string, w io.Writer, r io.Reader) {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if err != nil || !p.pass(from, to) {
			return
		}
		if _, err := w.Write(buf[:n]); err != nil {
			return
		}
	}
}

// pass waits while a direction is cut, and a moment if it is slow. It reports
// false when the test ends.
func (p *proxies) pass(from, to string) bool {
	p.mu.Lock()
	for p.isCut[[2]string{from, to}] && !p.closed {
		p.changed.Wait()
	}
	slow, closed := p.isSlow[from], p.closed
	p.mu.Unlock()
	if slow && !closed {
		time.Sleep(30 * time.Millisecond)
	}
	return !closed
}
