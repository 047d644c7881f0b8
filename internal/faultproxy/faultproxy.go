// Package faultproxy stands between the clients of a test and a NATS server, and
// does to chosen requests of theirs what trouble does: the reply is lost, or
// another one comes instead, or there is no engine. Everything else passes as it
// is, so that behind the proxy there is a real engine.
//
// It reads only what clients send. A request whose reply is to be lost goes on
// with a reply subject that nobody listens on. One that is to have another reply
// does not go on: in its place that reply is published where the client awaits it.
package faultproxy

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// patience is generous: it only ends a test that fails.
const patience = 2 * time.Minute

// Proxy is a proxy in front of one server, which may stop and start again.
type Proxy struct {
	URL string // for clients

	t      testing.TB
	target string
	ln     net.Listener
	wg     sync.WaitGroup

	mu       sync.Mutex // guards what follows
	conns    []net.Conn
	closed   bool
	away     bool
	faults   map[string][]Fault
	judges   map[string]func([]byte) Fault
	requests map[string][][]byte
	changed  chan struct{} // closed at each request
}

// Fault happens to one request. The zero Fault is none.
type Fault struct {
	lose    bool
	nobody  bool
	replies []string
}

var (
	// Lose has the engine do what it is asked, and loses the reply.
	Lose = Fault{lose: true}
	// Drop loses the request.
	Drop = Reply()
	// Nobody answers as a NATS server does where nobody listens.
	Nobody = Fault{nobody: true}
)

// Reply answers in the engine's place, which does not learn of the request.
func Reply(replies ...string) Fault { return Fault{replies: append([]string{}, replies...)} }

// Refuse refuses in the engine's place.
func Refuse(err *events.Error) Fault {
	data, _ := json.Marshal(wire.ErrorReply{Error: wire.FromError(err)}) // which has nothing but text and numbers
	return Reply(string(data))
}

// New starts a proxy in front of the server at a URL, until the test ends.
func New(t testing.TB, url string) *Proxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{
		URL: "nats://" + ln.Addr().String(), t: t, target: strings.TrimPrefix(url, "nats://"), ln: ln,
		faults: map[string][]Fault{}, judges: map[string]func([]byte) Fault{}, requests: map[string][][]byte{}, changed: make(chan struct{}),
	}
	p.wg.Go(func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(in) })
		}
	})
	t.Cleanup(p.close)
	return p
}

// Next has the coming requests of an endpoint suffer faults, one after the other.
func (p *Proxy) Next(endpoint string, faults ...Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults[endpoint] = append(p.faults[endpoint], faults...)
}

// Judge has a function decide what happens to the requests of an endpoint from now on, but
// for those that faults of Next befall. Each client's requests come to it one after the
// other; while it waits, so does all that the client sends. It must not change them.
func (p *Proxy) Judge(endpoint string, judge func(request []byte) Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.judges[endpoint] = judge
}

// Away has Nobody befall the requests of all endpoints, until Back.
func (p *Proxy) Away() { p.setAway(true) }

// Back ends what Away began.
func (p *Proxy) Back() { p.setAway(false) }

func (p *Proxy) setAway(away bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = away
}

// Requests returns the requests that an endpoint has had.
func (p *Proxy) Requests(endpoint string) [][]byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.requests[endpoint])
}

// Await waits until an endpoint has had so many requests.
func (p *Proxy) Await(endpoint string, n int) {
	p.t.Helper()
	for deadline := time.After(patience); ; {
		p.mu.Lock()
		had, changed := len(p.requests[endpoint]), p.changed
		p.mu.Unlock()
		if had >= n {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			p.t.Fatalf("%s was asked %d times, and not %d", endpoint, had, n)
		}
	}
}

// serve carries one connection until either end closes.
func (p *Proxy) serve(in net.Conn) {
	defer in.Close()
	out, err := net.Dial("tcp", p.target)
	if err != nil {
		return // the client tries again
	}
	defer out.Close()
	p.mu.Lock()
	p.conns = append(p.conns, in, out)
	closed := p.closed
	p.mu.Unlock()
	if closed {
		return
	}
	p.wg.Go(func() {
		_, _ = io.Copy(in, out)
		in.Close()
		out.Close()
	})
	p.forward(bufio.NewWriter(out), bufio.NewReaderSize(in, 1<<16))
}

// forward passes on what a client sends, or what is to be sent instead.
func (p *Proxy) forward(out *bufio.Writer, in *bufio.Reader) {
	for {
		line, err := in.ReadString('\n')
		var body []byte
		f := strings.Fields(line) // PUB subject [reply] size, HPUB subject [reply] headers size
		if err == nil && len(f) > 2 && strings.HasSuffix(f[0], "PUB") {
			size, _ := strconv.Atoi(f[len(f)-1])
			body = make([]byte, size+len("\r\n"))
			_, err = io.ReadFull(in, body)
		}
		if err != nil {
			return
		}
		_, _ = out.WriteString(p.fate(f, line, body)) // an error comes again with Flush
		if in.Buffered() == 0 && out.Flush() != nil {
			return
		}
	}
}

// fate returns what goes on of a protocol line and the message that it announces.
func (p *Proxy) fate(f []string, line string, body []byte) string {
	endpoint, isRequest := "", len(f) == 4 && f[0] == "PUB" || len(f) == 5 && f[0] == "HPUB"
	if isRequest {
		endpoint, isRequest = strings.CutPrefix(f[1], wire.Default.API(""))
	}
	if !isRequest {
		return line + string(body)
	}
	fault := p.asked(endpoint, f, body)
	switch {
	case fault.lose:
		f[2] = "faultproxy.lost"
		return strings.Join(f, " ") + "\r\n" + string(body)
	case fault.nobody:
		const status = "NATS/1.0 503\r\n\r\n"
		return fmt.Sprintf("HPUB %s %d %d\r\n%s\r\n", f[2], len(status), len(status), status)
	case fault.replies != nil:
		line = ""
		for _, reply := range fault.replies {
			line += fmt.Sprintf("PUB %s %d\r\n%s\r\n", f[2], len(reply), reply)
		}
		return line
	}
	return line + string(body)
}

// asked notes a request, and returns what is to happen to it.
func (p *Proxy) asked(endpoint string, f []string, body []byte) (fault Fault) {
	headers := 0
	if f[0] == "HPUB" {
		headers, _ = strconv.Atoi(f[3])
	}
	request := body[headers : len(body)-len("\r\n")]
	p.mu.Lock()
	p.requests[endpoint] = append(p.requests[endpoint], request)
	close(p.changed)
	p.changed = make(chan struct{})
	judge := p.judges[endpoint]
	switch q := p.faults[endpoint]; {
	case p.away:
		fault, judge = Nobody, nil
	case len(q) > 0:
		fault, p.faults[endpoint], judge = q[0], q[1:], nil
	}
	p.mu.Unlock()
	if judge != nil {
		return judge(request)
	}
	return fault
}

func (p *Proxy) close() {
	_ = p.ln.Close()
	p.mu.Lock()
	p.closed = true
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}
