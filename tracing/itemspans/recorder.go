package itemspans

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/tracing"
	"github.com/streamwright/streamwright/wire"
)

// The attributes of the spans.
const (
	attrNS       = attribute.Key("work.namespace") // left out for the default one
	attrID       = attribute.Key("work.id")
	attrType     = attribute.Key("work.type")
	attrPriority = attribute.Key("work.priority")
	attrTenant   = attribute.Key("work.tenant")
	attrState    = attribute.Key("work.state") // that the item ended in
	attrReason   = attribute.Key("work.reason")
	attrAttempt  = attribute.Key("work.attempt")
	attrWorker   = attribute.Key("work.worker")
	attrOutcome  = attribute.Key("work.outcome") // the event that ended an attempt
	attrCode     = attribute.Key("error.type")
)

// Recorder makes the spans. It keeps nothing and never blocks (what the
// provider's bounded queue has no room for is dropped there); Projected is for
// one goroutine, Traceparent for any.
type Recorder struct {
	tracer  trace.Tracer
	common  []attribute.KeyValue // of all spans
	history func(events.ID) ([]wire.HistoryEvent, error)
}

// New makes a Recorder of a namespace for a provider that has [IDs] as its generator. history
// reads the events of an item, oldest first, as projected; it is asked when an
// item has waited for others across batches.
func New(tp trace.TracerProvider, ns events.Namespace, history func(events.ID) ([]wire.HistoryEvent, error)) (*Recorder, error) {
	want := derive(events.ID{1}, 't', 1)
	_, span := tp.Tracer(tracing.Scope).Start(with(context.Background(), wanted{trace: trace.TraceID{1}, span: want}), "check")
	if span.SpanContext().SpanID() != want { // never ended, so never exported
		return nil, errors.New("trace work items: the tracer provider must have the generator of ids of tracing/itemspans: make it with sdktrace.WithIDGenerator(itemspans.IDs{})")
	}
	r := &Recorder{tracer: tp.Tracer(tracing.Scope), history: history}
	if ns != events.DefaultNamespace {
		r.common = []attribute.KeyValue{attrNS.String(string(ns))}
	}
	return r, nil
}

// Traceparent returns what a dispatch of an item carries: the span of the attempt
// that it may become. It is empty if the item's trace is not sampled.
func (r *Recorder) Traceparent(it *events.Item, token events.Token) string {
	parent := r.parent(it)
	if !parent.IsSampled() {
		return ""
	}
	return tracing.Format(parent.WithSpanID(attemptSpan(it.ID, token)))
}

// parent returns the parent of an item's span, or, for an item submitted without a
// trace, the item's own span; it says whether the trace is sampled.
func (r *Recorder) parent(it *events.Item) trace.SpanContext {
	if sc := tracing.Parse(it.Trace); sc.IsValid() {
		return sc
	}
	ids := wanted{trace: trace.TraceID(it.ID), span: itemSpan(it.ID, it.AttemptsBefore)}
	_, span := r.tracer.Start(with(context.Background(), ids), string(it.Type))
	return span.SpanContext() // the span itself is not ended: it was for the sampler's answer
}

// life follows one item through the events of one batch.
type life struct {
	r       *Recorder
	item    *events.Item // after the batch
	parent  trace.SpanContext
	state   events.ItemState
	since   time.Time // when the state began; zero: not known
	due     time.Time // of a queued one: not before
	claimed time.Time
	token   events.Token
	attempt events.Attempt
	worker  events.WorkerID
	before  events.Attempt // attempts before it was last replayed
}

// Projected makes the spans that have ended in a batch.
func (r *Recorder) Projected(c *core.Changes) {
	if len(c.History) == 0 {
		return
	}
	lives := make(map[events.ID]*life, len(c.Items))
	for _, ch := range c.Items {
		if ch.New == nil {
			continue
		}
		if parent := r.parent(ch.New); parent.IsSampled() {
			lives[ch.New.ID] = r.resume(ch, parent)
		}
	}
	for i := range c.History {
		if l := lives[c.History[i].ID]; l != nil {
			l.step(&c.History[i])
		}
	}
}

// resume returns an item's life as it was before the batch.
func (r *Recorder) resume(ch core.ItemChange, parent trace.SpanContext) *life {
	l := &life{r: r, item: ch.New, parent: parent}
	old := ch.Old
	if old == nil {
		return l
	}
	l.state, l.due, l.claimed, l.token, l.attempt, l.worker = old.State, old.AvailableAt, old.ClaimedAt, old.Token, old.Attempt, old.Worker
	switch old.State {
	case events.StateQueued:
		l.since = old.QueuedAt
	case events.StateWaiting:
		l.since = r.waitingSince(old)
	}
	l.before = old.AttemptsBefore
	return l
}

