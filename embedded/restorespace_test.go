package embedded

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/backup"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/logins"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

// backUp backs a namespace up as a user; "" as whoever connects.
func backUp(t testing.TB, e *Engine, user, namespace, target string) (backup.Taken, error) {
	t.Helper()
	var opts []nats.Option
	if user != "" {
		opts = append(opts, nats.UserInfo(user, testPassword))
	}
	nc, err := nats.Connect(e.URL(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	names := e.names().Namespace(events.Namespace(namespace))
	return backup.Take(testContext(t), backup.Options{Conn: nc, Names: connect.NewFinder(nc, names).Names(testContext(t)), Target: target})
}

// large is a document that is too large for an event.
func large(t testing.TB, fill string) json.RawMessage {
	t.Helper()
	doc, err := json.Marshal(strings.Repeat(fill, 400<<10))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// fillNamespace runs an item with a log, a large document and a large result in a namespace,
// queues another one, and leaves a submission. It returns the id of the first.
func fillNamespace(t testing.TB, e *Engine, name string) (id string) {
	t.Helper()
	c := inNamespace(t, e, name)
	w, err := workers.New(c.Conn(), workers.Config{Names: c.Names()})
	if err != nil {
		t.Fatal(err)
	}
	workers.HandleRaw(w, "scan", func(_ context.Context, it *workers.RawItem) (any, error) {
		it.Log("info", "seen in "+name)
		return large(t, "r"), nil
	})
	if err := w.Start(testContext(t)); err != nil {
		t.Fatal(err)
	}
	h, err := c.Submit(testContext(t), streamwright.Item{Type: "scan", Params: large(t, "p")})
	if err == nil {
		_, err = c.Wait(testContext(t), h.ID)
	}
	if err == nil {
		err = w.Stop(testContext(t))
	}
	if err == nil {
		_, err = c.Submit(testContext(t), streamwright.Item{Type: "letter", Params: 1})
	}
	if err != nil {
		t.Fatal(err)
	}
	need.Eventually(t, "a log", func() bool {
		recs, err := c.Logs(testContext(t), h.ID, 0)
		return err == nil && len(recs) > 0
	})
	return h.ID
}

// checkFilled checks what fillNamespace has made, in a namespace that was restored from that.
func checkFilled(t testing.TB, e *Engine, name, from, id string, items int) {
	t.Helper()
	c := inNamespace(t, e, name)
	it, err := c.Get(testContext(t), id)
	if err != nil {
		t.Fatal(err)
	}
	if params, err := c.Params(testContext(t), it); err != nil || !bytes.Equal(params, large(t, "p")) {
		t.Errorf("%s: params %.20s, %v", name, params, err)
	}
	if result, err := c.Result(testContext(t), it); err != nil || !bytes.Equal(result, large(t, "r")) {
		t.Errorf("%s: result %.20s, %v", name, result, err)
	}
	if recs, err := c.Logs(testContext(t), id, 0); err != nil || len(recs) != 1 || recs[0].Message != "seen in "+from {
		t.Errorf("%s: logs %+v, %v", name, recs, err)
	}
	n := 0
	for _, err := range c.All(testContext(t), streamwright.Filter{}) {
		if n++; err != nil {
			t.Fatal(err)
		}
	}
	if n != items {
		t.Errorf("%s has %d items, want %d", name, n, items)
	}
	if p, err := c.Engine().Verify(testContext(t), nil); err != nil || !p.Equal {
		t.Errorf("verify %s: %+v, %v", name, p, err)
	}
}

// The backup of a namespace, and that of the default one, become namespaces of the same
// engine. The others are not touched, whatever happens.
func TestRestoreIntoANamespace(t *testing.T) {
	t.Parallel()
	for _, user := range []string{"", "ops"} {
		t.Run("user="+user, func(t *testing.T) {
			if user == "" {
				logins.Open(t, "the other has users of its own")
			}
			o := Options{Dir: t.TempDir(), NATSListen: "127.0.0.1:0", HTTP: config.Off, Durability: config.Interval, Logger: need.Logger(t)}
			if user != "" {
				o.Config.NATS.Users = []config.NATSUser{userIn(t, "ops", "acme/operate"), userIn(t, "home", "operate")}
			}
			testRestoreIntoANamespace(t, o, user)
		})
	}
}

func testRestoreIntoANamespace(t *testing.T, o Options, user string) {
	e := mustStart(t, o)
	addNamespaces(t, e, "acme")
	id, homeID := fillNamespace(t, e, "acme"), fillNamespace(t, e, "default")
	acme, home := filepath.Join(t.TempDir(), "acme"), filepath.Join(t.TempDir(), "home.tar")
	if _, err := backUp(t, e, user, "acme", acme); err != nil {
		t.Fatal(err)
	}
	runIn(t, e, "acme", streamwright.Item{Type: "email", Params: 1})
	switch done, err := backUp(t, e, user, "acme", acme); {
	case err != nil:
		t.Fatal(err)
	case !done.Continued || done.Manifest.Prefix != "work-acme":
		t.Errorf("a second backup: %+v", done.Manifest)
	}
	if user != "" { // nobody else, and nothing else
		if _, err := backUp(t, e, "home", "acme", filepath.Join(t.TempDir(), "x")); err == nil {
			t.Error("a user of default has backed acme up")
		}
		if _, err := backUp(t, e, user, "default", home); err == nil {
			t.Error("a user of acme has backed default up")
		}
		user = "home"
	}
	if _, err := backUp(t, e, user, "default", home); err != nil {
		t.Fatal(err)
	}
	b, err := backup.Open(acme)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := b.Verify(testContext(t), nil); err != nil || got.Documents == 0 || got.Logs != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}

	secure := secured(t, o)
	restoreInto := func(ctx context.Context, dir, from string, name events.Namespace, progress func(string, int64, int64)) (Restored, error) {
		into := secure
		into.Dir = dir
		return Restore(ctx, RestoreOptions{Options: into, Backup: from, Namespace: name, Progress: progress})
	}
	if _, err := restoreInto(testContext(t), o.Dir, acme, "acme2", nil); !errors.Is(err, ErrInUse) {
		t.Errorf("while the engine runs: %v", err)
	}
	if err := e.Stop(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := restoreInto(testContext(t), o.Dir, home, "acme", nil); !errors.Is(err, backup.ErrExists) {
		t.Errorf("over acme: %v", err)
	}
	if _, err := restoreInto(testContext(t), t.TempDir(), acme, "acme2", nil); err == nil || !strings.Contains(err.Error(), "no data folder") {
		t.Errorf("into an empty folder: %v", err)
	}
	if _, err := restoreInto(testContext(t), filepath.Join(t.TempDir(), "new"), acme, "", nil); err == nil || !strings.Contains(err.Error(), "of the namespace acme") {
		t.Errorf("without a namespace: %v", err)
	}

	// One that was interrupted keeps only its own namespace from starting.
	ctx, cancel := context.WithCancel(testContext(t))
	if _, err := restoreInto(ctx, o.Dir, acme, "acme2", func(what string, _, _ int64) {
		if strings.HasPrefix(what, "compare") || strings.HasPrefix(what, "replay") {
			cancel()
		}
	}); !errors.Is(err, context.Canceled) {
		t.Fatalf("interrupted: %v", err)
	}
	e = mustStart(t, o)
	awaitNamespace(t, e, "acme")
	c := inNamespace(t, e, "default")
	if _, err := c.Namespaces().Set(testContext(t), "acme2", streamwright.NamespaceChange{}); err != nil {
		t.Fatal(err)
	}
	need.Eventually(t, "acme2 is refused", func() bool {
		ns, err := c.Namespaces().Get(testContext(t), "acme2")
		return err == nil && ns.State != nil && strings.Contains(ns.State.Error, "restore again")
	})
	if err := e.Stop(testContext(t)); err != nil {
		t.Fatal(err)
	}

	for name, from := range map[events.Namespace]string{"acme2": acme, "gamma": home} {
		done, err := restoreInto(testContext(t), o.Dir, from, name, nil)
		if err != nil || done.Namespace != name || done.Documents == 0 || done.Logs != 1 {
			t.Fatalf("%s: %+v, %v", name, done, err)
		}
	}
	e = mustStart(t, o)
	addNamespaces(t, e, "gamma")
	awaitNamespace(t, e, "acme2")
	awaitNamespace(t, e, "acme")
	checkFilled(t, e, "acme", "acme", id, 3)
	checkFilled(t, e, "default", "default", homeID, 2)
	checkFilled(t, e, "acme2", "acme", id, 3)
	checkFilled(t, e, "gamma", "default", homeID, 2)
	for _, name := range []string{"acme2", "gamma"} {
		runIn(t, e, name, streamwright.Item{Type: "email", Params: 1})
		if got := slices.Sorted(slices.Values(streamsOf(t, e, name))); len(got) < 4 {
			t.Errorf("%s has the streams %v", name, got)
		}
	}
	if err := e.Stop(testContext(t)); err != nil {
		t.Fatal(err)
	}
}

// Nodes begin a namespace with a backup of another one when it is added: those of a cluster, and
// one alone. They may start with that backup again.
func TestServeRestoresANamespace(t *testing.T) {
	need.Seconds(t)
	t.Parallel()
	alone := Options{Dir: t.TempDir(), NATSListen: "127.0.0.1:0", HTTP: config.Off, Durability: config.Interval, Logger: need.Logger(t)}
	alone.Config.NATS.Users = []config.NATSUser{userIn(t, "ops", "acme/operate")}
	from := mustStart(t, alone)
	addNamespaces(t, from, "acme")
	id, acme := fillNamespace(t, from, "acme"), filepath.Join(t.TempDir(), "acme")
	if _, err := backUp(t, from, "ops", "acme", acme); err != nil {
		t.Fatal(err)
	}
	alone.Dir = t.TempDir()
	for name, all := range map[string][]Options{"alone": {alone}, "cluster": clusterOptions(t, 3)} {
		t.Run(name, func(t *testing.T) {
			for i := range all {
				all[i].RestoreNamespaces = map[events.Namespace]string{"beta": acme, "other": acme}
			}
			engines := startEngines(t, all...)
			addNamespaces(t, engines[0], "beta", "gamma")
			checkFilled(t, engines[0], "beta", "acme", id, 2)
			if its, err := inNamespace(t, engines[0], "gamma").List(testContext(t), streamwright.Filter{}); err != nil || len(its.Items) > 0 {
				t.Errorf("a namespace without a backup: %+v, %v", its, err)
			}
			last := len(all) - 1
			if err := engines[last].Stop(testContext(t)); err != nil {
				t.Fatal(err)
			}
			e := startEngines(t, all[last])[0]
			awaitNamespace(t, e, "beta")
			checkFilled(t, e, "beta", "acme", id, 2)
		})
	}
}

// On an existing NATS a namespace is restored while the engine runs, with what nobody had
// decided yet.
func TestRestoreIntoANamespaceOfAnExistingNATS(t *testing.T) {
	srv, err := natsserver.NewServer(&natsserver.Options{Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), MaxPayload: 4 << 20, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	o := Options{Dir: t.TempDir(), NATSURL: srv.ClientURL(), HTTP: config.Off, Logger: need.Logger(t)}
	e := mustStart(t, o)
	addNamespaces(t, e, "acme")
	id := fillNamespace(t, e, "acme")
	if err := e.Stop(testContext(t)); err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(srv.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	acme := e.names().Namespace("acme")
	if _, err := nc.Request(acme.Submit("letter"), []byte(`{"undecided":true}`), testTimeout); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if _, err := backup.Take(testContext(t), backup.Options{Conn: nc, Names: acme, Target: dir}); err != nil {
		t.Fatal(err)
	}
	e = mustStart(t, o)
	into := RestoreOptions{Options: Options{NATSURL: srv.ClientURL()}, Backup: dir, Namespace: "acme2"}
	if done, err := Restore(testContext(t), into); err != nil || done.Already || done.Intake != 1 {
		t.Fatalf("%+v, %v", done, err)
	}
	if done, err := Restore(testContext(t), into); err != nil || !done.Already {
		t.Errorf("again: %+v, %v", done, err)
	}
	into.Namespace = "acme"
	if done, err := Restore(testContext(t), into); !errors.Is(err, backup.ErrExists) {
		t.Errorf("over acme: %+v, %v", done, err)
	}
	addNamespaces(t, e, "acme2")
	for _, name := range []string{"acme", "acme2"} {
		need.Eventually(t, "the submission is decided in "+name, func() bool {
			n := 0
			for range inNamespace(t, e, name).All(testContext(t), streamwright.Filter{Type: "letter"}) {
				n++
			}
			return n == 2
		})
		checkFilled(t, e, name, "acme", id, 3)
		runIn(t, e, name, streamwright.Item{Type: "email", Params: 1})
	}
}

// The log of one namespace is lost. The others go on, and a salvage makes it a new log of its
// store.
func TestSalvageNamespace(t *testing.T) {
	slow(t)
	t.Parallel()
	o := Options{Dir: t.TempDir()}
	e := mustStart(t, o)
	addNamespaces(t, e, "acme", "beta")
	id := fillNamespace(t, e, "acme")
	runIn(t, e, "beta", streamwright.Item{Type: "email", Params: 1})
	stopEngine(t, e)
	lost, err := filepath.Glob(filepath.Join(o.Dir, "jetstream", "*", "streams", "WORK-ACME_EVENTS_0"))
	if err != nil || len(lost) != 1 {
		t.Fatalf("%v, %v", lost, err)
	}
	if err := os.RemoveAll(lost[0]); err != nil {
		t.Fatal(err)
	}

	e = mustStart(t, o)
	awaitNamespace(t, e, "beta")
	list := inNamespace(t, e, "default").Namespaces()
	need.Eventually(t, "acme says that its log is lost", func() bool {
		n, err := list.Get(testContext(t), "acme")
		return err == nil && n.State.State == wire.NamespaceFailed && strings.Contains(n.State.Error, "engine salvage")
	})
	stopEngine(t, e)

	yes := func(Salvageable) bool { return true }
	if _, err := Salvage(testContext(t), SalvageOptions{Options: o, Namespace: "gone", Confirm: yes}); err == nil || !strings.Contains(err.Error(), "gone") {
		t.Errorf("a namespace that is not there: %v", err)
	}
	done, err := Salvage(testContext(t), SalvageOptions{Options: o, Namespace: "acme", Confirm: yes})
	if err != nil || !done.Written || done.Items != 2 || filepath.Dir(done.Aside) != filepath.Join(o.Dir, "namespaces", "acme") {
		t.Fatalf("%+v, %v", done, err)
	}

	e = mustStart(t, o)
	for _, name := range []string{"default", "acme", "beta"} {
		if name != "default" {
			awaitNamespace(t, e, name)
		}
		if p, err := inNamespace(t, e, name).Engine().Verify(testContext(t), nil); err != nil || !p.Equal {
			t.Errorf("verify %s: %+v, %v", name, p, err)
		}
	}
	if it, err := inNamespace(t, e, "acme").Get(testContext(t), id); err != nil || it.State != events.StateCompleted {
		t.Errorf("%+v, %v", it, err)
	}
	runIn(t, e, "acme", streamwright.Item{Type: "email", Params: 1})
}
