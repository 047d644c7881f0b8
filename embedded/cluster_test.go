package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/blobs"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/kvstate"
)

// clusterOptions returns the options of n nodes of one cluster.
func clusterOptions(t testing.TB, n int) []Options {
	t.Helper()
	peers := make([]string, n)
	for i := range peers {
		peers[i] = need.Address(t).String()
	}
	secret := filepath.Join(t.TempDir(), "cluster.secret")
	if err := os.WriteFile(secret, []byte(strings.Repeat("0123", 8)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	all, log := make([]Options, n), need.Logger(t)
	for i := range all {
		all[i] = Options{
			Dir: filepath.Join(t.TempDir(), "data"), NATSListen: "127.0.0.1:0", HTTP: config.Off, Durability: config.Interval,
			Cluster: config.Cluster{Name: "test", Node: fmt.Sprintf("n%d", i+1), Listen: peers[i], Peers: peers},
			Logger:  log.With("node", fmt.Sprintf("n%d", i+1)),
		}
		if all[i] = secured(t, all[i]); len(all[i].Config.NATS.Users) > 0 {
			all[i].Cluster.SecretFile = secret
		}
	}
	return all
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
			n, err := startNode(testContext(t), o)
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
	err := e.cfg.Validate()
	if err == nil {
		err = e.life.start(ctx, slices.Insert(e.serverParts(), 0, e.parts()[0])...)
	}
	if err != nil {
		return nil, err
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
	for _, n := range nodes { // a leader needs but two of the three links
		need.Eventually(t, n.o.Cluster.Node+" is linked to both others", func() bool { return len(n.srv.linked()) == 2 })
	}
}

// startCluster starts three nodes, of which the first, n1, has an engine.
func startCluster(t testing.TB) (*Engine, []*node) {
	t.Helper()
	all := clusterOptions(t, 3)
	ctx := testContext(t)
	started := make(chan error, 1)
	var e *Engine
	go func() {
		var err error
		e, err = Start(ctx, all[0])
		started <- err
	}()
	others := startNodes(t, all[1:])
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { (&node{e, all[0]}).stop(t) })
	return e, others
}

// An engine on a cluster keeps what is primary on all nodes, and what is volatile in
// the memory of its own.
func TestStreamsOnACluster(t *testing.T) {
	t.Parallel()
	e, _ := startCluster(t)
	ctx := testContext(t)
	js, err := connect.JetStream(e.nc, e.names())
	if err != nil {
		t.Fatal(err)
	}
	c, err := e.Client(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Submit(ctx, streamwright.Item{Type: "email", DedupKey: "k", Params: []byte(`{}`)}); err != nil {
		t.Fatal(err)
	}
	n := e.names()
	for stream, want := range map[string]int{
		n.EventStream(0): 3, n.IntakeStream(): 3, n.LogStream(): 3, blobs.Stream(n): 3, "KV_" + n.Bucket("partitions"): 3, "KV_" + n.Bucket("dedup"): 3,
	} {
		var info *jetstream.StreamInfo
		need.Eventually(t, "stream "+stream, func() bool { // buckets are made when they are used
			ctx, cancel := context.WithTimeout(ctx, time.Second) // the server may drop the question while a leader is elected
			defer cancel()
			s, err := js.Stream(ctx, stream)
			if err == nil {
				info = s.CachedInfo()
			}
			return err == nil
		})
		if info.Config.Replicas != want {
			t.Errorf("%s has %d replicas, want %d", stream, info.Config.Replicas, want)
		}
	}
}

// A lease whose last renewal had no answer is its owner's all the same, to renew and to
// release. Replicated buckets have an error code of their own for what is out of date.
func TestLeaseOnACluster(t *testing.T) {
	e, _ := startCluster(t)
	ctx, owners := testContext(t), e.ledger.lease.owners
	const partition = 1 // nobody's
	me, you := kvstate.Owner{Owner: "me", Node: "A"}, kvstate.Owner{Owner: "you", Node: "B"}
	lease := func(o kvstate.Owner, rev uint64) uint64 {
		t.Helper()
		next, err := owners.Lease(ctx, partition, o, rev, "")
		if err != nil {
			t.Fatal(err)
		}
		return next
	}
	old := lease(me, 0)
	last := lease(me, lease(me, old))
	if again := lease(me, old); again == last {
		t.Error("a renewal has left the lease as it was")
	}
	var held *kvstate.HeldError
	if _, err := owners.Lease(ctx, partition, you, 0, ""); !errors.As(err, &held) || held.By.Owner != "me" {
		t.Errorf("the lease of another: %v", err)
	}
	if err := owners.Release(ctx, partition, me, old); err != nil {
		t.Fatal(err)
	}
	yours := lease(you, 0)
	if err := owners.Release(ctx, partition, me, old); err != nil {
		t.Fatal(err)
	}
	if renewed := lease(you, yours); renewed == yours {
		t.Error("a renewal has left the lease as it was")
	}
	if _, err := owners.Lease(ctx, partition, me, old, ""); !errors.As(err, &held) || held.By.Owner != "you" {
		t.Errorf("the lease of another: %v", err)
	}
}
