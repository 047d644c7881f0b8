package embedded

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

// mirroredHub are the options of a hub with the mirror lab.
func mirroredHub(dir, leaf string) Options {
	o := quiet(dir)
	o.Config.Leaf = config.Leaf{Listen: leaf, Sites: []config.LeafSite{{Name: "lab", Token: labToken, Mirror: true}}}
	return o
}

func mirrorOptions(dir, leaf string) MirrorOptions {
	return MirrorOptions{Site: "lab", Hub: leaf, Token: labToken, Options: Options{Dir: dir, NATSListen: "127.0.0.1:0", HTTP: "127.0.0.1:0"}}
}

func mustStartMirror(t *testing.T, o MirrorOptions) *Mirror {
	t.Helper()
	m, err := StartMirror(testContext(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopMirror(t, m) })
	return m
}

func stopMirror(t *testing.T, m *Mirror) {
	t.Helper()
	if err := m.Stop(testContext(t)); err != nil {
		t.Error(err)
	}
}

func mirrorClient(t *testing.T, m *Mirror) *streamwright.Client {
	t.Helper()
	c, err := streamwright.Connect(testContext(t), m.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// caughtUp waits until the mirror shows all that its hub has decided.
func caughtUp(t *testing.T, m *Mirror, hub *Engine) {
	t.Helper()
	hasAll(t, m, hub.space)
}

// hasAll is caughtUp with a namespace of the hub.
func hasAll(t *testing.T, m *Mirror, hub *space) {
	t.Helper()
	until(t, "the mirror has all of its hub", func() bool {
		return m.e.ledger.store.Applied() >= hub.decider.dispatcher.Position() && m.State().CutOff == ""
	})
}

// A mirror answers what reads, as its hub would, and refuses what decides, with the name of
// the hub.
func TestLogMirror(t *testing.T) {
	t.Parallel()
	leaf := need.Address(t).String()
	hub := mustStart(t, mirroredHub(t.TempDir(), leaf))
	item := submit(t, hub, wire.Submit{Type: "parcel", Params: json.RawMessage(`{"to":"x"}`)})
	dir := t.TempDir()
	m := mustStartMirror(t, mirrorOptions(dir, leaf))
	caughtUp(t, m, hub)
	if got, want := get(t, m.e, item), get(t, hub, item); !reflect.DeepEqual(got, want) {
		t.Errorf("the mirror has %+v, its hub %+v", got, want)
	}
	next := submit(t, hub, wire.Submit{Type: "parcel"})
	if got := get(t, m.e, next); got.ID != next.ID { // it waits for the position
		t.Errorf("%+v", got)
	}
	if why := request[wire.WhyReply](t, m.e, wire.APIWhy, wire.Why{ID: item.ID}); len(why.Reasons) == 0 {
		t.Errorf("why, which the hub says: %+v", why)
	}
	if st := request[wire.StatsReply](t, m.e, wire.APIStats, nil); st.States["queued"] != 2 || len(st.Alarms) > 0 {
		t.Errorf("%+v", st)
	}
	if i := request[wire.InfoReply](t, m.e, wire.APIInfo, nil); i.Role != wire.RoleMirror || i.Owner != "nats-leaf://"+leaf {
		t.Errorf("%+v", i)
	}
	if n := request[wire.NodesReply](t, m.e, wire.APINodes, nil); len(n.Warnings) > 0 || n.Nodes[0].Role != wire.RoleMirror {
		t.Errorf("%+v", n)
	}
	c := mirrorClient(t, m)
	if v, err := c.Engine().Verify(testContext(t), nil); err != nil || !v.Equal {
		t.Errorf("verify: %+v, %v", v, err)
	}
	tailed := 0
	err := c.Tail(testContext(t), streamwright.TailOptions{FromSeq: 1}, func(ev streamwright.Event) error {
		if tailed++; ev.ID == next.ID {
			return io.EOF
		}
		return nil
	})
	if !errors.Is(err, io.EOF) || tailed < 4 {
		t.Errorf("%d events: %v", tailed, err)
	}
	id, err := events.ParseID(item.ID)
	if err != nil {
		t.Fatal(err)
	}
	hubConn, err := hub.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer hubConn.Close()
	if err := hubConn.Publish(wire.Default.Log("parcel", id), []byte(`{"message":"packed"}`)); err != nil {
		t.Fatal(err)
	}
	until(t, "the item's log is there", func() bool {
		l := request[wire.LogsReply](t, m.e, wire.APILogs, wire.Logs{ID: item.ID})
		return len(l.Records) == 1 && l.Records[0].Message == "packed"
	})
	refusesWork(t, m, leaf)
	st := hub.faces.sites.states()
	if len(st) != 1 || !st[0].Mirror || !st[0].Connected {
		t.Errorf("%+v", st)
	}
}

// refusesWork tries what decides by all ways.
func refusesWork(t *testing.T, m *Mirror, hub string) {
	t.Helper()
	before := m.e.decider.dispatcher.Position()
	nc, n := mirrorClient(t, m).Conn(), m.e.names()
	for _, e := range wire.Endpoints() {
		if e.ReadOnly || e.Name == wire.APIRebuild {
			continue
		}
		r, err := nc.RequestWithContext(testContext(t), n.API(e.Name), []byte(`{}`))
		if err != nil || !strings.Contains(string(r.Data), "which decides nothing: ask the hub, nats-leaf://"+hub) {
			t.Errorf("%s: %v, %s", e.Name, err, r.Data)
		}
	}
	ack, err := nc.RequestWithContext(testContext(t), n.Submit("parcel"), []byte(`{}`))
	if err != nil || !strings.Contains(string(ack.Data), "decides nothing") {
		t.Errorf("a publish: %v, %s", err, ack.Data)
	}
	path := "/api/v1/work"
	if m.e.other() {
		path = "/ns/" + string(m.o.Namespace) + path
	}
	r, err := http.Post(m.HTTPURL()+path, "application/json", strings.NewReader(`{"type":"parcel"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if body, _ := io.ReadAll(r.Body); r.StatusCode != http.StatusForbidden || !strings.Contains(string(body), "decides nothing") {
		t.Errorf("over HTTP: %s %s", r.Status, body)
	}
	if after := m.e.decider.dispatcher.Position(); after != before {
		t.Errorf("the log went from %d to %d", before, after)
	}
}

// alarmed reports whether a mirror shows an alarm.
func alarmed(t *testing.T, m *Mirror, code string) bool {
	t.Helper()
	for _, a := range request[wire.StatsReply](t, m.e, wire.APIStats, nil).Alarms {
		if a.Code == code {
			return true
		}
	}
	return false
}

// Cut off from its hub a mirror answers with what it has, and says that it is old, also
// after a restart. Then it goes on where it was.
func TestMirrorCutOff(t *testing.T) {
	slow(t)
	t.Parallel()
	leaf := need.Address(t).String()
	hubDir, dir := t.TempDir(), t.TempDir()
	hub := mustStart(t, mirroredHub(hubDir, leaf))
	item := submit(t, hub, wire.Submit{Type: "parcel"})
	m := mustStartMirror(t, mirrorOptions(dir, leaf))
	caughtUp(t, m, hub)
	stopEngine(t, hub)
	until(t, "the mirror says that it is cut off", func() bool { return strings.Contains(m.State().CutOff, "the link is down") })
	if !alarmed(t, m, wire.AlarmCutOff) {
		t.Error("there is no alarm")
	}
	if r := m.e.faces.service.Ready(testContext(t)); r.Ready {
		t.Errorf("%+v", r)
	}
	if h := m.e.faces.service.Health(); h.Status != wire.AlarmCutOff {
		t.Errorf("%+v", h)
	}
	stopMirror(t, m)
	var text need.Log
	o := mirrorOptions(dir, leaf)
	o.Options.Logger = slog.New(slog.NewTextHandler(&text, nil))
	m = mustStartMirror(t, o)
	until(t, "the mirror says that the hub is down", func() bool { return strings.Contains(text.String(), "the hub can't be reached") })
	if said := text.String(); strings.Contains(said, "level=ERROR") {
		t.Errorf("a hub that is down is an error:\n%s", said)
	}
	if got := get(t, m.e, wire.Submitted{ID: item.ID}); got.State != events.StateQueued {
		t.Errorf("%+v", got)
	}
	if _, err := m.e.decider.Verify(testContext(t), nil); err != nil {
		t.Error(err)
	}
	hub = mustStart(t, mirroredHub(hubDir, leaf))
	submit(t, hub, wire.Submit{Type: "parcel"})
	caughtUp(t, m, hub)
	if alarmed(t, m, wire.AlarmCutOff) {
		t.Error("the alarm has not ended")
	}
	mustVerify(t, m.e)
}

// A hub that is restored to an earlier position has another history from there on. None of
// it gets into the mirror, however far the hub goes, until the mirror's folder is removed.
func TestMirrorOfRestoredHub(t *testing.T) {
	slow(t)
	t.Parallel()
	leaf := need.Address(t).String()
	hubDir, dir, old := t.TempDir(), t.TempDir(), t.TempDir()
	hub := mustStart(t, mirroredHub(hubDir, leaf))
	submit(t, hub, wire.Submit{Type: "parcel"})
	stopEngine(t, hub)
	if err := os.CopyFS(old, os.DirFS(hubDir)); err != nil {
		t.Fatal(err)
	}
	hub = mustStart(t, mirroredHub(hubDir, leaf))
	lost := submit(t, hub, wire.Submit{Type: "parcel"})
	m := mustStartMirror(t, mirrorOptions(dir, leaf))
	caughtUp(t, m, hub)
	at := m.e.ledger.store.Applied()
	stopEngine(t, hub)

	hub = mustStart(t, mirroredHub(old, leaf))
	for hub.decider.dispatcher.Position() < at+20 {
		submit(t, hub, wire.Submit{Type: "parcel"})
	}
	until(t, "the mirror says why it does not follow", func() bool {
		return strings.Contains(m.State().CutOff, "restored to an earlier position")
	})
	if got := m.e.ledger.store.Applied(); got != at {
		t.Errorf("the mirror went from %d to %d", at, got)
	}
	if got := get(t, m.e, wire.Submitted{ID: lost.ID}); got.ID != lost.ID {
		t.Errorf("%+v", got)
	}
	stopMirror(t, m)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	m = mustStartMirror(t, mirrorOptions(dir, leaf))
	caughtUp(t, m, hub)
	mustVerify(t, m.e)
}

// The hub cuts its log while the mirror is gone, in front of what the mirror has: it begins
// anew with what is left, in the same folder. While it follows, it drops what the hub drops.
func TestMirrorOfCutLog(t *testing.T) {
	slow(t)
	t.Parallel()
	leaf := need.Address(t).String()
	hubDir, dir := t.TempDir(), t.TempDir()
	hub := mustStart(t, mirroredHub(hubDir, leaf))
	submit(t, hub, wire.Submit{Type: "parcel"})
	m := mustStartMirror(t, mirrorOptions(dir, leaf))
	caughtUp(t, m, hub)
	stopMirror(t, m)
	cut := func() {
		t.Helper()
		before := retention(t, hub, "there is a log", func(wire.Retention) bool { return true })
		request[wire.Retention](t, hub, wire.APICut, struct{}{})
		retention(t, hub, "the round ends", func(r wire.Retention) bool { return r.LastCut.After(before.LastCut) })
		stopEngine(t, hub)
		hub = mustStart(t, mirroredHub(hubDir, leaf))
		retention(t, hub, "the log is cut", func(r wire.Retention) bool { return r.LogFirst != before.LogFirst && r.Round == "" })
	}
	for range 5 {
		submit(t, hub, wire.Submit{Type: "parcel"})
	}
	cut()
	m = mustStartMirror(t, mirrorOptions(dir, leaf))
	for _, what := range []string{"gone meanwhile", "following"} {
		caughtUp(t, m, hub)
		until(t, what+": the mirror begins where its hub does", func() bool {
			here, err := m.log.Last(testContext(t))
			there, herr := hub.ledger.eventLog.Last(testContext(t))
			return err == nil && herr == nil && here.First == there.First
		})
		caughtUp(t, m, hub)
		mustVerify(t, m.e)
		if what == "following" {
			break
		}
		submit(t, hub, wire.Submit{Type: "parcel"})
		cut()
	}
}

// A data folder is an engine's, a site's, or a mirror's.
func TestMirrorFolder(t *testing.T) {
	t.Parallel()
	dir, leaf := t.TempDir(), need.Address(t).String()
	stopMirror(t, mustStartMirror(t, mirrorOptions(dir, leaf)))
	refused := func(err error, text string) {
		t.Helper()
		if events.CodeOf(err) != events.CodeBadConfig || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %q", err, text)
		}
	}
	_, err := Start(testContext(t), quiet(dir))
	refused(err, "is a mirror of a log, of the site lab")
	_, err = StartEdge(testContext(t), EdgeOptions{Site: "lab", Hub: leaf, Dir: dir, NATSListen: "127.0.0.1:0"})
	refused(err, "another one")
	other := mirrorOptions(dir, leaf)
	other.Site = "van"
	_, err = StartMirror(testContext(t), other)
	refused(err, "is the mirror of the site lab")
	other = mirrorOptions(dir, leaf)
	other.Namespace = "acme"
	_, err = StartMirror(testContext(t), other)
	refused(err, "is a mirror of the namespace default, not of acme: use another folder")
	acmes := t.TempDir()
	other.Options.Dir = acmes
	stopMirror(t, mustStartMirror(t, other))
	other.Namespace = ""
	_, err = StartMirror(testContext(t), other)
	refused(err, "is a mirror of the namespace acme, not of default: use another folder")
	_, err = Start(testContext(t), quiet(acmes))
	refused(err, "engine mirror --name lab --namespace acme")
	engines, edges := t.TempDir(), t.TempDir()
	stopEngine(t, mustStart(t, quiet(engines)))
	stopEdge(t, mustStartEdge(t, EdgeOptions{Site: "lab", Hub: leaf, Dir: edges}))
	for _, dir := range []string{engines, edges} {
		_, err = StartMirror(testContext(t), mirrorOptions(dir, leaf))
		refused(err, "give the mirror another one")
	}
	_, err = Start(testContext(t), quiet(edges))
	refused(err, "of the site lab at the edge")
	wrong := mirrorOptions(t.TempDir(), leaf)
	wrong.Site, wrong.Namespace, wrong.Cert, wrong.Options.Config.Leaf = "No Site", "No Name", "c", mirroredHub("", leaf).Config.Leaf
	if _, err = StartMirror(testContext(t), wrong); err == nil || strings.Count(err.Error(), "\n") != 3 {
		t.Errorf("not all that is wrong: %v", err)
	}
}

// Who has the token of a mirror, and a NATS server of his own, reads the log and does nothing
// else: no request of his is answered but those that a mirror makes.
func TestMirrorTokenOpensNothing(t *testing.T) {
	t.Parallel()
	leaf := need.Address(t).String()
	hub := mustStart(t, mirroredHub(t.TempDir(), leaf))
	submit(t, hub, wire.Submit{Type: "parcel"})
	nc := malloryAt(t, leaf, "lab")
	n := wire.Default
	if got := nc.ask(n.MirrorAsk("lab"), `{}`); !strings.Contains(got, `"last"`) {
		t.Errorf("the hub answers %s", got)
	}
	before, err := hub.ledger.eventLog.Last(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	stream := n.EventStream(0)
	tries := map[string]string{
		n.Submit("parcel"): `{}`, n.Event(0, "parcel", events.KindCompleted): `{}`, n.Nodes(): ``, n.Lease(0): `{}`, n.MirrorAsk("van"): `{}`, "$SYS.REQ.SERVER.PING": ``,
		"$JS.API.STREAM.DELETE." + stream: ``, "$JS.API.STREAM.PURGE." + stream: ``, "$JS.API.STREAM.INFO." + stream: ``, "$JS.API.STREAM.MSG.GET." + stream: `{"seq":1}`,
		"$JS.API.CONSUMER.CREATE." + stream: `{"stream_name":"` + stream + `","config":{"deliver_subject":"$JS.API.STREAM.DELETE.` + stream + `","headers_only":true,"ack_policy":"none"}}`,
	}
	for _, e := range wire.Endpoints() {
		tries[n.API(e.Name)], tries[n.Forward(e.Name)] = `{}`, `{}`
	}
	for subject, body := range tries {
		if got := nc.try(subject, body); got != "" {
			t.Errorf("%s is answered: %s", subject, got)
		}
	}
	for _, body := range []string{
		`{"endpoint":"submit","body":{"type":"parcel"}}`, `{"endpoint":"verify"}`, `{"endpoint":"rebuild"}`, `{"endpoint":"nothing"}`,
		`{"stream":"` + n.IntakeStream() + `","from":1}`, `{"stream":"OBJ_work_blobs","from":1}`, `{"stream":">","from":1}`,
	} {
		if got := nc.ask(n.MirrorAsk("lab"), body); !strings.Contains(got, `"forbidden"`) {
			t.Errorf("%s is answered: %s", body, got)
		}
	}
	// An answer of the engine goes to where it was asked from, whatever that is called.
	for _, reply := range []string{"$JS.API.STREAM.DELETE." + stream, n.Submit("parcel"), n.API(wire.APICut)} {
		if err := errors.Join(nc.PublishRequest(n.MirrorAsk("lab"), reply, []byte(`{}`)), nc.PublishRequest("$JS.FC."+stream+".x", reply, nil)); err != nil {
			t.Fatal(err)
		}
	}
	nc.ask(n.MirrorAsk("lab"), `{}`) // which is answered still
	after, err := hub.ledger.eventLog.Last(testContext(t))
	if err != nil || after.Seq != before.Seq || after.Created != before.Created {
		t.Errorf("the log was %+v, is %+v, %v", before, after, err)
	}
	if s, err := natsJetStream(t, hub).Stream(testContext(t), n.IntakeStream()); err != nil || s.CachedInfo().State.LastSeq != 0 {
		t.Errorf("the intake: %v", err)
	}
}

// mallory is on a NATS server of his own that has a site's token.
type mallory struct {
	t *testing.T
	*nats.Conn
}

func malloryAt(t *testing.T, leaf, site string) mallory {
	t.Helper()
	remote, err := leafRemote(leaf, site, labToken, "", "", "")
	if err != nil {
		t.Fatal(err)
	}
	ns, err := natsserver.NewServer(&natsserver.Options{ServerName: "mallory", Port: natsserver.RANDOM_PORT, Host: "127.0.0.1", NoSigs: true, NoLog: true, LeafNode: natsserver.LeafNodeOpts{Remotes: []*natsserver.RemoteLeafOpts{remote}}})
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	until(t, "the link is up", func() bool { return ns.NumLeafNodes() > 0 })
	nc, err := nats.Connect(ns.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return mallory{t, nc}
}

// try makes a request that nobody should answer, and returns the answer; empty: none.
func (m mallory) try(subject, body string) string {
	r, err := m.Request(subject, []byte(body), 300*time.Millisecond)
	if err != nil {
		return ""
	}
	return string(r.Data)
}

// ask makes a request until it is answered.
func (m mallory) ask(subject, body string) (answer string) {
	m.t.Helper()
	until(m.t, subject+" is answered", func() bool {
		answer = m.try(subject, body)
		return answer != ""
	})
	return answer
}

func natsJetStream(t *testing.T, e *Engine) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(e.nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}
