package embedded

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/dispatcher/natsio"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

const (
	// LeafPort is the port of a hub that names none.
	LeafPort = "7422"
	// DefaultEdgeBytes bounds the submissions that a site keeps.
	DefaultEdgeBytes = 1 << 30
	// MinEdgeBytes is the least such bound: a few of the largest submissions.
	MinEdgeBytes = 16 << 20

	siteFile = "SITE" // in the data folder of a site: its name

	edgeLook    = 500 * time.Millisecond // between two looks at the link
	edgeAsk     = 2 * time.Second        // and two questions to the hub, which each take at most as long
	edgeRetry   = time.Second            // until a lost link is tried again
	edgePing    = 10 * time.Second       // between two pings; a link without an answer to edgePings of them is lost
	edgePings   = 2
	edgeBeside  = 64 << 20 // bytes that JetStream may use beside the stream
	edgeMemory  = 64 << 20
	edgeStarted = 10 * time.Second // for the server to listen
)

// EdgeOptions say how to run a site at the edge.
type EdgeOptions struct {
	Site       string // its name, as the hub's [[leaf.sites]] has it
	Hub        string // where the hub takes leaf connections, such as nats-leaf://hub.example:7422
	Token      string // the site's; empty: the hub asks for none
	CA         string // PEM file of the CAs that the hub's certificate is checked against; empty: the system's
	Cert, Key  string // PEM files of the site's own certificate, if the hub asks for one
	Dir        string // the data folder
	NATSListen string // host:port of this machine
	Prefix     string // of the subjects, as the hub's; empty: work
	MaxBytes   int64  // of submissions that wait; 0: DefaultEdgeBytes
	Durability config.Durability
	Logger     *slog.Logger // nil: none
}

func (o EdgeOptions) withDefaults() EdgeOptions {
	o.Dir = cmp.Or(o.Dir, "edge")
	o.NATSListen = cmp.Or(o.NATSListen, "127.0.0.1:4223")
	o.MaxBytes = cmp.Or(o.MaxBytes, DefaultEdgeBytes)
	o.Durability = cmp.Or(o.Durability, config.Always)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// check reports all that is wrong with the options, joined.
func (o EdgeOptions) check() error {
	errs := []error{config.CheckSiteName(o.Site)}
	if o.MaxBytes < MinEdgeBytes {
		errs = append(errs, fmt.Errorf("%d bytes for waiting submissions are too few: give %d or more", o.MaxBytes, MinEdgeBytes))
	}
	if !access.IsLoopback(o.NATSListen) {
		errs = append(errs, fmt.Errorf("a site has no users of its own: listen on this machine alone, such as 127.0.0.1:4223, not on %s", o.NATSListen))
	}
	if (o.Cert == "") != (o.Key == "") {
		errs = append(errs, errors.New("a certificate and its key belong together: give both or none"))
	}
	return errors.Join(errs...)
}

// Edge is a site at the edge, in this process: a NATS server whose JetStream keeps what is
// published to work.submit.<type> until the hub's engine has decided it, whether or not the
// hub can be reached. All else that programs here ask for goes to the hub.
type Edge struct {
	o     EdgeOptions
	names wire.Names
	dir   *dataDir
	ns    *natsserver.Server
	log   *natsLog
	pass  string // of this process's own connection
	nc    *nats.Conn
	js    jetstream.JetStream

	life   lifecycle
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	decided uint64    // as the hub last said; guarded by mu
	heardAt time.Time // when it said so; guarded by mu
	off     *nats.Subscription
}

// EdgeState says how a site is.
type EdgeState struct {
	Site      string    `json:"site"`
	Connected bool      `json:"connected"`
	Refused   string    `json:"refused,omitempty"` // why the hub does not take the connection
	Waiting   uint64    `json:"waiting"`           // submissions that are not known to be decided
	HeardAt   time.Time `json:"heard_at,omitzero"` // when the hub last said what is decided
	Bytes     uint64    `json:"bytes"`             // stored here
	MaxBytes  int64     `json:"max_bytes"`
}

// StartEdge starts a site. It returns once publishes are taken, whether or not the hub
// can be reached.
func StartEdge(ctx context.Context, o EdgeOptions) (*Edge, error) {
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return nil, events.WithCode(events.CodeBadConfig, err)
	}
	log := o.Logger.With("part", "nats-server")
	e := &Edge{o: o, names: wire.WithPrefix(o.Prefix), life: lifecycle{log: o.Logger}, pass: rand.Text(), log: &natsLog{log: log, hub: &hubLink{}, peers: &lostPeers{log: log}}}
	err := e.life.start(ctx, []part{
		{"the data folder", e.openDir, func(context.Context) error { return e.dir.Close() }},
		{"the site", e.checkSite, nil},
		{"the NATS server", e.newServer, just(e.stopServer)},
		{"its start", e.startServer, nil},
		{"the connection", e.connect, just(func() { e.nc.Close() })},
		{"the stream", e.ensureStream, nil},
		{"the watch on the link", e.watch, just(func() { e.cancel(); e.wg.Wait() })},
	}...)
	if err != nil {
		return nil, err
	}
	return e, nil
}

