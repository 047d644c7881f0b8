package workers

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/blobs"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/leaks"
	"github.com/streamwright/streamwright/internal/natscluster"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

func TestMain(m *testing.M) { leaks.Check(m) }

// slow skips a test that takes seconds, with -short.
func slow(t testing.TB) { t.Helper(); need.Seconds(t) }

// rig is a server, a fake engine, and what starts workers.
type rig struct {
	*fakeEngine
	t   testing.TB
	url string
	ws  []*Worker
}

// untilIdle waits until the workers have no runs.
func (r *rig) untilIdle() {
	r.t.Helper()
	need.Eventually(r.t, "no runs", func() bool {
		return !slices.ContainsFunc(r.ws, func(w *Worker) bool { w.mu.Lock(); defer w.mu.Unlock(); return len(w.table.runs) > 0 })
	})
}

func newRig(t testing.TB) *rig {
	t.Helper()
	s := natscluster.Alone(t, 0)
	return &rig{fakeEngine: newFakeEngine(t, s.ClientURL()), t: t, url: s.ClientURL()}
}

// dial connects to a server until the test ends, and again soon where it is lost.
func dial(t testing.TB, url string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond), nats.ReconnectJitter(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// worker makes a worker on a connection of its own.
func (r *rig) worker(cfg Config) *Worker {
	r.t.Helper()
	cfg.Logger = slog.New(slog.NewTextHandler(testWriter{r.t}, &slog.HandlerOptions{Level: slog.LevelWarn}))
	w, err := New(dial(r.t, r.url), cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	r.ws = append(r.ws, w)
	return w
}

func (r *rig) start(w *Worker) *Worker {
	r.t.Helper()
	if err := w.Start(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = w.Stop(ctx)
	})
	return w
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(b []byte) (int, error) {
	if t, ok := w.t.(*testing.T); ok && t.Context().Err() == nil {
		t.Log(strings.TrimSpace(string(b)))
	}
	return len(b), nil
}

type sum struct{ A, B int }

func add(_ context.Context, it *Item[sum]) (any, error) { return it.Params.A + it.Params.B, nil }

func TestRunsItems(t *testing.T) {
	r := newRig(t)
	w := r.worker(Config{})
	Handle(w, "add", func(ctx context.Context, it *Item[sum]) (any, error) {
		if it.Attempt != 1 || it.Type != "add" || it.Labels["k"] != "v <é>" || it.Trace != "00-x" || it.Deadline.IsZero() {
			t.Errorf("the item is not what was dispatched: %+v", it.RawItem)
		}
		it.Log(LevelWarn, "adding")
		it.Log("odd", strings.Repeat("é", MaxLogText))
		return map[string]any{"sum <>": it.Params.A + it.Params.B}, nil
	})
	r.start(w)
	id := r.submit("add", `{"A":1,"B":2}`, func(a *wire.Assigned) { a.Labels, a.Trace = map[string]string{"k": "v <é>"}, "00-x" })
	got := r.outcome(id, 1)
	if got.Event != wire.ReportComplete || string(got.Result) != `{"sum <>":3}` {
		t.Fatalf("got %+v", got)
	}
	r.untilIdle()
	r.until("two log records", func() bool { return len(r.logs) == 2 })
	if l := r.logs[0]; l.Level != "warn" || l.Message != "adding" || l.Attempt != 1 || l.Worker != string(w.ID()) {
		t.Errorf("log record %+v", l)
	}
	if l := r.logs[1]; l.Level != "info" || len(l.Message) != MaxLogText {
		t.Errorf("log record %s of %d bytes", l.Level, len(l.Message))
	}
	if err := w.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(r.gone, []string{string(w.ID())}) {
		t.Errorf("unregistered: %v", r.gone)
	}
	if s := w.Stats(); s.Completed != 1 || s.Running+s.Settling != 0 {
		t.Errorf("stats %+v", s)
	}
}

func TestManyItemsAreBatched(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.worker(Config{Concurrency: 50})
	var mu sync.Mutex
	seen := map[events.ID]int{}
	Handle(w, "add", func(_ context.Context, it *Item[sum]) (any, error) {
		mu.Lock()
		defer mu.Unlock()
		seen[it.ID]++
		return nil, nil
	})
	r.start(w)
	const n = 3000
	for range n {
		r.submit("add", `{}`)
	}
	r.until("all completed", func() bool {
		for _, it := range r.items {
			if it.state != events.StateCompleted {
				return false
			}
		}
		return true
	})
	r.untilIdle()
	mu.Lock()
	defer mu.Unlock()
	for id, k := range seen {
		if k != 1 {
			t.Fatalf("%s ran %d times", id, k)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t.Logf("%d report requests for %d reports, the largest of %d", r.requests, 2*n, r.largest)
	if len(seen) != n || r.requests > n+int(w.Stats().Released) || r.largest > MaxReports {
		t.Errorf("%d items ran with %d requests, the largest of %d", len(seen), r.requests, r.largest)
	}
}

func TestFailures(t *testing.T) {
	r := newRig(t)
	boom := errors.New("boom")
	w := r.worker(Config{MaxDocument: events.MaxResultBytes})
	handlers := map[string]func(context.Context, *Item[sum]) (any, error){
		"plain":     func(context.Context, *Item[sum]) (any, error) { return nil, boom },
		"permanent": func(context.Context, *Item[sum]) (any, error) { return nil, Permanent(WithCode(boom, "no_such_user")) },
		"later": func(context.Context, *Item[sum]) (any, error) {
			return nil, WithCode(RetryAfter(boom, 1500*time.Millisecond), "busy")
		},
		"panic": func(context.Context, *Item[sum]) (any, error) { panic(boom) },
		"chan":  func(context.Context, *Item[sum]) (any, error) { return make(chan int), nil },
		"large": func(context.Context, *Item[sum]) (any, error) { return strings.Repeat("x", events.MaxResultBytes), nil },
		"longest": func(context.Context, *Item[sum]) (any, error) {
			return nil, errors.New(strings.Repeat("é", events.MaxErrorText))
		},
	}
	for typ, h := range handlers {
		Handle(w, typ, h)
	}
	Handle(w, "strict", add, Strict())
	r.start(w)
	for _, c := range []struct {
		typ, params string
		code        string
		retryable   bool
		after       int64
		text        string
	}{
		{"plain", `{}`, events.FailError, true, 0, "boom"},
		{"permanent", `{}`, "no_such_user", false, 0, "boom"},
		{"later", `{}`, "busy", true, 1500, "boom"},
		{"panic", `{}`, events.FailPanic, true, 0, "worker_test.go"},
		{"chan", `{}`, FailBadResult, false, 0, "written as JSON"},
		{"large", `{}`, FailBadResult, false, 0, "at most"},
		{"plain", `{"$blob":{"name":1}}`, "bad_params", false, 0, "reference"},
		{"plain", `{"$blob":{"name":"01JD3V6YB2M4C9W8ZK5T7QXRNE.params","size":0,"digest":"SHA-256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU="}}`, blobs.FailUnavailable, true, 0, "work_blobs"},
		{"longest", `{}`, events.FailError, true, 0, "é"},
		{"plain", `[1]`, "bad_params", false, 0, "do not fit"},
		{"plain", `{"A":"x"}`, "bad_params", false, 0, "A"},
		{"strict", `{"C":1}`, "bad_params", false, 0, "C"},
	} {
		got := r.outcome(r.submit(c.typ, c.params), 1)
		retryable := got.Retryable == nil || *got.Retryable
		if got.Event != wire.ReportFail || got.Code != c.code || retryable != c.retryable || got.RetryAfter.Milliseconds() != c.after ||
			!strings.Contains(got.Error, c.text) || len(got.Error) > events.MaxErrorText {
			t.Errorf("%s %s: got %+v", c.typ, c.params, got)
		}
	}
	r.untilIdle()
}

func TestRefusedResultFails(t *testing.T) {
	r := newRig(t)
	w := r.worker(Config{})
	Handle(w, "add", add)
	r.refuse = func(rep wire.Report) *wire.Error {
		if rep.Event == wire.ReportComplete {
			return &wire.Error{Code: events.CodeTooLarge, Message: "too much"}
		}
		return nil
	}
	r.start(w)
	got := r.outcome(r.submit("add", `{}`), 1)
	if got.Event != wire.ReportFail || got.Code != FailBadResult || got.Retryable == nil || *got.Retryable {
		t.Errorf("got %+v", got)
	}
}

func TestMiddlewareOrder(t *testing.T) {
	r := newRig(t)
	w := r.worker(Config{})
	var order []string
	layer := func(name string) Middleware {
		return func(next Handler) Handler {
			return func(ctx context.Context, it *RawItem) (any, error) {
				order = append(order, name)
				return next(ctx, it)
			}
		}
	}
	w.Use(layer("outer"), layer("middle"))
	Handle(w, "add", add)
	w.Use(layer("inner"))
	r.start(w)
	r.outcome(r.submit("add", `{}`), 1)
	if !slices.Equal(order, []string{"outer", "middle", "inner"}) {
		t.Errorf("order %v", order)
	}
}

func TestMistakesAreReportedTogether(t *testing.T) {
	r := newRig(t)
	w := r.worker(Config{})
	Handle(w, "Bad Type", add)
	Handle(w, "add", add)
	Handle(w, "add", add)
	Handle[sum, any](w, "nil", nil)
	err := w.Start(t.Context())
	for _, part := range []string{"Bad Type", "two handlers", "nil handler"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not mention %q: %v", part, err)
		}
	}
	_, err = New(nil, Config{ID: "a b", Concurrency: -1, Capabilities: []string{"A"}})
	for _, part := range []string{"ID", "Concurrency", "Capabilities", "connection"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not mention %q: %v", part, err)
		}
	}
	if err := r.worker(Config{}).Start(t.Context()); err == nil {
		t.Error("a worker without handlers started")
	}
}

func TestForeignMessagesAreDropped(t *testing.T) {
	r := newRig(t)
	w := r.worker(Config{})
	Handle(w, "add", add)
	r.start(w)
	good := `{"id":"01JD3V6YB2M4C9W8ZK5T7QXRNE","type":"add","token":"a","attempt":1,"lease_ms":1000,"bytes":2,"params":{}}`
	for _, m := range []nats.Msg{
		{Data: []byte("what?")},
		{Data: []byte(`[{"id":"x","token":"a"}]`)},
		{Data: []byte("[" + strings.Replace(good, `"a"`, `"!"`, 1) + "]")},
		{Data: []byte("[" + strings.Replace(good, `"add"`, `"other"`, 1) + "]")},
		{Data: []byte("[" + good + "]"), Reply: "somewhere"},
	} {
		m.Subject = r.names.RunOf("add", w.session.id)
		if err := r.nc.PublishMsg(&m); err != nil {
			t.Fatal(err)
		}
	}
	r.outcome(r.submit("add", `{}`), 1)
	r.untilIdle()
}

func TestTypedDecodes(t *testing.T) {
	h := Typed(add)
	out := Invoke(t.Context(), h, &RawItem{Raw: json.RawMessage(`{"A":2,"B":3}`)})
	if out.Err != nil || string(out.Result) != "5" {
		t.Errorf("got %+v", out)
	}
}
