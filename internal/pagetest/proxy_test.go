package pagetest

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/streamwright/streamwright/internal/need"
)

// wireTo is a way to an engine that can be cut, and mended, at the same address.
type wireTo struct {
	t      testing.TB
	target string
	addr   string

	mu    sync.Mutex
	l     net.Listener
	conns map[net.Conn]bool
	wg    sync.WaitGroup
}

// newWire opens a way to an address, and closes it when the test ends.
func newWire(t testing.TB, target string) *wireTo {
	t.Helper()
	w := &wireTo{t: t, target: target, addr: need.Address(t).String(), conns: map[net.Conn]bool{}}
	w.mend()
	t.Cleanup(func() {
		w.cut()
		w.wg.Wait()
	})
	return w
}

// mend takes connections again.
func (w *wireTo) mend() {
	w.t.Helper()
	l, err := net.Listen("tcp", w.addr)
	if err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.l = l
	w.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			w.wg.Go(func() { w.carry(c) })
		}
	})
}

// cut breaks all connections, and takes none.
func (w *wireTo) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.l != nil {
		w.l.Close()
	}
	w.l = nil
	for c := range w.conns {
		c.Close()
	}
	w.conns = map[net.Conn]bool{}
}

// carry copies both ways until either side closes.
func (w *wireTo) carry(c net.Conn) {
	far, err := net.Dial("tcp", w.target)
	if err != nil {
		c.Close()
		return
	}
	w.mu.Lock()
	open := w.l != nil
	if open {
		w.conns[c], w.conns[far] = true, true
	}
	w.mu.Unlock()
	done := func(a, b net.Conn) {
		if open {
			_, _ = io.Copy(a, b) // whichever way it ends, both are closed
		}
		a.Close()
		b.Close()
	}
	w.wg.Go(func() { done(far, c) })
	done(c, far)
}
