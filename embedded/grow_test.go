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

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/internal/logins"
	"github.com/streamwright/streamwright/internal/need"
)

// withUsers gives the nodes a secret, and users in accounts of their own.
func withUsers(t *testing.T, all []Options, names ...string) {
	t.Helper()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(strings.Repeat("0123", 8)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range all {
		all[i].Cluster.SecretFile = secret
		all[i].Config.NATS.Users = operators(names...)
	}
}

func operators(names ...string) (users []config.NATSUser) {
	for _, name := range names {
		users = append(users, config.NATSUser{Name: name, Password: testPassword, Roles: access.InDefault(access.All)})
	}
	return users
}

// startEngines starts the engines of some nodes at once.
func startEngines(t *testing.T, all ...Options) []*Engine {
	t.Helper()
	type started struct {
		i   int
		e   *Engine
		err error
	}
	done := make(chan started, len(all))
	for i, o := range all {
		go func() {
			e, err := Start(testContext(t), o)
			done <- started{i, e, err}
		}()
	}
	engines := make([]*Engine, len(all))
	for range all {
		s := <-done
		if s.err != nil {
			t.Fatalf("node %s: %v", all[s.i].Cluster.Node, s.err)
		}
		engines[s.i] = s.e
		t.Cleanup(func() { (&node{s.e, all[s.i]}).stop(t) })
	}
	return engines
}

// proven checks each node's own store, as a user in an account of its own asks for it.
func proven(t *testing.T, c *streamwright.Client, nodes ...string) {
	t.Helper()
	for _, name := range nodes {
		var p streamwright.Proof
		var err error
		need.Eventually(t, name+" answers", func() bool { // one that is busy may be late
			p, err = c.Engine().VerifyNode(testContext(t), name, nil)
			return !errors.Is(err, streamwright.ErrNotFound)
		})
		if err != nil || !p.Equal || p.Node != name {
			t.Errorf("verify --node %s: %+v, %v", name, p, err)
		}
	}
	if _, err := c.Engine().VerifyNode(testContext(t), "nobody", nil); !errors.Is(err, streamwright.ErrNotFound) {
		t.Errorf("verify a node that is not there: %v", err)
	}
}

// submits has a user submit to a node.
func submits(t *testing.T, e *Engine, user string) {
	t.Helper()
	c, _ := as(t, e, user)
	if _, err := c.Submit(testContext(t), streamwright.Item{Type: "email", Params: 1}); err != nil {
		t.Fatalf("%s submits at %s: %v", user, e.nodeName(), err)
	}
}

// Users are exchanged in a running cluster, node by node.
func TestUsersOfARunningCluster(t *testing.T) {
	logins.Open(t, "it has users of its own")
	need.Seconds(t)
	t.Parallel()
	all := clusterOptions(t, 3)
	withUsers(t, all, "ops", "old")
	engines := startEngines(t, all...)
	for _, e := range engines {
		submits(t, e, "old")
	}
	for i, e := range engines {
		c := all[i].Config
		c.NATS.Users = operators("ops", "new")
		if waiting, err := e.Reload(c); err != nil || len(waiting) > 0 {
			t.Fatalf("reload: %q, %v", waiting, err)
		}
		submits(t, e, "ops") // also while the nodes differ
	}
	for _, e := range engines {
		submits(t, e, "new")
		if nc, err := nats.Connect(e.URL(), nats.UserInfo("old", testPassword)); err == nil {
			nc.Close()
			t.Errorf("%s lets in a user that was removed", e.nodeName())
		}
	}
	c, _ := as(t, engines[1], "new")
	proven(t, c, "n1", "n2", "n3")
}

// A cluster of three nodes becomes one of five: each is started again with the five peers,
// one after the other, and then the new ones are started. Everything is there, and the loss
// of two nodes leaves a majority.
func TestClusterGrows(t *testing.T) {
	logins.Open(t, "it has users of its own")
	need.Seconds(t)
	t.Parallel()
	five := clusterOptions(t, 5)
	withUsers(t, five, "ops")
	three := slices.Clone(five[:3])
	for i := range three {
		three[i].Cluster.Peers = three[i].Cluster.Peers[:3]
	}
	engines := startEngines(t, three...)
	submits(t, engines[0], "ops")
	calm := func(n int) {
		t.Helper()
		need.Eventually(t, fmt.Sprintf("%d nodes are well", n), func() bool {
			ctx, cancel := context.WithTimeout(testContext(t), 5*time.Second)
			defer cancel()
			c, err := engines[0].Client(ctx)
			if err != nil {
				return false
			}
			defer c.Close()
			r, err := c.Engine().Nodes(ctx)
			return err == nil && len(r.Nodes) == n && r.Owner != "" && len(r.Warnings) == 0
		})
	}
	calm(3)
	for i := range engines {
		if err := engines[i].Stop(testContext(t)); err != nil {
			t.Fatal(err)
		}
		engines[i] = startEngines(t, five[i])[0]
		calm(3)
		submits(t, engines[i], "ops")
	}
	engines = append(engines, startEngines(t, five[3:]...)...)
	calm(5)
	for _, e := range engines {
		submits(t, e, "ops")
	}
	c, _ := as(t, engines[4], "ops")
	proven(t, c, "n1", "n2", "n3", "n4", "n5")
	nc, err := engines[3].srv.connectAs(engines[3].srv.system)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	nodes, err := metaNodes(testContext(t), nc)
	if err != nil || len(nodes) != 5 {
		t.Errorf("the cluster's metadata knows %+v, %v", nodes, err)
	}
	for _, e := range []*Engine{engines[3], engines[0]} {
		if err := e.Stop(testContext(t)); err != nil {
			t.Fatal(err)
		}
	}
	for _, e := range []*Engine{engines[1], engines[2], engines[4]} {
		submits(t, e, "ops")
	}
}
