// Package natscluster starts NATS servers for tests: clusters, and servers that are alone.
package natscluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/streamwright/streamwright/internal/need"
)

// Start returns three servers that hold JetStream together, and have a leader. They end
// with the test.
func Start(t testing.TB) []*server.Server {
	t.Helper()
	var servers []*server.Server
	var ports []int
	var routes []string
	for range 3 { // a server of a cluster must know its routes from the start
		addr := need.Address(t)
		ports, routes = append(ports, addr.Port), append(routes, "nats://"+addr.String())
	}
	for i, port := range ports {
		s, err := server.NewServer(&server.Options{
			ServerName: fmt.Sprintf("s%d", i), Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
			JetStream: true, StoreDir: t.TempDir(), MaxPayload: 8 << 20,
			Cluster: server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: port},
			Routes:  server.RoutesFromStr(strings.Join(routes, ",")),
		})
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
		servers = append(servers, s)
	}
	need.Eventually(t, "a JetStream leader of three", func() bool {
		return slices.ContainsFunc(servers, func(s *server.Server) bool {
			return s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == 3
		})
	})
	return servers
}

// Alone returns a server with JetStream that is in no cluster, on a port; 0 chooses a free
// one. It ends with the test.
func Alone(t testing.TB, port int) *server.Server {
	t.Helper()
	if port == 0 {
		port = server.RANDOM_PORT
	}
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: port, MaxPayload: 4 << 20, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the NATS server does not become ready")
	}
	return s
}
