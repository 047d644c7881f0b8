package embedded

import (
	"context"
	"time"

	"github.com/streamwright/streamwright/api"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/dispatcher"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/projector"
	"github.com/streamwright/streamwright/tracing"
	"github.com/streamwright/streamwright/wire"
)

// hooks tell the faces and the mirrors what happens.
func (e *Engine) hooks() dispatcher.Hooks {
	return e.metrics.Hook(dispatcher.Hooks{
		Awaited: func(c *events.Changes) bool { return e.service.Awaits(c.Items) },
		Projected: func(c *events.Changes) {
			e.service.Notify(c.Items)
			e.mirror.projected(c)
			e.janitor.Projected(c.Items)
			if e.spans != nil {
				e.spans.Projected(c)
			}
			e.liveProjected(c)
		},
		Renewed: e.mirror.renewed,
		Owned:   e.mirror.owned,
		Workers: func(list []wire.WorkerInfo) {
			e.mirror.workersChanged(list)
			e.liveTouched()
		},
	})
}

// newFaces makes the API, which answers once it is started.
func (e *Engine) newFaces(ctx context.Context) error {
	logs, err := api.OpenLogs(ctx, api.LogsConfig{
		Conn: e.nc, Names: e.names(), Memory: e.o.Memory, MaxAge: e.cfg.Limits.LogMaxAge, MaxBytes: e.logsBytes(),
	})
	if err != nil {
		return err
	}
	defaults := e.cfg.TypeDefaults()
	e.service, err = api.New(api.Config{
		Conn: e.nc, Names: e.names(), Core: e.dispatcher, Queries: e.store, Prover: prover{e}, Logs: logs, Metrics: e.metrics, Logger: e.log,
		OwnedByFile: func(t events.Type, wanted events.TypeSettings) []string {
			return e.cfg.Types[t].Patch.Conflicts(wanted)
		},
		NamedByFile:  func(t events.Type) []string { return e.cfg.Types[t].Patch.Named() },
		TypeDefaults: &defaults,
		Full:         e.isFull, Storage: e.storageNow, Spans: e.spanCounts(), MaxQueued: e.cfg.Limits.MaxQueued, MaxRunning: e.cfg.Limits.MaxRunning,
		Info: wire.InfoReply{Version: Version, Owner: e.dispatcher.Owner(), Durability: string(e.cfg.Server.Durability), DataDir: e.Dir()},
	})
	if err != nil {
		return err
	}
	return e.newLive()
}

// spanCounts counts the spans of Options.Tracing, if that can tell.
func (e *Engine) spanCounts() func() tracing.SpanCounts {
	if c, ok := e.o.Tracing.(tracing.SpanCounter); ok {
		return c.SpanCounts
	}
	return nil
}

// startFaces begins to answer, once what the engine does first (recording the
// file's settings) is done and visible.
func (e *Engine) startFaces(ctx context.Context) (err error) {
	if _, err := e.dispatcher.Loads(ctx); err != nil {
		return err
	}
	if err := e.dispatcher.Await(ctx, e.dispatcher.Position()); err != nil {
		return err
	}
	if e.cfg.Server.HTTP != config.Off {
		if err := e.serveHTTP(); err != nil {
			return err
		}
	}
	return e.service.Start()
}

// prover replays the log for the API.
type prover struct{ e *Engine }

func (p prover) Verify(ctx context.Context, progress projector.Progress) (projector.Verified, error) {
	return p.e.store.Verify(ctx, p.e.eventLog, progress)
}

// Rebuild replaces the store, and has the dispatcher start again from it: what
// it holds in memory may have come from a store that was wrong.
func (p prover) Rebuild(ctx context.Context, progress projector.Progress) error {
	if err := p.e.store.Rebuild(ctx, p.e.eventLog, progress); err != nil {
		return err
	}
	p.e.dispatcher.Reload()
	return nil
}

func (p prover) AsOf(ctx context.Context, through events.Seq, until time.Time, progress projector.Progress, fn func(*projector.Store) error) error {
	return p.e.store.AsOf(ctx, p.e.eventLog, through, until, progress, fn)
}
