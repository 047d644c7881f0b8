package tracing

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// unset is the global tracer provider of a program that has set none, which
// stands for one that may come; nil if this program had set one before, or
// OpenTelemetry calls it otherwise: then every span is asked for.
var unset = func() trace.TracerProvider {
	if tp := otel.GetTracerProvider(); fmt.Sprintf("%T", tp) == "*global.tracerProvider" {
		return tp
	}
	return nil
}()

// Start begins a span by the global tracer provider, named by what is done and to
// what. As long as the program has set no provider it costs nothing: ctx is as it
// was, so a trace that it carries goes on, and the span does nothing.
func Start(ctx context.Context, verb, what string, kind trace.SpanKind) (context.Context, trace.Span) {
	if tp := otel.GetTracerProvider(); tp == unset {
		return ctx, noop.Span{}
	}
	return Tracer().Start(ctx, verb+" "+what, trace.WithSpanKind(kind))
}
