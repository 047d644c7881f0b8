package workers_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/blobs"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

func TestRunsItems(t *testing.T) {
	r := newRig(t)
	w := r.worker(workers.Config{})
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	workers.Handle(w, "add", func(ctx context.Context, it *workers.Item[sum]) (any, error) {
		if it.Attempt != 1 || it.Type != "add" || it.Labels["k"] != "v <é>" || it.Trace != trace || it.Deadline.IsZero() {
			t.Errorf("the item is not what was dispatched: %+v", it.RawItem)
		}
		it.Log(workers.LevelWarn, "adding")
		it.Log("odd", strings.Repeat("é", workers.MaxLogText))
		return map[string]any{"sum <>": it.Params.A + it.Params.B}, nil
	})
	r.start(w)
	id := r.submit("add", `{"A":1,"B":2}`, func(it *streamwright.Item) { it.Labels, it.Trace = map[string]string{"k": "v <é>"}, trace })
	r.completed(id)
	if got := r.outcome(id, 1); got.Event != wire.ReportComplete || string(got.Result) != `{"sum <>":3}` {
		t.Errorf("got %+v", got)
	}
	var logs []wire.LogRecord
	need.Eventually(t, "two log records", func() (ok bool) {
		var err error
		logs, err = r.c.Logs(t.Context(), id, 0)
		return err == nil && len(logs) == 2
	})
	if l := logs[0]; l.Level != "warn" || l.Message != "adding" || l.Attempt != 1 || l.Worker != string(w.ID()) {
		t.Errorf("log record %+v", l)
	}
	if l := logs[1]; l.Level != "info" || len(l.Message) != workers.MaxLogText {
		t.Errorf("log record %s of %d bytes", l.Level, len(l.Message))
	}
	if err := w.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := r.workers(); len(left) != 0 {
		t.Errorf("still registered: %+v", left)
	}
	if s := w.Stats(); s.Completed != 1 || s.Running+s.Settling != 0 {
		t.Errorf("stats %+v", s)
	}
}

func TestManyItemsAreBatched(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var mu sync.Mutex
	seen := map[events.ID]int{}
	w := r.work(workers.Config{Concurrency: 50}, "add", func(_ context.Context, it *workers.RawItem) (any, error) {
		mu.Lock()
		defer mu.Unlock()
		seen[it.ID]++
		return nil, nil
	})
	const n = 3000
	if _, err := r.c.SubmitMany(t.Context(), slices.Repeat([]streamwright.Item{{Type: "add"}}, n)); err != nil {
		t.Fatal(err)
	}
	need.Eventually(t, "all completed", func() bool { return w.Stats().Completed == n })
	mu.Lock()
	defer mu.Unlock()
	for id, k := range seen {
		if k != 1 {
			t.Fatalf("%s ran %d times", id, k)
		}
	}
	largest := 0
	batches := requests[[]wire.Report](r, wire.APIReport)
	for _, b := range batches {
		largest = max(largest, len(b))
	}
	t.Logf("%d requests with reports, the largest of %d", len(batches), largest)
	if len(seen) != n || len(batches) > n/2 || largest > workers.MaxReports {
		t.Errorf("%d items ran with %d requests, the largest of %d", len(seen), len(batches), largest)
	}
}

func TestFailures(t *testing.T) {
	r := newRig(t)
	boom := errors.New("boom")
	w := r.worker(workers.Config{MaxDocument: events.MaxResultBytes})
	fails := func(result any, err error) func(context.Context, *workers.Item[sum]) (any, error) {
		return func(context.Context, *workers.Item[sum]) (any, error) { return result, err }
	}
	for typ, h := range map[string]func(context.Context, *workers.Item[sum]) (any, error){
		"plain":     fails(nil, boom),
		"permanent": fails(nil, workers.Permanent(workers.WithCode(boom, "no_such_user"))),
		"later":     fails(nil, workers.WithCode(workers.RetryAfter(boom, 1500*time.Millisecond), "busy")),
		"panic":     func(context.Context, *workers.Item[sum]) (any, error) { panic(boom) },
		"exit":      func(context.Context, *workers.Item[sum]) (any, error) { runtime.Goexit(); return nil, nil },
		"chan":      fails(make(chan int), nil),
		"large":     fails(strings.Repeat("x", events.MaxResultBytes), nil),
		"longest":   fails(nil, errors.New(strings.Repeat("é", events.MaxErrorText))),
	} {
		workers.Handle(w, typ, h)
	}
	workers.Handle(w, "strict", add, workers.Strict())
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
		{"exit", `{}`, events.FailPanic, true, 0, "Goexit"},
		{"chan", `{}`, workers.FailBadResult, false, 0, "written as JSON"},
		{"large", `{}`, workers.FailBadResult, false, 0, "at most"},
		{"plain", `{"$blob":{"name":1}}`, "bad_params", false, 0, "reference"},
		{"plain", `{"$blob":{"name":"01JD3V6YB2M4C9W8ZK5T7QXRNE.params","size":0,"digest":"SHA-256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU="}}`, string(blobs.CodeGone), false, 0, "01JD3V6YB2M4C9W8ZK5T7QXRNE"},
		{"longest", `{}`, events.FailError, true, 0, "é"},
		{"plain", `[1]`, "bad_params", false, 0, "do not fit"},
		{"plain", `{"A":"x"}`, "bad_params", false, 0, "A"},
		{"strict", `{"C":1}`, "bad_params", false, 0, "C"},
	} {
		id := r.submit(c.typ, c.params)
		got := r.outcome(id, 1)
		retryable := got.Retryable == nil || *got.Retryable
		if got.Event != wire.ReportFail || got.Code != c.code || retryable != c.retryable || got.RetryAfter.Milliseconds() != c.after ||
			!strings.Contains(got.Error, c.text) || len(got.Error) > events.MaxErrorText {
			t.Errorf("%s %s: got %+v", c.typ, c.params, got)
		}
		need.Eventually(t, "the engine knows", func() bool { it := r.get(id); return it.Error != nil && it.Error.Code == c.code })
		if it := r.get(id); (it.State == events.StateDead) == c.retryable {
			t.Errorf("%s %s: the item is %s", c.typ, c.params, it.State)
		}
	}
}

