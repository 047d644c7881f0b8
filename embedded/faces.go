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
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"go.opentelemetry.io/otel/trace"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/access/quota"
	"github.com/streamwright/streamwright/api"
	"github.com/streamwright/streamwright/api/bridge"
	"github.com/streamwright/streamwright/api/live"
	"github.com/streamwright/streamwright/api/page"
	"github.com/streamwright/streamwright/api/rest"
	"github.com/streamwright/streamwright/blobs"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/dispatcher"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/kvstate"
	"github.com/streamwright/streamwright/projector"
	"github.com/streamwright/streamwright/projector/query"
	"github.com/streamwright/streamwright/tracing"
	"github.com/streamwright/streamwright/wire"
)

// faces are what answers, over NATS and HTTP.
type faces struct {
	*base
	ledger  *ledger
	guard   *guard
	decider *decider

	replicas *replicaWatch
	sites    *sites
	list     api.Namespaces // nil: this namespace has no list of others
	listed   func()         // is called when the list of namespaces has changed; nil: it has none
	// hand has another namespace decide submissions; nil: there is none.
	hand func(ctx context.Context, from, to events.Namespace, body []byte) ([]byte, error)
	// others returns what answers for another namespace; nil: there are none.
	others  func(*http.Request, events.Namespace) (http.Handler, error)
	only    events.Namespace // the one that this process has, if that is another than default
	face    *clusterFace
	quotas  *quota.Book // nil: there are none
	service *api.Service
	http    *rest.Server // says, until it is that of the API, that the engine starts
	opening sync.Mutex   // held while HTTP is opened
	handles http.Handler // what http answers; nil: it is not made yet
	closed  bool         // guarded by opening; HTTP is not to be opened any more
	at      string       // where another namespace's HTTP listens, through which this one answers
	live    *live.Hub    // nil without HTTP
	output  *api.Output  // nil in a mirror
	bridge  *bridge.Bridge
}

// hooks tell the faces and the mirrors what happens.
func (f *faces) hooks() dispatcher.Hooks {
	return f.ledger.metrics.Hook(dispatcher.Hooks{
		Appended: func(int, int, time.Duration) { f.logGrew() },
		Awaited:  func(c *core.Changes) bool { return f.service.Awaits(c.Items) },
		Projected: func(c *core.Changes) {
			f.service.Notify(c.Items)
			if !f.ledger.lease.owns.Load() {
				f.logGrew()
			} else {
				f.decider.mirror.projected(c)
				gone := pruned(c.Items)
				f.decider.janitor.Pruned(gone)
				f.output.Pruned(gone)
				if f.decider.spans != nil {
					f.decider.spans.Projected(c)
				}
			}
			if f.live != nil {
				f.live.Projected(c)
			}
			if f.listed != nil && c.Namespaces() {
				f.listed()
			}
			f.decider.items.Projected(c)
		},
		Renewed: func(at events.Seq) {
			f.decider.mirror.renewed(at)
			if f.listed != nil {
				f.listed()
			}
		},
		Owned: func(epoch events.Epoch) {
			f.decider.items.Owned(epoch)
			f.ledger.lease.owns.Store(true) // before others are told
			f.decider.mirror.owned(epoch)
			if f.ledger.lease.shared() {
				f.log.Info("this engine owns the log now", "epoch", uint64(epoch))
			}
			f.roleIs(wire.RoleOwner, f.nodeName())
		},
		Lost: func(err error) { f.decider.items.Lost(err) },
		StandingBy: func(owner string) {
			f.ledger.lease.owns.Store(false)
			f.decider.mirror.standBy()
			f.roleIs(wire.RoleStandby, owner)
		},
		Workers: func(list []wire.WorkerInfo) {
			f.decider.mirror.workersChanged(list)
			if f.live != nil {
				f.live.Touch()
			}
		},
	})
}

// logGrew tells those who look at the log that it has grown.
func (f *faces) logGrew() {
	f.service.LogGrew()
	f.decider.bound.grew()
}

// roleIs has the faces answer by what the engine is now.
func (f *faces) roleIs(role wire.NodeRole, owner string) {
	if err := f.service.Serve(role == wire.RoleOwner); err != nil {
		f.log.Error("what only the owner of the log answers can't be asked of it", "error", err)
	}
	if f.live != nil {
		f.live.Touch()
	}
	if f.o.Role != nil {
		f.o.Role(role, owner)
	}
}

