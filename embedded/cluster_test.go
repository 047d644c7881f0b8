package embedded

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/internal/need"
)

// clusterOptions returns the options of n nodes of one cluster.
func clusterOptions(t testing.TB, n int) []Options {
	t.Helper()
	peers := make([]string, n)
	for i := range peers {
		peers[i] = need.Address(t).String()
	}
	all := make([]Options, n)
	for i := range all {
		all[i] = Options{
			Dir: filepath.Join(t.TempDir(), "data"), NATSListen: "127.0.0.1:0", HTTP: config.Off, Durability: config.Interval,
			Cluster: config.Cluster{Name: "test", Node: fmt.Sprintf("n%d", i+1), Listen: peers[i], Peers: peers},
			Logger:  testLog(t),
		}
	}
	return all
}

func testLog(t testing.TB) *slog.Logger {
	if os.Getenv("CLUSTER_LOG") == "" {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(os.Stderr, nil))
}

// node is a node's server, without an engine.
type node struct {
	*Engine
	o Options
}

// startNodes starts the servers of some nodes at once, and returns when they have a
// quorum.
func startNodes(t testing.TB, all []Options) []*node {
	t.Helper()
	type started struct {
		i   int
		n   *node
		err error
	}
	done := make(chan started, len(all))
	for i, o := range all {
		go func() {
			n, err := startNode(context.Background(), o)
			done <- started{i, n, err}
		}()
	}
	nodes := make([]*node, len(all))
	for range all {
		s := <-done
		if s.err != nil {
			t.Fatalf("node %d: %v", s.i+1, s.err)
		}
		nodes[s.i] = s.n
		t.Cleanup(func() { s.n.stop(t) })
	}
	return nodes
}

func startNode(ctx context.Context, o Options) (*node, error) {
	e := newEngine(o)
	for _, step := range []func(context.Context) error{func(context.Context) error { return e.cfg.Validate() }, e.openDir, e.openServer} {
		if err := step(ctx); err != nil {
			_ = e.Stop(context.Background())
			return nil, err
		}
	}
	return &node{e, o}, nil
}

func (n *node) stop(t testing.TB) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := n.Stop(ctx); err != nil {
		t.Errorf("stop node %s: %v", n.o.Cluster.Node, err)
	}
}

func TestNodesFormACluster(t *testing.T) {
	start := time.Now()
	nodes := startNodes(t, clusterOptions(t, 3))
	t.Logf("formed in %s", time.Since(start))
	for _, n := range nodes {
		if got := n.srv.linked(); len(got) != 2 {
			t.Errorf("%s is linked to %q", n.o.Cluster.Node, got)
		}
	}
}
