package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

// An engine that is alone is a node too, and says nothing of others.
func TestClusterOfOne(t *testing.T) {
	e, err := embedded.Start(t.Context(), embedded.Options{Dir: t.TempDir(), NATSListen: "127.0.0.1:0", HTTP: config.Off})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Stop(t.Context()) }()
	engine(t, "", "cluster", "--server", e.URL()).wants(t, 0, "the log is owned by", "owner (epoch 1)")
	var doc wire.NodesReply
	if err := json.Unmarshal([]byte(engine(t, "", "cluster", "--json", "--server", e.URL()).wants(t, 0).out), &doc); err != nil {
		t.Fatal(err)
	}
	if len(doc.Nodes) != 1 || doc.Nodes[0].Node != doc.Owner || len(doc.Warnings)+len(doc.Streams) != 0 {
		t.Errorf("--json has %+v", doc)
	}
	if r := engine(t, "", "status", "--json", "--server", e.URL()).wants(t, 0); json.Valid([]byte(r.out)) == false {
		t.Errorf("status --json prints %q", r.out)
	}
}

// Three nodes that don't reach each other have no leader: each of them says so, and what to do.
func TestClusterWithoutALeader(t *testing.T) {
	peers := make([]string, 3)
	for i := range peers {
		peers[i] = need.Address(t).String()
	}
	ctx, cancel := context.WithCancel(t.Context())
	var nodes sync.WaitGroup
	defer nodes.Wait()
	defer cancel()
	for i := range peers {
		seen := slices.Clone(peers)
		for j := range seen {
			if j != i {
				seen[j] = need.Address(t).String() // nobody is there
			}
		}
		o := embedded.Options{
			Dir: t.TempDir(), NATSListen: need.Address(t).String(), HTTP: config.Off, Logger: slog.New(slog.DiscardHandler),
			Cluster: config.Cluster{Name: "test", Node: fmt.Sprintf("n%d", i+1), Listen: peers[i], Peers: seen},
		}
		nodes.Go(func() {
			if e, err := embedded.Start(ctx, o); err == nil {
				t.Errorf("node %s has a leader", o.Cluster.Node)
				_ = e.Stop(context.Background())
			}
		})
		var r ran
		need.Eventually(t, o.Cluster.Node+" answers", func() bool {
			r = engine(t, "", "cluster", "--server", "nats://"+o.NATSListen)
			return r.code == 0
		})
		r.wants(t, 0, "no node owns the log", o.Cluster.Node, "starting", "AT RISK: the cluster test has no leader: 0 of its 3 nodes are linked to "+o.Cluster.Node,
			"start the others, or see that they reach each other")
	}
}

func TestLastFailOver(t *testing.T) {
	now := time.Unix(1000, 0)
	for want, owner := range map[string]wire.Node{
		"": {},
		"last fail-over: n2 took over from n1, which fell silent, 20s ago":         {TookOverFrom: "n1", TookOverBecause: wire.TakeoverSilent},
		"last fail-over: n2 took over from n1, which handed the log over, 20s ago": {TookOverFrom: "n1", TookOverBecause: wire.TakeoverHandedOver},
	} {
		owner.Node, owner.Since = "n2", now.Add(-20*time.Second)
		r := wire.NodesReply{Owner: "n2", Nodes: []wire.Node{{Node: "n1", TookOverFrom: "n3"}, owner}}
		if got := lastFailOver(r, now); got != want {
			t.Errorf("it says %q, want %q", got, want)
		}
		r.Owner = ""
		if got := lastFailOver(r, now); got != "" {
			t.Errorf("without an owner it says %q", got)
		}
	}
}

// Why a log is where it is.
func TestWhyANodeOwnsANamespace(t *testing.T) {
	for want, n := range map[string]wire.NamespaceInfo{
		"no owner before it is known":                       {State: &wire.NamespaceState{Owner: "a"}},
		"the owner before it fell silent":                   {State: &wire.NamespaceState{Owner: "a", Because: wire.TakeoverSilent}},
		"an operator named it":                              {NamespaceInfo: events.NamespaceInfo{Node: "a"}, State: &wire.NamespaceState{Owner: "a", Because: wire.TakeoverMoved}},
		"the owner before it had more work; it should be b": {NamespaceInfo: events.NamespaceInfo{Node: "b"}, State: &wire.NamespaceState{Owner: "a", Because: wire.TakeoverBalanced}},
		"-; it should be b":                                 {NamespaceInfo: events.NamespaceInfo{Node: "b"}, State: &wire.NamespaceState{Owner: "a"}},
	} {
		if got := ownsBecause(n); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestClusterAll(t *testing.T) {
	need.NoReload(t)
	url := realEngine(t)
	engine(t, "", "namespace", "add", "acme", "--server", url).wants(t, 0)
	engine(t, "", "cluster", "--all", "--server", url).wants(t, 0, "NAMESPACE", "acme", "no owner before it is known")
	if r := engine(t, "", "cluster", "--server", url).wants(t, 0); strings.Contains(r.out, "acme") {
		t.Errorf("it is shown unasked:\n%s", r.out)
	}
}
