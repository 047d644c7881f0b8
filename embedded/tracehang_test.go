package embedded

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/telemetry"
	"github.com/streamwright/streamwright/wire"
)

var droppedSpans = regexp.MustCompile(`(?m)^streamwright_trace_spans_total\{outcome="dropped"\} (\d+)$`)

// Work goes on while the receiver of the traces hangs, and the metrics say that
// spans are lost.
func TestAHangingTraceReceiverHoldsNothingUp(t *testing.T) {
	slow(t)
	hang := make(chan struct{})
	free := sync.OnceFunc(func() { close(hang) })
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	defer receiver.Close()
	defer free()
	for name, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.URL, "OTEL_TRACES_EXPORTER": "otlp", "OTEL_SDK_DISABLED": "", "OTEL_BSP_MAX_QUEUE_SIZE": "16",
		"OTEL_EXPORTER_OTLP_TIMEOUT": "3600000", "OTEL_BSP_EXPORT_TIMEOUT": "3600000", "OTEL_TRACES_SAMPLER": "always_on",
	} {
		t.Setenv(name, value)
	}
	tp, err := telemetry.Provider(context.Background(), "test", "1")
	if err != nil {
		t.Fatal(err)
	}
	e := mustStart(t, Options{Memory: true, Tracing: tp, HTTP: "127.0.0.1:0"})
	work(t, e, "email")
	for range 50 {
		waitFor(t, e, submit(t, e, wire.Submit{Type: "email"}), events.StateCompleted)
	}
	// 50 items have 150 spans. The last of them come right after the item is seen
	// to be completed.
	dropped := 0
	waitUntil(t, func() bool {
		resp, err := http.Get("http://" + e.HTTP() + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		page, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		m := droppedSpans.FindSubmatch(page)
		if m == nil {
			t.Fatal("no metric tells of dropped spans")
		}
		dropped, _ = strconv.Atoi(string(m[1]))
		return dropped >= 150-16
	}, func() string { return strconv.Itoa(dropped) + " spans were dropped" })
	stopEngine(t, e)
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if tp.Shutdown(ctx) == nil {
		t.Error("the last spans were sent to a receiver that takes none")
	}
}
