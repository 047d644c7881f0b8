package telemetry

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/streamwright/streamwright/tracing"
)

// receiver is an OTLP receiver that answers nothing until it is released, and
// from then on with a status.
type receiver struct {
	*httptest.Server
	release func()
}

func hanging(t *testing.T, status int) *receiver {
	t.Helper()
	answer := make(chan struct{})
	r := &receiver{release: sync.OnceFunc(func() { close(answer) })}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		<-answer
		w.WriteHeader(status)
	}))
	t.Cleanup(r.Close)
	t.Cleanup(r.release) // first, or Close would wait for it
	return r
}

// provider sends to a receiver from a queue of so many spans, and waits an hour
// for an answer.
func provider(t *testing.T, to string, queue string) *Tracing {
	t.Helper()
	for name, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": to, "OTEL_BSP_MAX_QUEUE_SIZE": queue, "OTEL_BSP_SCHEDULE_DELAY": "1",
		"OTEL_EXPORTER_OTLP_TIMEOUT": "3600000", "OTEL_BSP_EXPORT_TIMEOUT": "3600000", "OTEL_TRACES_EXPORTER": "otlp", "OTEL_SDK_DISABLED": "",
	} {
		t.Setenv(name, value)
	}
	tp, err := Provider(context.Background(), "test", "1")
	if err != nil {
		t.Fatal(err)
	}
	return tp
}

func endSpans(tp *Tracing, n int) {
	for range n {
		_, span := tp.Tracer("test").Start(context.Background(), "span")
		span.End()
	}
}

// A receiver that takes a connection and never answers holds nobody up: what the
// queue has no room for is dropped, and counted to the span; once it answers, the
// rest is sent.
func TestAReceiverThatHangs(t *testing.T) {
	const queue, spans = 64, 10_000
	r := hanging(t, http.StatusOK)
	tp := provider(t, r.URL, "64")
	endSpans(tp, spans) // returns although nothing is ever answered
	if got, want := tp.SpanCounts(), (tracing.SpanCounts{Dropped: spans - queue}); got != want {
		t.Errorf("while the receiver hangs: %+v, want %+v", got, want)
	}
	r.release()
	if err := tp.ForceFlush(context.Background()); err != nil {
		t.Error(err)
	}
	endSpans(tp, 10) // there is room again
	if err := tp.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if got, want := tp.SpanCounts(), (tracing.SpanCounts{Dropped: spans - queue, Sent: queue + 10}); got != want {
		t.Errorf("at last: %+v, want %+v", got, want)
	}
}

// What the receiver refuses has failed, and makes room.
func TestAReceiverThatRefuses(t *testing.T) {
	r := hanging(t, http.StatusBadRequest)
	r.release()
	tp := provider(t, r.URL, "64")
	for range 4 {
		endSpans(tp, 50)
		_ = tp.ForceFlush(context.Background()) // it says that they were refused
	}
	_ = tp.Shutdown(context.Background())
	if got, want := tp.SpanCounts(), (tracing.SpanCounts{Failed: 200}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// The end of a program waits for a receiver that hangs no longer than it is told.
func TestShutdownDoesNotWaitForever(t *testing.T) {
	r := hanging(t, http.StatusOK)
	tp := provider(t, r.URL, "64")
	endSpans(tp, 10)
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if err := tp.Shutdown(ctx); err == nil {
		t.Error("the last spans were sent to a receiver that takes none")
	}
}
