package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/workers"
)

func addNamespace(t *testing.T, name string) {
	t.Helper()
	need.NoReload(t)
	engine(t, "", "namespace", "add", name).wants(t, 0)
}

func TestNamespace(t *testing.T) {
	r := start(t)
	t.Setenv("NATS_URL", r.engine.URL())
	addNamespace(t, "acme")
	engine(t, "", "submit", "email", "--namespace", "acme", "--id", anID).wants(t, 0, anID)
	engine(t, "", "show", anID).wants(t, 1, "not_found")
	for _, args := range [][]string{{"show", anID}, {"why", anID, "--json"}, {"types"}, {"list"}} {
		if got := engine(t, "", append(args, "--namespace", "acme")...).wants(t, 0); !strings.Contains(got.out, "email") && !strings.Contains(got.out, anID) {
			t.Errorf("%v printed %q", args, got.out)
		}
	}
	// What a command says to do next is about the same namespace.
	engine(t, "", "status", "--namespace", "acme").wants(t, 0, "engine work TYPE --namespace acme -- COMMAND")
	engine(t, "", "status", "--namespace", "none", "--request-timeout", "100ms").wants(t, 1, "work-none.api.*", "engine namespace list")

	t.Setenv("WORK_NAMESPACE", "acme")
	engine(t, "", "show", anID).wants(t, 0, "email")
	engine(t, "", "show", anID, "--namespace", "default").wants(t, 1, "not_found")
	engine(t, "", "version").wants(t, 0)
	t.Setenv("WORK_NAMESPACE", "Acme")
	engine(t, "", "show", anID).wants(t, 2, "invalid WORK_NAMESPACE")
}

// One worker works on a type in two namespaces, and its command knows in which.
func TestWorkInNamespaces(t *testing.T) {
	r := start(t)
	t.Setenv("NATS_URL", r.engine.URL())
	addNamespace(t, "acme")
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	out, said, code := &need.Log{}, &need.Log{}, make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"work", "where", "--namespace", "default,acme", "--concurrency", "2", "--", "sh", "-c", `echo "$WORK_NAMESPACE"`}, nil, out, said)
	}()
	for _, ns := range []string{"acme", "default"} {
		engine(t, "", "submit", "where", "--namespace", ns, "--wait").wants(t, 0, ns)
	}
	need.Eventually(t, "a line for each run", func() bool {
		return strings.Contains(out.String(), "acme  ") && strings.Contains(out.String(), "default  ")
	})
	interrupt()
	if got := <-code; got != 0 || !strings.Contains(said.String(), "in default, acme") {
		t.Errorf("exit %d: %s", got, said.String())
	}
}

// The same item may be in two namespaces.
func TestRunsOfTwoNamespaces(t *testing.T) {
	var out bytes.Buffer
	p := runPrinter{a: &app{}, several: true, ended: map[runKey]ranItem{}}
	p.a.Out = &out
	h := p.middleware(func(_ context.Context, it *workers.RawItem) (any, error) { return it.Namespace, nil })
	for _, ns := range []events.Namespace{"a", "b"} {
		if _, err := h(t.Context(), &workers.RawItem{ID: events.ID{1}, Namespace: ns, Attempt: 1}); err != nil {
			t.Fatal(err)
		}
	}
	for _, ns := range []events.Namespace{"b", "a"} {
		p.settled(workers.Settled{ID: events.ID{1}, Namespace: ns, Attempt: 1})
	}
	if got := lines(out.String()); len(got) != 2 || !strings.HasSuffix(got[0], `"b"`) || !strings.HasSuffix(got[1], `"a"`) {
		t.Errorf("printed %q", got)
	}
}
