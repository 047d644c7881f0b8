package embedded

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/tracing"
	"github.com/streamwright/streamwright/tracing/itemspans"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

// traces keeps what an engine with a sampler makes.
func traces(t *testing.T, s sdktrace.Sampler) (*tracetest.InMemoryExporter, trace.TracerProvider) {
	t.Helper()
	x := tracetest.NewInMemoryExporter()
	tp := sdktrace.NewTracerProvider(sdktrace.WithSyncer(x), sdktrace.WithIDGenerator(itemspans.IDs{}), sdktrace.WithSampler(s))
	t.Cleanup(func() { _ = tp.Shutdown(context.Background()) })
	return x, tp
}

// drawn is the tree of a trace: each span below its parent, those below a span
// that is not there at the left.
func drawn(x *tracetest.InMemoryExporter, id trace.TraceID) string {
	spans := slices.DeleteFunc(x.GetSpans(), func(s tracetest.SpanStub) bool { return s.SpanContext.TraceID() != id })
	slices.SortStableFunc(spans, func(a, b tracetest.SpanStub) int { return a.StartTime.Compare(b.StartTime) })
	known := map[trace.SpanID]bool{}
	for _, s := range spans {
		known[s.SpanContext.SpanID()] = true
	}
	var b strings.Builder
	var below func(parent trace.SpanID, depth int)
	below = func(parent trace.SpanID, depth int) {
		for _, s := range spans {
			if p := s.Parent.SpanID(); p == parent || depth == 0 && !known[p] {
				fmt.Fprintf(&b, "%s%s\n", strings.Repeat(" ", depth), s.Name)
				below(s.SpanContext.SpanID(), depth+1)
			}
		}
	}
	below(trace.SpanID{1, 1, 1, 1, 1, 1, 1, 1}, 0)
	return b.String()
}

// An item that nobody gave a trace has one of its own, that a restart of the
// engine does not break.
func TestAnItemHasATraceOfItsOwn(t *testing.T) {
	slow(t)
	t.Parallel()
	x, tp := traces(t, sdktrace.AlwaysSample())
	o := quiet(t.TempDir())
	o.Tracing = tp
	e := mustStart(t, o)
	first := submit(t, e, wire.Submit{Type: "email"})
	second := submit(t, e, wire.Submit{Type: "print", SubmitOptions: wire.SubmitOptions{After: []string{first.ID}}})
	stopEngine(t, e)
	e = mustStart(t, o)
	defer stopEngine(t, e)
	work(t, e, "email")
	work(t, e, "print")
	waitFor(t, e, second, events.StateCompleted)
	for _, sub := range []wire.Submitted{first, second} {
		id, err := events.ParseID(sub.ID)
		if err != nil {
			t.Fatal(err)
		}
		want := "email\n queued\n attempt\n"
		if sub.ID == second.ID {
			want = "print\n waiting\n queued\n attempt\n"
		}
		waitUntil(t, func() bool { return drawn(x, trace.TraceID(id)) == want }, func() string { return drawn(x, trace.TraceID(id)) })
	}
}

// A tree of items is one trace: the children are below the attempt that has
// spawned them, and what waited for them is to be seen.
func TestATreeIsOneTrace(t *testing.T) {
	x, tp := traces(t, sdktrace.AlwaysSample())
	e := mustStart(t, Options{Memory: true, Tracing: tp})
	defer stopEngine(t, e)
	nc, err := e.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	w, err := workers.New(nc, workers.Config{Names: e.names()})
	if err != nil {
		t.Fatal(err)
	}
	workers.HandleRaw(w, "book", func(_ context.Context, it *workers.RawItem) (any, error) {
		if it.Continuation != nil {
			return "bound", nil
		}
		return workers.Spawn(workers.Child{Type: "page"}).Then("bind"), nil
	})
	workers.HandleRaw(w, "page", func(context.Context, *workers.RawItem) (any, error) { return "printed", nil })
	if err := w.Start(testContext(t)); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Stop(testContext(t)) }()
	const remote = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	sub := submit(t, e, wire.Submit{Type: "book", Trace: remote})
	waitFor(t, e, sub, events.StateCompleted)
	want := "book\n queued\n attempt\n  page\n   queued\n   attempt\n waiting\n queued\n attempt\n"
	id := tracing.Parse(remote).TraceID()
	waitUntil(t, func() bool { return drawn(x, id) == want }, func() string { return drawn(x, id) })
	for _, s := range x.GetSpans() {
		if s.Name == "book" && hex.EncodeToString(spanBytes(s.Parent.SpanID())) != "00f067aa0ba902b7" {
			t.Errorf("the item is below %s, not below its submitter", s.Parent.SpanID())
		}
		if s.EndTime.Before(s.StartTime) {
			t.Errorf("%s ends before it begins", s.Name)
		}
	}
}

func spanBytes(id trace.SpanID) []byte { return id[:] }

// waitUntil waits for something that the engine does right after it has
// answered.
func waitUntil(t *testing.T, ok func() bool, state func() string) {
	t.Helper()
	deadline := time.Now().Add(testTimeout)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("it did not come about: %s", state())
		}
		time.Sleep(time.Millisecond)
	}
}

// What is not sampled makes no spans and carries no trace to its worker.
func TestWhatIsNotSampledIsNotTraced(t *testing.T) {
	x, tp := traces(t, sdktrace.ParentBased(sdktrace.NeverSample()))
	e := mustStart(t, Options{Memory: true, Tracing: tp})
	defer stopEngine(t, e)
	work(t, e, "email")
	waitFor(t, e, submit(t, e, wire.Submit{Type: "email"}), events.StateCompleted)
	waitFor(t, e, submit(t, e, wire.Submit{Type: "email", Trace: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"}), events.StateCompleted)
	traced := submit(t, e, wire.Submit{Type: "email", Trace: "00-5bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"})
	waitFor(t, e, traced, events.StateCompleted)
	id := trace.TraceID{0x5b, 0xf9, 0x2f, 0x35, 0x77, 0xb3, 0x4d, 0xa6, 0xa3, 0xce, 0x92, 0x9d, 0x0e, 0x0e, 0x47, 0x36}
	want := "email\n queued\n attempt\n"
	waitUntil(t, func() bool { return drawn(x, id) == want }, func() string { return drawn(x, id) })
	for _, s := range x.GetSpans() {
		if s.SpanContext.TraceID() != id {
			t.Errorf("a span of trace %s", s.SpanContext.TraceID())
		}
	}
}

// A provider that makes ids of its own would tear the traces apart.
func TestTracingWantsItsIDs(t *testing.T) {
	tp := sdktrace.NewTracerProvider()
	_, err := Start(testContext(t), Options{Memory: true, Tracing: tp})
	if err == nil || !strings.Contains(err.Error(), "WithIDGenerator(itemspans.IDs{})") {
		t.Fatal(err)
	}
}
