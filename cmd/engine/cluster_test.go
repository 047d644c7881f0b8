package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/embedded"
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
