package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

// inNamespace returns a client of a namespace.
func inNamespace(t testing.TB, e *Engine, name string) *streamwright.Client {
	t.Helper()
	nc, err := e.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	c, err := streamwright.New(nc, streamwright.WithNamespace(name), streamwright.WithDomain(e.clientNames().Domain))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// addNamespaces adds namespaces, and returns once they answer.
func addNamespaces(t testing.TB, e *Engine, names ...string) {
	t.Helper()
	need.NoReload(t)
	c := inNamespace(t, e, "default")
	for _, name := range names {
		if _, err := c.Namespaces().Set(testContext(t), name, streamwright.NamespaceChange{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range names {
		awaitNamespace(t, e, name)
	}
}

// awaitNamespace returns the namespace once it runs.
func awaitNamespace(t testing.TB, e *Engine, name string) (s *space) {
	t.Helper()
	need.Eventually(t, name+" runs", func() bool {
		tenant := e.spaces.get(events.Namespace(name))
		if tenant == nil {
			return false
		}
		s, _ = tenant.now()
		return s != nil
	})
	return s
}

// runIn runs one item in a namespace, and returns its id.
func runIn(t testing.TB, e *Engine, name string, item streamwright.Item) string {
	t.Helper()
	c := inNamespace(t, e, name)
	w, err := workers.New(c.Conn(), workers.Config{Names: c.Names()})
	if err != nil {
		t.Fatal(err)
	}
	workers.HandleRaw(w, item.Type, func(context.Context, *workers.RawItem) (any, error) { return name, nil })
	if err := w.Start(testContext(t)); err != nil {
		t.Fatal(err)
	}
	h, err := c.Submit(testContext(t), item)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.Wait(testContext(t), h.ID); err != nil || string(got.Result) != fmt.Sprintf("%q", name) {
		t.Fatalf("in %s: %s, %v", name, got.Result, err)
	}
	if err := w.Stop(testContext(t)); err != nil {
		t.Fatal(err)
	}
	return h.ID
}

// streamsOf returns the names of the streams that a namespace alone has.
func streamsOf(t testing.TB, e *Engine, name string) (own []string) {
	t.Helper()
	need.Eventually(t, "JetStream lists its streams", func() (ok bool) { // not while the accounts are read again
		var err error
		_, own, err = e.ownStreams(testContext(t), events.Namespace(name))
		return err == nil
	})
	return own
}

// getJSON asks over HTTP.
func getJSON(t testing.TB, url string, reply any) int {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && reply != nil && resp.StatusCode == http.StatusOK {
		err = json.Unmarshal(body, reply)
	}
	if err != nil {
		t.Fatalf("%s: %s: %v", url, body, err)
	}
	return resp.StatusCode
}

// Namespaces of one process know nothing of each other, outlive it, and leave nothing behind.
func TestNamespaces(t *testing.T) {
	o := Options{Dir: t.TempDir(), NATSListen: config.Off, HTTP: "127.0.0.1:0", Logger: need.Logger(t)}
	e := mustStart(t, o)
	addNamespaces(t, e, "acme", "beta")
	id := "01JD3V6YB2M4C9W8ZK5T7QXRNE"
	for _, name := range []string{"default", "acme", "beta"} {
		runIn(t, e, name, streamwright.Item{ID: id, Type: "email", DedupKey: "one", Params: 1})
	}
	count := func(name string) (n int) {
		t.Helper()
		var list struct{ Items []json.RawMessage }
		if status := getJSON(t, e.HTTPURL()+"/ns/"+name+"/api/v1/work", &list); status != http.StatusOK {
			t.Fatalf("%s: %d", name, status)
		}
		return len(list.Items)
	}
	if _, err := inNamespace(t, e, "acme").Submit(testContext(t), streamwright.Item{Type: "letter", Params: 1}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"default": 1, "acme": 2, "beta": 1} {
		if got := count(name); got != want {
			t.Errorf("%s has %d items, want %d", name, got, want)
		}
	}
	for path, want := range map[string]int{"/ns/nobody/api/v1/work": http.StatusNotFound, "/ns/No%20Name/api/v1/work": http.StatusNotFound, "/ns/acme/readyz": http.StatusOK, "/ns/nobody/readyz": http.StatusNotFound, "/ns/acme/": http.StatusOK} {
		if got := getJSON(t, e.HTTPURL()+path, nil); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}

	// A cold start finds them.
	if err := e.Stop(testContext(t)); err != nil {
		t.Fatal(err)
	}
	e = mustStart(t, o)
	awaitNamespace(t, e, "acme")
	awaitNamespace(t, e, "beta")
	if got := count("acme"); got != 2 {
		t.Errorf("after a restart acme has %d items", got)
	}
	for _, name := range []string{"acme", "beta"} {
		if p, err := inNamespace(t, e, name).Engine().Verify(testContext(t), nil); err != nil || !p.Equal {
			t.Errorf("verify %s: %+v, %v", name, p, err)
		}
	}

	// Removed, with all that it holds, once nothing in it is live.
	c := inNamespace(t, e, "default")
	if _, err := c.Namespaces().Remove(testContext(t), "acme", streamwright.RemoveNamespace{}); streamwright.CodeOf(err) != streamwright.CodeWrongState {
		t.Fatalf("acme has a queued item, and was removed: %v", err)
	}
	if _, err := c.Namespaces().Remove(testContext(t), "acme", streamwright.RemoveNamespace{Force: true}); err != nil {
		t.Fatal(err)
	}
	need.Eventually(t, "acme is gone", func() bool {
		_, err := c.Namespaces().Get(testContext(t), "acme")
		return streamwright.CodeOf(err) == streamwright.CodeNotFound
	})
	if left := streamsOf(t, e, "acme"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if _, err := os.Stat(filepath.Join(o.Dir, "namespaces", "acme")); !os.IsNotExist(err) {
		t.Errorf("its folder is left: %v", err)
	}
	if left := streamsOf(t, e, "beta"); len(left) == 0 {
		t.Error("beta's streams are gone")
	}

	// Another of its name is another.
	addNamespaces(t, e, "acme")
	if got := count("acme"); got != 0 {
		t.Errorf("a new acme has %d items", got)
	}
	runIn(t, e, "acme", streamwright.Item{ID: id, Type: "email", DedupKey: "one", Params: 1})
	if err := e.Stop(testContext(t)); err != nil {
		t.Fatal(err)
	}
}

// A removal that a process has begun is ended by the next one. What is left of a namespace that
// was removed meanwhile goes, but not what a restore has begun.
func TestARemovalIsEndedByTheNextProcess(t *testing.T) {
	o := Options{Dir: t.TempDir(), NATSListen: config.Off, HTTP: config.Off}
	e := mustStart(t, o)
	addNamespaces(t, e, "acme")
	if err := e.spaces.stop(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if err := e.decider.decide(testContext(t), core.RemoveNamespace{Name: "acme"}); err != nil {
		t.Fatal(err)
	}
	if len(streamsOf(t, e, "acme")) == 0 {
		t.Fatal("it was destroyed already")
	}
	stopEngine(t, e)
	folder := func(name string) string { return filepath.Join(o.Dir, "namespaces", name) }
	for _, path := range []string{folder("left"), folder("restored")} {
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(folder("restored"), restoreFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	e = mustStart(t, o)
	need.Eventually(t, "acme is off the list", func() bool {
		list, err := e.ledger.store.Namespaces()
		return err == nil && len(list) == 0
	})
	if left := streamsOf(t, e, "acme"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	for name, want := range map[string]bool{"acme": false, "left": false, "restored": true} {
		if _, err := os.Stat(folder(name)); (err == nil) != want {
			t.Errorf("the folder of %s: %v", name, err)
		}
	}
}

// On a cluster a namespace is on every node, goes to the node that it is moved to, and outlives
// the loss of its owner.
func TestNamespacesOnACluster(t *testing.T) {
	slow(t)
	t.Parallel()
	all := clusterOptions(t, 3)
	engines := startEngines(t, all...)
	ctx := testContext(t)
	addNamespaces(t, engines[0], "acme", "beta")
	for _, e := range engines {
		awaitNamespace(t, e, "acme")
		awaitNamespace(t, e, "beta")
	}
	owner := func(name string) int { return ownerOf(engines, name) }
	for _, name := range []string{"acme", "beta"} {
		runIn(t, engines[0], name, streamwright.Item{Type: "email", Params: 1})
	}
	for range 20 { // the log of the former beta is longer than that of the next
		if _, err := inNamespace(t, engines[0], "beta").Submit(ctx, streamwright.Item{Type: "letter"}); err != nil {
			t.Fatal(err)
		}
	}
	list := inNamespace(t, engines[0], "default").Namespaces()
	c := inNamespace(t, engines[0], "acme")
	for i := range engines {
		if _, err := list.Move(ctx, "acme", all[i].Cluster.Node); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		need.Eventually(t, "acme is where it was moved to", func() bool { return owner("acme") == i })
		t.Logf("moved to %s in %s", all[i].Cluster.Node, time.Since(begun))
		if _, err := c.Submit(ctx, streamwright.Item{Type: "letter", Params: i}); err != nil {
			t.Fatal(err)
		}
	}
	need.Eventually(t, "whichever node answers knows how acme is", func() bool {
		is, err := list.Get(ctx, "acme")
		return err == nil && is.State != nil && is.State.Owner == all[2].Cluster.Node && is.State.States["queued"] == 3 && is.State.States["completed"] == 1
	})

	// Its owner goes, and with it the owner of another, or a standby.
	stopEngine(t, engines[2])
	need.Eventually(t, "another node owns acme", func() bool { at := owner("acme"); return at == 0 || at == 1 })
	for _, name := range []string{"acme", "beta"} {
		runIn(t, engines[0], name, streamwright.Item{Type: "email", Params: 2})
	}
	for _, e := range engines[:2] {
		for _, name := range []string{"acme", "beta"} {
			if p, err := inNamespace(t, e, name).Engine().VerifyNode(ctx, e.nodeName(), nil); err != nil || !p.Equal {
				t.Errorf("verify %s at %s: %+v, %v", name, e.nodeName(), p, err)
			}
		}
	}
	if _, err := list.Remove(ctx, "beta", streamwright.RemoveNamespace{Force: true}); err != nil {
		t.Fatal(err)
	}
	need.Eventually(t, "beta is gone", func() bool { return len(streamsOf(t, engines[0], "beta")) == 0 })
	for i, e := range engines[:2] {
		need.Eventually(t, "its folder is gone", func() bool {
			_, err := os.Stat(filepath.Join(all[i].Dir, "namespaces", "beta"))
			return os.IsNotExist(err) && e.spaces.get("beta") == nil
		})
	}

	// Another of its name is another, also where the former one was known.
	addNamespaces(t, engines[0], "beta")
	runIn(t, engines[0], "beta", streamwright.Item{Type: "email", Params: 3})
	engines[2] = startEngines(t, all[2])[0]
	beta := awaitNamespace(t, engines[2], "beta")
	need.Eventually(t, "the node that was away has the new beta", func() bool {
		p, err := inNamespace(t, engines[2], "beta").Engine().VerifyNode(ctx, all[2].Cluster.Node, nil)
		return err == nil && p.Equal
	})
	same(t, beta.names().EventStream(0), engines)
}

// A node has the folder of a namespace that was removed, and added anew, while it was away. Its
// store is of another log, which does not keep the new one from running.
func TestAFormerNamespacesFolder(t *testing.T) {
	o := secured(t, quiet(t.TempDir()))
	acme, away := filepath.Join(o.Dir, "namespaces", "acme"), filepath.Join(t.TempDir(), "acme")
	e := mustStart(t, o)
	addNamespaces(t, e, "acme")
	old := runIn(t, e, "acme", streamwright.Item{Type: "email"})
	stopEngine(t, e)
	if err := os.CopyFS(away, os.DirFS(acme)); err != nil {
		t.Fatal(err)
	}
	e = mustStart(t, o)
	if _, err := inNamespace(t, e, "default").Namespaces().Remove(testContext(t), "acme", streamwright.RemoveNamespace{Force: true}); err != nil {
		t.Fatal(err)
	}
	need.Eventually(t, "acme is gone", func() bool { return e.spaces.get("acme") == nil })
	addNamespaces(t, e, "acme")
	id := runIn(t, e, "acme", streamwright.Item{Type: "email"})
	stopEngine(t, e)
	if err := errors.Join(os.RemoveAll(acme), os.CopyFS(acme, os.DirFS(away))); err != nil {
		t.Fatal(err)
	}
	e = mustStart(t, o)
	awaitNamespace(t, e, "acme")
	c := inNamespace(t, e, "acme")
	if _, err := c.Get(testContext(t), id); err != nil {
		t.Error(err)
	}
	if _, err := c.Get(testContext(t), old); streamwright.CodeOf(err) != streamwright.CodeNotFound {
		t.Errorf("the item of the former one: %v", err)
	}
	if len(storesAside(acme)) != 1 {
		t.Error("its store was not set aside")
	}
}

// ownerOf returns which of the engines owns a namespace's log; -1: none.
func ownerOf(engines []*Engine, name string) int {
	return slices.IndexFunc(engines, func(e *Engine) bool {
		tenant := e.spaces.get(events.Namespace(name))
		if tenant == nil {
			return false
		}
		s, _ := tenant.now()
		return s != nil && s.ledger.lease.owns.Load()
	})
}

// The nodes share the logs: each has its part, those of a node that stops go to all the others,
// and it has its part again when it is back.
func TestNodesShareNamespaces(t *testing.T) {
	slow(t)
	t.Parallel()
	all := clusterOptions(t, 3)
	engines := startEngines(t, all...)
	names := []string{"a", "b", "c", "d", "e", "f"}
	addNamespaces(t, engines[0], names...)
	for _, e := range engines {
		for _, name := range names {
			awaitNamespace(t, e, name)
		}
	}
	// parts are how many logs each engine owns, the default namespace's too.
	parts := func(engines []*Engine) []int {
		n := make([]int, len(engines))
		for _, name := range names {
			if at := ownerOf(engines, name); at >= 0 {
				n[at]++
			}
		}
		for i, e := range engines {
			if e.ledger.lease.owns.Load() {
				n[i]++
			}
		}
		return n
	}
	share := func(what string, engines []*Engine, least, most int) {
		t.Helper()
		begun := time.Now()
		need.Eventually(t, what, func() bool {
			n := parts(engines)
			return slices.Min(n) >= least && slices.Max(n) <= most
		})
		t.Logf("%s: %v after %s", what, parts(engines), time.Since(begun).Round(time.Millisecond))
	}
	share("each node has its part", engines, 2, 3)

	stopEngine(t, engines[2])
	share("the others have its part", engines[:2], 3, 4)
	for _, name := range names {
		runIn(t, engines[0], name, streamwright.Item{Type: "email", Params: 1})
	}
	again := startEngines(t, all[2])
	engines = append(engines[:2:2], again...)
	share("it has its part again", engines, 2, 3)

	// The nodes tell each other of that.
	need.Eventually(t, "it is known why its logs went to "+all[2].Cluster.Node, func() bool {
		list, err := inNamespace(t, engines[0], "default").Namespaces().List(testContext(t))
		return err == nil && slices.ContainsFunc(list, func(n streamwright.NamespaceInfo) bool {
			return n.State.Owner == all[2].Cluster.Node && n.State.Because == wire.TakeoverBalanced
		})
	})
}

// Two teams share an engine, and see nothing of each other; an operator of all adds what they use.
func TestTeamsShareAnEngine(t *testing.T) {
	slow(t)
	need.NoReload(t)
	t.Parallel()
	c := config.Default()
	c.NATS.Users = []config.NATSUser{
		userIn(t, "acme", "acme/submit", "acme/work", "acme/read"), userIn(t, "beta", "beta/submit", "beta/work", "beta/read"), userIn(t, "ops", "*/operate", "*/read"),
	}
	const acme, beta, ops = "acme-0123456789abcdef", "beta-0123456789abcdef", "ops-0123456789abcdefg"
	e := mustStart(t, Options{Config: c, Dir: t.TempDir(), NATSListen: "127.0.0.1:0", HTTP: "127.0.0.1:0",
		HTTPTokens: "acme " + acme + " acme/submit,acme/work,acme/read;beta " + beta + " beta/submit,beta/work,beta/read;ops " + ops + " */operate,*/read"})
	client := func(user, namespace string) *streamwright.Client {
		t.Helper()
		nc := dial(t, e.srv, user)
		c, err := streamwright.New(nc, streamwright.WithNamespace(namespace), streamwright.WithDomain(e.names().ImportDomain()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	ctx := testContext(t)
	list := client("ops", "default").Namespaces()
	for _, name := range []string{"acme", "beta"} {
		if _, err := list.Set(ctx, name, streamwright.NamespaceChange{}); err != nil {
			t.Fatal(err)
		}
		awaitNamespace(t, e, name)
	}
	a, b := client("acme", "acme"), client("beta", "beta")
	w, err := workers.New(a.Conn(), workers.Config{Names: a.Names()})
	if err != nil {
		t.Fatal(err)
	}
	if err := workers.HandleRaw(w, "email", func(context.Context, *workers.RawItem) (any, error) { return "sent", nil }); err != nil {
		t.Fatal(err)
	}
	if err := w.Start(ctx); err != nil {
		t.Fatal(err)
	}
	defer w.Stop(ctx)
	mine, err := a.Submit(ctx, streamwright.Item{Type: "email", Params: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := a.Wait(ctx, mine.ID); err != nil || string(got.Result) != `"sent"` {
		t.Fatalf("%s, %v", got.Result, err)
	}
	if got, err := a.WaitAny(ctx, []string{mine.ID}); err != nil || len(got.Ended) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := b.WaitAny(ctx, []string{mine.ID}); !errors.Is(err, streamwright.ErrNotFound) {
		t.Errorf("beta waits for acme's item: %v", err)
	}
	if _, err := b.Get(ctx, mine.ID); !errors.Is(err, streamwright.ErrNotFound) {
		t.Errorf("beta finds acme's item: %v", err)
	}
	for _, of := range []events.Namespace{"beta", events.DefaultNamespace} {
		if _, err := a.Conn().Request(e.names().Namespace(of).API(wire.APIStats), []byte("{}"), 200*time.Millisecond); err == nil {
			t.Errorf("%s answers acme", of)
		}
	}
	get := func(token, path string) (int, string) {
		t.Helper()
		status, problem := ask(t, http.DefaultClient, http.MethodGet, e.HTTPURL()+path, token)
		return status, strings.ReplaceAll(problem.Detail, "nobody", "beta")
	}
	for _, c := range []struct {
		token, path string
		want        int
	}{
		{acme, "/ns/acme/api/v1/work/" + mine.ID, http.StatusOK}, {acme, "/ns/beta/api/v1/work", http.StatusNotFound}, {acme, "/ns/nobody/api/v1/work", http.StatusNotFound},
		{acme, "/api/v1/work", http.StatusForbidden}, {acme, "/api/v1/namespaces", http.StatusForbidden}, {acme, "/ns/acme/metrics", http.StatusOK},
		{acme, "/ns/beta/metrics", http.StatusNotFound}, {acme, "/ns/beta/readyz", http.StatusNotFound}, {acme, "/metrics", http.StatusForbidden},
		{beta, "/ns/beta/api/v1/work/" + mine.ID, http.StatusNotFound}, {ops, "/ns/acme/api/v1/work/" + mine.ID, http.StatusOK}, {ops, "/api/v1/namespaces", http.StatusOK},
		{"", "/ns/acme/api/v1/work", http.StatusUnauthorized}, {"", "/ns/nobody/api/v1/work", http.StatusUnauthorized}, {"", "/ns/acme/readyz", http.StatusUnauthorized},
	} {
		if got, text := get(c.token, c.path); got != c.want {
			t.Errorf("%.4s gets %s: %d %s, want %d", c.token, c.path, got, text, c.want)
		}
	}
	_, there := get(acme, "/ns/beta/api/v1/work")
	if _, not := get(acme, "/ns/nobody/api/v1/work"); there != not {
		t.Errorf("what is there is refused with %q, and what is not with %q", there, not)
	}
}
