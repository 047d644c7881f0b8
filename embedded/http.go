package embedded

import (
	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/api/page"
	"github.com/streamwright/streamwright/api/rest"
)

// serveHTTP puts the faces that are for HTTP on one server, and opens it.
func (e *Engine) serveHTTP() error {
	s, err := rest.New(rest.Config{Engine: e.service, Version: Version, Logger: e.log.With("part", "http")})
	if err != nil {
		return err
	}
	s.Mount("GET /healthz", 0, e.service.HealthHandler())
	s.Mount("GET /metrics", access.RolesOf(access.Read), e.service.MetricsHandler())
	s.Mount("GET /{$}", 0, page.Handler())
	s.Mount("GET /assets/", 0, page.Handler())
	s.Mount("GET /api/v1/live", access.RolesOf(access.Read), e.live.LiveHandler())
	s.Mount("GET /api/v1/trends", access.RolesOf(access.Read), e.live.TrendsHandler())
	e.live.Start()
	if err := s.Listen(e.cfg.Server.HTTP); err != nil {
		return err
	}
	e.http = s
	e.service.ServesHTTP(s.Addr())
	return nil
}
