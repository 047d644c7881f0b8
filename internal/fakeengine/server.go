// Package fakeengine answers the engine's requests from a map, behind a real
// NATS server: for tests of clients, which want an engine that loses replies,
// refuses and stumbles on command. It decides nothing; what a real engine does
// is tested with a real engine.
package fakeengine

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/wire"
)

// Server starts a NATS server with JetStream on a free port, until the test
// ends.
func Server(t testing.TB) *natsserver.Server {
	t.Helper()
	return ServerAt(t, t.TempDir(), natsserver.RANDOM_PORT)
}

// ServerAt starts a NATS server on the data in a folder and a port, until the test
// ends: for servers that are restarted.
func ServerAt(t testing.TB, dir string, port int) *natsserver.Server {
	t.Helper()
	s, err := natsserver.NewServer(&natsserver.Options{
		Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: dir,
		NoSigs: true, NoLog: true, MaxPayload: 1 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { stop(s) })
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the NATS server does not become ready")
	}
	return s
}

func stop(s *natsserver.Server) {
	s.Shutdown()
	s.WaitForShutdown()
}

// RestartServer stops the engine's NATS server and starts it again, on the
// same data and port.
func (e *Engine) RestartServer() {
	e.t.Helper()
	port := e.server.Addr().(*net.TCPAddr).Port
	dir := e.dir
	stop(e.server)
	e.server = ServerAt(e.t, dir, port)
}

// Dial connects to a server until the test ends.
func Dial(t testing.TB, url string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond), nats.ReconnectJitter(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// Respond answers every request with the same bytes.
func Respond(data []byte) nats.MsgHandler {
	return func(m *nats.Msg) { _ = m.Respond(data) }
}

// Accounts returns the part of a nats-server configuration that gives the engine and
// each of its users an account, as `engine permissions` prints it. Every user
// has its name as password.
func Accounts(engine string, users map[string]access.Roles) string {
	a := access.Accounts{
		Names: wire.Default, Engine: access.EngineGrant{Names: wire.Default, Partitions: 1, User: engine},
		Login: func(user string) string { return fmt.Sprintf("user: %q, password: %q", user, user) },
	}
	for _, name := range slices.Sorted(maps.Keys(users)) {
		a.Grants = append(a.Grants, access.Grant{Names: wire.Default, User: name, Roles: users[name]})
	}
	return a.Config()
}
