package streamwright_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/internal/faultproxy"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/workers"
)

const patience = 2 * time.Minute

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// rig is an engine, and in front of it what loses and forges its replies.
type rig struct {
	*faultproxy.Proxy
	t       testing.TB
	engine  *embedded.Engine
	options embedded.Options
}

// start starts an engine in memory, until the test ends.
func start(t testing.TB) *rig {
	t.Helper()
	return startAs(t, embedded.Options{Memory: true, NATSListen: "127.0.0.1:0"})
}

// startOnDisk starts an engine that can restart.
func startOnDisk(t testing.TB) *rig {
	t.Helper()
	return startAs(t, embedded.Options{Dir: t.TempDir(), NATSListen: need.Address(t).String(), HTTP: config.Off})
}

func startAs(t testing.TB, o embedded.Options) *rig {
	t.Helper()
	r := &rig{t: t, options: o}
	r.begin()
	t.Cleanup(r.stop)
	r.Proxy = faultproxy.New(t, r.engine.URL())
	return r
}

func (r *rig) begin() {
	r.t.Helper()
	e, err := embedded.Start(testContext(r.t), r.options)
	if err != nil {
		r.t.Fatal(err)
	}
	r.engine = e
}

func (r *rig) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := r.engine.Stop(ctx); err != nil {
		r.t.Error(err)
	}
}

// restart stops the engine and its NATS server, and starts them again.
func (r *rig) restart() {
	r.t.Helper()
	r.stop()
	r.begin()
}

// work runs a worker with the handler of a type until the test ends.
func (r *rig) work(typ string, h workers.Handler) *workers.Worker {
	r.t.Helper()
	c, err := r.engine.Client(testContext(r.t))
	if err != nil {
		r.t.Fatal(err)
	}
	w, err := streamwright.NewWorker(c, workers.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		r.t.Fatal(err)
	}
	workers.HandleRaw(w, typ, h)
	if err := w.Start(testContext(r.t)); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := w.Stop(ctx); err != nil {
			r.t.Error(err)
		}
		c.Close()
	})
	return w
}

// returns is a handler that returns this at once.
func returns(result any, err error) workers.Handler {
	return func(context.Context, *workers.RawItem) (any, error) { return result, err }
}

// count returns how many items the engine has.
func (r *rig) count() (n int) {
	r.t.Helper()
	c, err := r.engine.Client(testContext(r.t))
	if err != nil {
		r.t.Fatal(err)
	}
	defer c.Close()
	info, err := c.Engine().Info(testContext(r.t))
	if err != nil {
		r.t.Fatal(err)
	}
	c.ObservePosition(info.Position)
	for _, err := range c.All(testContext(r.t), streamwright.Filter{Limit: 1000}) {
		if err != nil {
			r.t.Fatal(err)
		}
		n++
	}
	return n
}

func connect(t testing.TB, r *rig, opts ...streamwright.Option) *streamwright.Client {
	t.Helper()
	c, err := streamwright.Connect(testContext(t), r.URL, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// submit submits an item of type email that is expected to be accepted.
func submit(t testing.TB, c *streamwright.Client) streamwright.Submitted {
	t.Helper()
	s, err := c.Submit(testContext(t), streamwright.Item{Type: "email"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
