package telemetry

import (
	"context"
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/streamwright/streamwright/tracing"
)

// Tracing is a tracer provider that counts what becomes of its spans.
type Tracing struct {
	*sdktrace.TracerProvider
	queue *spanQueue
}

// SpanCounts implements [tracing.SpanCounter].
func (t *Tracing) SpanCounts() tracing.SpanCounts {
	q := t.queue
	return tracing.SpanCounts{Sent: q.sent.Load(), Failed: q.failed.Load(), Dropped: q.dropped.Load()}
}

// spanQueue stands both before the SDK's batching processor and between it and the
// exporter. The SDK silently drops spans that its queue has no room for. spanQueue lets
// in only as many as there is room for, so that the SDK never drops any, and counts the
// rest. It may be used by any goroutine.
type spanQueue struct {
	sdktrace.SpanProcessor // the batching one
	exporter               sdktrace.SpanExporter
	most                   int64
	pending                atomic.Int64 // let in, and not yet sent
	sent, failed, dropped  atomic.Uint64
}

func newSpanQueue(exporter sdktrace.SpanExporter) *spanQueue {
	q := &spanQueue{exporter: exporter, most: queueSize()}
	q.SpanProcessor = sdktrace.NewBatchSpanProcessor(sending{q}, sdktrace.WithMaxQueueSize(int(q.most)))
	return q
}

// OnEnd takes an ended span. It never waits for the receiver.
func (q *spanQueue) OnEnd(s sdktrace.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return
	}
	if q.pending.Add(1) > q.most {
		q.pending.Add(-1)
		q.dropped.Add(1)
		return
	}
	q.SpanProcessor.OnEnd(s)
}

// sending is the exporter as the batching processor sees it.
type sending struct{ q *spanQueue }

func (s sending) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := s.q.exporter.ExportSpans(ctx, spans)
	if err != nil {
		s.q.failed.Add(uint64(len(spans)))
	} else {
		s.q.sent.Add(uint64(len(spans)))
	}
	s.q.pending.Add(-int64(len(spans)))
	return err
}

func (s sending) Shutdown(ctx context.Context) error { return s.q.exporter.Shutdown(ctx) }

// queueSize returns how many spans may wait to be sent: OTEL_BSP_MAX_QUEUE_SIZE, or
// the SDK's default.
func queueSize() int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(os.Getenv("OTEL_BSP_MAX_QUEUE_SIZE")), 10, 32)
	if err != nil || n <= 0 {
		return sdktrace.DefaultMaxQueueSize
	}
	return n
}