// watch begins to watch the link.
func (e *Edge) watch(ctx context.Context) error {
	ctx, e.cancel = context.WithCancel(context.WithoutCancel(ctx))
	e.watchLink()
	e.wg.Go(func() { e.run(ctx) })
	return nil
}

// checkSite refuses the folder of another site. A folder belongs to one site: its stream has the site's name,
// and what waits in it must not be forgotten.
func (e *Edge) checkSite(context.Context) (err error) {
	file := filepath.Join(e.dir.path, siteFile)
	text, err := readShort(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Stat(filepath.Join(e.dir.path, storeFolder)); err == nil {
			return events.WithCode(events.CodeBadConfig, fmt.Errorf("%s is the data folder of an engine: give the site another one", e.dir.path))
		}
		return os.WriteFile(file, []byte(e.o.Site+"\n"), 0o600)
	case err != nil:
		return fmt.Errorf("read the name of the folder's site: %w", err)
	case strings.TrimSpace(text) != e.o.Site:
		return events.WithCode(events.CodeBadConfig, fmt.Errorf("%s is the data folder of the site %s, and may hold what was published there: start that site, or give %s another folder", e.dir.path, strings.TrimSpace(text), e.o.Site))
	}
	return nil
}

func (e *Edge) openDir(context.Context) (err error) {
	e.dir, err = openDataDir(e.o.Dir)
	return err
}

func (e *Edge) newServer(context.Context) error {
	opts := &natsserver.Options{
		ServerName: "streamwright-edge-" + e.o.Site, NoSigs: true, NoLog: true, MaxPayload: MaxPayload,
		JetStream: true, JetStreamDomain: e.o.Site, StoreDir: e.dir.path,
		JetStreamMaxMemory: edgeMemory, JetStreamMaxStore: e.o.MaxBytes + edgeBeside,
		SyncAlways: e.o.Durability != config.Interval, SyncInterval: syncInterval, DisableJetStreamBanner: true,
		PingInterval: edgePing, MaxPingsOut: edgePings,
	}
	if err := listen(opts, e.o.NATSListen); err != nil {
		return err
	}
	remote, err := e.remote()
	if err != nil {
		return events.WithCode(events.CodeBadConfig, err)
	}
	opts.LeafNode.Remotes, opts.LeafNode.ReconnectInterval = []*natsserver.RemoteLeafOpts{remote}, edgeRetry
	opts.ConnectErrorReports = everyFailure
	opts.DontListen = false
	// Who connects here publishes, asks the hub, and manages nothing.
	opts.NoAuthUser = "site"
	opts.Users = []*natsserver.User{{Username: "site", Password: rand.Text(), Permissions: &natsserver.Permissions{
		Publish:   &natsserver.SubjectPermission{Allow: []string{e.names.SubmitAll(), e.names.API("*")}},
		Subscribe: &natsserver.SubjectPermission{Deny: []string{e.names.API(">")}},
	}}, {Username: "streamwright", Password: e.pass}}
	ns, err := natsserver.NewServer(opts)
	if err != nil {
		return fmt.Errorf("start NATS server: %w", err)
	}
	e.ns = ns
	ns.SetLoggerV2(edgeLog{e.log}, false, false, false)
	return nil
}

func (e *Edge) startServer(context.Context) error {
	e.ns.Start()
	if fatal := e.log.fatalError(); fatal != "" {
		if err := tryListen(e.o.NATSListen, "(--nats-listen), or port 0 for any free one"); err != nil {
			return err
		}
		return fmt.Errorf("start NATS server: %s", fatal)
	}
	if !e.ns.ReadyForConnections(edgeStarted) {
		return errors.New("start NATS server: it does not listen in time")
	}
	return nil
}

