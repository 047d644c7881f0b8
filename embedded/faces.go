package embedded

import (
	"context"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/streamwright/streamwright/api"
	"github.com/streamwright/streamwright/api/live"
	"github.com/streamwright/streamwright/blobs"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/dispatcher"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector"
	"github.com/streamwright/streamwright/projector/query"
	"github.com/streamwright/streamwright/tracing"
	"github.com/streamwright/streamwright/wire"
)

// hooks tell the faces and the mirrors what happens.
func (e *Engine) hooks() dispatcher.Hooks {
	return e.metrics.Hook(dispatcher.Hooks{
		Appended: func(int, int, time.Duration) { e.service.LogGrew() },
		Awaited:  func(c *core.Changes) bool { return e.service.Awaits(c.Items) },
		Projected: func(c *core.Changes) {
			e.service.Notify(c.Items)
			if !e.owns.Load() {
				e.service.LogGrew()
			} else {
				e.mirror.projected(c)
				e.janitor.Projected(c.Items)
				if e.spans != nil {
					e.spans.Projected(c)
				}
			}
			if e.live != nil {
				e.live.Projected(c)
			}
			e.items.Projected(c)
		},
		Renewed: e.mirror.renewed,
		Owned: func(epoch events.Epoch) {
			e.items.Owned(epoch)
			e.mirror.owned(epoch)
			e.owns.Store(true)
			if e.lease != nil {
				e.log.Info("this engine owns the log now", "epoch", uint64(epoch))
			}
			e.roleIs(wire.RoleOwner, e.nodeName())
		},
		Lost: e.items.Lost,
		StandingBy: func(owner string) {
			e.owns.Store(false)
			e.mirror.standBy()
			e.roleIs(wire.RoleStandby, owner)
		},
		Workers: func(list []wire.WorkerInfo) {
			e.mirror.workersChanged(list)
			if e.live != nil {
				e.live.Touch()
			}
		},
	})
}

// roleIs has the faces answer by what the engine is now.
func (e *Engine) roleIs(role wire.NodeRole, owner string) {
	if err := e.service.Serve(role == wire.RoleOwner); err != nil {
		e.log.Error("what only the owner of the log answers can't be asked of it", "error", err)
	}
	if e.live != nil {
		e.live.Touch()
	}
	if e.o.Role != nil {
		e.o.Role(role, owner)
	}
}

// newFaces makes the API, which answers once it is started.
func (e *Engine) newFaces(ctx context.Context) error {
	var logs *api.Logs
	err := patiently(ctx, e, func(ctx context.Context) (err error) {
		logs, err = api.OpenLogs(ctx, api.LogsConfig{
			Conn: e.nc, Names: e.names(), Memory: e.o.Memory, Replicas: e.copies.replicas, Placement: e.copies.placement, MaxAge: e.cfg.Limits.LogMaxAge, MaxBytes: e.share("log_max_size", e.cfg.Limits.LogMaxBytes, config.Default().Limits.LogMaxBytes),
		})
		return err
	})
	if err != nil {
		return err
	}
	defaults := e.cfg.TypeDefaults()
	store, err := blobs.New(e.nc, e.names(), blobs.DefaultMaxBytes)
	if err != nil {
		return err
	}
	e.service, err = api.New(api.Config{
		Conn: e.nc, Names: e.names(), Core: e.dispatcher, Queries: queries{e.store, query.Of(e.store)}, Prover: prover{e}, Logs: logs, Metrics: e.metrics, Logger: e.log,
		OwnedByFile: func(t events.Type, wanted events.TypeSettings) []string {
			return e.cfg.Types[t].Patch.Conflicts(wanted)
		},
		NamedByFile:  func(t events.Type) []string { return e.cfg.Types[t].Patch.Named() },
		TypeDefaults: &defaults,
		Replicas:     e.replicas.Load().reads(),
		RefuseStale:  e.cfg.Cluster.StaleReads == config.RefuseStale,
		Reached:      e.reached(),
		Node:         e.face.node, Cluster: e.face.look(), RemoveNode: e.face.remover(),
		Quotas: e.quotas, Accounts: e.srv.hasAccounts, KnownUser: e.srv.userOf, UserRoles: e.userRoles.of,
		Sites: func() []wire.SiteState { return e.sites.states() },
		Full:  e.space.Full, Storage: e.space.Use, Spans: spanCounts(e.o.Tracing), Blobs: store, MaxQueued: e.cfg.Limits.MaxQueued, MaxRunning: e.cfg.Limits.MaxRunning,
		Info: wire.InfoReply{Version: Version, Owner: e.dispatcher.Owner(), Node: e.nodeName(), Durability: string(e.cfg.Server.Durability), DataDir: e.Dir(), NATS: publicURL(e.URL()), Prefix: e.names().Prefix},
	})
	if err != nil {
		return err
	}
	if e.cfg.Server.HTTP != config.Off { // which alone serves the feed
		e.live, err = live.New(live.Config{Engine: e.service, Totals: e.service.Totals, Logger: e.log.With("part", "live")})
	}
	return err
}

// publicURL returns a list of NATS URLs without the users and passwords in them.
func publicURL(servers string) string {
	parts := strings.Split(servers, ",")
	for i, p := range parts {
		scheme, rest, found := strings.Cut(strings.TrimSpace(p), "://")
		if !found {
			scheme, rest = "nats", scheme
		}
		parts[i] = scheme + "://" + rest[strings.LastIndex(rest, "@")+1:]
	}
	if servers == "" {
		return ""
	}
	return strings.Join(parts, ",")
}

// spanCounts counts the spans of Options.Tracing, if that can.
func spanCounts(t trace.TracerProvider) func() tracing.SpanCounts {
	if c, ok := t.(tracing.SpanCounter); ok {
		return c.SpanCounts
	}
	return nil
}

// settle returns once what the engine does first (recording the file's settings) is done and
// visible.
func (e *Engine) settle(ctx context.Context) error {
	if _, standsBy := e.dispatcher.StandsBy(); !standsBy {
		e.does("it takes the log over")
		if _, err := e.dispatcher.Loads(ctx); err != nil && events.CodeOf(err) != events.CodeNotOwner {
			return err
		}
		return e.dispatcher.Await(ctx, e.dispatcher.Position())
	}
	return nil
}

// answer begins to answer.
func (e *Engine) answer(context.Context) error {
	e.starting.Stop()
	return e.service.Start()
}

// queries answers the service from the projection.
type queries struct {
	*projector.Store
	query.Reader
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
