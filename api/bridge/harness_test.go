package bridge_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/api/rest"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/leaks"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

func TestMain(m *testing.M) { leaks.Check(m) }

// slow skips a test that takes seconds, with -short.
func slow(t testing.TB) { t.Helper(); need.Seconds(t) }

const testTimeout = 3 * time.Minute

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

// engine is a real engine with its HTTP server, and a client of it.
type engine struct {
	*embedded.Engine
	client *streamwright.Client
	http   *http.Client
}

func startEngine(t testing.TB, o embedded.Options) *engine {
	t.Helper()
	if o.HTTP == "" {
		o.HTTP = "127.0.0.1:0"
	}
	if o.Dir == "" {
		o.Memory = true
	}
	o.NATSListen = config.Off
	if os.Getenv(need.Verbose) != "" {
		o.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	inner, err := embedded.Start(testContext(t), o)
	if err != nil {
		t.Fatal(err)
	}
	e := &engine{Engine: inner, http: &http.Client{Transport: &http.Transport{}}}
	if e.client, err = inner.Client(testContext(t)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.close(t) })
	return e
}

func (e *engine) close(t testing.TB) {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	e.client.Close()
	if err := e.Stop(ctx); err != nil {
		t.Errorf("stop: %v", err)
	}
	e.http.CloseIdleConnections()
}

// leases gives the types of a test a lease.
func leases(d time.Duration, types ...events.Type) config.Config {
	var c config.Config
	c.Types = map[events.Type]config.Type{}
	for _, t := range types {
		c.Types[t] = config.Type{Patch: config.Patch{"lease": d}}
	}
	return c
}

func (e *engine) submit(t testing.TB, typ, params string) string {
	t.Helper()
	return e.submitItem(t, wire.Submit{Type: typ, Params: json.RawMessage(params)})
}

func (e *engine) submitItem(t testing.TB, s wire.Submit) string {
	t.Helper()
	var got wire.Submitted
	e.request(t, wire.APISubmit, s, &got)
	e.client.ObservePosition(got.Position)
	return got.ID
}

// request asks the engine over NATS.
func (e *engine) request(t testing.TB, endpoint string, req, reply any) {
	t.Helper()
	body, err := json.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	m, err := e.client.Conn().Request(wire.Default.API(endpoint), body, testTimeout)
	if err != nil {
		t.Fatal(err)
	}
	if code := m.Header.Get("Nats-Service-Error-Code"); code != "" {
		t.Fatalf("%s: %s", endpoint, m.Data)
	}
	if err := json.Unmarshal(m.Data, reply); err != nil {
		t.Fatal(err)
	}
}

func (e *engine) item(t testing.TB, id string) wire.Item {
	t.Helper()
	it, err := e.client.Get(testContext(t), id)
	if err != nil {
		t.Fatal(err)
	}
	return it
}

func (e *engine) kinds(t testing.TB, id string) (kinds []string) {
	t.Helper()
	h, err := e.client.History(testContext(t), id)
	if err != nil {
		t.Fatal(err)
	}
	for _, ev := range h {
		kinds = append(kinds, ev.Kind.String())
	}
	return kinds
}

// ask makes a request as any HTTP client would. It returns the status, and the
// problem if it was refused.
func (e *engine) ask(ctx context.Context, method, path string, body, reply any, headers ...string) (int, rest.Problem, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return 0, rest.Problem{}, err
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+e.HTTP()+path, bytes.NewReader(data))
	if err != nil {
		return 0, rest.Problem{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := e.http.Do(req)
	if err != nil {
		return 0, rest.Problem{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return resp.StatusCode, rest.Problem{}, err
	}
	var p rest.Problem
	if resp.StatusCode >= 300 {
		err = json.Unmarshal(text, &p)
	} else if reply != nil {
		err = json.Unmarshal(text, reply)
	}
	return resp.StatusCode, p, err
}

// worker is a worker over HTTP.
type worker struct {
	t       testing.TB
	e       *engine
	id      string
	session string
	reg     wire.WorkerSession
}

func (e *engine) worker(t testing.TB, reg wire.WorkerRegistration) *worker {
	t.Helper()
	w := &worker{t: t, e: e}
	status, p, err := e.ask(testContext(t), http.MethodPost, "/api/v1/workers", reg, &w.reg)
	if err != nil || status != http.StatusCreated {
		t.Fatalf("register: %d %v %v", status, p, err)
	}
	w.id, w.session = w.reg.Worker, w.reg.Session
	return w
}

func (w *worker) path(op string) string { return "/api/v1/workers/" + w.id + "/" + op }

// must asks and fails the test unless the answer is 200.
func (w *worker) must(op string, body, reply any) {
	w.t.Helper()
	status, p, err := w.e.ask(testContext(w.t), http.MethodPost, w.path(op), body, reply)
	if err != nil || status != http.StatusOK {
		w.t.Fatalf("%s: %d %+v %v", op, status, p, err)
	}
}

func ms(d time.Duration) *events.Duration { return new(events.DurationOf(d)) }

func (w *worker) poll(req wire.Poll) (out wire.Polled) {
	w.t.Helper()
	req.Session = w.session
	if req.Wait == nil {
		req.Wait = ms(20 * time.Second)
	}
	w.must("poll", req, &out)
	return out
}

// run polls for one item, and reports its start.
func (w *worker) run() wire.PolledItem {
	w.t.Helper()
	it := w.one()
	w.ok(wire.Report{ID: it.ID, Token: it.Token, Event: wire.ReportStart})
	return it
}

// one polls for one item.
func (w *worker) one() wire.PolledItem {
	w.t.Helper()
	got := w.poll(wire.Poll{Max: 1})
	if len(got.Items) != 1 {
		w.t.Fatalf("the poll returned %+v", got)
	}
	return got.Items[0]
}

type reports struct {
	Session string        `json:"session"`
	Reports []wire.Report `json:"reports"`
}

func (w *worker) report(list ...wire.Report) []wire.Reported {
	w.t.Helper()
	for i := range list {
		list[i].Worker = w.id
	}
	var out struct{ Reports []wire.Reported }
	w.must("report", reports{w.session, list}, &out)
	for _, r := range out.Reports {
		w.e.client.ObservePosition(r.Position)
	}
	if len(out.Reports) != len(list) {
		w.t.Fatalf("%d reports have %d answers", len(list), len(out.Reports))
	}
	return out.Reports
}

// ok reports and fails the test if it is refused.
func (w *worker) ok(list ...wire.Report) []wire.Reported {
	w.t.Helper()
	out := w.report(list...)
	for i, r := range out {
		if !r.OK {
			w.t.Fatalf("report %s is refused: %v", list[i].Event, r.Error)
		}
	}
	return out
}

func (w *worker) beat(items ...wire.PolledItem) (out wire.WorkerOrders) {
	w.t.Helper()
	hb := wire.WorkerHeartbeat{Session: w.session}
	for _, it := range items {
		hb.InFlight = append(hb.InFlight, wire.RunRef{ID: it.ID, Token: it.Token})
	}
	w.must("heartbeat", hb, &out)
	return out
}

func complete(it wire.PolledItem, result string) wire.Report {
	return wire.Report{ID: it.ID, Token: it.Token, Event: wire.ReportComplete, Result: json.RawMessage(result)}
}