// remote says how the hub is reached. The site's own submissions never cross the link as
// publishes: the engine reads them from the stream, each once.
func (e *Edge) remote() (*natsserver.RemoteLeafOpts, error) {
	r, err := leafRemote(e.o.Hub, e.o.Site, e.o.Token, e.o.CA, e.o.Cert, e.o.Key)
	if err == nil {
		r.DenyExports = []string{e.names.SubmitAll()}
	}
	return r, err
}

// leafRemote says how a site reaches its hub.
func leafRemote(hub, site, token, ca, cert, key string) (*natsserver.RemoteLeafOpts, error) {
	full := hub
	if !strings.Contains(full, "://") {
		full = "nats-leaf://" + full
	}
	u, err := url.Parse(full)
	if err != nil || u.Hostname() == "" {
		return nil, fmt.Errorf("the hub %q: use a URL such as nats-leaf://hub.example:%s", hub, LeafPort)
	}
	u.Host = net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), LeafPort))
	u.User = url.UserPassword(site, token)
	r := &natsserver.RemoteLeafOpts{URLs: []*url.URL{u}}
	if u.Scheme == "tls" || ca != "" || cert != "" {
		if r.TLSConfig, err = access.ClientTLS(ca, cert, key); err != nil {
			return nil, fmt.Errorf("reach the hub over TLS: %w", err)
		}
		r.TLSConfig.ServerName = u.Hostname()
		r.TLS, r.TLSTimeout = true, tlsTimeout
	}
	return r, nil
}

func (e *Edge) connect(context.Context) (err error) {
	e.nc, err = nats.Connect("", nats.InProcessServer(e.ns), nats.UserInfo("streamwright", e.pass), nats.Timeout(connectTimeout), nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(), nats.Name("streamwright edge"))
	if err == nil {
		e.js, err = jetstream.New(e.nc)
	}
	if err != nil {
		return fmt.Errorf("connect to the embedded NATS server: %w", err)
	}
	return nil
}

// ensureStream makes the stream that keeps what is published here. Its sequences begin at
// the time, so that one that is made anew has none that the hub has seen: the log knows
// what is decided by the last sequence.
func (e *Edge) ensureStream(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, edgeStarted)
	defer cancel()
	cfg := jetstream.StreamConfig{
		Name: e.names.SiteStream(e.o.Site), Description: "Submissions published at this site, which the hub's engine has not decided yet.",
		Subjects: []string{e.names.SubmitAll()}, Storage: jetstream.FileStorage, Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew,
		MaxBytes: e.o.MaxBytes, MaxMsgSize: natsio.MaxIntakeMsg, Duplicates: events.MsgIDWindow, AllowDirect: true, Replicas: 1,
	}
	s, err := e.js.Stream(ctx, cfg.Name)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		if err := e.leftBehind(cfg.Name); err != nil {
			return err
		}
		cfg.FirstSeq = uint64(time.Now().UnixMicro())
		_, err = e.js.CreateStream(ctx, cfg)
	case err == nil && s.CachedInfo().Config.MaxBytes != cfg.MaxBytes:
		cfg.FirstSeq = s.CachedInfo().Config.FirstSeq
		_, err = e.js.UpdateStream(ctx, cfg)
	}
	if err != nil {
		return fmt.Errorf("make stream %s: %w", cfg.Name, err)
	}
	return nil
}

// leftBehind refuses to make a stream anew whose folder holds messages: the server has not
// taken it for a stream, and would drop them. The two files are the last that it writes of
// a new stream, so one whose making was broken off lacks the second.
func (e *Edge) leftBehind(stream string) error {
	dir := filepath.Join(e.dir.path, "jetstream", natsserver.DEFAULT_GLOBAL_ACCOUNT, "streams", stream)
	for _, file := range []string{"meta.inf", "meta.sum"} {
		if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
			return nil
		}
	}
	blocks, err := filepath.Glob(filepath.Join(dir, "msgs", "*.blk"))
	if err != nil || len(blocks) == 0 {
		return err
	}
	return fmt.Errorf("the NATS server can't read the site's stream, and the log says why: %s may hold submissions that are not decided; restore that folder, or move it away to begin anew without them", dir)
}

// run watches the link until ctx ends, and asks the hub what is decided.
func (e *Edge) run(ctx context.Context) {
	look := time.NewTicker(edgeLook)
	defer look.Stop()
	var asked time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		if e.watchLink() && time.Since(asked) >= edgeAsk {
			asked = time.Now()
			if err := e.ask(ctx); err != nil {
				e.o.Logger.Debug("the hub does not say what is decided", "error", err)
			}
		}
	}
}

