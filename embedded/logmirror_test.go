package embedded

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

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
	return MirrorOptions{Site: "lab", Hub: leaf, Token: labToken, Options: quiet(dir)}
}

func mustStartMirror(t *testing.T, o MirrorOptions) *Mirror {
	t.Helper()
	if o.Options.NATSListen == "" {
		o.Options.NATSListen = "127.0.0.1:0"
	}
	if o.Options.HTTP == "" {
		o.Options.HTTP = "127.0.0.1:0"
	}
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
	until(t, "the mirror has all of its hub", func() bool {
		return m.e.store.Applied() >= hub.dispatcher.Position() && m.State().CutOff == ""
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
	st := hub.sites.states()
	if len(st) != 1 || !st[0].Mirror || !st[0].Connected {
		t.Errorf("%+v", st)
	}
}

// refusesWork tries what decides by all ways.
func refusesWork(t *testing.T, m *Mirror, hub string) {
	t.Helper()
	before := m.e.dispatcher.Position()
	nc := mirrorClient(t, m).Conn()
	for _, e := range wire.Endpoints() {
		if e.ReadOnly || e.Name == wire.APIRebuild {
			continue
		}
		r, err := nc.RequestWithContext(testContext(t), wire.Default.API(e.Name), []byte(`{}`))
		if err != nil || !strings.Contains(string(r.Data), "which decides nothing: ask the hub, nats-leaf://"+hub) {
			t.Errorf("%s: %v, %s", e.Name, err, r.Data)
		}
	}
	ack, err := nc.RequestWithContext(testContext(t), wire.Default.Submit("parcel"), []byte(`{}`))
	if err != nil || !strings.Contains(string(ack.Data), "decides nothing") {
		t.Errorf("a publish: %v, %s", err, ack.Data)
	}
	r, err := http.Post(m.HTTPURL()+"/api/v1/work", "application/json", strings.NewReader(`{"type":"parcel"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if body, _ := io.ReadAll(r.Body); r.StatusCode != http.StatusForbidden || !strings.Contains(string(body), "decides nothing") {
		t.Errorf("over HTTP: %s %s", r.Status, body)
	}
	if after := m.e.dispatcher.Position(); after != before {
		t.Errorf("the log went from %d to %d", before, after)
	}
}
