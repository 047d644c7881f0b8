package api

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

// host holds namespaces as a test says.
type host struct {
	mu     sync.Mutex
	states map[events.Namespace]wire.NamespaceState

	metrics []NamespaceMetrics
	atRisk  int
}

func (h *host) State(_ context.Context, name events.Namespace) (wire.NamespaceState, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s, ok := h.states[name]; ok {
		return s, nil
	}
	return wire.NamespaceState{}, errors.New("it does not answer")
}

func (h *host) Metrics() []NamespaceMetrics { return h.metrics }

func (h *host) AtRisk(_ []string, at time.Time) (int, time.Time) {
	return h.atRisk, at.Add(-time.Second)
}

// What is at risk in another namespace is the health's, too, without its name.
func TestOtherNamespacesAtRisk(t *testing.T) {
	at := time.Now()
	s := &Service{engine: &engine{Config: Config{Namespaces: &host{atRisk: 2}}}}
	h := Health{NodesAt: at, Warnings: []string{"one"}, AtRisk: []string{"one"}}
	s.othersAtRisk(&h)
	if len(h.AtRisk) != 2 || len(h.Warnings) != 2 || !strings.Contains(h.AtRisk[1], "2 of the other namespaces") || !h.NodesAt.Before(at) {
		t.Errorf("%+v", h)
	}
	s.Namespaces = &host{}
	h = Health{NodesAt: at}
	if s.othersAtRisk(&h); len(h.AtRisk) != 0 {
		t.Errorf("%+v", h)
	}
}

func (h *host) set(name events.Namespace, state string, items map[string]int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.states[name] = wire.NamespaceState{State: state, Owner: "node-1", States: maps.Clone(items), LogBytes: 4096}
}

func newHost(t *testing.T) (*rig, *host) {
	h := &host{states: map[events.Namespace]wire.NamespaceState{}}
	return newRig(t, func(c *Config) { c.Namespaces = h }), h
}

func TestNamespaces(t *testing.T) {
	r, h := newHost(t)
	if got := ask[wire.NamespacesReply](r, wire.APINamespaces, struct{}{}); got.Namespaces == nil || len(got.Namespaces) != 0 {
		t.Fatalf("%+v", got)
	}
	h.set("acme", wire.NamespaceRunning, map[string]int64{"queued": 2, "completed": 3})
	set := ask[wire.NamespaceReply](r, wire.APINamespaceSet, map[string]any{"name": "acme", "limits": map[string]any{"max_queued": 7}})
	n := set.Namespace
	if n == nil || n.Name != "acme" || n.Limits.MaxQueued != 7 || n.Source != "api" || n.CreatedAt.IsZero() || n.State.State != "running" || n.State.Items() != 5 || n.State.Live() != 2 || set.Repeat || set.Position == "" {
		t.Fatalf("%+v %+v", set, n)
	}
	if again := ask[wire.NamespaceReply](r, wire.APINamespaceSet, map[string]any{"name": "acme"}); !again.Repeat || again.Namespace.Limits.MaxQueued != 7 {
		t.Errorf("%+v", again)
	}
	if paused := ask[wire.NamespaceReply](r, wire.APINamespaceChange, map[string]any{"name": "acme", "paused": true, "limits": map[string]any{"requests_per_second": 3}}); !paused.Namespace.Paused || paused.Namespace.Limits != (events.NamespaceLimits{MaxQueued: 7, RequestsPerSecond: 3}) {
		t.Errorf("%+v", paused.Namespace)
	}
	set = ask[wire.NamespaceReply](r, wire.APINamespaceSet, map[string]any{"name": "aaa"})
	if got := ask[wire.NamespacesReply](r, wire.APINamespaces, wire.StatsRequest{MinPosition: set.Position}); len(got.Namespaces) != 2 || got.Namespaces[0].Name != "aaa" ||
		got.Namespaces[0].State.State != wire.NamespaceUnknown || got.Namespaces[0].State.Error != "it does not answer" || !got.Namespaces[1].Paused {
		t.Errorf("%+v", got)
	}
	if one := ask[wire.NamespaceInfo](r, wire.APINamespace, wire.NamespaceGet{Name: "acme"}); !one.Paused || one.State.Owner != "node-1" || one.State.LogBytes != 4096 {
		t.Errorf("%+v", one)
	}
}

