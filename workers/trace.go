package workers

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/tracing"
)

// traced runs an item under a span of its own, below the engine's of the
// attempt (or the submitter's, if the engine makes none), so that what the
// handler does with its context hangs below that. Children that it spawns go on
// in the same trace. Without a tracer provider the context still names the
// trace, for what the handler calls.
func (w *Worker) traced(ctx context.Context, r *run, item *RawItem) Outcome {
	ctx = tracing.Below(ctx, item.Trace)
	ctx, span := tracing.Start(ctx, "run", string(item.Type), trace.SpanKindConsumer)
	defer span.End()
	if span.IsRecording() {
		span.SetAttributes(attribute.String("work.id", item.ID.String()), attribute.String("work.type", string(item.Type)),
			attribute.Int("work.attempt", int(item.Attempt)), attribute.String("work.worker", string(w.cfg.ID)))
	}
	out := w.invoke(ctx, r.reg.handler, item)
	if out.report != nil {
		passOn(out, tracing.From(ctx))
	}
	if out.Err != nil && span.IsRecording() {
		span.SetStatus(codes.Error, cutText(out.Err.Error(), events.MaxErrorText))
		span.SetAttributes(attribute.String("error.type", out.Code))
	}
	return out
}

// passOn gives a trace to the children that have none.
func passOn(out Outcome, traceparent string) {
	for i := range out.report.Children {
		if c := &out.report.Children[i]; c.Trace == "" {
			c.Trace = traceparent
		}
	}
}
