package tracing

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"pgregory.net/rapid"
)

// Parse and Format say what OpenTelemetry's own propagator says.
func TestTraceparentIsThePropagators(t *testing.T) {
	theirs := func(s string) trace.SpanContext {
		return trace.SpanContextFromContext(w3c.Extract(context.Background(), propagation.MapCarrier{header: s}))
	}
	check := func(t interface{ Errorf(string, ...any) }, s string) {
		got, want := Parse(s), theirs(s)
		if !got.Equal(want) {
			t.Errorf("%q is %v, want %v", s, got, want)
		}
		if !want.IsValid() {
			return
		}
		carrier := propagation.MapCarrier{}
		w3c.Inject(trace.ContextWithSpanContext(context.Background(), want), carrier)
		if out := Format(want); out != carrier[header] {
			t.Errorf("%v is written %q, want %q", want, out, carrier[header])
		}
	}
	const good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for _, s := range []string{"", good, good[:54] + "0", good[:54] + "2", good[:54] + "3", good[:53] + "ff", good + "-x", "01" + good[2:], "01" + good[2:] + "-more", "ff" + good[2:],
		"00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", "00-00000000000000000000000000000000-00f067aa0ba902b7-01", "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01"} {
		check(t, s)
	}
	rapid.Check(t, func(t *rapid.T) {
		b := []byte(good)
		for range rapid.IntRange(0, 2).Draw(t, "faults") {
			b[rapid.IntRange(0, len(b)-1).Draw(t, "at")] = rapid.SampledFrom([]byte("0123abcdefAg-\x00")).Draw(t, "byte")
		}
		check(t, string(b))
	})
}

// What the engine does with a traceparent on its hot path costs no garbage but the
// text that is sent on.
func TestTraceparentAllocates(t *testing.T) {
	const s = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
	if n := testing.AllocsPerRun(100, func() { Parse(s) }); n != 0 {
		t.Errorf("reading one allocates %v times", n)
	}
	sc := Parse(s)
	if n := testing.AllocsPerRun(100, func() { Format(sc) }); n > 1 {
		t.Errorf("writing one allocates %v times", n)
	}
}

// A program may set its provider after it has made spans that came to nothing, and
// its spans are real from then on; a trace in the context goes on without one.
func TestStartFollowsTheProvider(t *testing.T) {
	parent := Below(context.Background(), "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	ctx, span := Start(parent, "submit", "email", trace.SpanKindProducer)
	if span.IsRecording() || From(ctx) != From(parent) {
		t.Error("a program without a provider makes spans, or loses its trace")
	}
	before := otel.GetTracerProvider()
	defer otel.SetTracerProvider(before)
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.AlwaysSample())))
	ctx, span = Start(parent, "submit", "email", trace.SpanKindProducer)
	if !span.IsRecording() || trace.SpanContextFromContext(ctx).TraceID() != Parse(From(parent)).TraceID() || From(ctx) == From(parent) {
		t.Errorf("with a provider the span is %v", span.SpanContext())
	}
	span.End()
}
