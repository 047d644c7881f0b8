package pages_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/leaks"
	"github.com/streamwright/streamwright/wire"
)

func TestMain(m *testing.M) { leaks.Check(m) }

// testTimeout bounds every wait of the tests.
const testTimeout = 2 * time.Minute

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

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
	if r.JetStream, err = eventlog.Open(testContext(t), eventlog.Config{Connect: dial}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// inject stores a message that the log did not append.
func (r *rig) inject(t *testing.T, header nats.Header, data []byte) {
	t.Helper()
	if _, err := r.nc.RequestMsg(&nats.Msg{Subject: wire.Default.Frame(0), Header: header, Data: data}, testTimeout); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) trim(t *testing.T, first uint64) {
	t.Helper()
	resp, err := r.nc.Request("$JS.API.STREAM.PURGE.WORK_EVENTS_0", fmt.Appendf(nil, `{"seq":%d}`, first), testTimeout)
	if err != nil || !strings.Contains(string(resp.Data), `"success":true`) {
		t.Fatal(err, string(resp.Data))
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
	if _, err := r.Append(testContext(t), after, write(evs)); err != nil {
		t.Fatal(err)
	}
	return after + 1
}

func (r *rig) addEach(t testing.TB, after uint64, marks ...string) uint64 {
	t.Helper()
	for _, m := range marks {
		after = r.add(t, after, decision(1, m))
	}
	return after
}

// message is that of a frame that another has appended.
func message(t *testing.T, evs []events.Event) *nats.Msg {
	t.Helper()
	m, err := eventlog.NewMessage(wire.Default, 0, write(evs))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

var testTime = time.Date(2025, 3, 4, 5, 6, 7, 890123456, time.UTC)

func testID(n int) (id events.ID) {
	id[0], id[14], id[15] = 1, byte(n>>8), byte(n)
	return id
}

// decision is n events that belong together: created, and then queued.
func decision(n int, mark string) []events.Event {
	evs := make([]events.Event, n)
	for i := range evs {
		evs[i] = events.Event{Kind: events.KindQueued, ID: testID(i), Type: "email", At: testTime, Body: &events.Queued{Reason: mark, OrderAt: testTime}}
		if i == 0 {
			params, _ := json.Marshal(mark)
			evs[i].Kind, evs[i].Body = events.KindCreated, &events.Created{Params: params, Priority: 5, MaxAttempts: 3, Timeout: events.Millis(1000)}
		}
	}
	return evs
}

func owned(owner string) events.Event {
	return events.Event{Kind: events.KindOwned, At: testTime, Body: &events.Owned{Epoch: 1, Owner: owner, Barrier: true}}
}

// write makes the append of an owner in the first epoch.
func write(evs []events.Event) *eventlog.Write {
	return &eventlog.Write{Epoch: 1, Node: "me", Level: 1, Events: evs}
}

// markOf names an event for comparisons: what decision gave it.
func markOf(ev events.Event) string {
	switch b := ev.Body.(type) {
	case *events.Created:
		return strings.Trim(string(b.Params), `"`)
	case *events.Queued:
		return b.Reason
	case *events.Owned:
		return "owned:" + b.Owner
	}
	return ev.Kind.String()
}
