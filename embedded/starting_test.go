package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/internal/logins"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

// answerOf asks an engine over HTTP; status 0: nothing listens.
func answerOf(t *testing.T, at, path string) (status int, body string, h http.Header) {
	t.Helper()
	res, err := http.Get("http://" + at + path)
	if err != nil {
		return 0, err.Error(), nil
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b), res.Header
}

// saysStarting asserts that every face of an engine says that it starts, and why.
func saysStarting(t *testing.T, at, why string) {
	t.Helper()
	need.Eventually(t, "it says why it is not there", func() bool {
		status, body, _ := answerOf(t, at, "/healthz")
		return status == 503 && strings.Contains(body, `"status":"starting"`) && strings.Contains(body, why)
	})
	for _, path := range []string{"/api/v1/stats", "/api/v1/work/01J00000000000000000000000", "/api/v1/events", "/metrics", "/nothing", "/api/v1/nothing"} {
		status, body, h := answerOf(t, at, path)
		if status != 503 || h.Get("Retry-After") == "" || h.Get("Content-Type") != "application/problem+json" || !strings.Contains(body, "the engine is starting: ") {
			t.Errorf("GET %s: %d %v %s", path, status, h, body)
		}
	}
	if status, body, _ := answerOf(t, at, "/readyz"); status != 503 || !strings.Contains(body, why) {
		t.Errorf("GET /readyz: %d %s", status, body)
	}
	if status, body, _ := answerOf(t, at, "/"); status != 200 || !strings.Contains(body, "<html") {
		t.Errorf("GET /: %d", status)
	}
}

