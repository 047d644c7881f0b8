package eventlog_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	. "github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/eventlog/logtest"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/leaks"
)

func TestMain(m *testing.M) { leaks.Check(m) }

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
	if !s.ReadyForConnections(logtest.Patience) {
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
	l, err := Open(logtest.Context(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func ownedBarrier(owner string) func() Write {
	return func() Write {
		return *logtest.Write([]events.Event{logtest.Owned(owner)})
	}
}

func marksOf(evs []events.Event) (out []string) {
	for _, ev := range evs {
		out = append(out, logtest.MarkOf(ev))
	}
	return out
}

// ignore is a reader's function that wants nothing.
func ignore(Frame) error { return nil }

// content is what a reader makes of a log.
type content struct {
	marks   []string
	frames  []uint64 // their sequences
	skipped int
}

func readAll(t testing.TB, l Log) content {
	t.Helper()
	ctx := logtest.Context(t)
	tip, err := l.Last(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var c content
	last := tip.First - 1
	err = l.Read(ctx, tip.First, tip.Seq, func(f Frame) error {
		if f.Seq != last+1+uint64(f.Skipped) {
			return fmt.Errorf("frame %d comes after %d, with %d messages skipped", f.Seq, last, f.Skipped)
		}
		last = f.Seq
		for i, ev := range f.Events {
			if ev.Seq != events.SeqOf(f.Seq, i) {
				return fmt.Errorf("event %d of frame %d has the position %d", i, f.Seq, ev.Seq)
			}
		}
		sum, err := l.Checksum(ctx, f.Seq)
		if err != nil || sum != f.Checksum {
			return fmt.Errorf("checksum of %d: %x, %v, want %x", f.Seq, sum, err, f.Checksum)
		}
		c.frames = append(c.frames, f.Seq)
		c.marks = append(c.marks, marksOf(f.Events)...)
		c.skipped += f.Skipped
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// mustAppend appends one frame, and returns its sequence.
func mustAppend(t testing.TB, l Log, after uint64, evs []events.Event) uint64 {
	t.Helper()
	done, err := l.Append(logtest.Context(t), after, logtest.Write(evs))
	if err != nil {
		t.Fatal(err)
	}
	if want := events.SeqOf(after+1, len(evs)-1); done.Last != want {
		t.Fatalf("appended through %d, want %d", done.Last, want)
	}
	if sum, err := l.Checksum(logtest.Context(t), after+1); err != nil || sum != done.Checksum || sum != events.Checksum(done.Lines) {
		t.Fatalf("checksum %x, %v; the append said %x", sum, err, done.Checksum)
	}
	return after + 1
}

// appendEach appends each mark as a frame of one event.
func appendEach(t testing.TB, l Log, after uint64, marks ...string) uint64 {
	t.Helper()
	for _, m := range marks {
		after = mustAppend(t, l, after, logtest.Decision(1, m))
	}
	return after
}

// settle takes the log over, and returns its last sequence.
func settle(t testing.TB, l Log) uint64 {
	t.Helper()
	last, err := Settle(logtest.Context(t), l, 0, ownedBarrier("me"), ignore)
	if err != nil {
		t.Fatal(err)
	}
	return last
}

// dial connects over a socket.
func dial(t *testing.T, s *server.Server) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(s.ClientURL(), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}