func TestRefusedResultFails(t *testing.T) {
	r := newRig(t)
	r.refuse(func(rep *wire.Report) (no *wire.Reported) {
		if rep.Event == wire.ReportComplete {
			no = refused(events.CodeTooLarge)
		}
		return no
	})
	r.work(workers.Config{}, "add", nothing)
	if it := r.ended(r.submit("add", `{}`), events.StateDead); it.Error.Code != workers.FailBadResult || it.Attempt != 1 {
		t.Errorf("got %+v", it)
	}
}

// Middleware sees a snooze as a result, not as an error.
func TestMiddleware(t *testing.T) {
	r := newRig(t)
	w := r.worker(workers.Config{})
	order := make(chan string, 3)
	layer := func(name string) workers.Middleware {
		return func(next workers.Handler) workers.Handler {
			return func(ctx context.Context, it *workers.RawItem) (any, error) {
				order <- name
				result, err := next(ctx, it)
				if end, ok := result.(workers.Snoozed); !ok || err != nil || end.Delay != time.Hour {
					t.Errorf("got %+v, %v", result, err)
				}
				return result, err
			}
		}
	}
	w.Use(layer("outer"), layer("middle"))
	workers.HandleRaw(w, "later", func(context.Context, *workers.RawItem) (any, error) { return nil, workers.Snooze(time.Hour) })
	w.Use(layer("inner"))
	r.start(w)
	r.submit("later", `{}`)
	for _, want := range []string{"outer", "middle", "inner"} {
		if got := recv(t, "a layer", order); got != want {
			t.Errorf("%s runs, not %s", got, want)
		}
	}
	need.Eventually(t, "the snooze", func() bool { return w.Stats().Snoozed == 1 })
}

func TestMistakesAreReportedTogether(t *testing.T) {
	r := newRig(t)
	w := r.worker(workers.Config{})
	workers.Handle(w, "Bad Type", add)
	workers.Handle(w, "add", add)
	workers.Handle(w, "add", add)
	workers.Handle[sum, any](w, "nil", nil)
	err := w.Start(t.Context())
	for _, part := range []string{"Bad Type", "two handlers", "nil handler"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not mention %q: %v", part, err)
		}
	}
	_, err = workers.New(nil, workers.Config{ID: "a b", Concurrency: -1, Capabilities: []string{"A"}})
	for _, part := range []string{"ID", "Concurrency", "Capabilities", "connection"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not mention %q: %v", part, err)
		}
	}
	if err := r.worker(workers.Config{}).Start(t.Context()); err == nil {
		t.Error("a worker without handlers started")
	}
}

func TestForeignMessagesAreDropped(t *testing.T) {
	t.Parallel()
	r := newOpenRig(t)
	w := r.work(workers.Config{}, "add", func(_ context.Context, it *workers.RawItem) (any, error) { return it.ID.String(), nil })
	const good = `{"id":"01JD3V6YB2M4C9W8ZK5T7QXRNE","type":"add","token":"a","attempt":1,"lease_ms":1000,"bytes":2,"params":{}}`
	for _, m := range []nats.Msg{
		{Data: []byte("what?")},
		{Data: []byte(`[{"id":"x","token":"a"}]`)},
		{Data: []byte("[" + strings.Replace(good, `"a"`, `"!"`, 1) + "]")},
		{Data: []byte("[" + strings.Replace(good, `"add"`, `"other"`, 1) + "]")},
		{Data: []byte("[" + good + "]"), Reply: "somewhere"},
	} {
		m.Subject = wire.Default.RunOf("add", r.session(w))
		if err := errors.Join(r.c.Conn().PublishMsg(&m), r.c.Conn().Flush()); err != nil {
			t.Fatal(err)
		}
	}
	pushed := r.push(w, "add") // comes after them
	r.outcome(pushed, 1)
	id := r.submit("add", `{}`)
	if it := r.completed(id); string(it.Result) != fmt.Sprintf("%q", id) {
		t.Errorf("got %+v", it)
	}
	for _, batch := range requests[[]wire.Report](r, wire.APIReport) {
		for _, rep := range batch {
			if rep.ID != id && rep.ID != pushed {
				t.Errorf("it ran: %+v", rep)
			}
		}
	}
}
