package pages_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/eventlog/logtest"
	. "github.com/streamwright/streamwright/eventlog/pages"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// running is a tail under way.
type running struct {
	t     *testing.T
	got   chan string
	ended chan error
	read  chan struct{} // the server was asked, since the last event
	stop  context.CancelFunc
}

func startTail(t *testing.T, p *Reader, cfg TailConfig) *running {
	ctx, cancel := context.WithCancel(logtest.Context(t))
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
			r.got <- at(ev.Seq) + ":" + logtest.MarkOf(ev)
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
		case <-time.After(logtest.Patience):
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
			l := newRig(t)
			nc := l.dial(t)
			p := NewReader(nc, wire.Default, atEnd(1), nil)
			last := l.add(t, 0, logtest.Decision(3, "old"))
			tail := startTail(t, p, TailConfig{FromSeq: events.SeqOf(1, 2), Kinds: kinds})
			tail.expect("1.2:old")
			l.add(t, last, logtest.Decision(2, "new"))
			p.Grown()
			tail.expect("2.0:new", "2.1:new")
			<-tail.read // nothing is under way that would be lost
			connected := nc.StatusChanged(nats.CONNECTED)
			if err := nc.ForceReconnect(); err != nil {
				t.Fatal(err)
			}
			<-connected
			// A frame of which its writer does not know yet that it is stored.
			late := message(t, logtest.Decision(2, "late"))
			p.Grown()
			l.inject(t, late.Header, late.Data)
			p.Grown()
			tail.expect("3.0:late", "3.1:late")
			tail.end()
		})
	}
}

// A tail begins with what comes next, or with a time.
func TestTailBegins(t *testing.T) {
	l := newRig(t)
	var last atomic.Uint64
	last.Store(l.addEach(t, 0, "a", "b", "c"))
	p := NewReader(l.dial(t), wire.Default, func() events.Seq { return events.SeqOf(last.Load(), 0) }, nil)
	since := startTail(t, p, TailConfig{Since: storedAt(t, l, 2)})
	since.expect("2.0:b", "3.0:c")
	next := startTail(t, p, TailConfig{})
	<-next.read
	last.Store(l.addEach(t, 3, "d"))
	p.Grown()
	since.expect("4.0:d")
	next.expect("4.0:d")
	since.end()
	next.end()
}

// A tail that begins while the server has no streams, as when it loads them anew,
// begins once it has.
func TestTailBeginsWhileTheServerReloads(t *testing.T) {
	for name, cfg := range map[string]TailConfig{"from a position": {FromSeq: 1}, "from a time": {Since: logtest.Time}} {
		t.Run(name, func(t *testing.T) {
			l := newRig(t)
			last := l.add(t, 0, logtest.Decision(2, "old"))
			if err := l.s.DisableJetStream(); err != nil {
				t.Fatal(err)
			}
			tried := make(chan struct{}, 1000)
			p := NewReader(l.dial(t), wire.Default, func() events.Seq { tried <- struct{}{}; return events.SeqOf(last, 1) }, nil)
			tail := startTail(t, p, cfg)
			for range 3 { // asked more than once a try; in any case it has been refused
				select {
				case <-tried:
				case err := <-tail.ended:
					t.Fatalf("the tail has ended: %v", err)
				}
			}
			if err := l.s.EnableJetStream(&server.JetStreamConfig{StoreDir: l.dir}); err != nil {
				t.Fatal(err)
			}
			tail.expect("1.0:old", "1.1:old")
			tail.end()
		})
	}
}

func TestTailErrors(t *testing.T) {
	l := newRig(t)
	nc := l.dial(t)
	none := func(events.Event) error { return nil }
	if err := NewReader(nc, wire.WithPrefix("none"), func() events.Seq { return 0 }, nil).Tail(logtest.Context(t), TailConfig{}, nil, none); err == nil {
		t.Fatal("a tail of a stream that does not exist")
	}
	p := NewReader(nc, wire.Default, func() events.Seq { return 0 }, nil)
	l.add(t, 0, logtest.Decision(3, "a"))
	stop := errors.New("stop")
	if err := p.Tail(logtest.Context(t), TailConfig{FromSeq: 1}, nil, func(events.Event) error { return stop }); err != stop {
		t.Fatal(err)
	}
	if err := p.Tail(logtest.Context(t), TailConfig{FromSeq: events.SeqOf(99, 0)}, nil, none); !errors.Is(err, eventlog.ErrBehind) {
		t.Fatalf("a tail from past the end: %v", err)
	}
	many := TailConfig{Types: make([]events.Type, 100), Kinds: make([]events.Kind, 100)}
	if err := p.Tail(logtest.Context(t), many, nil, none); err == nil {
		t.Fatal("a tail with too many filters")
	}
	nc.Close()
	if err := p.Tail(logtest.Context(t), TailConfig{FromSeq: 1}, nil, none); !errors.Is(err, nats.ErrConnectionClosed) {
		t.Fatalf("a tail over a closed connection: %v", err)
	}
}
