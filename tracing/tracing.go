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
	"encoding/hex"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Scope is the instrumentation scope of all spans.
const Scope = "github.com/streamwright/streamwright"

const header = "traceparent"

var w3c propagation.TraceContext

// Tracer returns the tracer of the global provider, which does nothing unless the
// program has set one.
func Tracer() trace.Tracer { return otel.Tracer(Scope) }

// From returns the traceparent of the span in ctx; empty if there is none.
func From(ctx context.Context) string { return Format(trace.SpanContextFromContext(ctx)) }

// Format writes a span context as a traceparent; empty if it is not valid.
func Format(sc trace.SpanContext) string {
	if !sc.IsValid() {
		return ""
	}
	id, span := sc.TraceID(), sc.SpanID()
	out := make([]byte, 0, traceparentLen)
	out = append(out, "00-"...)
	out = hex.AppendEncode(out, id[:])
	out = append(out, '-')
	out = hex.AppendEncode(out, span[:])
	flags := sc.TraceFlags() & (trace.FlagsSampled | trace.FlagsRandom)
	return string(append(out, '-', '0', '0'+byte(flags)))
}

// traceparentLen is the length of a traceparent of version 00.
const traceparentLen = 2 + 1 + 32 + 1 + 16 + 1 + 2

// Parse reads a traceparent as the span context of another process. If it can't be
// read, the span context is not valid.
func Parse(traceparent string) trace.SpanContext {
	if traceparent == "" {
		return trace.SpanContext{}
	}
	if sc, ok := parsePlain(traceparent); ok {
		return sc
	}
	ctx := w3c.Extract(context.Background(), propagation.MapCarrier{header: traceparent})
	return trace.SpanContextFromContext(ctx)
}

// parsePlain reads the usual kind of traceparent (version 00, no flags but sampled and
// random) without allocating: the engine reads an item's several times in its life.
// Other kinds are left to the propagator.
func parsePlain(s string) (trace.SpanContext, bool) {
	if len(s) != traceparentLen || s[:3] != "00-" || s[35] != '-' || s[52:54] != "-0" || s[54] < '0' || s[54] > '3' {
		return trace.SpanContext{}, false
	}
	id, err := trace.TraceIDFromHex(s[3:35])
	if err != nil {
		return trace.SpanContext{}, false
	}
	span, err := trace.SpanIDFromHex(s[36:52])
	if err != nil {
		return trace.SpanContext{}, false
	}
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: span, TraceFlags: trace.TraceFlags(s[54] - '0'), Remote: true}), true
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

// unset is the global tracer provider of a program that has set none, which
// stands for one that may come; nil if this program had set one before, or
// OpenTelemetry calls it otherwise: then every span is asked for.
var unset = func() trace.TracerProvider {
	if tp := otel.GetTracerProvider(); fmt.Sprintf("%T", tp) == "*global.tracerProvider" {
		return tp
	}
	return nil
}()

// Start begins a span by the global tracer provider, named by verb and what. As long as
// the program has set no provider it costs nothing: ctx is unchanged, so a trace that it
// carries continues, and the span does nothing.
func Start(ctx context.Context, verb, what string, kind trace.SpanKind) (context.Context, trace.Span) {
	if tp := otel.GetTracerProvider(); tp == unset {
		return ctx, noop.Span{}
	}
	return Tracer().Start(ctx, verb+" "+what, trace.WithSpanKind(kind))
}

// SpanCounts counts the sampled spans that a process has ended, by what became of them;
// spans that wait to be sent are not counted.
type SpanCounts struct {
	Sent    uint64 // the receiver has taken them
	Failed  uint64 // the receiver did not take them, or not in time
	Dropped uint64 // there was no room in the queue
}

// SpanCounter is a tracer provider that counts. It may be used by any goroutine.
type SpanCounter interface{ SpanCounts() SpanCounts }
