package embedded

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/streamwright/streamwright/api"
	"github.com/streamwright/streamwright/api/rest"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/wire"
)

// openStarting opens the HTTP server, at which the engine says what it does until it is there,
// and shows what the node knows of the others.
func (f *faces) openStarting(context.Context) error {
	f.face = &clusterFace{base: f.base, lease: f.ledger.lease, watch: f.replicas, settings: f.cfg.Digest(), lacking: map[string]time.Time{}}
	c := api.StartingConfig{Node: wire.Node{Node: f.nodeName(), Version: Version, Settings: f.face.settings}, Logger: f.log}
	if f.cfg.Cluster.On() || f.cfg.Server.NATSURL != "" {
		c.Cluster = f.face.cluster
	}
	c.Replicas = f.replicas.node
	f.starting = api.NewStarting(c)
	if f.cfg.Server.HTTP == config.Off {
		return nil
	}
	secure, err := f.guard.openTLS()
	if err != nil {
		return err
	}
	s, err := rest.New(rest.Config{Engine: f.starting, Starting: f.starting.Refusal, Auth: f.guard.auth, TLS: secure, Version: Version, Logger: f.log.With("part", "http")})
	if err != nil {
		return err
	}
	mountPage(s)
	s.Mount("GET /healthz", 0, f.starting.HealthHandler())
	s.Mount("GET /readyz", 0, f.starting.ReadyHandler())
	if err := s.Listen(f.cfg.Server.HTTP); err != nil {
		return err
	}
	f.http = s
	f.starting.ServesHTTP(s.Addr())
	f.log.Debug("the engine starts: /healthz shows how far it is", "http", s.Addr())
	return nil
}

// closeStarting ends the HTTP server of a start that has failed.
func (f *faces) closeStarting(ctx context.Context) error {
	f.starting.Stop()
	if f.http == nil || f.bridge != nil {
		return nil
	}
	return f.http.Stop(ctx)
}

// startsToAnswer has the engine say over NATS too that it starts.
func (f *faces) startsToAnswer(context.Context) error {
	f.face.link.Store(&link{f.srv, f.nc})
	return f.starting.Connected(f.nc, f.names(), publicURL(f.base.url()))
}

func (b *base) closeAnswers() { b.starting.Stop() }

// does notes what the engine, which starts, does or waits for. A restore has nobody who asks.
func (b *base) does(format string, args ...any) {
	if b.starting != nil {
		b.starting.Doing(fmt.Sprintf(format, args...))
	}
}

// waitsForNodes says which nodes this one waits for.
func (b *base) waitsForNodes(here []string, of int, silent []string) {
	text := fmt.Sprintf("the cluster %s has no leader: %d of %d nodes are here", b.srv.member().cluster, len(here)+1, of)
	if len(here) > 0 {
		text += " (linked to " + strings.Join(here, ", ") + ")"
	}
	if len(silent) > 0 {
		text += "; nothing answers at " + strings.Join(silent, ", ") + ": start those nodes, or see that they can be reached"
	}
	b.does("%s", text)
}
