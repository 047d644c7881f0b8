package itemspans

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"hash/fnv"

	"go.opentelemetry.io/otel/trace"

	"github.com/streamwright/streamwright/events"
)

type wantedKey struct{}

// wanted are the ids that the next span is to have; a zero trace id leaves the
// choice of that.
type wanted struct {
	trace trace.TraceID
	span  trace.SpanID
}

func with(ctx context.Context, w wanted) context.Context {
	return context.WithValue(ctx, wantedKey{}, w)
}

// IDs generates the ids of spans: the ids that a [Recorder] asks for, and random
// ones for all others. A tracer provider for a Recorder must be made with it
// (sdktrace.WithIDGenerator). It may be used by any goroutine.
type IDs struct{}

// NewIDs implements the SDK's IDGenerator.
func (IDs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	w, _ := ctx.Value(wantedKey{}).(wanted)
	for !w.trace.IsValid() {
		_, _ = rand.Read(w.trace[:]) // never fails
	}
	return w.trace, orRandom(w.span)
}

// NewSpanID implements the SDK's IDGenerator.
func (IDs) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	w, _ := ctx.Value(wantedKey{}).(wanted)
	return orRandom(w.span)
}

func orRandom(id trace.SpanID) trace.SpanID {
	for !id.IsValid() {
		_, _ = rand.Read(id[:])
	}
	return id
}

// itemSpan returns the id of the span of an item's life, before or since it was
// replayed after so many attempts.
func itemSpan(id events.ID, before events.Attempt) trace.SpanID {
	return derive(id, 'i', uint64(before))
}

// attemptSpan returns the id of the span of a dispatch that was claimed.
func attemptSpan(id events.ID, token events.Token) trace.SpanID {
	return derive(id, 'a', uint64(token))
}

// derive makes an id that is always the same for the same item and number.
func derive(id events.ID, what byte, n uint64) (out trace.SpanID) {
	h := fnv.New64a()
	h.Write(id[:])
	h.Write(binary.BigEndian.AppendUint64([]byte{what}, n))
	binary.BigEndian.PutUint64(out[:], h.Sum64()|1) // zero is no id
	return out
}