// openQuotas makes what counts against the quotas, if there are any.
func (f *faces) openQuotas() {
	f.quotas = quota.New(quota.Config{
		Settings: f.cfg.Quotas, TypeExists: func(t events.Type) bool { return typeExists(f.ledger.store, t) }, Refused: f.ledger.metrics.QuotaRefused,
		All: f.info.Limits.RequestsPerSecond,
		// They refill by the machine's clock, moved as far as Advance has moved the engine's.
		Now: func() time.Time { return time.Now().Add(time.Duration(f.ledger.advanced.Load())) },
	})
	if len(f.cfg.Quotas.Roles)+len(f.cfg.Quotas.Users) > 0 && f.guard.auth.Open() && !f.srv.hasAccounts() {
		f.log.Warn("quotas have no effect: nobody has to log in; configure tokens, client certificates or users")
	}
}

// openAPI makes the API, which answers once it is started.
func (f *faces) openAPI(ctx context.Context) error {
	var logs *api.Logs
	err := f.patiently(ctx, func(ctx context.Context) (err error) {
		logs, err = api.OpenLogs(ctx, api.LogsConfig{
			Conn: f.nc, Names: f.names(), Memory: f.o.Memory, Replicas: f.copies.replicas, Placement: f.copies.placement, MaxAge: f.cfg.Limits.LogMaxAge, MaxBytes: f.share("log_max_size", f.cfg.Limits.LogMaxBytes, config.Default().Limits.LogMaxBytes),
		})
		return err
	})
	if err != nil {
		return err
	}
	if f.output, err = api.NewOutput(api.OutputConfig{
		Conn: f.nc, Names: f.names(), Memory: f.o.Memory, Replicas: f.copies.replicas, Placement: f.copies.placement, ItemBytes: f.cfg.Limits.OutputItem,
		MaxBytes: f.share("output_max_size", f.cfg.Limits.OutputMaxBytes, config.Default().Limits.OutputMaxBytes), Exists: f.decider.exists, Logger: f.log,
	}); err != nil {
		return err
	}
	store, err := blobs.New(f.nc, f.names(), blobs.DefaultMaxBytes)
	if err != nil {
		return err
	}
	err = f.newService(api.Config{
		Core: f.decider.dispatcher, Logs: logs, Output: f.output, Turns: f.turns,
		OwnedByFile: func(t events.Type, wanted events.TypeSettings) []string {
			return f.cfg.Types[t].Patch.Conflicts(wanted)
		},
		Namespaces:  f.list,
		Hand:        f.hand,
		NamedByFile: func(t events.Type) []string { return f.cfg.Types[t].Patch.Named() },
		Replicas:    f.replicas.reads(f.names()), Reached: f.ledger.lease.reached(),
		Node: f.face.node, Cluster: f.face.look(), RemoveNode: f.face.remover(), Sites: f.sites.states,
		Spans: spanCounts(f.o.Tracing), Blobs: store, MaxQueued: f.cfg.Limits.MaxQueued, MaxRunning: f.cfg.Limits.MaxRunning,
		Info: wire.InfoReply{Owner: f.decider.dispatcher.Owner(), Node: f.nodeName()},
	})
	if err == nil {
		f.ledger.lease.call = f.service.Call
		f.output.Start()
	}
	return err
}

// closeAPI ends the API.
func (f *faces) closeAPI(ctx context.Context) error {
	f.output.Stop()
	return f.service.Stop(ctx)
}

