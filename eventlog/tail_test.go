package eventlog_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	. "github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/eventlog/logtest"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

func dialTail(t *testing.T, s *server.Server) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(s.ClientURL(), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// running is a tail under way.
type running struct {
	t     *testing.T
	got   chan string
	ended chan error
	read  chan struct{} // the server was asked, since the last event
	stop  context.CancelFunc
}

func startTail(t *testing.T, p *Pages, cfg TailConfig) *running {
	ctx, cancel := context.WithCancel(testContext(t))
	r := &running{t: t, got: make(chan string, 100), ended: make(chan error, 1), read: make(chan struct{}, 1), stop: cancel}
	reading := func(context.Context) (func(), error) {
		return func() {
			select {
			case r.read <- struct{}{}:
			default:
			}
		}, nil
	}
	go func() {
		r.ended <- p.Tail(ctx, cfg, reading, func(ev events.Event) error {
			select {
			case <-r.read:
			default:
			}
			r.got <- at(ev.Seq) + ":" + markOf(ev)
			return nil
		})
	}()
	return r
}

func (r *running) expect(want ...string) {
	r.t.Helper()
	for _, w := range want {
		select {
		case g := <-r.got:
			if g != w {
				r.t.Fatalf("got %s, want %s", g, w)
			}
		case err := <-r.ended:
			r.t.Fatalf("the tail has ended: %v", err)
		case <-time.After(testTimeout):
			r.t.Fatalf("no %s", w)
		}
	}
}

// end ends the tail in good order.
func (r *running) end() {
	r.t.Helper()
	r.stop()
	if err := <-r.ended; err != nil {
		r.t.Fatal(err)
	}
}

// Tails follow appends, filtered and not, over a broken connection.
func TestTailLive(t *testing.T) {
	for name, kinds := range map[string][]events.Kind{"all": nil, "filtered": {events.KindCreated, events.KindQueued}} {
		t.Run(name, func(t *testing.T) {
			f := onServer(t)
			nc := dialTail(t, f.s)
			p := NewPages(nc, wire.Default, atEnd(1), nil)
			l := f.open(t, nil)
			last := mustAppend(t, l, 0, decision(3, "old"))
			tail := startTail(t, p, TailConfig{FromSeq: events.SeqOf(1, 2), Kinds: kinds})
			tail.expect("1.2:old")
			last = mustAppend(t, l, last, decision(2, "new"))
			p.Grown()
			tail.expect("2.0:new", "2.1:new")
			<-tail.read // nothing is under way that would be lost
			connected := nc.StatusChanged(nats.CONNECTED)
			if err := nc.ForceReconnect(); err != nil {
				t.Fatal(err)
			}
			<-connected
			// A frame of which its writer does not know yet that it is stored.
			f.fault(l, logtest.Fault{Kind: logtest.FaultLate})
			if _, err := l.Append(testContext(t), last, write(decision(2, "late"))); !errors.Is(err, ErrAmbiguous) {
				t.Fatal(err)
			}
			p.Grown()
			f.land()
			p.Grown()
			tail.expect("3.0:late", "3.1:late")
			tail.end()
		})
	}
}

// A tail begins with what comes next, or with a time.
func TestTailBegins(t *testing.T) {
	f := onServer(t)
	l := f.open(t, nil)
	var last atomic.Uint64
	last.Store(appendEach(t, l, 0, "a", "b", "c"))
	p := NewPages(dialTail(t, f.s), wire.Default, func() events.Seq { return events.SeqOf(last.Load(), 0) }, nil)
	since := startTail(t, p, TailConfig{Since: storedAt(t, l, 2)})
	since.expect("2.0:b", "3.0:c")
	next := startTail(t, p, TailConfig{})
	<-next.read
	last.Store(appendEach(t, l, 3, "d"))
	p.Grown()
	since.expect("4.0:d")
	next.expect("4.0:d")
	since.end()
	next.end()
}

// A tail that begins while the server has no streams, as when it loads them anew,
// begins once it has.
func TestTailBeginsWhileTheServerReloads(t *testing.T) {
	for name, cfg := range map[string]TailConfig{"from a position": {FromSeq: 1}, "from a time": {Since: testTime}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := startServer(t, dir, nil)
			l := openLog(t, Config{Connect: dialURL(s.ClientURL())})
			last := mustAppend(t, l, 0, decision(2, "old"))
			if err := s.DisableJetStream(); err != nil {
				t.Fatal(err)
			}
			tried := make(chan struct{}, 1000)
			p := NewPages(dialTail(t, s), wire.Default, func() events.Seq { tried <- struct{}{}; return events.SeqOf(last, 1) }, nil)
			tail := startTail(t, p, cfg)
			for range 3 { // asked more than once a try; in any case it has been refused
				select {
				case <-tried:
				case err := <-tail.ended:
					t.Fatalf("the tail has ended: %v", err)
				}
			}
			if err := s.EnableJetStream(&server.JetStreamConfig{StoreDir: dir}); err != nil {
				t.Fatal(err)
			}
			tail.expect("1.0:old", "1.1:old")
			tail.end()
		})
	}
}

func TestTailErrors(t *testing.T) {
	f := onServer(t)
	nc := dialTail(t, f.s)
	none := func(events.Event) error { return nil }
	p := NewPages(nc, wire.Default, func() events.Seq { return 0 }, nil)
	if err := p.Tail(testContext(t), TailConfig{}, nil, none); err == nil {
		t.Fatal("a tail of a stream that does not exist")
	}
	l := f.open(t, nil)
	mustAppend(t, l, 0, decision(3, "a"))
	stop := errors.New("stop")
	if err := p.Tail(testContext(t), TailConfig{FromSeq: 1}, nil, func(events.Event) error { return stop }); err != stop {
		t.Fatal(err)
	}
	if err := p.Tail(testContext(t), TailConfig{FromSeq: events.SeqOf(99, 0)}, nil, none); !errors.Is(err, ErrBehind) {
		t.Fatalf("a tail from past the end: %v", err)
	}
	many := TailConfig{Types: make([]events.Type, 100), Kinds: make([]events.Kind, 100)}
	if err := p.Tail(testContext(t), many, nil, none); err == nil {
		t.Fatal("a tail with too many filters")
	}
	nc.Close()
	if err := p.Tail(testContext(t), TailConfig{FromSeq: 1}, nil, none); !errors.Is(err, nats.ErrConnectionClosed) {
		t.Fatalf("a tail over a closed connection: %v", err)
	}
}
