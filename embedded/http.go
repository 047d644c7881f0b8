package embedded

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"

	"github.com/danielgtaylor/huma/v2"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/api"
	"github.com/streamwright/streamwright/api/bridge"
	"github.com/streamwright/streamwright/api/live"
	"github.com/streamwright/streamwright/api/page"
	"github.com/streamwright/streamwright/api/rest"
	"github.com/streamwright/streamwright/blobs"
	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/kvstate"
)

// serveHTTP puts the faces that are for HTTP on one server, in place of the one that said that
// the engine starts.
func (e *Engine) serveHTTP(ctx context.Context) error {
	if e.http == nil {
		return nil
	}
	documents, err := blobs.New(e.nc, e.names(), blobs.DefaultMaxBytes)
	if err != nil {
		return err
	}
	s, err := rest.New(rest.Config{
		Engine: e.service, Events: e.service.Feed(), Logs: e.service.Logs, Documents: documents, Auth: e.auth, Quotas: e.quotas, Version: Version, Logger: e.log.With("part", "http"),
	})
	if err != nil {
		return err
	}
	mountPage(s)
	mountBeside(s, e.service, e.live)
	key, err := sessionKey(ctx, e)
	if err != nil {
		return err
	}
	b, err := bridge.New(bridge.Config{Key: key, Shared: e.lease != nil, Conn: e.nc, Engine: e.service, Names: e.names(), Documents: documents, Gone: e.cfg.Workers.DeadAfter, Logger: e.log.With("part", "bridge")})
	if err != nil {
		return err
	}
	if err := b.Start(); err != nil {
		return err
	}
	e.bridge = b
	s.RegisterWorkers(b)
	e.live.Start()
	s.Succeed(e.http)
	e.http = s
	e.service.ServesHTTP(s.Addr())
	return nil
}

func (e *Engine) stopHTTP(ctx context.Context) error {
	if e.bridge == nil {
		return nil
	}
	e.live.Stop()
	return errors.Join(e.bridge.Stop(ctx), e.http.Stop(ctx))
}

// mountBeside serves what stands beside the API.
func mountBeside(s *rest.Server, service *api.Service, feed *live.Hub) {
	read := access.RolesOf(access.Read)
	types := func() *huma.Param {
		return &huma.Param{Name: "types", Description: "Only these types: names with commas between them, or repeated.", Schema: &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString}}}
	}
	minutes := &huma.Param{Name: "minutes", Description: "How far back, 1 to 60; by default 60.", Schema: &huma.Schema{Type: huma.TypeInteger}}
	for _, m := range []struct {
		pattern string
		needs   access.Roles
		h       http.Handler
		rest.Doc
	}{
		{"GET /healthz", 0, service.HealthHandler(), rest.Doc{Summary: "Whether the engine is well", Description: "200 if it is, 503 if not; the body says what is wrong.", Content: "application/json"}},
		{"GET /readyz", 0, service.ReadyHandler(), rest.Doc{Summary: "Whether the engine takes requests", Description: "200 if it does, 503 if not; the body says why.", Content: "application/json"}},
		{"GET /metrics", read, service.MetricsHandler(), rest.Doc{Summary: "Metrics for Prometheus", Description: "In Prometheus' text format.", Content: "text/plain"}},
		{"GET /api/v1/live", read, feed.LiveHandler(), rest.Doc{Summary: "The engine at a glance, live", Description: "Server-sent events for a page: stats at once and after changes, at most once a second; a sample of the events. See docs/reference/LIVE.md.", Content: "text/event-stream", Query: []*huma.Param{types()}}},
		{"GET /api/v1/trends", read, feed.TrendsHandler(), rest.Doc{Summary: "The last hour in figures", Description: "By type, a figure every ten seconds. See docs/reference/LIVE.md.", Content: "application/json", Query: []*huma.Param{types(), minutes}}},
	} {
		s.Mount(m.pattern, m.needs, m.h)
		s.Describe(m.pattern, m.Doc)
	}
}

// sessionKeyFile has the key that signs the sessions of HTTP workers, so that
// they outlive a restart of the engine. The engines of one log share it under the
// name sessionKeyName, so that a session is good at each of them.
const (
	sessionKeyFile = "http-workers.key"
	sessionKeyName = "http_workers"
)

// sessionKey returns the key that signs the sessions of HTTP workers: the folder's,
// or, where other engines can reach the log, theirs.
func sessionKey(ctx context.Context, e *Engine) (key []byte, err error) {
	mine, err := e.dir.sessionKey()
	if err != nil || e.lease == nil {
		return mine, err
	}
	js, err := connect.JetStream(e.nc, e.names())
	if err != nil {
		return nil, err
	}
	keys := kvstate.NewKeys(js, e.names()).Replicate(e.copies.replicas, e.copies.placement)
	err = patiently(ctx, e, func(ctx context.Context) error {
		key, err = keys.Share(ctx, sessionKeyName, mine)
		return err
	})
	if err == nil && len(key) != bridge.KeyBytes {
		err = fmt.Errorf("the key of HTTP workers' sessions that the engines share has %d bytes: delete the bucket %s", len(key), e.names().Bucket("keys"))
	}
	if err != nil || bytes.Equal(key, mine) {
		return key, err
	}
	return key, e.dir.keepSessionKey(key)
}

// sessionKey reads the folder's key, or makes one. Without a folder it is made up.
func (d *dataDir) sessionKey() (key []byte, err error) {
	if d != nil {
		key, err = os.ReadFile(filepath.Join(d.path, sessionKeyFile))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the key of HTTP workers' sessions: %w", err)
	}
	if len(key) == bridge.KeyBytes {
		return key, nil
	}
	key = make([]byte, bridge.KeyBytes) // anew also if it is damaged: workers register again
	_, _ = rand.Read(key)               // never fails
	return key, d.keepSessionKey(key)
}

// keepSessionKey writes the folder's key.
func (d *dataDir) keepSessionKey(key []byte) error {
	if d == nil {
		return nil
	}
	if err := replaceFile(filepath.Join(d.path, sessionKeyFile), string(key), false); err != nil {
		return fmt.Errorf("write the key of HTTP workers' sessions: %w", err)
	}
	return nil
}

// mountPage serves the web page. Its files hold nothing, so they need no role;
// what it shows comes from the API, which asks for one.
func mountPage(s *rest.Server) {
	h := page.Handler()
	s.Mount("GET /{$}", 0, h)
	s.Mount("GET /assets/", 0, h)
}