// newService makes the API, of an engine or a mirror, to which c is particular.
func (f *faces) newService(c api.Config) (err error) {
	defaults := f.cfg.TypeDefaults()
	c.Conn, c.Names, c.Metrics, c.Logger, c.TypeDefaults, c.RefuseStale = f.nc, f.names(), f.ledger.metrics, f.log, &defaults, f.cfg.Cluster.StaleReads == config.RefuseStale
	c.Queries, c.Prover = queries{f.ledger.store, query.Of(f.ledger.store)}, f.decider
	c.Quotas, c.Accounts, c.KnownUser, c.UserRoles = f.quotas, f.srv.hasAccounts, f.srv.userOf, f.guard.userRoles.in(f.namespaceName())
	c.Full, c.Storage = f.decider.full, f.room.Use
	c.Info.Version, c.Info.Durability, c.Info.DataDir, c.Info.NATS, c.Info.Prefix = Version, string(f.cfg.Server.Durability), f.dir.root(), publicURL(f.base.url()), f.names().Prefix
	if f.service, err = api.New(c); err != nil {
		return err
	}
	if f.cfg.Server.HTTP != config.Off { // which alone serves the feed
		f.live, err = live.New(live.Config{Engine: f.service, Totals: f.service.Totals, Logger: f.log.With("part", "live")})
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

// answer begins to answer.
func (f *faces) answer(context.Context) error {
	if f.starting != nil {
		f.starting.Stop()
	}
	return f.service.Start()
}

// queries answers the service from the projection.
type queries struct {
	*projector.Store
	query.Reader
}

// Verify implements [api.Prover].
func (d *decider) Verify(ctx context.Context, progress projector.Progress) (projector.Verified, error) {
	return d.ledger.store.Verify(ctx, d.ledger.eventLog, progress)
}

// Rebuild implements [api.Prover]. It replaces the store, and has the dispatcher start again
// from it: what it holds in memory may have come from a store that was wrong.
func (d *decider) Rebuild(ctx context.Context, progress projector.Progress) error {
	if err := d.ledger.store.Rebuild(ctx, d.ledger.eventLog, progress); err != nil {
		return err
	}
	d.dispatcher.Reload()
	return nil
}

// AsOf implements [api.Prover].
func (d *decider) AsOf(ctx context.Context, through events.Seq, until time.Time, progress projector.Progress, fn func(*projector.Store) error) error {
	return d.ledger.store.AsOf(ctx, d.ledger.eventLog, through, until, progress, fn)
}

// openStarting opens the HTTP server, at which the engine says what it does until it is there,
// and shows what the node knows of the others.
func (f *faces) openStarting(context.Context) error {
	f.knowNode()
	c := api.StartingConfig{Node: wire.Node{Node: f.nodeName(), Version: Version, Settings: f.face.settings}, Logger: f.log}
	if f.cfg.Cluster.On() || f.cfg.Server.NATSURL != "" {
		c.Cluster = f.face.cluster
	}
	c.Replicas = func(n *wire.Node) { f.replicas.node(n, f.names()) }
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

// knowNode makes what knows the node.
func (f *faces) knowNode() {
	f.face = &clusterFace{base: f.base, lease: f.ledger.lease, watch: f.replicas, settings: f.cfg.Digest(), lacking: map[string]time.Time{}}
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

// serveHTTP puts the faces that are for HTTP on one server, in place of the one that said that
// the engine starts.
func (f *faces) serveHTTP(ctx context.Context) error {
	if f.http == nil {
		return nil
	}
	f.opening.Lock()
	defer f.opening.Unlock()
	s, err := f.openREST(ctx)
	if err != nil {
		return err
	}
	f.live.Start()
	s.Succeed(f.http)
	f.http, f.handles = s, s.Handler()
	f.service.ServesHTTP(s.Addr())
	return nil
}

// beginHTTP prepares the answers of a namespace that has no port of its own: they come from
// [faces.handler].
func (f *faces) beginHTTP() {
	if f.live != nil {
		f.live.Start()
		f.service.ServesHTTP(f.at)
	}
}

// handler returns what answers over HTTP, made when it is first asked for.
func (f *faces) handler(ctx context.Context) (http.Handler, error) {
	f.opening.Lock()
	defer f.opening.Unlock()
	if f.closed {
		return nil, events.Refuse(events.CodeUnavailable, "the engine is stopping: ask again")
	}
	if f.handles == nil {
		s, err := f.openREST(ctx)
		if err != nil {
			return nil, err
		}
		f.http, f.handles = s, s.Inside()
	}
	return f.handles, nil
}

// openREST makes what answers over HTTP. It listens nowhere yet.
func (f *faces) openREST(ctx context.Context) (*rest.Server, error) {
	documents, err := blobs.New(f.nc, f.names(), blobs.DefaultMaxBytes)
	if err != nil {
		return nil, err
	}
	var output rest.Output
	if f.output != nil {
		output = f.output
	}
	s, err := rest.New(rest.Config{
		Engine: f.service, Events: f.service.Feed(), Logs: f.service.Logs, Output: output, Documents: documents, Auth: f.guard.auth.In(f.namespaceName()), Quotas: f.quotas, Namespaces: f.others, Only: f.only, Version: Version, Logger: f.log.With("part", "http"),
	})
	if err != nil {
		return nil, err
	}
	mountPage(s)
	mountBeside(s, f.metricsHandler(), f.service, f.live)
	key, err := f.sessionKey(ctx)
	if err != nil {
		return nil, err
	}
	b, err := bridge.New(bridge.Config{Key: key, Shared: f.ledger.lease.shared(), Conn: f.nc, Engine: f.service, Names: f.names(), Documents: documents, Gone: f.cfg.Workers.DeadAfter, Logger: f.log.With("part", "bridge")})
	if err != nil {
		return nil, err
	}
	if err := b.Start(); err != nil {
		return nil, err
	}
	f.bridge = b
	s.RegisterWorkers(b)
	return s, nil
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
	f.opening.Lock()
	defer f.opening.Unlock()
	f.closed = true
	if f.live != nil {
		f.live.Stop()
	}
	if f.bridge == nil {
		return nil
	}
	return errors.Join(f.bridge.Stop(ctx), f.http.Stop(ctx))
}

// mountBeside serves what stands beside the API.
func mountBeside(s *rest.Server, metrics http.Handler, service *api.Service, feed *live.Hub) {
	read := access.RolesOf(access.Read)
	types := func() *huma.Param {
		return &huma.Param{Name: "types", Description: "Only these types: names with commas between them, or repeated.", Schema: &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString}}}
	}
	minutes := &huma.Param{Name: "minutes", Description: "How far back, 1 to 60; by default 60.", Schema: &huma.Schema{Type: huma.TypeInteger}}
	namespaces := &huma.Param{Name: "namespaces", Description: "all: the series of all namespaces, each with the label namespace. It takes the role in every one, */read.", Schema: &huma.Schema{Type: huma.TypeString, Enum: []any{allNamespaces}}}
	for _, m := range []struct {
		pattern string
		needs   access.Roles
		h       http.Handler
		rest.Doc
	}{
		{"GET /healthz", 0, service.HealthHandler(), rest.Doc{Summary: "Whether the engine is well", Description: "200 if it is, 503 if not; the body says what is wrong.", Content: "application/json"}},
		{"GET /readyz", 0, service.ReadyHandler(), rest.Doc{Summary: "Whether the engine takes requests", Description: "200 if it does, 503 if not; the body says why.", Content: "application/json"}},
		{"GET /metrics", read, metrics, rest.Doc{Summary: "Metrics for Prometheus", Description: "In Prometheus' text format.", Content: "text/plain", Query: []*huma.Param{namespaces}}},
		{"GET /api/v1/live", read, feed.LiveHandler(), rest.Doc{Summary: "The engine at a glance, live", Description: "Server-sent events for a page: stats at once and after changes, at most once a second; a sample of the events. See docs/reference/LIVE.md.", Content: "text/event-stream", Query: []*huma.Param{types()}}},
		{"GET /api/v1/trends", read, feed.TrendsHandler(), rest.Doc{Summary: "The last hour in figures", Description: "By type, a figure every ten seconds. See docs/reference/LIVE.md.", Content: "application/json", Query: []*huma.Param{types(), minutes}}},
	} {
		s.Mount(m.pattern, m.needs, m.h)
		s.Describe(m.pattern, m.Doc)
	}
}

// allNamespaces is the one value of the parameter namespaces of /metrics.
const allNamespaces = "all"

// metricsHandler answers /metrics: for this namespace, or for all of them.
func (f *faces) metricsHandler() http.Handler {
	one, all := f.service.MetricsHandler(), f.service.AllMetricsHandler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		of := r.URL.Query()["namespaces"]
		if len(of) == 0 {
			one.ServeHTTP(w, r)
			return
		}
		if err := f.mayScrapeAll(r.Context(), of[0]); err != nil {
			rest.WriteProblem(w, err)
			return
		}
		all.ServeHTTP(w, r)
	})
}

// mayScrapeAll refuses a scrape of all namespaces to who may not read all of them.
func (f *faces) mayScrapeAll(ctx context.Context, of string) error {
	id, read := rest.IdentityOf(ctx), access.RolesOf(access.Read)
	switch {
	case of != allNamespaces:
		return events.Refuse(events.CodeBadRequest, "the parameter namespaces must be %s", allNamespaces)
	case f.namespaceName() != events.DefaultNamespace:
		return events.Refuse(events.CodeBadRequest, "this namespace knows its own metrics alone: ask for those of all at /metrics?namespaces=%s", allNamespaces)
	case !id.Memberships.Every().Has(read):
		return events.Refuse(events.CodeForbidden, "%s may not do that: it concerns all namespaces, and needs the role %s in every one (*/%s)", id.Name, read, read)
	}
	return nil
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
