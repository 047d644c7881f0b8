package embedded

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/internal/sleep"
	"github.com/streamwright/streamwright/wire"
)

// accept says from whom a namespace accepts work, and returns once that is known.
func accept(t testing.TB, e *Engine, name string, from ...events.Namespace) {
	t.Helper()
	list := events.ListNamespaces(from...)
	if _, err := inNamespace(t, e, "default").Namespaces().Change(testContext(t), name, streamwright.NamespaceChange{Accept: &list}); err != nil {
		t.Fatal(err)
	}
	need.Eventually(t, name+" accepts "+string(list), func() bool {
		tenant := e.spaces.get(events.Namespace(name))
		tenant.mu.Lock()
		defer tenant.mu.Unlock()
		return tenant.info.Accept == list
	})
}

// newID returns a fresh id.
func newID(t testing.TB, n int) string {
	t.Helper()
	return events.ID{1, 2, 3, 4, 5, 6, 7, 14: byte(n >> 8), 15: byte(n)}.String()
}

// What is handed to a namespace that accepts it is decided there, once, and leaves nothing where
// it was submitted.
func TestHandWorkToAnotherNamespace(t *testing.T) {
	need.NoReload(t)
	e := mustStart(t, Options{Memory: true, HTTP: "127.0.0.1:0"})
	addNamespaces(t, e, "acme", "beta")
	ctx := testContext(t)
	acme, beta := inNamespace(t, e, "acme"), inNamespace(t, e, "beta")
	ship := func(n int) streamwright.Item {
		return streamwright.Item{Type: "ship", ID: newID(t, n), Params: "x<y", Namespace: "beta"}
	}
	if _, err := acme.Submit(ctx, ship(1)); events.CodeOf(err) != events.CodeNotFound {
		t.Fatalf("beta accepts nothing, and took it: %v", err)
	}
	accept(t, e, "beta", "acme", "default")
	for _, repeat := range []bool{false, true} {
		out, err := acme.Submit(ctx, ship(1))
		if err != nil || out.ID != newID(t, 1) || out.Repeat != repeat || out.Namespace != "beta" || out.Position != "" || out.State != events.StateQueued {
			t.Fatalf("%+v, %v", out, err)
		}
	}
	it, err := beta.Get(ctx, newID(t, 1))
	if err != nil || string(it.Params) != `"x\u003cy"` || it.Provenance.Source != "namespace acme" {
		t.Errorf("%+v, %v", it, err)
	}
	if _, err := acme.Get(ctx, newID(t, 1)); events.CodeOf(err) != events.CodeNotFound {
		t.Errorf("acme has it: %v", err)
	}
	if _, err := acme.Submit(ctx, streamwright.Item{Type: "own"}); err != nil { // whose position is one of acme's
		t.Error(err)
	}
	// Without an id it is given one, and its own namespace may be named too.
	if out, err := acme.Submit(ctx, streamwright.Item{Type: "own", Namespace: "acme"}); err != nil || out.Namespace != "" || out.Position == "" {
		t.Errorf("%+v, %v", out, err)
	}
	list, err := acme.SubmitMany(ctx, []streamwright.Item{ship(2), ship(3), ship(1)})
	if err != nil || len(list) != 3 || list[0].Namespace != "beta" || list[0].Repeat || !list[2].Repeat {
		t.Errorf("%+v, %v", list, err)
	}
	if out, err := inNamespace(t, e, "default").Submit(ctx, ship(4)); err != nil || out.Namespace != "beta" {
		t.Errorf("%+v, %v", out, err)
	}

	// Over HTTP.
	code, body := post(t, "http://"+e.HTTP()+"/ns/acme/api/v1/work", `{"type":"ship","namespace":"beta"}`)
	var out wire.Submitted
	if err := json.Unmarshal([]byte(body), &out); err != nil || code != http.StatusCreated || out.Namespace != "beta" {
		t.Errorf("%d %s", code, body)
	}
	if _, err := beta.Get(ctx, out.ID); err != nil {
		t.Error(err)
	}

	// What makes sense in one namespace alone is refused, and the error says what to do.
	own, err := acme.Submit(ctx, streamwright.Item{Type: "own"})
	if err != nil {
		t.Fatal(err)
	}
	for says, item := range map[string]streamwright.Item{
		"submit it there when they have ended": {Type: "ship", Namespace: "beta", After: []string{own.ID}},
		"open a batch there":                   {Type: "ship", Namespace: "beta", Batch: own.ID},
		"keep them elsewhere":                  {Type: "ship", Namespace: "beta", Params: strings.Repeat("x", events.MaxParamsBytes)},
		"is no namespace":                      {Type: "ship", Namespace: "Beta"},
		"is no type name":                      {Type: "Ship", Namespace: "beta"},
	} {
		if _, err := acme.Submit(ctx, item); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", says, err)
		}
	}
	if _, err := acme.SubmitMany(ctx, []streamwright.Item{ship(9), {Type: "own"}}); err == nil || !strings.Contains(err.Error(), "a request for each") {
		t.Errorf("%v", err)
	}
	if _, err := acme.Publish(ctx, ship(9)); events.CodeOf(err) != events.CodeBadHeader {
		t.Errorf("%v", err)
	}
	msg := nats.NewMsg(acme.Names().Submit("ship"))
	msg.Data, msg.Header = []byte("{}"), nats.Header{"Work-Namespace": {"beta"}}
	if err := acme.Conn().PublishMsg(msg); err != nil {
		t.Fatal(err)
	}
	need.Eventually(t, "the plain publish is rejected", func() bool {
		s, err := acme.Engine().Stats(ctx)
		return err == nil && s.Rejected == 1
	})
	if _, err := beta.Get(ctx, newID(t, 9)); events.CodeOf(err) != events.CodeNotFound {
		t.Errorf("%v", err)
	}
	// It ends with the permission.
	accept(t, e, "beta")
	if _, err := acme.Submit(ctx, ship(5)); events.CodeOf(err) != events.CodeNotFound {
		t.Errorf("beta accepts nothing any more, and took it: %v", err)
	}
}

