package embedded

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/dispatcher/natsio"
	"github.com/streamwright/streamwright/internal/need"
)

// A new owner brings the streams in memory to its own server, whether the old server
// lives or not.
func TestVolatileStreamsFollowTheOwner(t *testing.T) {
	need.Seconds(t)
	nodes := startNodes(t, clusterOptions(t, 3))
	ctx := testContext(t)
	number := func() uint64 { return 0 }
	owner := func(n *node) (took time.Duration) {
		t.Helper()
		js, err := connect.JetStream(n.nc, n.names())
		if err != nil {
			t.Fatal(err)
		}
		top := natsio.NewTopology(natsio.Config{
			Conn: n.nc, JS: js, Names: n.names(), Logger: slog.New(slog.DiscardHandler), Replicas: 3, Several: true, Node: n.copies.node,
			IntakeMaxBytes: 1 << 20, MaxRunning: 100, Answered: number, Read: number, Epoch: number, DispatchLost: func() {}, AckLost: func() {},
		})
		began := time.Now()
		need.Eventually(t, "the streams are there", func() bool { // a takeover tries again, too
			one, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			return top.EnsureStreams(one) == nil
		})
		took = time.Since(began)
		for _, name := range []string{n.names().DispatchStream(), n.names().LeaseStream()} {
			if s := n.Cluster().stream(ctx, name); s.Leader != n.copies.node {
				t.Errorf("%s is at %q, want %s", name, s.Leader, n.copies.node)
			}
		}
		return took
	}
	t.Logf("made in %s", owner(nodes[0]))
	t.Logf("taken from a server that lives in %s", owner(nodes[1]))
	nodes[1].stop(t)
	need.Eventually(t, "a quorum without n2", func() bool { return nodes[2].served(ctx) })
	t.Logf("taken from a server that is gone in %s", owner(nodes[2]))
}
