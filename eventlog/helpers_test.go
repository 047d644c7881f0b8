package eventlog

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/leaks"
)

func TestMain(m *testing.M) { leaks.Check(m) }

// testTimeout bounds every wait of the tests.
const testTimeout = 2 * time.Minute

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

// startServer runs a server on dir; it listens on a free port.
func startServer(t testing.TB, dir string, change func(*server.Options)) *server.Server {
	t.Helper()
	opts := &server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: dir, MaxPayload: 8 << 20,
	}
	if change != nil {
		change(opts)
	}
	s := launchServer(t, opts)
	if !s.ReadyForConnections(testTimeout) {
		t.Fatal("the server does not start")
	}
	return s
}

// launchServer does not wait for the server to be ready.
func launchServer(t testing.TB, opts *server.Options) *server.Server {
	t.Helper()
	s, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { stopServer(s) })
	return s
}

func stopServer(s *server.Server) {
	s.Shutdown()
	s.WaitForShutdown()
}

// inProcess dials without a socket.
func inProcess(s *server.Server) func() (*nats.Conn, error) {
	return dialURL("", nats.InProcessServer(s))
}

func dialURL(url string, more ...nats.Option) func() (*nats.Conn, error) {
	opts := append([]nats.Option{
		nats.ReconnectBufSize(-1), nats.MaxReconnects(2), nats.ReconnectWait(10 * time.Millisecond),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), // broken on purpose
	}, more...)
	return func() (*nats.Conn, error) { return nats.Connect(url, opts...) }
}

func openLog(t testing.TB, cfg Config) *JetStream {
	t.Helper()
	l, err := Open(testContext(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

var testTime = time.Date(2025, 3, 4, 5, 6, 7, 890123456, time.UTC)

func testID(n int) events.ID {
	var id events.ID
	id[0] = 1
	id[14], id[15] = byte(n>>8), byte(n)
	id[13] = byte(n >> 16)
	return id
}

// decision is n events that belong together: created, and then queued.
func decision(n int, mark string) []events.Event {
	evs := make([]events.Event, n)
	for i := range evs {
		evs[i] = events.Event{Kind: events.KindQueued, ID: testID(i), Type: "email", At: testTime, Body: &events.Queued{Reason: mark, OrderAt: testTime}}
		if i == 0 {
			params, _ := json.Marshal(map[string]string{"mark": mark})
			evs[i].Kind, evs[i].Body = events.KindCreated, &events.Created{Params: params, Priority: 5, MaxAttempts: 3, TimeoutMS: 1000}
		}
		if n > 1 {
			evs[i].Tx = events.Tx{N: i + 1, Of: n}
		}
	}
	return evs
}

func singles(n int, mark string) []events.Event {
	var evs []events.Event
	for range n {
		evs = append(evs, decision(1, mark)...)
	}
	return evs
}

func ownedBarrier(owner string) func(events.Seq) events.Event {
	return func(events.Seq) events.Event {
		return events.Event{Kind: events.KindOwned, At: testTime, Body: &events.Owned{Epoch: 1, Owner: owner, Barrier: true}}
	}
}

// mark names an event for comparisons: its kind and what decision gave it.
func markOf(ev events.Event) string {
	switch b := ev.Body.(type) {
	case *events.Created:
		var m struct{ Mark string }
		_ = json.Unmarshal(b.Params, &m)
		return m.Mark
	case *events.Queued:
		return b.Reason
	case *events.Owned:
		return "owned:" + b.Owner
	}
	return ev.Kind.String()
}

// content is what a reader makes of a log.
type content struct {
	marks   []string
	skipped int
	through events.Seq
}

func readAll(t testing.TB, l Log) content {
	t.Helper()
	ctx := testContext(t)
	tip, err := l.Last(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var c content
	last := tip.First - 1
	err = l.Read(ctx, tip.First, tip.Seq, func(g Group) error {
		for _, ev := range g.Events {
			if ev.Seq <= last {
				return fmt.Errorf("event %d comes after %d", ev.Seq, last)
			}
			last = ev.Seq
			c.marks = append(c.marks, markOf(ev))
		}
		if n := len(g.Events); n > 0 && g.Events[n-1].Seq != g.Through {
			return fmt.Errorf("the group ends with event %d, through is %d", g.Events[n-1].Seq, g.Through)
		}
		sum, err := l.Checksum(ctx, g.Through)
		if err != nil || sum != g.Checksum {
			return fmt.Errorf("checksum of %d: %x, %v, want %x", g.Through, sum, err, g.Checksum)
		}
		c.skipped += g.Skipped
		c.through = g.Through
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