// What a namespace holds is destroyed only if nothing in it is live, or somebody insists.
func TestRemoveNamespace(t *testing.T) {
	r, h := newHost(t)
	remove := func(body map[string]any) (wire.NamespaceRemoval, error) {
		body["name"] = "acme"
		return try[wire.NamespaceRemoval](r, wire.APINamespaceRemove, body)
	}
	refused := func(code events.Code, says string, body map[string]any) {
		t.Helper()
		if _, err := remove(body); events.CodeOf(err) != code || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: %v, want %s with %q", body, err, code, says)
		}
	}
	refused(events.CodeNotFound, "acme", map[string]any{})
	ask[wire.NamespaceReply](r, wire.APINamespaceSet, map[string]any{"name": "acme"})
	refused(events.CodeWrongState, "is unknown", map[string]any{})
	h.set("acme", wire.NamespaceStarting, nil)
	refused(events.CodeWrongState, "is starting", map[string]any{})
	h.set("acme", wire.NamespaceRunning, map[string]int64{"queued": 1, "waiting": 2, "running": 3, "completed": 4})
	refused(events.CodeWrongState, "6 items not ended", map[string]any{})
	would, err := remove(map[string]any{"dry_run": true, "force": true})
	if err != nil || would.Removed || would.Namespace.State.States["waiting"] != 2 || would.Namespace.State.LogBytes != 4096 {
		t.Fatalf("%+v, %v", would, err)
	}
	did, err := remove(map[string]any{"force": true, "by": "ops"})
	if err != nil || !did.Removed || did.Namespace.Name != "acme" || did.Position == "" {
		t.Fatalf("%+v, %v", did, err)
	}
	forget := func() {
		t.Helper()
		is := ask[wire.NamespaceInfo](r, wire.APINamespace, wire.NamespaceGet{Name: "acme", MinPosition: did.Position})
		if !is.Removing || is.RemovedBy != "ops" {
			t.Fatalf("while it is removed: %+v", is)
		}
		o, err := r.svc.one(r.ctx(), core.ForgetNamespace{Name: "acme", CreatedAt: is.CreatedAt})
		if err != nil {
			t.Fatal(err)
		}
		did.Position = wire.PositionOf(o.Position)
	}
	if _, err := try[wire.NamespaceReply](r, wire.APINamespaceSet, map[string]any{"name": "acme", "node": "n"}); events.CodeOf(err) != events.CodeWrongState {
		t.Errorf("changed while it is removed: %v", err)
	}
	forget()
	if _, err := try[wire.NamespaceInfo](r, wire.APINamespace, wire.NamespaceGet{Name: "acme", MinPosition: did.Position}); events.CodeOf(err) != events.CodeNotFound {
		t.Errorf("it is there after its removal: %v", err)
	}
	refused(events.CodeNotFound, "acme", map[string]any{"force": true})
	ask[wire.NamespaceReply](r, wire.APINamespaceSet, map[string]any{"name": "acme"})
	h.set("acme", wire.NamespaceRunning, map[string]int64{"completed": 4})
	if did, err = remove(map[string]any{"by": "ops"}); err != nil || !did.Removed {
		t.Fatalf("%+v, %v", did, err)
	}
	forget()
	if _, err := r.svc.one(r.ctx(), core.SetNamespace{Name: "acme", Source: events.SourceFile}); err != nil {
		t.Fatal(err)
	}
	refused(events.CodeSetInFile, "engine.toml", map[string]any{"force": true})
	refused(events.CodeSetInFile, "engine.toml", map[string]any{"dry_run": true})
}

