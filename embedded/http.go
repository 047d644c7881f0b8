package embedded

import (
	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/api/rest"
)

// serveHTTP puts the faces that are for HTTP on one server, and opens it.
func (e *Engine) serveHTTP() error {
	secure, err := e.tls()
	if err != nil {
		return err
	}
	s, err := rest.New(rest.Config{Engine: e.service, Auth: e.auth, TLS: secure, Version: Version, Logger: e.log.With("part", "http")})
	if err != nil {
		return err
	}
	s.Mount("GET /healthz", 0, e.service.HealthHandler())
	s.Mount("GET /metrics", access.RolesOf(access.Read), e.service.MetricsHandler())
	if err := s.Listen(e.cfg.Server.HTTP); err != nil {
		return err
	}
	e.http = s
	e.service.ServesHTTP(s.Addr())
	return nil
}
