package streamwright

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/streamwright/streamwright/tracing"
)

// startSubmit begins the span of a submission; end it with endSubmit. Without a
// tracer provider it has no effect but to pass on what ctx has.
func startSubmit(ctx context.Context, verb, what string) (context.Context, trace.Span) {
	return tracing.Start(ctx, verb, what, trace.SpanKindProducer)
}

func endSubmit(span trace.Span, id string, err error) {
	if span.IsRecording() {
		if id != "" {
			span.SetAttributes(attribute.String("work.id", id))
		}
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
	}
	span.End()
}
