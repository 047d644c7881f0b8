package workers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/streamwright/streamwright/blobs"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/lograte"
	"github.com/streamwright/streamwright/tracing"
	"github.com/streamwright/streamwright/wire"
)

// runner runs handlers, with what surrounds them. It does not change.
type runner struct {
	w        *Worker
	blobs    *blobs.Store     // documents too large for an event
	failures *lograte.Limiter // of what is logged of failures
}

// invoke runs an item's handler with its params resolved, and puts a result
// that is too large for an event into the object store. All of it is under the
// attempt's context.
func (x *runner) invoke(ctx context.Context, h Handler, item *RawItem) Outcome {
	if blobs.IsRef(item.Raw) {
		doc, err := x.fetchParams(ctx, item.Raw)
		if err != nil {
			return failedWith(ctx, item, err)
		}
		item.Raw = doc
	}
	out := Invoke(ctx, h, item)
	if out.Err == nil && out.Spawn != nil {
		return x.storeChildren(ctx, item, out)
	}
	if out.Err != nil || len(out.Result) <= events.MaxResultBytes {
		return out
	}
	ref, err := x.blobs.PutBytes(ctx, item.ID, blobs.Result, out.Result)
	if err != nil {
		return failedWith(ctx, item, blobFailure(fmt.Errorf("the result has %d bytes and could not be stored: %w", len(out.Result), err)))
	}
	return Outcome{Result: ref.Document()}
}

// maxInlineChildren bounds the JSON of the children that go with the report of a
// spawn itself, in bytes: what every server takes, beside other reports. Of more
// the report has a reference.
const maxInlineChildren = 512 << 10

// storeChildren puts the children of a spawn into the object store if they are
// too large for a message.
func (x *runner) storeChildren(ctx context.Context, item *RawItem, out Outcome) Outcome {
	if out.report.Size() <= maxInlineChildren/2 {
		return out
	}
	doc, err := json.Marshal(out.report.Children)
	if err != nil || len(doc) <= maxInlineChildren {
		return out // it was checked: see Spawn
	}
	ref, err := x.blobs.PutBytes(ctx, item.ID, blobs.Children, doc)
	if err != nil {
		return failedWith(ctx, item, blobFailure(fmt.Errorf("the spawn's %d children could not be stored: %w", len(out.report.Children), err)))
	}
	rep := *out.report
	rep.Children, rep.ChildrenRef = nil, ref.Document()
	out.report = &rep
	return out
}

// fetchParams gets the params that a reference stands for.
func (x *runner) fetchParams(ctx context.Context, doc json.RawMessage) (json.RawMessage, error) {
	ref, err := blobs.Parse(doc)
	if err == nil {
		doc, err = x.blobs.Get(ctx, ref)
	}
	if err != nil {
		return nil, blobFailure(fmt.Errorf("the params could not be had: %w", err))
	}
	if !json.Valid(doc) || !utf8.Valid(doc) {
		err := fmt.Errorf("the object %s is no JSON document in UTF-8: put the params as JSON", ref.Name)
		return nil, Permanent(WithCode(err, string(events.CodeBadParams)))
	}
	return doc, nil
}

// blobFailure gives a failure of the object store the code of the failed
// attempt.
func blobFailure(err error) error {
	if blobs.Permanent(err) {
		return Permanent(WithCode(err, string(events.CodeOf(err))))
	}
	return WithCode(err, blobs.FailUnavailable)
}

// failedWith is the outcome of a run that has failed outside its handler.
func failedWith(ctx context.Context, item *RawItem, err error) Outcome {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	return Invoke(ctx, func(context.Context, *RawItem) (any, error) { return nil, err }, item)
}

// traced runs an item under a span of its own, below the engine's of the
// attempt (or the submitter's, if the engine makes none), so that what the
// handler does with its context hangs below that. Children that it spawns go on
// in the same trace. Without a tracer provider the context still names the
// trace, for what the handler calls.
func (x *runner) traced(ctx context.Context, r *run, item *RawItem) Outcome {
	ctx = tracing.Below(ctx, item.Trace)
	ctx, span := tracing.Start(ctx, "run", string(item.Type), trace.SpanKindConsumer)
	defer span.End()
	if span.IsRecording() {
		span.SetAttributes(attribute.String("work.id", item.ID.String()), attribute.String("work.type", string(item.Type)),
			attribute.Int("work.attempt", int(item.Attempt)), attribute.String("work.worker", string(x.w.cfg.ID)))
		if ns := item.Namespace; ns != "" && ns != events.DefaultNamespace {
			span.SetAttributes(attribute.String("work.namespace", string(ns)))
		}
	}
	out := x.invoke(ctx, r.reg.handler, item)
	if out.report != nil {
		passOn(out, tracing.From(ctx))
	}
	if out.Err != nil && span.IsRecording() {
		span.SetStatus(codes.Error, events.CutText(out.Err.Error(), events.MaxErrorText))
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

// Bounds of the logging of handlers' failures.
const (
	maxFailureLines = 20  // a second; the number of the others is logged
	maxFailureText  = 500 // bytes of an error's text
)

// HandlerFailed is the message of the line by which a worker logs, at level warn,
// that a handler has failed an item. The line has the fields worker, item, type,
// attempt, code, err and took.
const HandlerFailed = "a handler has failed"

// newFailureLog bounds a worker's lines about its handlers' failures.
func newFailureLog(log *slog.Logger) *lograte.Limiter {
	return lograte.New(maxFailureLines, func(left int) {
		log.Warn("more handlers failed than are logged in a second", "left_out", left)
	})
}

// logFailure logs that a handler has failed an item, if its report says so. A
// run that was told to stop, because its item is cancelled or another's, is no
// failure.
func (x *runner) logFailure(r *run, item *RawItem, rep *wire.Report, cause error, took time.Duration) {
	if rep.Event != wire.ReportFail || cause != nil && cause != ErrTimeout || !x.failures.Allow() {
		return
	}
	attrs := []any{"item", r.msg.ID, "type", string(r.reg.typ), "attempt", int(item.Attempt), "code", rep.Code, "err", events.CutText(rep.Error, maxFailureText),
		"took", took.Round(time.Millisecond)}
	if rep.Retryable != nil && !*rep.Retryable {
		attrs = append(attrs, "retryable", false)
	}
	x.w.log.Warn(HandlerFailed, attrs...)
}

// logSink publishes an item's log records. They share the connection with the
// reports, so a record is on its way before the outcome.
func (x *runner) logSink(item *RawItem) func(time.Time, string, string) {
	return func(at time.Time, level, message string) {
		subject := x.w.cfg.Names.Log(item.Type, item.ID)
		body, err := json.Marshal(wire.LogRecord{At: at.UTC(), Level: level, Attempt: int(item.Attempt), Worker: string(x.w.cfg.ID), Message: message})
		if err == nil {
			err = x.w.nc.Publish(subject, body)
		}
		if err != nil {
			x.w.log.Debug("a log record is lost", "item", item.ID.String(), "err", err)
		}
	}
}
