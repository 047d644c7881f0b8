package embedded

import (
	"context"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/api/rest"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/eventlog"
)

// serveHTTP puts the faces that are for HTTP on one server, and opens it.
func (e *Engine) serveHTTP() error {
	s, err := rest.New(rest.Config{
		Engine: e.service, Events: eventFeed{e}, Logs: e.service.Logs, Version: Version, Logger: e.log.With("part", "http"),
	})
	if err != nil {
		return err
	}
	mountPage(s)
	s.Mount("GET /healthz", 0, e.service.HealthHandler())
	s.Describe("GET /healthz", rest.Doc{Summary: "Whether the engine is well", Description: "200 if it is, 503 if not; the body says what is wrong.", Content: "application/json"})
	s.Mount("GET /readyz", 0, e.service.ReadyHandler())
	s.Describe("GET /readyz", rest.Doc{Summary: "Whether the engine takes requests", Description: "200 if it does, 503 if not; the body says why.", Content: "application/json"})
	s.Mount("GET /metrics", access.RolesOf(access.Read), e.service.MetricsHandler())
	s.Describe("GET /metrics", rest.Doc{Summary: "Metrics for Prometheus", Description: "In Prometheus' text format.", Content: "text/plain"})
	s.Mount("GET /api/v1/live", access.RolesOf(access.Read), e.live.LiveHandler())
	s.Mount("GET /api/v1/trends", access.RolesOf(access.Read), e.live.TrendsHandler())
	s.Describe("GET /api/v1/live", rest.Doc{Summary: "The engine at a glance, live", Description: "Server-sent events for a page: stats at once and after changes, at most once a second; a sample of the events. See docs/LIVE.md.", Content: "text/event-stream"})
	s.Describe("GET /api/v1/trends", rest.Doc{Summary: "The last hour in figures", Description: "By type, a figure every ten seconds. See docs/LIVE.md.", Content: "application/json"})
	e.live.Start()
	if err := s.Listen(e.cfg.Server.HTTP); err != nil {
		return err
	}
	e.http = s
	e.service.ServesHTTP(s.Addr())
	return nil
}

// eventFeed is the engine's log for those who read it over HTTP.
type eventFeed struct{ e *Engine }

func (f eventFeed) Tail(ctx context.Context, cfg eventlog.TailConfig, fn func(events.Event) error) error {
	cfg.Names = f.e.names()
	return eventlog.Tail(ctx, f.e.nc, cfg, fn)
}

func (f eventFeed) Around(ctx context.Context, seq events.Seq) (eventlog.Kept, error) {
	return eventlog.Around(ctx, f.e.nc, f.e.names(), seq)
}
