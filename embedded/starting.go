package embedded

import (
	"context"
	"fmt"
	"strings"

	"github.com/streamwright/streamwright/api"
	"github.com/streamwright/streamwright/api/rest"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/wire"
)

// openStarting opens the HTTP server, at which the engine says what it does until it is there,
// and shows what the node knows of the others.
func (e *Engine) openStarting(context.Context) error {
	e.face = newClusterFace(e)
	c := api.StartingConfig{Node: wire.Node{Node: e.nodeName(), Version: Version, Settings: e.face.settings}, Logger: e.log}
	if e.cfg.Cluster.On() || e.cfg.Server.NATSURL != "" {
		c.Cluster = e.face.cluster
	}
	c.Replicas = func(n *wire.Node) { e.replicas.Load().node(n) }
	e.starting = api.NewStarting(c)
	if e.cfg.Server.HTTP == config.Off {
		return nil
	}
	secure, err := e.openTLS()
	if err != nil {
		return err
	}
	s, err := rest.New(rest.Config{Engine: e.starting, Starting: e.starting.Refusal, Auth: e.auth, TLS: secure, Version: Version, Logger: e.log.With("part", "http")})
	if err != nil {
		return err
	}
	mountPage(s)
	s.Mount("GET /healthz", 0, e.starting.HealthHandler())
	s.Mount("GET /readyz", 0, e.starting.ReadyHandler())
	if err := s.Listen(e.cfg.Server.HTTP); err != nil {
		return err
	}
	e.http = s
	e.starting.ServesHTTP(s.Addr())
	e.log.Debug("the engine starts: /healthz shows how far it is", "http", s.Addr())
	return nil
}

// closeStarting ends the HTTP server of a start that has failed.
func (e *Engine) closeStarting(ctx context.Context) error {
	e.starting.Stop()
	if e.http == nil || e.bridge != nil {
		return nil
	}
	return e.http.Stop(ctx)
}

// startsToAnswer has the engine say over NATS too that it starts.
func (e *Engine) startsToAnswer(context.Context) error {
	e.face.link.Store(&link{e.srv, e.nc})
	return e.starting.Connected(e.nc, e.names(), publicURL(e.URL()))
}

// does notes what the engine, which starts, does or waits for. A restore has nobody who asks.
func (e *Engine) does(format string, args ...any) {
	if e.starting != nil {
		e.starting.Doing(fmt.Sprintf(format, args...))
	}
}

// waitsForNodes says which nodes this one waits for.
func (e *Engine) waitsForNodes(here []string, of int, silent []string) {
	text := fmt.Sprintf("the cluster %s has no leader: %d of %d nodes are here", e.srv.member().cluster, len(here)+1, of)
	if len(here) > 0 {
		text += " (linked to " + strings.Join(here, ", ") + ")"
	}
	if len(silent) > 0 {
		text += "; nothing answers at " + strings.Join(silent, ", ") + ": start those nodes, or see that they can be reached"
	}
	e.does("%s", text)
}