func TestRefusedNamespaces(t *testing.T) {
	r := newRig(t, nil)
	for name, c := range map[string]struct {
		endpoint string
		body     any
		code     events.Code
		says     string
	}{
		"default":        {wire.APINamespaceSet, map[string]any{"name": "default"}, events.CodeBadRequest, "always there"},
		"show default":   {wire.APINamespace, map[string]any{"name": "default"}, events.CodeBadRequest, "always there"},
		"remove default": {wire.APINamespaceRemove, map[string]any{"name": "default", "force": true}, events.CodeBadRequest, "always there"},
		"no name":        {wire.APINamespaceSet, map[string]any{}, events.CodeBadRequest, "is no namespace"},
		"pause nobody":   {wire.APINamespaceChange, map[string]any{"name": "acme", "paused": true}, events.CodeNotFound, "acme"},
		"max_queued":     {wire.APINamespaceSet, map[string]any{"name": "acme", "limits": map[string]any{"max_queued": -1}}, events.CodeBadRequest, "max_queued is -1: it must be 1 to"},
		"unknown field":  {wire.APINamespaceSet, map[string]any{"name": "acme", "wait": 1}, events.CodeBadRequest, "wait"},
		"unknown limit":  {wire.APINamespaceSet, map[string]any{"name": "acme", "limits": map[string]any{"max_logs": 1}}, events.CodeBadRequest, "max_logs"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := try[map[string]any](r, c.endpoint, c.body); events.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %s with %q", err, c.code, c.says)
			}
		})
	}
	// An engine that holds no other namespaces keeps the list all the same.
	set := ask[wire.NamespaceReply](r, wire.APINamespaceSet, map[string]any{"name": "acme"})
	if set.Namespace == nil || set.Namespace.State != nil {
		t.Errorf("%+v", set)
	}
	if _, err := try[wire.NamespaceRemoval](r, wire.APINamespaceRemove, map[string]any{"name": "acme"}); events.CodeOf(err) != events.CodeWrongState {
		t.Errorf("removed, though nobody knows what it holds: %v", err)
	}
	if got := ask[wire.NamespaceRemoval](r, wire.APINamespaceRemove, map[string]any{"name": "acme", "force": true}); !got.Removed {
		t.Errorf("%+v", got)
	}
}

// Only the default namespace has the list.
func TestNamespacesOfAnotherNamespace(t *testing.T) {
	a := &namespaceAPI{engine: &engine{Config: Config{Names: wire.Default.Namespace("acme")}}}
	for endpoint, fn := range map[string]func() (any, error){
		wire.APINamespaces:      func() (any, error) { return a.list(t.Context(), nil, wire.StatsRequest{}) },
		wire.APINamespace:       func() (any, error) { return a.show(t.Context(), nil, wire.NamespaceGet{}) },
		wire.APINamespaceSet:    func() (any, error) { return a.set(t.Context(), nil, wire.NamespaceSet{}) },
		wire.APINamespaceChange: func() (any, error) { return a.change(t.Context(), nil, wire.NamespaceChange{}) },
		wire.APINamespaceRemove: func() (any, error) { return a.remove(t.Context(), nil, wire.NamespaceRemove{}) },
	} {
		if _, err := fn(); events.CodeOf(err) != events.CodeBadRequest || !strings.Contains(err.Error(), "ask the namespace default (work)") {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
}

// However many namespaces there are, a scrape of all is bounded, and says what it leaves out.
func TestAScrapeOfAllIsBounded(t *testing.T) {
	r, h := newHost(t)
	const more = 7
	for i := range MaxScrapedNamespaces + more - 1 {
		h.metrics = append(h.metrics, NamespaceMetrics{Name: events.Namespace(fmt.Sprintf("n%d", i))})
		if i%10 == 0 {
			h.metrics[i].Metrics = NewMetrics()
		}
	}
	families, err := r.svc.gatherAll()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, f := range families {
		for _, m := range f.Metric {
			for _, l := range m.Label {
				if l.GetName() == namespaceLabel {
					names[l.GetValue()] = true
				}
			}
		}
		if f.GetName() == "streamwright_namespaces_left_out" && f.Metric[0].GetGauge().GetValue() != more {
			t.Errorf("%v are left out, want %d", f.Metric[0], more)
		}
	}
	if len(names) != MaxScrapedNamespaces || !names["default"] || !names["n0"] || names[fmt.Sprintf("n%d", MaxScrapedNamespaces)] {
		t.Errorf("it has %d namespaces", len(names))
	}
	for _, m := range Catalogue() {
		if m.Name != "streamwright_namespace_running" && slices.Contains(m.Labels, namespaceLabel) {
			t.Errorf("%s has a label that a scrape of all adds", m.Name)
		}
	}
}
