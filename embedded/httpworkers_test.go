package embedded

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

// aServer is a NATS server that engines share.
func aServer(t *testing.T) string {
	t.Helper()
	srv, err := natsserver.NewServer(&natsserver.Options{Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), MaxPayload: 4 << 20, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	return srv.ClientURL()
}

// httpWorker asks the engines by turns, as a worker behind a load balancer.
type httpWorker struct {
	t       *testing.T
	worker  string
	session string
}

// ask makes a request of an engine, which must be answered with status.
func (w *httpWorker) ask(e *Engine, path string, body map[string]any, status int, reply any) {
	w.t.Helper()
	if w.session != "" {
		body["session"] = w.session
	}
	data, err := json.Marshal(body)
	if err != nil {
		w.t.Fatal(err)
	}
	resp, err := http.Post(e.HTTPURL()+"/api/v1/workers"+path, "application/json", bytes.NewReader(data))
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != status {
		w.t.Fatalf("%s: %s %s %v, want %d", path, resp.Status, text, err, status)
	}
	if reply != nil {
		if err := json.Unmarshal(text, reply); err != nil {
			w.t.Fatal(err)
		}
	}
}

// poll gets one item.
func (w *httpWorker) poll(e *Engine) wire.PolledItem {
	w.t.Helper()
	var got wire.Polled
	w.ask(e, "/"+w.worker+"/poll", map[string]any{"max": 1}, http.StatusOK, &got)
	if len(got.Items) != 1 {
		w.t.Fatalf("the poll returned %+v", got)
	}
	return got.Items[0]
}

// report reports on an item, which must be accepted.
func (w *httpWorker) report(e *Engine, it wire.PolledItem, event string) {
	w.t.Helper()
	var got struct{ Reports []wire.Reported }
	w.ask(e, "/"+w.worker+"/report", map[string]any{"reports": []wire.Report{{ID: it.ID, Token: it.Token, Event: event}}}, http.StatusOK, &got)
	if len(got.Reports) != 1 || !got.Reports[0].OK {
		w.t.Fatalf("%s of %s: %+v", event, it.ID, got)
	}
}

// The session of an HTTP worker is good at every node: at one that stands by, at the new
// owner, and at one with a new folder. A request that meets the change of owner is answered
// late, with its outcome.
func TestHTTPWorkersGoFromNodeToNode(t *testing.T) {
	url := aServer(t)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	start := func() *Engine {
		o := Options{Dir: t.TempDir(), NATSURL: url, HTTP: "127.0.0.1:0", Logger: need.Logger(t)}
		o.Config = configOf(t, "[types.step]\nlease = \"1h\"\n")
		o.Config.Cluster.Node = fmt.Sprintf("n%d", time.Now().UnixNano())
		e, err := Start(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := e.Stop(context.WithoutCancel(ctx)); err != nil {
				t.Error(err)
			}
		})
		return e
	}
	a, b := start(), start()
	if !a.ledger.lease.owns.Load() || b.ledger.lease.owns.Load() {
		t.Fatal("the first is not the owner")
	}
	c, err := a.Client(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	item := func() string { return submit(t, a, wire.Submit{Type: "step", Params: json.RawMessage(`1`)}).ID }
	w := &httpWorker{t: t, worker: "w1"}
	var reg wire.WorkerSession
	w.ask(b, "", map[string]any{"worker": "w1", "types": []string{"step"}, "slots": 3}, http.StatusCreated, &reg)
	w.session = reg.Session

	first := item()
	it := w.poll(a) // another node than it has registered with
	var orders wire.WorkerOrders
	w.ask(b, "/w1/heartbeat", map[string]any{"in_flight": []wire.RunRef{{ID: it.ID, Token: it.Token}}}, http.StatusOK, &orders)
	if len(orders.Lost) > 0 {
		t.Errorf("a run that another node has handed out is lost: %+v", orders)
	}
	w.report(b, it, wire.ReportComplete)
	second := item()
	running := w.poll(b)

	stopped := make(chan error, 1)
	go func() { stopped <- a.Stop(ctx) }()
	w.ask(b, "/w1/heartbeat", map[string]any{"in_flight": []wire.RunRef{{ID: running.ID, Token: running.Token}}}, http.StatusOK, nil)
	w.report(b, running, wire.ReportComplete) // before, while or after the other takes over
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	need.Eventually(t, "the second owns the log", b.ledger.lease.owns.Load)
	third := start()
	other := &httpWorker{t: t, worker: "w1", session: w.session[:len(w.session)-3] + "AAA"}
	other.ask(third, "/w1/heartbeat", map[string]any{}, http.StatusNotFound, nil)
	w.ask(third, "/w1/heartbeat", map[string]any{}, http.StatusOK, nil)
	for _, id := range []string{first, second} {
		got, err := c.Get(ctx, id)
		if err != nil || got.State != events.StateCompleted || got.Attempt != 1 {
			t.Errorf("%s is %s after attempt %d, %v", id, got.State, got.Attempt, err)
		}
	}
}
