// Package engine starts an engine in memory for the tests of the examples.
package engine

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/internal/logins"
)

// Context returns a context that ends with the test, or after a minute.
func Context(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// Client returns a client of an engine that ends with the test.
func Client(t *testing.T, ctx context.Context) *streamwright.Client {
	t.Helper()
	c, _ := WithHTTP(t, ctx)
	return c
}

// WithHTTP is Client, with the URL of the engine's HTTP server.
func WithHTTP(t *testing.T, ctx context.Context) (*streamwright.Client, string) {
	t.Helper()
	l := logins.Of(t)
	o := embedded.Options{Memory: true, NATSListen: "127.0.0.1:0", HTTP: "127.0.0.1:0", Logger: l.Watch(t, slog.New(slog.DiscardHandler))}
	l.Secure(t, &o.Config)
	e, err := embedded.Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Stop(context.Background()) })
	c, err := streamwright.Connect(ctx, e.URL(), streamwright.WithConnection(l.Settings(logins.All)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, e.HTTPURL()
}