// waitingSince returns when a waiting item began to wait; zero if that can't be
// told any more.
func (r *Recorder) waitingSince(it *events.Item) (since time.Time) {
	if it.QueuedAt.IsZero() {
		return it.CreatedAt
	}
	list, err := r.history(it.ID)
	if err != nil {
		return time.Time{} // one span less
	}
	state := events.StateNone
	for i := range list {
		ev := &list[i]
		if ev.Seq > it.Seq {
			break
		}
		next, ok := events.Next(state, ev.Kind)
		if !ok {
			continue
		}
		if next == events.StateWaiting && state != next {
			since = ev.At
		}
		state = next
	}
	return since
}

// step takes one event.
func (l *life) step(ev *events.Event) {
	next, ok := events.Next(l.state, ev.Kind)
	if !ok {
		return
	}
	was := l.state
	if next != was || ev.Kind == events.KindQueued {
		l.leave(ev)
		l.since = ev.At
	}
	l.state = next
	switch b := ev.Body.(type) {
	case *events.Queued:
		l.due = b.AvailableAt
	case *events.Rescheduled:
		l.due = b.AvailableAt
	case *events.Snoozed:
		l.due = b.AvailableAt
	case *events.Released:
		l.due = time.Time{}
	case *events.Replayed:
		l.due, l.before = time.Time{}, l.item.AttemptsBefore
	case *events.Claimed:
		l.claimed, l.token, l.attempt, l.worker = ev.At, b.Token, ev.Attempt, ev.Worker
	}
	if next.Terminal() {
		l.end(ev)
	}
}

// leave makes the spans of the state that an event ends.
func (l *life) leave(ev *events.Event) {
	switch l.state {
	case events.StateQueued:
		from := l.since
		if l.due.After(from) {
			until := l.due
			if ev.At.Before(until) {
				until = ev.At
			}
			l.wait("delayed", from, until)
			from = until
		}
		if ev.At.After(from) {
			l.wait("queued", from, ev.At)
		}
	case events.StateWaiting:
		l.wait("waiting", l.since, ev.At)
	case events.StateClaimed, events.StateRunning:
		if ev.Kind != events.KindRunning {
			l.attempted(ev)
		}
	}
}

// below returns the context of spans below the item's.
func (l *life) below(span trace.SpanID) context.Context {
	item := l.parent.WithSpanID(itemSpan(l.item.ID, l.before)).WithRemote(true)
	return with(trace.ContextWithRemoteSpanContext(context.Background(), item), wanted{span: span})
}

func (l *life) wait(name string, from, until time.Time) {
	if from.IsZero() {
		return
	}
	_, span := l.r.tracer.Start(l.below(trace.SpanID{}), name, trace.WithTimestamp(from),
		trace.WithAttributes(l.r.common...),
		trace.WithAttributes(attrID.String(l.item.ID.String()), attrType.String(string(l.item.Type)), attrPriority.Int(int(l.item.Priority))))
	span.End(trace.WithTimestamp(until))
}

// attempted makes the span of an attempt that ev has ended.
func (l *life) attempted(ev *events.Event) {
	_, span := l.r.tracer.Start(l.below(attemptSpan(l.item.ID, l.token)), "attempt", trace.WithTimestamp(l.claimed),
		trace.WithAttributes(l.r.common...),
		trace.WithAttributes(attrID.String(l.item.ID.String()), attrType.String(string(l.item.Type)), attrAttempt.Int(int(l.attempt)),
			attrWorker.String(string(l.worker)), attrOutcome.String(ev.Kind.String())))
	if b, ok := ev.Body.(*events.Failed); ok {
		span.SetStatus(codes.Error, b.Error)
		span.SetAttributes(attrCode.String(b.Code))
	}
	span.End(trace.WithTimestamp(ev.At))
}

// end makes the span of the item, which ev has ended.
func (l *life) end(ev *events.Event) {
	ctx := with(context.Background(), wanted{trace: l.parent.TraceID(), span: itemSpan(l.item.ID, l.before)})
	if tracing.Parse(l.item.Trace).IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, l.parent)
	}
	attrs := []attribute.KeyValue{
		attrID.String(l.item.ID.String()), attrType.String(string(l.item.Type)), attrPriority.Int(int(l.item.Priority)),
		attrState.String(l.state.String()),
	}
	if l.item.Tenant != "" {
		attrs = append(attrs, attrTenant.String(l.item.Tenant))
	}
	_, span := l.r.tracer.Start(ctx, string(l.item.Type), trace.WithTimestamp(l.item.CreatedAt), trace.WithAttributes(l.r.common...), trace.WithAttributes(attrs...))
	switch b := ev.Body.(type) {
	case *events.Dead:
		span.SetStatus(codes.Error, b.Error)
		span.SetAttributes(attrReason.String(b.Reason), attrCode.String(b.Code))
	case *events.Cancelled:
		span.SetAttributes(attrReason.String(b.Reason))
	}
	span.End(trace.WithTimestamp(ev.At))
}
