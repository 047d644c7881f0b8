package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

const labToken = "lab-0123456789"

// hubOptions are those of a hub with the sites lab and van.
func hubOptions(dir, leaf string) Options {
	o := quiet(dir)
	o.Config.Leaf = config.Leaf{Listen: leaf, Sites: []config.LeafSite{{Name: "lab", Token: labToken}, {Name: "van", Token: "van-0123456789"}}}
	return o
}

func mustStartEdge(t *testing.T, o EdgeOptions) *Edge {
	t.Helper()
	if o.NATSListen == "" {
		o.NATSListen = "127.0.0.1:0"
	}
	e, err := StartEdge(testContext(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopEdge(t, e) })
	return e
}

func stopEdge(t *testing.T, e *Edge) {
	t.Helper()
	if err := e.Stop(testContext(t)); err != nil {
		t.Error(err)
	}
}

func edgeConn(t *testing.T, e *Edge) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(e.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// put publishes a submission at a site, and returns the server's refusal, if any.
func put(t *testing.T, nc *nats.Conn, header nats.Header, body string) *jetstream.APIError {
	t.Helper()
	m, err := nc.RequestMsgWithContext(testContext(t), &nats.Msg{Subject: wire.Default.Submit("parcel"), Header: header, Data: []byte(body)})
	if err != nil {
		t.Fatal(err)
	}
	var ack struct{ Error *jetstream.APIError }
	if err := json.Unmarshal(m.Data, &ack); err != nil {
		t.Fatal(err)
	}
	return ack.Error
}

func edgeState(t *testing.T, e *Edge) EdgeState {
	t.Helper()
	st, err := e.State(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// What was published while the hub was away is taken in once when it comes; so is what is
// published after. Requests reach the hub through the site while it is connected; else
// the site says that it is cut off.
func TestSite(t *testing.T) {
	slow(t)
	t.Parallel()
	leaf, dir := need.Address(t).String(), t.TempDir()
	var text need.Log
	edge := mustStartEdge(t, EdgeOptions{Site: "lab", Hub: leaf, Token: labToken, Dir: t.TempDir(), Logger: slog.New(slog.NewTextHandler(&text, nil))})
	nc := edgeConn(t, edge)
	at, err := streamwright.Connect(testContext(t), edge.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	short, cancel := context.WithTimeout(testContext(t), time.Second)
	defer cancel()
	if _, err := at.Engine().Stats(short); err == nil || !strings.Contains(err.Error(), "the site lab is cut off") {
		t.Errorf("stats while cut off: %v", err)
	}
	for i := range 5 {
		if refused := put(t, nc, nil, fmt.Sprint(i)); refused != nil {
			t.Fatal(refused)
		}
	}
	if st := edgeState(t, edge); st.Connected || st.Waiting != 5 {
		t.Errorf("cut off: %+v", st)
	}
	until(t, "the site says that the hub is down", func() bool { return strings.Contains(text.String(), "the hub can't be reached") })
	if said := text.String(); strings.Contains(said, "level=ERROR") {
		t.Errorf("a hub that is down is an error:\n%s", said)
	}
	hub := mustStart(t, hubOptions(dir, leaf))
	until(t, "all is decided", func() bool { st := edgeState(t, edge); return st.Connected && st.Waiting == 0 })
	for range 2 { // the second repeats the message id
		if refused := put(t, nc, nats.Header{nats.MsgIdHdr: {"a"}}, "5"); refused != nil {
			t.Fatal(refused)
		}
	}
	if refused := put(t, nc, nil, "{"); refused != nil { // decided too: it is rejected
		t.Fatal(refused)
	}
	until(t, "all is decided", func() bool { return edgeState(t, edge).Waiting == 0 })
	s, err := at.Engine().Stats(testContext(t))
	if err != nil || s.States[events.StateQueued.String()] != 6 || s.Rejected != 1 {
		t.Fatalf("stats through the site: %+v, %v", s, err)
	}
	if len(s.Sites) != 2 || s.Sites[0].Site != "lab" || !s.Sites[0].Connected || s.Sites[1].Connected {
		t.Errorf("sites: %+v", s.Sites)
	}
	// A site may not write the engine's events, nor manage its streams; and reads no other's.
	for _, subject := range []string{wire.Default.Event(0, "parcel", events.KindCompleted), "$JS.API.STREAM.DELETE." + wire.Default.SiteStream("lab")} {
		short, cancel := context.WithTimeout(testContext(t), time.Second)
		if m, err := nc.RequestWithContext(short, subject, nil); err == nil {
			t.Errorf("%s is answered: %s", subject, m.Data)
		}
		cancel()
	}
	// What was decided is dropped there, later.
	meta, err := hub.ledger.store.Meta()
	if err != nil {
		t.Fatal(err)
	}
	hub.faces.sites.stop() // from here on it looks when we say
	for _, look := range []struct {
		at   time.Duration
		keep uint64
	}{{siteKeep / 2, 7}, {2 * siteKeep, 7}, {3*siteKeep + time.Second, 0}} {
		hub.faces.sites.mu.Lock()
		if look.at == 2*siteKeep { // as if all had been decided now
			hub.faces.sites.all[0].answered, hub.faces.sites.all[0].since = meta.SiteSeq("lab"), time.Now().Add(look.at)
		}
		hub.faces.sites.mu.Unlock()
		if err := hub.faces.sites.look(testContext(t), 0, time.Now().Add(look.at)); err != nil {
			t.Fatal(err)
		}
		has, err := edge.js.Stream(testContext(t), wire.Default.SiteStream("lab"))
		if err != nil {
			t.Fatal(err)
		}
		if kept := has.CachedInfo().State.Msgs; kept != look.keep {
			t.Errorf("%s on, the site keeps %d messages", look.at, kept)
		}
	}
	stopEngine(t, hub)
	again := mustStart(t, hubOptions(dir, leaf))
	if m, err := again.ledger.store.Meta(); err != nil || m.SiteSeq("lab") != meta.SiteSeq("lab") || m.SiteSeq("lab") == 0 {
		t.Errorf("the hub has decided up to %d, and after a restart up to %d, %v", meta.SiteSeq("lab"), m.SiteSeq("lab"), err)
	}
}

// A site with a wrong token is kept out, and says so. What is published there waits.
func TestSiteWithWrongToken(t *testing.T) {
	t.Parallel()
	leaf := need.Address(t).String()
	hub := mustStart(t, hubOptions(t.TempDir(), leaf))
	edge := mustStartEdge(t, EdgeOptions{Site: "lab", Hub: leaf, Token: "van-0123456789", Dir: t.TempDir()})
	if refused := put(t, edgeConn(t, edge), nil, "1"); refused != nil {
		t.Fatal(refused)
	}
	until(t, "the hub refuses the site", func() bool { return strings.Contains(edgeState(t, edge).Refused, "refuses the login") })
	if err := hub.faces.sites.look(testContext(t), 0, time.Now()); err == nil {
		t.Error("the hub reads the site's stream")
	}
	if st := edgeState(t, edge); st.Waiting != 1 {
		t.Errorf("%+v", st)
	}
}

// At its bound a site refuses publishes, and loses nothing that it has acknowledged.
func TestSiteFull(t *testing.T) {
	t.Parallel()
	leaf := need.Address(t).String()
	edge := mustStartEdge(t, EdgeOptions{Site: "lab", Hub: leaf, Token: labToken, Dir: t.TempDir(), MaxBytes: MinEdgeBytes, Durability: config.Interval})
	nc := edgeConn(t, edge)
	large := `"` + strings.Repeat("x", 200<<10) + `"`
	stored := 0
	var refused *jetstream.APIError
	for ; refused == nil && stored <= MinEdgeBytes/len(large); stored++ {
		refused = put(t, nc, nil, large)
	}
	if refused == nil || !strings.Contains(refused.Description, "maximum bytes exceeded") {
		t.Fatalf("after %d publishes: %v", stored, refused)
	}
	if st := edgeState(t, edge); st.Waiting != uint64(stored-1) || st.Bytes > MinEdgeBytes {
		t.Errorf("%d were stored: %+v", stored-1, st)
	}
}

// A data folder belongs to one site.
func TestSiteFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	stopEdge(t, mustStartEdge(t, EdgeOptions{Site: "lab", Hub: "127.0.0.1:1", Dir: dir}))
	if _, err := StartEdge(testContext(t), EdgeOptions{Site: "van", Hub: "127.0.0.1:1", Dir: dir, NATSListen: "127.0.0.1:0"}); err == nil || !strings.Contains(err.Error(), "of the site lab") {
		t.Errorf("another site's folder: %v", err)
	}
	engines := t.TempDir()
	if err := os.Mkdir(filepath.Join(engines, storeFolder), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := StartEdge(testContext(t), EdgeOptions{Site: "van", Hub: "127.0.0.1:1", Dir: engines, NATSListen: "127.0.0.1:0"}); err == nil || !strings.Contains(err.Error(), "of an engine") {
		t.Errorf("an engine's folder: %v", err)
	}
	_, err := StartEdge(testContext(t), EdgeOptions{Site: "No Site", Hub: "127.0.0.1:1", Dir: dir, NATSListen: "0.0.0.0:0", MaxBytes: 1, Cert: "c"})
	if err == nil || strings.Count(err.Error(), "\n") != 3 {
		t.Errorf("not all that is wrong: %v", err)
	}
	e := &Edge{o: EdgeOptions{Site: "lab", Hub: "tls://hub.example", CA: "none.pem"}}
	if _, err := e.remote(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a CA that is not there: %v", err)
	}
	e.o.CA = ""
	r, err := e.remote()
	if want := (url.URL{Scheme: "tls", Host: "hub.example:7422"}); err != nil || r.URLs[0].Scheme != want.Scheme || r.URLs[0].Host != want.Host || !r.TLS {
		t.Errorf("%+v, %v", r, err)
	}
}

// What a site keeps is not dropped because the NATS server can't read it.
func TestSiteStreamIsNotMadeAnewOverMessages(t *testing.T) {
	t.Parallel()
	o := EdgeOptions{Site: "lab", Hub: "127.0.0.1:1", Dir: t.TempDir(), NATSListen: "127.0.0.1:0"}
	edge := mustStartEdge(t, o)
	if _, err := edgeConn(t, edge).Request(wire.Default.Submit("parcel"), []byte(`1`), testTimeout); err != nil {
		t.Fatal(err)
	}
	stopEdge(t, edge)
	file := filepath.Join(o.Dir, "jetstream", "$G", "streams", wire.Default.SiteStream("lab"), "meta.sum")
	sum, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if e, err := StartEdge(testContext(t), o); err == nil {
		stopEdge(t, e)
		t.Error("it starts with a stream that can't be read")
	} else if !strings.Contains(err.Error(), "can't read the site's stream") {
		t.Error(err)
	}
	if err := os.WriteFile(file, sum, 0o600); err != nil {
		t.Fatal(err)
	}
	if st := edgeState(t, mustStartEdge(t, o)); st.Waiting != 1 {
		t.Errorf("%d wait: %+v", st.Waiting, st)
	}
}

// Users that a reload lets in do not disturb the sites.
func TestSitesOutliveAReload(t *testing.T) {
	slow(t)
	t.Parallel()
	leaf := need.Address(t).String()
	o := hubOptions(t.TempDir(), leaf)
	o.Config.NATS.Users = []config.NATSUser{{Name: "a", Password: "0123456789ab", Roles: access.InDefault(config.DefaultSiteRoles)}}
	hub := mustStart(t, o)
	edge := mustStartEdge(t, EdgeOptions{Site: "lab", Hub: leaf, Token: labToken, Dir: t.TempDir()})
	nc := edgeConn(t, edge)
	for i := range 3 {
		if refused := put(t, nc, nil, fmt.Sprint(i)); refused != nil {
			t.Fatal(refused)
		}
		until(t, "all is decided", func() bool {
			m, err := hub.ledger.store.Meta()
			return err == nil && m.Applied > 0 && edgeState(t, edge).Waiting == 0
		})
		c := o.Config
		c.NATS.Users = append(c.NATS.Users, config.NATSUser{Name: fmt.Sprint("b", i), Password: "0123456789ab", Roles: access.InDefault(config.DefaultSiteRoles)})
		if waiting, err := hub.Reload(c); err != nil || len(waiting) > 0 {
			t.Fatal(waiting, err)
		}
	}
}
