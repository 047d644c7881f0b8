package pages_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/eventlog/logtest"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/leaks"
	"github.com/streamwright/streamwright/wire"
)

func TestMain(m *testing.M) { leaks.Check(m) }

// rig is a log on a server's disk.
type rig struct {
	dir string // of the server
	s   *server.Server
	nc  *nats.Conn
	*eventlog.JetStream
}

func newRig(t testing.TB) *rig {
	t.Helper()
	dir := t.TempDir()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, JetStream: true, StoreDir: dir, MaxPayload: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	dial := func() (*nats.Conn, error) {
		return nats.Connect("", nats.InProcessServer(s), nats.ReconnectBufSize(-1))
	}
	r := &rig{dir: dir, s: s}
	if r.nc, err = dial(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.nc.Close)
	if r.JetStream, err = eventlog.Open(logtest.Context(t), eventlog.Config{Connect: dial}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// inject stores a message that the log did not append.
func (r *rig) inject(t *testing.T, header nats.Header, data []byte) {
	t.Helper()
	if _, err := r.nc.RequestMsg(&nats.Msg{Subject: wire.Default.Frame(0), Header: header, Data: data}, logtest.Patience); err != nil {
		t.Fatal(err)
	}
}

// dial connects as an API server does, over a socket.
func (r *rig) dial(t testing.TB) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(r.s.ClientURL(), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// add appends one frame, and returns its sequence.
func (r *rig) add(t testing.TB, after uint64, evs []events.Event) uint64 {
	t.Helper()
	if _, err := r.Append(logtest.Context(t), after, logtest.Write(evs)); err != nil {
		t.Fatal(err)
	}
	return after + 1
}

func (r *rig) addEach(t testing.TB, after uint64, marks ...string) uint64 {
	t.Helper()
	for _, m := range marks {
		after = r.add(t, after, logtest.Decision(1, m))
	}
	return after
}

// message is that of a frame that another has appended.
func message(t *testing.T, evs []events.Event) *nats.Msg {
	t.Helper()
	m, err := eventlog.NewMessage(wire.Default, 0, logtest.Write(evs))
	if err != nil {
		t.Fatal(err)
	}
	return m
}