// nodesAt asks an engine over HTTP for the nodes.
func nodesAt(t *testing.T, at string) (r wire.NodesReply) {
	t.Helper()
	status, body, _ := answerOf(t, at, "/api/v1/nodes")
	if status != 200 {
		t.Fatalf("GET /api/v1/nodes: %d %s", status, body)
	}
	if err := json.Unmarshal([]byte(body), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// A node that waits for the others listens all the same, says over HTTP and NATS whom it sees and
// what it waits for, and serves at the same port once they are there. When two of three are gone
// the third says what has no leader, and since when.
func TestNodesWithoutALeaderAnswer(t *testing.T) {
	logins.Open(t, "it connects as nobody")
	t.Parallel()
	all := clusterOptions(t, 3)
	started := make(chan error, len(all))
	engines := make([]*Engine, len(all))
	ctx := testContext(t)
	begin := func(i int) {
		go func() {
			var err error
			engines[i], err = Start(ctx, all[i])
			started <- err
		}()
	}
	for i := range all {
		all[i].HTTP = need.Address(t).String()
		all[i].NATSListen = need.Address(t).String()
		t.Cleanup(func() {
			if engines[i] != nil {
				stopEngine(t, engines[i])
			}
		})
	}
	at := all[0].HTTP
	begin(0)
	saysStarting(t, at, "1 of 3 nodes are here")
	r := nodesAt(t, at)
	if len(r.Nodes) != 1 || r.Nodes[0].Role != wire.RoleStarting || !strings.Contains(strings.Join(r.Warnings, "\n"), "the cluster test has no leader: 0 of its 3 nodes are linked to n1") {
		t.Errorf("nodes are %+v", r)
	}
	nc, err := nats.Connect("nats://" + all[0].NATSListen)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	for endpoint, want := range map[string]string{wire.APINodes: `"role":"starting"`, wire.APIGet: "the engine is starting: the cluster test has no leader"} {
		var said string
		need.Eventually(t, endpoint+" is answered over NATS", func() bool {
			m, err := nc.Request(wire.Default.API(endpoint), nil, time.Second)
			if err == nil {
				said = string(m.Data)
			}
			return err == nil
		})
		if !strings.Contains(said, want) {
			t.Errorf("%s: %s", endpoint, said)
		}
	}

	begin(1)
	begin(2)
	for range all {
		if err := <-started; err != nil {
			t.Fatal(err)
		}
	}
	need.Eventually(t, "the node serves", func() bool { status, _, _ := answerOf(t, at, "/healthz"); return status == 200 })
	if status, body, _ := answerOf(t, at, "/api/v1/stats"); status != 200 {
		t.Errorf("GET stats: %d %s", status, body)
	}
	left := slices.IndexFunc(engines, func(e *Engine) bool { return !e.ledger.lease.owns.Load() })
	at = all[left].HTTP
	for i, e := range engines {
		if i != left {
			stopEngine(t, e)
		}
	}
	before := time.Now()
	need.Eventually(t, "the stream is known to have no leader", func() bool {
		r = nodesAt(t, at)
		for _, s := range r.Streams {
			if s.Stream == "WORK_EVENTS_0" && s.Leader == "" && !s.LeaderlessSince.IsZero() && s.Spare < 0 {
				return !s.LeaderlessSince.Before(before.Truncate(time.Millisecond))
			}
		}
		return false
	})
	for _, want := range []string{"stream WORK_EVENTS_0 can't be written: it has had no leader since", "the cluster test has no leader: 0 of its 3 nodes are linked to " + all[left].Cluster.Node, " does not answer"} {
		need.Eventually(t, "it says "+want, func() bool { return strings.Contains(strings.Join(nodesAt(t, at).Warnings, "\n"), want) })
	}
	c := mustClient(t, engines[left])
	need.Eventually(t, "what needs an owner is refused for want of one", func() bool {
		ask, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, _, err := c.Cancel(ask, "01J00000000000000000000000", "")
		return err != nil && strings.Contains(err.Error(), "WORK_EVENTS_0 can't be written") && !strings.Contains(err.Error(), "is `engine serve` running")
	})

	// Started anew alone, it knows its streams, and that they have no leader.
	need.Eventually(t, "health has it", func() bool {
		_, body, _ := answerOf(t, at, "/healthz")
		return strings.Contains(body, "WORK_EVENTS_0 can't be written")
	})
	stopEngine(t, engines[left])
	alone, end := context.WithCancel(ctx)
	go func() {
		_, err := Start(alone, all[left])
		started <- err
	}()
	saysStarting(t, at, "1 of 3 nodes are here")
	end()
	if err := <-started; err == nil {
		t.Error("a node alone has started")
	}
}

// An engine that replays, or restores, says so at its port, and over NATS.
func TestAnEngineAloneSaysThatItStarts(t *testing.T) {
	o := Options{Dir: t.TempDir(), NATSListen: "127.0.0.1:0", HTTP: "127.0.0.1:0"}
	e := newEngine(o)
	defer stopEngine(t, e)
	parts := e.parts()
	replays := slices.IndexFunc(parts, func(p part) bool { return p.name == "the match of store and log" })
	if err := errors.Join(e.cfg.Validate(), e.guard.open(), e.life.start(t.Context(), parts[:replays]...)); err != nil {
		t.Fatal(err)
	}
	e.does("the log is replayed")
	saysStarting(t, e.HTTP(), "the log is replayed")
	nc, err := nats.Connect(e.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	need.Eventually(t, "it answers over NATS", func() bool {
		m, err := nc.Request(wire.Default.API(wire.APIInfo), nil, time.Second)
		return err == nil && strings.Contains(string(m.Data), "the engine is starting: the log is replayed")
	})
	at := e.HTTP()
	if err := e.life.start(t.Context(), parts[replays:]...); err != nil {
		t.Fatal(err)
	}
	if e.HTTP() != at {
		t.Errorf("it serves at %s, and started at %s", e.HTTP(), at)
	}
	if status, body, _ := answerOf(t, at, "/api/v1/stats"); status != 200 {
		t.Errorf("GET stats: %d %s", status, body)
	}
	m, err := nc.Request(wire.Default.API(wire.APIInfo), nil, 10*time.Second)
	if err != nil || strings.Contains(string(m.Data), "starting") {
		t.Errorf("info: %s %v", m.Data, err)
	}
}
