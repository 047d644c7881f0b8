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
func (f *faces) serveHTTP(ctx context.Context) error {
	if f.http == nil {
		return nil
	}
	documents, err := blobs.New(f.nc, f.names(), blobs.DefaultMaxBytes)
	if err != nil {
		return err
	}
	s, err := rest.New(rest.Config{
		Engine: f.service, Events: f.service.Feed(), Logs: f.service.Logs, Documents: documents, Auth: f.guard.auth, Quotas: f.guard.quotas, Version: Version, Logger: f.log.With("part", "http"),
	})
	if err != nil {
		return err
	}
	mountPage(s)
	mountBeside(s, f.service, f.live)
	key, err := f.sessionKey(ctx)
	if err != nil {
		return err
	}
	b, err := bridge.New(bridge.Config{Key: key, Shared: f.ledger.lease.shared(), Conn: f.nc, Engine: f.service, Names: f.names(), Documents: documents, Gone: f.cfg.Workers.DeadAfter, Logger: f.log.With("part", "bridge")})
	if err != nil {
		return err
	}
	if err := b.Start(); err != nil {
		return err
	}
	f.bridge = b
	s.RegisterWorkers(b)
	f.live.Start()
	s.Succeed(f.http)
	f.http = s
	f.service.ServesHTTP(s.Addr())
	return nil
}

// addr returns the address of the HTTP server; empty without one.
func (f *faces) addr() string {
	if f.http == nil {
		return ""
	}
	return f.http.Addr()
}

// url returns the beginning of a URL of the HTTP server that can be opened on this machine.
func (f *faces) url() string {
	switch {
	case f.http == nil:
		return ""
	case f.cfg.HTTP.TLSCert != "":
		return "https://" + reachable(f.addr())
	}
	return "http://" + reachable(f.addr())
}

func (f *faces) stopHTTP(ctx context.Context) error {
	if f.bridge == nil {
		return nil
	}
	f.live.Stop()
	return errors.Join(f.bridge.Stop(ctx), f.http.Stop(ctx))
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
func (f *faces) sessionKey(ctx context.Context) (key []byte, err error) {
	mine, err := f.dir.sessionKey()
	if err != nil || !f.ledger.lease.shared() {
		return mine, err
	}
	js, err := connect.JetStream(f.nc, f.names())
	if err != nil {
		return nil, err
	}
	keys := kvstate.NewKeys(js, f.names()).Replicate(f.copies.replicas, f.copies.placement)
	err = f.patiently(ctx, func(ctx context.Context) error {
		key, err = keys.Share(ctx, sessionKeyName, mine)
		return err
	})
	if err == nil && len(key) != bridge.KeyBytes {
		err = fmt.Errorf("the key of HTTP workers' sessions that the engines share has %d bytes: delete the bucket %s", len(key), f.names().Bucket("keys"))
	}
	if err != nil || bytes.Equal(key, mine) {
		return key, err
	}
	return key, f.dir.keepSessionKey(key)
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
