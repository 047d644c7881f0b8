package embedded

import (
	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/api/bridge"
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
	s.Mount("GET /readyz", 0, e.service.ReadyHandler())
	if e.bridge, err = e.startBridge(); err != nil {
		return err
	}
	s.RegisterWorkers(e.bridge)
	s.Mount("GET /metrics", access.RolesOf(access.Read), e.service.MetricsHandler())
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

// startBridge lets workers speak HTTP.
func (e *Engine) startBridge() (*bridge.Bridge, error) {
	b, err := bridge.New(bridge.Config{Conn: e.nc, Engine: e.service, Names: e.names(), Logger: e.log.With("part", "bridge")})
	if err != nil {
		return nil, err
	}
	return b, b.Start()
}
