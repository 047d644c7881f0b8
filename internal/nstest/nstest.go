// Package nstest runs the log of a namespace beside an engine, for tests of clients.
package nstest

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/api"
	"github.com/streamwright/streamwright/dispatcher"
	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/projector"
	"github.com/streamwright/streamwright/projector/query"
	"github.com/streamwright/streamwright/wire"
)

const patience = 2 * time.Minute

// queries is what the API asks of the projection.
type queries struct {
	*projector.Store
	query.Reader
}

// prover proves nothing: it satisfies the API.
type prover struct{ api.Prover }

// Start runs the log of a namespace, of the engine with the prefix "work" on a NATS server,
// until the test ends.
func Start(t testing.TB, url string, ns events.Namespace) {
	t.Helper()
	need.NoReload(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("start the namespace %s: %v", ns, err)
		}
	}
	names := wire.Default.Namespace(ns)
	own, err := nats.Connect(url)
	must(err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	log, err := eventlog.Open(ctx, eventlog.Config{Names: names, Connect: func() (*nats.Conn, error) {
		return nats.Connect(url, nats.ReconnectBufSize(-1))
	}})
	must(err)
	store, err := projector.Open(t.TempDir(), projector.Options{})
	must(err)
	var svc *api.Service
	metrics := api.NewMetrics()
	hooks := metrics.Hook(dispatcher.Hooks{
		Projected: func(c *core.Changes) { svc.Notify(c.Items) },
		Appended:  func(int, int, time.Duration) { svc.LogGrew() },
	})
	engine, err := dispatcher.New(dispatcher.Config{Log: log, Store: store, Conn: own, Names: names, Alone: true, Owner: "test", Hooks: hooks})
	must(err)
	logs, err := api.OpenLogs(ctx, api.LogsConfig{Conn: own, Names: names})
	must(err)
	output, err := api.NewOutput(api.OutputConfig{Conn: own, Names: names})
	must(err)
	svc, err = api.New(api.Config{
		Conn: own, Names: names, Core: engine, Queries: queries{store, query.Of(store)}, Prover: prover{}, Logs: logs, Output: output, Metrics: metrics,
		Info: wire.InfoReply{Version: "test", Owner: "test", Prefix: names.Prefix}, Logger: slog.New(slog.DiscardHandler),
	})
	must(err)
	must(engine.Start(ctx))
	must(svc.Start())
	t.Cleanup(func() {
		defer cancel()
		for _, err := range []error{svc.Stop(ctx), engine.Stop(ctx), log.Close(), store.Close()} {
			if err != nil {
				t.Error(err)
			}
		}
		own.Close()
	})
}
