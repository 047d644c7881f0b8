package streamwright_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
)

// addNamespace adds a namespace to an engine.
func addNamespace(t *testing.T, c *streamwright.Client, name string) {
	t.Helper()
	need.NoReload(t)
	if _, err := c.Namespaces().Set(testContext(t), name, streamwright.NamespaceChange{}); err != nil {
		t.Fatal(err)
	}
}

// Each client sees the items of its own namespace, and no others.
func TestNamespace(t *testing.T) {
	e := start(t)
	ctx := testContext(t)
	addNamespace(t, connect(t, e), "acme")
	var clients []*streamwright.Client
	for _, ns := range []streamwright.Namespace{streamwright.DefaultNamespace, "acme"} {
		c, err := streamwright.Connect(ctx, e.engine.URL(), streamwright.WithNamespace(string(ns)))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if c.Namespace() != ns {
			t.Errorf("the client of %s has the namespace %s", ns, c.Namespace())
		}
		clients = append(clients, c)
	}
	in, err := clients[0].In("acme")
	if err != nil || in.Namespace() != "acme" || in.Conn() != clients[0].Conn() {
		t.Fatalf("%+v, %v", in, err)
	}
	sub := submit(t, in)
	if _, err := clients[1].Get(ctx, sub.ID); err != nil {
		t.Error(err)
	}
	if in.Close(); clients[0].Conn().IsClosed() {
		t.Error("it closed the connection of the first client")
	}
	_, err = clients[0].In("Acme")
	wantCode(t, err, events.CodeBadConfig)
	for i, c := range clients {
		sub := submit(t, c)
		published, err := c.Publish(ctx, streamwright.Item{Type: "page"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.GetByIntake(ctx, published.IntakeSeq); err != nil {
			t.Error(err)
		}
		if it, err := c.Get(ctx, sub.ID); err != nil || it.ID != sub.ID {
			t.Errorf("%s: got %+v, %v", c.Namespace(), it, err)
		}
		_, err = clients[1-i].Get(ctx, sub.ID)
		wantCode(t, err, events.CodeNotFound)
	}
}

func TestNamesOfAClient(t *testing.T) {
	nc, err := nats.Connect(start(t).engine.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	prefix, acme := streamwright.WithPrefix("jobs"), streamwright.WithNamespace("acme")
	for want, opts := range map[string][]streamwright.Option{
		"work.api.*":      nil,
		"work-acme.api.*": {acme},
		"jobs-acme.api.*": {prefix, acme},
		"jobs.api.*":      {prefix, streamwright.WithNamespace("default")},
		"work-b.api.*":    {acme, streamwright.WithNamespace("b")},
	} {
		for range 2 {
			c, err := streamwright.New(nc, opts...)
			if err != nil {
				t.Fatal(err)
			}
			if got := c.Names().API("*"); got != want {
				t.Errorf("%s, want %s", got, want)
			}
			c.Close()
			if len(opts) == 2 && want == "jobs-acme.api.*" {
				opts[0], opts[1] = opts[1], opts[0] // in any order
			}
		}
	}
	for _, bad := range []string{"A", "a_b", "a.b"} {
		_, err := streamwright.New(nc, streamwright.WithNamespace(bad))
		wantCode(t, err, events.CodeBadConfig, bad)
		_, err = streamwright.Connect(testContext(t), nc.ConnectedUrl(), streamwright.WithNamespace(bad))
		wantCode(t, err, events.CodeBadConfig, bad)
	}
}

func TestNoSuchNamespace(t *testing.T) {
	e := start(t)
	c, err := streamwright.Connect(testContext(t), e.engine.URL(), streamwright.WithNamespace("nowhere"), streamwright.WithPatience(time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.Engine().Stats(testContext(t))
	wantCode(t, err, events.CodeUnavailable, "work-nowhere.api.*", "engine namespace list")
}