// connected reports whether the link is up.
func (e *Edge) connected() bool { return e.ns.NumLeafNodes() > 0 }

// watchLink answers the requests of programs here while the link is down: they are told
// that the site is cut off. It reports whether the link is up.
func (e *Edge) watchLink() bool {
	up := e.connected()
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case up && e.off != nil:
		_ = e.off.Unsubscribe()
		e.off = nil
	case !up && e.off == nil:
		sub, err := e.nc.Subscribe(e.names.API("*"), e.cutOff)
		if err != nil {
			e.o.Logger.Warn("requests can't be answered while the site is cut off", "error", err)
			return up
		}
		e.off = sub
	}
	if up {
		e.log.hub.refused.Store(nil)
	}
	return up
}

func (e *Edge) cutOff(m *nats.Msg) {
	why := "the link is down"
	if r := e.log.hub.refused.Load(); r != nil {
		why = *r
	}
	data, err := json.Marshal(map[string]*wire.Error{"error": wire.FromError(events.Refuse(events.CodeUnavailable,
		"the site %s is cut off from its hub (%s): what is published to %s is kept here and taken in when the link is back; ask then", e.o.Site, why, e.names.SubmitAll()))})
	if err == nil {
		_ = m.Respond(data)
	}
}

// ask asks the hub how much of this site's stream is decided.
func (e *Edge) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, edgeAsk)
	defer cancel()
	m, err := e.nc.RequestWithContext(ctx, e.names.API(wire.APIStats), nil)
	if err != nil {
		return err
	}
	var r wire.StatsReply
	if bytes.HasPrefix(m.Data, []byte(`{"error"`)) {
		return errors.New(events.Clip(string(m.Data), 200))
	}
	if err := json.Unmarshal(m.Data, &r); err != nil {
		return err
	}
	for _, s := range r.Sites {
		if s.Site == e.o.Site {
			e.mu.Lock()
			e.decided, e.heardAt = max(e.decided, s.Decided), time.Now().UTC()
			e.mu.Unlock()
		}
	}
	return nil
}

// State says how the site is.
func (e *Edge) State(ctx context.Context) (EdgeState, error) {
	st := EdgeState{Site: e.o.Site, Connected: e.connected(), MaxBytes: e.o.MaxBytes}
	if r := e.log.hub.refused.Load(); r != nil && !st.Connected {
		st.Refused = *r
	}
	s, err := e.js.Stream(ctx, e.names.SiteStream(e.o.Site))
	if err != nil {
		return st, fmt.Errorf("look at the site's stream: %w", err)
	}
	has := s.CachedInfo().State
	e.mu.Lock()
	defer e.mu.Unlock()
	dropped := has.FirstSeq - min(has.FirstSeq, 1)
	st.Waiting, st.HeardAt, st.Bytes = has.LastSeq-min(has.LastSeq, max(e.decided, dropped)), e.heardAt, has.Bytes
	return st, nil
}

// URL returns where programs connect.
func (e *Edge) URL() string { return e.ns.ClientURL() }

// Stop stops the site, and returns when its NATS server has stopped. What waits there stays
// in the folder. It may be called again.
func (e *Edge) Stop(ctx context.Context) error { return e.life.stop(ctx) }

func (e *Edge) stopServer() {
	e.ns.Shutdown()
	e.ns.WaitForShutdown()
	e.log.peers.forget()
}

// linkRefusal returns what an error of the server says of why its link to the hub is
// refused; empty: nothing. A hub that can't be reached does not refuse, whatever its name.
func linkRefusal(text string) string {
	if dialFailed.MatchString(text) {
		return ""
	}
	for sign, why := range map[string]string{
		"Authorization Violation": "the hub refuses the login: check the site's name and token",
		"Authentication":          "the hub refuses the login: check the site's name and token",
		"TLS":                     "the TLS handshake fails: check the certificates",
		"tls:":                    "the TLS handshake fails: check the certificates",
	} {
		if strings.Contains(text, sign) {
			return why
		}
	}
	return ""
}

// edgeLog is the log of a site's server, without its warning of plain passwords: they are made
// anew at each start, and are in no file.
type edgeLog struct{ *natsLog }

// Warnf implements natsserver.Logger.
func (l edgeLog) Warnf(format string, v ...any) {
	if !strings.HasPrefix(format, "Plaintext passwords") {
		l.natsLog.Warnf(format, v...)
	}
}