// post sends JSON.
func post(t testing.TB, url, body string) (int, string) {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(got)
}

// Whoever may submit in acme alone hands work to those that accept it from acme, and to no
// others; and can't tell those from namespaces that are not there.
func TestOnlyAcceptedWorkIsHandedOver(t *testing.T) {
	need.NoReload(t)
	o := Options{Memory: true, NATSListen: "127.0.0.1:0", HTTP: config.Off}
	o.Config = config.Default()
	o.Config.NATS.Users = []config.NATSUser{userIn(t, "a", "acme/submit"), userIn(t, "r", "acme/read", "acme/work"), userIn(t, "g", "gamma/submit")}
	e := mustStart(t, o)
	addNamespaces(t, e, "acme", "beta", "gamma", "delta")
	accept(t, e, "beta", "acme")
	accept(t, e, "delta", "gamma")
	ctx := testContext(t)
	as := func(user, ns string) *streamwright.Client {
		c, err := streamwright.Connect(ctx, e.URL(), streamwright.WithNamespace(ns), streamwright.WithUser(user, testPassword), streamwright.WithNATS(nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	a := as("a", "acme")
	if out, err := a.Submit(ctx, streamwright.Item{Type: "ship", Namespace: "beta"}); err != nil || out.Namespace != "beta" {
		t.Fatalf("%+v, %v", out, err)
	}
	refusal := func(c *streamwright.Client, to string) string {
		t.Helper()
		out, err := c.Submit(ctx, streamwright.Item{Type: "ship", Namespace: to})
		if events.CodeOf(err) != events.CodeNotFound {
			t.Fatalf("handed to %s: %+v, %v", to, out, err)
		}
		return strings.ReplaceAll(err.Error(), to, "NAME")
	}
	missing := refusal(a, "nowhere")
	for _, to := range []string{"gamma", "delta", "default"} {
		if got := refusal(a, to); got != missing {
			t.Errorf("to %s: %q; to one that is not there: %q", to, got, missing)
		}
	}
	refusal(as("g", "gamma"), "beta")
	// The role is one in the namespace that is asked: nothing else opens the other one.
	for user, ns := range map[string]string{"r": "acme", "a": "beta"} {
		if out, err := as(user, ns).Submit(ctx, streamwright.Item{Type: "ship", Namespace: "beta"}); events.CodeOf(err) != events.CodeForbidden {
			t.Errorf("%s in %s: %+v, %v", user, ns, out, err)
		}
	}
	// Nor does it matter which namespace is removed, and which was never there.
	if _, err := inNamespace(t, e, "default").Namespaces().Remove(ctx, "beta", streamwright.RemoveNamespace{Force: true}); err != nil {
		t.Fatal(err)
	}
	need.Eventually(t, "beta is gone", func() bool { return e.spaces.get("beta") == nil })
	if got := refusal(a, "beta"); got != missing {
		t.Errorf("to one that was removed: %q; to one that is not there: %q", got, missing)
	}
}

// However often the other namespace and the engine start again meanwhile, what is repeated until
// it is answered is done once.
func TestWorkIsHandedOverOnce(t *testing.T) {
	need.NoReload(t)
	slow(t)
	t.Parallel()
	const restarts, restartPause = 4, 100 * time.Millisecond
	dir := t.TempDir()
	e := mustStart(t, quiet(dir))
	addNamespaces(t, e, "acme", "beta")
	accept(t, e, "beta", "acme")
	hand := func(c *streamwright.Client, n int) streamwright.Submitted {
		t.Helper()
		out, err := c.Submit(testContext(t), streamwright.Item{Type: "ship", ID: newID(t, n), Namespace: "beta"}) // it tries until the context ends
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	ctx, stop := context.WithCancel(testContext(t))
	var begun atomic.Int64 // restarts of beta
	ended := make(chan struct{})
	go func() { // beta starts again and again
		defer close(ended)
		c := inNamespace(t, e, "default")
		for i := 1000; sleep.For(ctx, restartPause) == nil; i++ {
			if s, _ := e.spaces.get("beta").now(); s == nil { // it is to be there in between
				continue
			}
			begun.Add(1)
			_, _ = c.Namespaces().Change(ctx, "beta", streamwright.NamespaceChange{Limits: streamwright.NamespaceLimitsChange{MaxQueued: &i}})
		}
	}()
	acme := inNamespace(t, e, "acme")
	items := 0
	for ; begun.Load() <= restarts; items++ {
		hand(acme, items)
	}
	stop()
	<-ended
	acme.Close()
	stopEngine(t, e)

	e = mustStart(t, quiet(dir))
	awaitNamespace(t, e, "acme")
	awaitNamespace(t, e, "beta")
	acme = inNamespace(t, e, "acme")
	for n := range items {
		if out := hand(acme, n); !out.Repeat {
			t.Errorf("item %d was lost", n)
		}
	}
	for ns, want := range map[string]int64{"acme": 0, "beta": int64(items)} {
		s, err := inNamespace(t, e, ns).Engine().Stats(testContext(t))
		if err != nil || s.States["queued"] != want {
			t.Errorf("%s has %v, %v", ns, s.States, err)
		}
	}
}
