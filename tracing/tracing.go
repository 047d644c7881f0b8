// Package tracing carries OpenTelemetry traces along with work items, by the
// traceparent of W3C Trace Context.
//
// The client puts the span that submits an item into its submission; the engine
// keeps it with the item and sends it along with each dispatch; the worker makes
// its run a span below that. Package itemspans makes the spans of the engine
// itself. Without a tracer provider, and without a span in the context, all of
// it does nothing.
package tracing

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Scope is the instrumentation scope of all spans.
const Scope = "github.com/streamwright/streamwright"

const header = "traceparent"

var w3c propagation.TraceContext

// Tracer is that of the global tracer provider, which does nothing unless the
// program has set one.
func Tracer() trace.Tracer { return otel.Tracer(Scope) }

// From returns the traceparent of the span in ctx; empty if there is none.
func From(ctx context.Context) string { return Format(trace.SpanContextFromContext(ctx)) }

// Format writes a span context as a traceparent; empty if it is not valid.
func Format(sc trace.SpanContext) string {
	if !sc.IsValid() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	w3c.Inject(trace.ContextWithSpanContext(context.Background(), sc), carrier)
	return carrier[header]
}

// Parse reads a traceparent, as that of a span of another process. What can't
// be read is no valid span context.
func Parse(traceparent string) trace.SpanContext {
	if traceparent == "" {
		return trace.SpanContext{}
	}
	ctx := w3c.Extract(context.Background(), propagation.MapCarrier{header: traceparent})
	return trace.SpanContextFromContext(ctx)
}

// Below returns ctx such that a span that begins with it is a child of the span
// that a traceparent names; ctx itself if it names none.
func Below(ctx context.Context, traceparent string) context.Context {
	sc := Parse(traceparent)
	if !sc.IsValid() {
		return ctx
	}
	return trace.ContextWithRemoteSpanContext(ctx, sc)
}
