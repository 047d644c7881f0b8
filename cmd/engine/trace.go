package main

import (
	"context"
	"time"

	"go.opentelemetry.io/otel"

	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/internal/telemetry"
)

// flushWithin bounds the sending of the last spans at the end of a command.
const flushWithin = 5 * time.Second

// trace sets up OpenTelemetry if the environment asks for it. The caller calls
// flush at the end of the program.
func (a *app) trace(ctx context.Context) (flush func(), err error) {
	tp, err := telemetry.Provider(ctx, "streamwright", embedded.Version)
	if err != nil || tp == nil {
		return func() {}, err
	}
	a.tracing = tp
	otel.SetTracerProvider(tp)
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { a.Notef("traces: %v", err) }))
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushWithin)
		defer cancel()
		if err := tp.Shutdown(ctx); err != nil {
			a.Notef("traces: the last spans could not be sent: %v", err)
		}
	}, nil
}
