package embedded

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

// hubOf are the options of a hub with the namespaces acme and beta, and the mirrors lab of
// default, acme-1 and acme-2 of acme, and beta-1 of beta. The folders of the namespaces are
// there, so that its NATS server need not read its accounts again, which is not for the race
// detector (see [need.NoReload]).
func hubOf(t *testing.T, dir, leaf string) Options {
	t.Helper()
	o := mirroredHub(dir, leaf)
	o.Config.Namespaces = map[events.Namespace]config.Namespace{}
	for site, ns := range map[string]events.Namespace{"acme-1": "acme", "acme-2": "acme", "beta-1": "beta"} {
		o.Config.Leaf.Sites = append(o.Config.Leaf.Sites, config.LeafSite{Name: site, Token: labToken, Mirror: true, Namespace: ns})
		o.Config.Namespaces[ns] = config.Namespace{}
		if err := os.MkdirAll((&dataDir{path: dir}).namespacePath(ns), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

// mirrorIn are the options of the mirror of a namespace.
func mirrorIn(dir, leaf, site string, ns events.Namespace) MirrorOptions {
	o := mirrorOptions(dir, leaf)
	o.Site, o.Namespace = site, ns
	return o
}

// submitIn submits an item in a namespace, and returns its id.
func submitIn(t *testing.T, e *Engine, name string) wire.Submitted {
	t.Helper()
	s, err := inNamespace(t, e, name).Submit(testContext(t), streamwright.Item{Type: "parcel", Params: name})
	if err != nil {
		t.Fatal(err)
	}
	return wire.Submitted{ID: s.ID}
}

// sameDigest verifies the store of a mirror and that of its hub: both are the same.
func sameDigest(t *testing.T, m *Mirror, hub *space) {
	t.Helper()
	hasAll(t, m, hub)
	here, err := m.e.decider.Verify(testContext(t), nil)
	there, herr := hub.decider.Verify(testContext(t), nil)
	if err != nil || herr != nil || !here.Equal || !there.Equal || here.Digest != there.Digest {
		t.Errorf("the mirror: %+v, %v; its hub: %+v, %v", here, err, there, herr)
	}
}

// mirrorsOf returns the mirrors that a namespace's status lists.
func mirrorsOf(s *space) (names []string) {
	for _, st := range s.faces.sites.states() {
		if st.Connected {
			names = append(names, st.Site)
		}
	}
	return names
}

// Mirrors of several namespaces follow one hub at once, several of one namespace too. Each has
// the log of its own, and answers as its hub does in that namespace.
func TestMirrorOfANamespace(t *testing.T) {
	slow(t)
	t.Parallel()
	leaf := need.Address(t).String()
	hub := mustStart(t, hubOf(t, t.TempDir(), leaf))
	spaces := map[string]*space{"default": hub.space, "acme": awaitNamespace(t, hub, "acme"), "beta": awaitNamespace(t, hub, "beta")}
	items := map[string]wire.Submitted{}
	for name := range spaces {
		items[name] = submitIn(t, hub, name)
	}
	var acme *Mirror
	for site, name := range map[string]string{"lab": "default", "acme-1": "acme", "acme-2": "acme", "beta-1": "beta"} {
		ns := events.Namespace(name)
		if name == "default" {
			ns = ""
		}
		m := mustStartMirror(t, mirrorIn(t.TempDir(), leaf, site, ns))
		sameDigest(t, m, spaces[name])
		if n := listed(t, m.e, "parcel"); n != 1 {
			t.Errorf("the mirror of %s has %d items", name, n)
		}
		if it := get(t, m.e, items[name]); string(it.Params) != fmt.Sprintf("%q", name) {
			t.Errorf("the mirror of %s has %+v", name, it)
		}
		if site == "acme-1" {
			acme = m
		}
	}
	for name, want := range map[string][]string{"default": {"lab"}, "acme": {"acme-1", "acme-2"}, "beta": {"beta-1"}} {
		until(t, "the mirrors of "+name, func() bool {
			got := mirrorsOf(spaces[name])
			slices.Sort(got)
			return slices.Equal(got, want)
		})
	}
	next := submitIn(t, hub, "acme")
	hasAll(t, acme, spaces["acme"])
	if why := request[wire.WhyReply](t, acme.e, wire.APIWhy, wire.Why{ID: next.ID}); len(why.Reasons) == 0 {
		t.Errorf("why, which the hub says: %+v", why)
	}
	if kinds := kindsOf(t, acme.e, next.ID); !slices.Equal(kinds, []string{"created", "queued"}) {
		t.Errorf("its history is %v", kinds)
	}
	id, err := events.ParseID(next.ID)
	if err != nil {
		t.Fatal(err)
	}
	hubConn := inNamespace(t, hub, "acme").Conn()
	if err := hubConn.Publish(wire.Default.Namespace("acme").Log("parcel", id), []byte(`{"message":"packed"}`)); err != nil {
		t.Fatal(err)
	}
	until(t, "the item's log is there", func() bool {
		return len(request[wire.LogsReply](t, acme.e, wire.APILogs, wire.Logs{ID: next.ID}).Records) == 1
	})
	refusesWork(t, acme, leaf)
	_, err = mirrorClient(t, acme).Engine().Info(testContext(t)) // of a client that names no namespace
	if events.CodeOf(err) != events.CodeNotFound || !strings.Contains(err.Error(), "only the namespace acme here: use --namespace acme") {
		t.Error(err)
	}
	paths(t, acme)
}

// paths tries the mirror of acme over HTTP: it answers where an engine answers for acme.
func paths(t *testing.T, m *Mirror) {
	t.Helper()
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for path, want := range map[string]struct {
		status int
		text   string
	}{
		"/":                    {http.StatusFound, `href="/ns/acme/"`},
		"/ns/acme":             {http.StatusMovedPermanently, `href="/ns/acme/"`},
		"/ns/acme/":            {http.StatusOK, "<title>Streamwright</title>"},
		"/ns/acme/api/v1/work": {http.StatusOK, `"type":"parcel"`},
		"/ns/acme/metrics":     {http.StatusOK, "work_"},
		"/ns/acme/readyz":      {http.StatusOK, `"ready":true`},
		"/readyz":              {http.StatusOK, `"ready":true`},
		"/healthz":             {http.StatusOK, `"status":"mirror"`},
		"/api/v1/work":         {http.StatusNotFound, "paths below /ns/acme/"},
		"/metrics":             {http.StatusNotFound, "paths below /ns/acme/"},
		"/ns/beta/api/v1/work": {http.StatusNotFound, `no namespace \"beta\" here`},
	} {
		r, err := client.Get(m.HTTPURL() + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil || r.StatusCode != want.status || !strings.Contains(string(body), want.text) {
			t.Errorf("%s: %s %.300s, %v", path, r.Status, body, err)
		}
	}
}

// A mirror of a namespace with users of its own answers those who have a role in the namespace.
func TestMirrorOfANamespaceWithUsers(t *testing.T) {
	slow(t)
	t.Parallel()
	leaf := need.Address(t).String()
	hub := mustStart(t, hubOf(t, t.TempDir(), leaf))
	submitIn(t, hub, "acme")
	o := mirrorIn(t.TempDir(), leaf, "acme-1", "acme")
	o.Options.Config = config.Default()
	o.Options.Config.NATS.Users = []config.NATSUser{userIn(t, "here", "acme/read"), userIn(t, "all", "*/read"), userIn(t, "there", "read", "beta/read")}
	const here, there = "here-0123456789abcdef", "there-0123456789abcde"
	o.Options.HTTPTokens = "here " + here + " acme/read;there " + there + " read,beta/read"
	m := mustStartMirror(t, o)
	sameDigest(t, m, awaitNamespace(t, hub, "acme"))
	for user, may := range map[string]bool{"here": true, "all": true, "there": false} {
		nc, n := dial(t, m.e.srv, user), m.e.names()
		within := testTimeout
		if !may {
			within = 150 * time.Millisecond // what is refused is not answered at all
		}
		r, err := nc.Request(n.API(wire.APIStats), []byte(`{}`), within)
		if got := err == nil && strings.Contains(string(r.Data), "parcel"); got != may {
			t.Errorf("%s: %v, %v", user, got, err)
		}
		if got := mayHear(t, nc, n.EventAll()); got != may {
			t.Errorf("%s may hear events: %v", user, got)
		}
	}
	for token, want := range map[string]int{here: http.StatusOK, there: http.StatusNotFound, "": http.StatusUnauthorized} {
		r, err := http.NewRequest(http.MethodGet, m.HTTPURL()+"/ns/acme/api/v1/work", nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("with the token %.5q: %s", token, resp.Status)
		}
	}
}

// Cut off, a mirror of a namespace says so, answers, and goes on where it was. It takes nothing of
// a hub that was restored to an earlier position, until its folder is removed.
func TestMirrorOfANamespaceCutOff(t *testing.T) {
	slow(t)
	t.Parallel()
	leaf := need.Address(t).String()
	hubDir, old, dir := t.TempDir(), t.TempDir(), t.TempDir()
	hub := mustStart(t, hubOf(t, hubDir, leaf))
	submitIn(t, hub, "acme")
	stopEngine(t, hub)
	if err := os.CopyFS(old, os.DirFS(hubDir)); err != nil {
		t.Fatal(err)
	}
	hub = mustStart(t, hubOf(t, hubDir, leaf))
	item := submitIn(t, hub, "acme")
	m := mustStartMirror(t, mirrorIn(dir, leaf, "acme-1", "acme"))
	sameDigest(t, m, awaitNamespace(t, hub, "acme"))
	stopEngine(t, hub)
	until(t, "the mirror says that it is cut off", func() bool { return strings.Contains(m.State().CutOff, "the link is down") })
	if !alarmed(t, m, wire.AlarmCutOff) {
		t.Error("there is no alarm")
	}
	stopMirror(t, m)
	m = mustStartMirror(t, mirrorIn(dir, leaf, "acme-1", "acme"))
	if got := get(t, m.e, item); got.State != events.StateQueued {
		t.Errorf("%+v", got)
	}
	hub = mustStart(t, hubOf(t, hubDir, leaf))
	awaitNamespace(t, hub, "acme")
	submitIn(t, hub, "acme")
	sameDigest(t, m, awaitNamespace(t, hub, "acme"))
	at := m.e.ledger.store.Applied()
	stopEngine(t, hub)

	hub = mustStart(t, hubOf(t, old, leaf))
	acme := awaitNamespace(t, hub, "acme")
	followsNoOther(t, m, at, dir, leaf, hub, acme, "restored to an earlier position")
}

// followsNoOther checks that a mirror that came to at takes nothing of a log of acme that is not the
// one that it has, and says why; and that it follows that one once its folder is removed.
func followsNoOther(t *testing.T, m *Mirror, at events.Seq, dir, leaf string, hub *Engine, acme *space, why string) {
	t.Helper()
	for acme.decider.dispatcher.Position() < at+20 {
		submitIn(t, hub, "acme")
	}
	until(t, "the mirror says why it does not follow", func() bool { return strings.Contains(m.State().CutOff, why) })
	if got := m.e.ledger.store.Applied(); got != at {
		t.Errorf("the mirror went from %d to %d", at, got)
	}
	stopMirror(t, m)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	sameDigest(t, mustStartMirror(t, mirrorIn(dir, leaf, "acme-1", "acme")), acme)
}

// A mirror waits for its namespace, follows it while it is paused and while others come, says that
// it is gone, and takes nothing of another one of that name.
func TestMirrorOfANamespaceThatComesAndGoes(t *testing.T) {
	slow(t)
	need.NoReload(t)
	t.Parallel()
	leaf, dir := need.Address(t).String(), t.TempDir()
	o := mirroredHub(t.TempDir(), leaf)
	o.Config.Leaf.Sites = append(o.Config.Leaf.Sites, config.LeafSite{Name: "acme-1", Token: labToken, Mirror: true, Namespace: "acme"})
	hub := mustStart(t, o)
	submit(t, hub, wire.Submit{Type: "parcel"})
	home, m := mustStartMirror(t, mirrorOptions(t.TempDir(), leaf)), mustStartMirror(t, mirrorIn(dir, leaf, "acme-1", "acme"))
	caughtUp(t, home, hub)
	until(t, "it says that there is no such namespace", func() bool {
		return strings.Contains(m.State().CutOff, "see that the hub has the namespace acme")
	})
	addNamespaces(t, hub, "acme", "beta")
	submitIn(t, hub, "acme")
	acme := awaitNamespace(t, hub, "acme")
	sameDigest(t, m, acme)
	list := inNamespace(t, hub, "default").Namespaces()
	if _, err := list.Pause(testContext(t), "acme"); err != nil {
		t.Fatal(err)
	}
	last := submitIn(t, hub, "acme")
	sameDigest(t, m, acme)
	submit(t, hub, wire.Submit{Type: "parcel"})
	sameDigest(t, home, hub.space) // which the reloads of the NATS server did not disturb

	if _, err := list.Remove(testContext(t), "acme", streamwright.RemoveNamespace{Force: true}); err != nil {
		t.Fatal(err)
	}
	until(t, "it says that the namespace is gone", func() bool {
		return strings.Contains(m.State().CutOff, "see that the hub has the namespace acme")
	})
	if got := get(t, m.e, last); got.ID != last.ID {
		t.Errorf("%+v", got)
	}
	mustVerify(t, m.e)
	at := m.e.ledger.store.Applied()
	need.Eventually(t, "acme is gone", func() bool { return hub.spaces.get("acme") == nil })
	addNamespaces(t, hub, "acme")
	acme = awaitNamespace(t, hub, "acme")
	followsNoOther(t, m, at, dir, leaf, hub, acme, "or the namespace acme was removed there and added again")
}

// A mirror of a namespace follows it from node to node, through a node that need not own it.
func TestMirrorOfANamespaceOfACluster(t *testing.T) {
	slow(t)
	need.NoReload(t)
	t.Parallel()
	all := clusterOptions(t, 3)
	leaf := need.Address(t).String()
	for i := range all {
		all[i].Config.Leaf = hubOf(t, t.TempDir(), need.Address(t).String()).Config.Leaf
	}
	all[0].Config.Leaf.Listen = leaf
	engines := startEngines(t, all...)
	addNamespaces(t, engines[0], "acme")
	for _, e := range engines {
		awaitNamespace(t, e, "acme")
	}
	m := mustStartMirror(t, mirrorIn(t.TempDir(), leaf, "acme-1", "acme"))
	list := inNamespace(t, engines[0], "default").Namespaces()
	for i := range engines {
		if _, err := list.Move(testContext(t), "acme", all[i].Cluster.Node); err != nil {
			t.Fatal(err)
		}
		need.Eventually(t, "acme is where it was moved to", func() bool { return ownerOf(engines, "acme") == i })
		submitIn(t, engines[0], "acme")
		sameDigest(t, m, awaitNamespace(t, engines[i], "acme"))
	}
	if n := listed(t, m.e, "parcel"); n != 3 {
		t.Errorf("it has %d items", n)
	}
}

// Who has the token of a mirror of a namespace, and a NATS server of his own, reads the log of that
// namespace and does nothing else: there or in another one, nothing of his is answered, heard, or
// has an effect.
func TestMirrorTokenOpensOneNamespace(t *testing.T) {
	t.Parallel()
	leaf := need.Address(t).String()
	hub := mustStart(t, hubOf(t, t.TempDir(), leaf))
	spaces := map[events.Namespace]*space{events.DefaultNamespace: hub.space, "acme": awaitNamespace(t, hub, "acme"), "beta": awaitNamespace(t, hub, "beta")}
	sites := map[events.Namespace][]string{events.DefaultNamespace: {"lab"}, "acme": {"acme-1", "acme-2"}, "beta": {"beta-1"}}
	before := map[events.Namespace]eventlog.Tip{}
	for ns, s := range spaces {
		tip, err := s.ledger.eventLog.Last(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		before[ns] = tip
	}
	spy, err := hub.connect(true)
	if err != nil {
		t.Fatal(err)
	}
	defer spy.Close()
	for ns, site := range map[events.Namespace]string{events.DefaultNamespace: "lab", "acme": "acme-1"} {
		own := wire.Default.Namespace(ns)
		nc := malloryAt(t, leaf, site)
		if answer := nc.ask(own.MirrorAsk(site), `{}`); !strings.Contains(answer, `"last"`) {
			t.Errorf("the hub answers %s", answer)
		}
		got, err := spy.SubscribeSync(">") // all that reaches the engine's account
		if err != nil {
			t.Fatal(err)
		}
		var heard []*nats.Subscription
		for _, pattern := range []string{">", "work.>", "work-acme.>", "work-beta.>", "*.event.>", "*.mirror.>", "$JS.>", "$KV.>", "$O.>", "_INBOX.>", "_R_.>"} {
			sub, err := nc.SubscribeSync(pattern)
			if err != nil {
				t.Fatal(err)
			}
			heard = append(heard, sub)
		}
		if err := nc.FlushTimeout(testTimeout); err != nil {
			t.Fatal(err)
		}
		var secrets, tries []string
		for other := range spaces {
			n := wire.Default.Namespace(other)
			stream := n.EventStream(0)
			for _, s := range sites[other] {
				if s != site {
					tries, secrets = append(tries, n.MirrorAsk(s)), append(secrets, n.MirrorFeed(s)+".x")
				}
			}
			if other != ns {
				tries, secrets = append(tries, n.MirrorAsk(site)), append(secrets, n.MirrorFeed(site)+".x")
			}
			secrets = append(secrets, n.Event(0, "parcel", events.KindQueued), n.Control("w1"), n.API(wire.APIStats), "$KV."+n.Bucket("workers")+".w1", "$O."+n.Bucket("blobs")+".C.x")
			tries = append(tries, n.Submit("parcel"), n.Intake(0, "parcel"), n.Event(0, "parcel", events.KindCompleted), n.Frame(0), n.Nodes(), n.Lease(0), n.Held(), n.Control("w1"),
				"$JS.API.STREAM.DELETE."+stream, "$JS.API.STREAM.INFO."+stream, "$JS.API.STREAM.MSG.GET."+stream, "$JS.API.DIRECT.GET."+stream, "$JS.API.CONSUMER.CREATE."+stream,
				"$JS.work.API.STREAM.INFO."+stream, "$JS.work.API.STREAM.MSG.GET."+stream, "$KV."+n.Bucket("dedup")+".x", "$JS.ACK."+n.DispatchStream()+".email.1.1.1.1.0")
			for _, e := range wire.Endpoints() {
				tries = append(tries, n.API(e.Name), n.Forward(e.Name))
			}
		}
		// Each is asked at once, and the last question is answered behind them all.
		replies, err := nc.SubscribeSync("_INBOX.mallory.>")
		if err != nil {
			t.Fatal(err)
		}
		for i, subject := range tries {
			if err := nc.PublishRequest(subject, fmt.Sprintf("_INBOX.mallory.%d", i), []byte(`{"seq":1,"type":"mallory"}`)); err != nil {
				t.Fatal(err)
			}
		}
		// An answer of the engine goes to where it was asked from, whatever that is called.
		for other := range spaces {
			n := wire.Default.Namespace(other)
			for _, reply := range []string{"$JS.API.STREAM.DELETE." + n.EventStream(0), n.Submit("parcel"), n.API(wire.APICut)} {
				if err := errors.Join(nc.PublishRequest(own.MirrorAsk(site), reply, []byte(`{}`)), nc.PublishRequest("$JS.FC."+own.EventStream(0)+".x", reply, nil)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if answer := nc.ask(own.MirrorAsk(site), `{}`); !strings.Contains(answer, `"last"`) {
			t.Errorf("%s is not answered any more: %s", site, answer)
		}
		for _, subject := range secrets {
			if err := spy.Publish(subject, []byte("secret")); err != nil {
				t.Fatal(err)
			}
		}
		if err := spy.Publish(own.MirrorFeed(site)+".x", []byte("the last")); err != nil {
			t.Fatal(err)
		}
		for last := false; !last; {
			m, err := heard[0].NextMsg(testTimeout)
			if err != nil {
				t.Fatalf("%s does not hear what is its own: %v", site, err)
			}
			if last = string(m.Data) == "the last"; string(m.Data) == "secret" {
				t.Errorf("%s hears %s", site, m.Subject)
			}
		}
		if err := spy.FlushTimeout(testTimeout); err != nil {
			t.Fatal(err)
		}
		if m, err := replies.NextMsg(0); err == nil {
			t.Errorf("%s is answered: %s: %s", site, m.Subject, m.Data)
		}
		for _, sub := range heard[1:] {
			for m, err := sub.NextMsg(0); err == nil; m, err = sub.NextMsg(0) {
				if string(m.Data) == "secret" {
					t.Errorf("%s hears %s by %s", site, m.Subject, sub.Subject)
				}
			}
		}
		for m, err := got.NextMsg(0); err == nil; m, err = got.NextMsg(0) {
			if strings.Contains(string(m.Data), "mallory") {
				t.Errorf("what %s sends reaches %s", site, m.Subject)
			}
		}
		for _, stream := range []string{wire.Default.EventStream(0), wire.Default.LogStream(), own.IntakeStream(), wire.Default.Namespace("beta").EventStream(0)} {
			if stream == own.EventStream(0) || stream == own.LogStream() {
				continue
			}
			body, err := json.Marshal(map[string]any{"stream": stream, "from": 1})
			if err != nil {
				t.Fatal(err)
			}
			if answer := nc.ask(own.MirrorAsk(site), string(body)); !strings.Contains(answer, `"forbidden"`) {
				t.Errorf("%s asks for the stream %s: %s", site, stream, answer)
			}
		}
		if ns != events.DefaultNamespace {
			for _, endpoint := range []string{wire.APINamespaces, wire.APINamespace} {
				if answer := nc.ask(own.MirrorAsk(site), `{"endpoint":"`+endpoint+`","body":{"name":"beta"}}`); !strings.Contains(answer, `"error"`) || strings.Contains(answer, "created_at") {
					t.Errorf("%s asks for %s: %s", site, endpoint, answer)
				}
			}
		}
		if err := got.Unsubscribe(); err != nil {
			t.Fatal(err)
		}
	}
	for ns, s := range spaces {
		intake, err := natsJetStream(t, hub).Stream(testContext(t), s.names().IntakeStream())
		if err != nil || intake.CachedInfo().State.LastSeq != 0 {
			t.Errorf("the intake of %s: %+v, %v", ns, intake, err)
		}
		after, err := s.ledger.eventLog.Last(testContext(t))
		if was := before[ns]; err != nil || after.Seq != was.Seq || !after.Created.Equal(was.Created) {
			t.Errorf("the log of %s was %+v, is %+v, %v", ns, was, after, err)
		}
	}
}

// In an open engine no client answers a mirror in place of the hub, nor hears what it is sent.
func TestNobodyAnswersForAHub(t *testing.T) {
	t.Parallel()
	o := testOptions()
	o.Listen, o.Namespaces = "127.0.0.1:0", []events.Namespace{"acme"}
	s := mustServe(t, o)
	for _, ns := range []events.Namespace{events.DefaultNamespace, "acme"} {
		n := wire.Default.Namespace(ns)
		for _, subject := range []string{n.MirrorAsk("lab"), n.MirrorFeed("lab") + ".>", n.MirrorOrigin() + ".>", n.MirrorAll()} {
			if mayHear(t, dial(t, s, ""), subject) {
				t.Errorf("a client may hear %s", subject)
			}
		}
	}
}
