package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
)

// A mirror of a namespace is started and asked with --namespace, and the hub's status lists it in
// that namespace alone.
func TestMirrorOfANamespace(t *testing.T) {
	need.Seconds(t)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	leaf, dir := need.Address(t).String(), t.TempDir()
	// With its folder there, the NATS server need not read its accounts again: see [need.NoReload].
	if err := os.MkdirAll(filepath.Join(dir, "namespaces", "acme"), 0o700); err != nil {
		t.Fatal(err)
	}
	hub, err := embedded.Start(ctx, embedded.Options{
		Dir: dir, NATSListen: "127.0.0.1:0", HTTP: config.Off, Durability: config.Interval,
		Config: config.Config{
			Namespaces: map[events.Namespace]config.Namespace{"acme": {}},
			Leaf:       config.Leaf{Listen: leaf, Sites: []config.LeafSite{{Name: "acme-1", Mirror: true, Namespace: "acme"}, {Name: "lab", Mirror: true}}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer hub.Stop(context.WithoutCancel(ctx))
	t.Setenv("NATS_URL", hub.URL())
	engine(t, "", "submit", "parcel", "--namespace", "acme", "--id", anID).wants(t, 0, anID)
	at := need.Address(t).String()
	out, said, code := &need.Log{}, &need.Log{}, make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"mirror", "--namespace", "acme", "--hub", leaf, "--name", "acme-1", "--dir", t.TempDir(), "--nats-listen", at, "--http", "127.0.0.1:0"}, nil, out, said)
	}()
	need.Eventually(t, "the mirror follows", func() bool { return strings.Contains(out.String(), "follows the hub;") })
	if !strings.Contains(out.String(), "/ns/acme/\n") {
		t.Errorf("it does not say where the page is: %s", out.String())
	}
	need.Eventually(t, "the hub's status lists it", func() bool {
		return strings.Contains(engine(t, "", "status", "--namespace", "acme").out, "mirror acme-1: connected, 0 behind")
	})
	if got := engine(t, "", "status"); strings.Contains(got.out, "acme-1") {
		t.Errorf("the status of default lists it: %s", got.out)
	}
	verified := engine(t, "", "verify", "--namespace", "acme", "--json")
	t.Setenv("NATS_URL", "nats://"+at)
	for _, args := range [][]string{{"show", anID}, {"list"}, {"why", anID}, {"history", anID}, {"state", "--at", "1s"}, {"types"}, {"status"}} {
		engine(t, "", append(args, "--namespace", "acme")...).wants(t, 0)
	}
	_, digest, _ := strings.Cut(verified.out, `"digest":"`)
	digest, _, _ = strings.Cut(digest, `"`)
	engine(t, "", "verify", "--namespace", "acme", "--json").wants(t, 0, digest)
	engine(t, "", "submit", "parcel", "--namespace", "acme").wants(t, 1, "forbidden", "ask the hub")
	engine(t, "", "list").wants(t, 1, "use --namespace acme")
	engine(t, "", "mirror", "--namespace", "Acme", "--hub", leaf, "--name", "acme-1").wants(t, 2, "Acme")
	interrupt()
	if got := <-code; got != 0 {
		t.Errorf("exit %d: %s", got, said.String())
	}
}
