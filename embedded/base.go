package embedded

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/api"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/embedded/room"
	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/sleep"
	"github.com/streamwright/streamwright/internal/turns"
	"github.com/streamwright/streamwright/kvstate"
	"github.com/streamwright/streamwright/wire"
)

// base is what all parts stand on: the configuration, the data folder, and NATS.
type base struct {
	cfg      config.Config
	o        Options
	log      *slog.Logger
	dir      *dataDir // nil in memory
	outside  *outside
	srv      *server              // nil: an existing NATS is used
	nc       *nats.Conn           // the engine's own
	room     *room.Watch          // set before any log is opened
	turns    *turns.Share         // of the processors
	copies   copies               // set once the server is there
	starting *api.Starting        // answers until the API does; nil without an engine
	info     events.NamespaceInfo // when the namespace began to run; zero for the default one
}

func newBase(o Options) *base {
	b := &base{o: o, cfg: o.config(), log: o.Logger}
	b.turns = turns.NewMachine(runtime.GOMAXPROCS(0)).Share(b.cfg.Server.Weight)
	if b.log == nil {
		b.log = slog.New(slog.DiscardHandler)
	}
	return b
}

// config returns the configuration with the overrides in it.
func (o Options) config() config.Config {
	c := o.Config
	set := func(dst *string, v string) {
		if v != "" {
			*dst = v
		}
	}
	if o.Memory {
		c.Server.NATSListen, c.Server.HTTP, c.Server.PProf = config.Off, config.Off, config.Off
	}
	set(&c.Server.Dir, o.Dir)
	set(&c.Server.NATSListen, o.NATSListen)
	set(&c.Server.HTTP, o.HTTP)
	set(&c.Server.PProf, o.PProf)
	set(&c.Server.NATSURL, o.NATSURL)
	set(&c.HTTP.TokensFile, o.HTTPTokensFile)
	c.Cluster = c.Cluster.Over(o.Cluster)
	o.Connect.URL = ""
	c.Connect = connect.Merge(o.Connect, c.Connect)
	if o.Durability != "" {
		c.Server.Durability = o.Durability
	}
	return c.WithDefaults()
}

// serverParts returns the parts of what works on the streams in place of an engine.
func (b *base) serverParts() []part {
	return []part{{"the NATS server", b.startServer, func(context.Context) error { return b.srv.Stop() }}, {"the connection", b.openConnection, just(func() { b.nc.Close() })}, {"the look at the NATS servers", b.findServer, nil}}
}

func (b *base) names() wire.Names {
	return wire.WithPrefix(b.cfg.Server.Prefix).In(b.cfg.Connect.Domain)
}

// other reports whether this is a namespace beside the default one.
func (b *base) other() bool { return b.info.Name != "" }

// namespaceName returns the namespace that this is the base of.
func (b *base) namespaceName() events.Namespace { return cmp.Or(b.info.Name, events.DefaultNamespace) }

// clientNames returns the names as the clients of this process have them.
func (b *base) clientNames() wire.Names {
	if b.srv != nil && b.srv.isolated {
		return b.names().Imported()
	}
	return b.names()
}

// url returns where other processes connect to NATS; empty if nothing listens.
func (b *base) url() string {
	if b.srv == nil {
		return b.cfg.Server.NATSURL
	}
	return b.srv.URL()
}

func (b *base) cluster() *Cluster { return &Cluster{b} }

func (b *base) openDir(context.Context) (err error) {
	if b.o.Memory {
		return nil
	}
	if b.dir, err = openDataDir(b.cfg.Server.Dir); err != nil {
		return err
	}
	return b.dir.checkRestored()
}

func (b *base) closeDir(context.Context) error { return b.dir.Close() }

// findServer sees that the NATS servers are there, and fit.
func (b *base) findServer(ctx context.Context) error {
	if err := b.awaitQuorum(ctx); err != nil {
		return err
	}
	if err := b.patiently(ctx, b.checkServer); err != nil {
		return err
	}
	return b.patiently(ctx, b.findCopies)
}

// startServer starts the embedded NATS server, alone or as a node of its cluster.
func (b *base) startServer(ctx context.Context) (err error) {
	if b.cfg.Server.NATSURL != "" {
		return nil
	}
	b.does("the NATS server starts")
	var m *membership
	if b.cfg.Cluster.On() {
		if m, err = b.membership(ctx); err != nil {
			return events.WithCode(events.CodeBadConfig, err)
		}
	}
	if err := b.dir.markMember(m); err != nil {
		return err
	}
	so := b.serverOptions()
	so.Member = m
	if m == nil {
		so.Before = func(s *server) error { // at a restart too, when ctx may have ended
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), holdTimeout)
			defer cancel()
			return s.holdAcks(ctx, b.names())
		}
	}
	b.srv, err = startServer(so)
	return err
}

func (b *base) openConnection(context.Context) (err error) {
	b.nc, err = b.connect(true, nats.Name("streamwright engine"), nats.MaxReconnects(-1))
	return err
}

// nodeName names this engine, for people.
func (b *base) nodeName() string {
	if name := b.cfg.Cluster.Node; name != "" {
		return name
	}
	host, _ := os.Hostname()
	return fmt.Sprintf("%s-%d", host, os.Getpid())
}

// connect opens a connection; with the engine's own rights if privileged.
func (b *base) connect(privileged bool, opts ...nats.Option) (*nats.Conn, error) {
	if b.srv != nil {
		return b.srv.connect(privileged, opts...)
	}
	return b.outside.connect(opts)
}

// holdTimeout bounds what is done before a server that starts is used.
const holdTimeout = 30 * time.Second

// minPayload is the least max_payload, in bytes: no event is larger, nor is an item that is
// sent to a worker (wire.MaxAssignedBytes).
const minPayload = 4 << 20

// checkServer refuses a server that can't carry the engine.
func (b *base) checkServer(ctx context.Context) error {
	url := streamwright.Redact(b.url())
	if most := b.nc.MaxPayload(); most < minPayload {
		return fmt.Errorf("use NATS at %s: its max_payload is %d bytes: set it to %d or more", url, most, minPayload)
	}
	js, err := connect.JetStream(b.nc, b.names())
	if err == nil {
		_, err = js.AccountInfo(ctx)
	}
	if err != nil {
		return fmt.Errorf("use NATS at %s: JetStream does not answer: %w: enable it there, for this account", url, err)
	}
	return nil
}

// checkStrict refuses a JetStream that takes requests with fields that it does
// not know (strict: false): it would take some answers for requests. Asked for
// the state of a stream, it tells by whether it refuses such a field.
func (b *base) checkStrict(ctx context.Context) error {
	if b.srv != nil {
		return nil // ours is, and would only warn of the question
	}
	url := streamwright.Redact(b.url())
	ctx, cancel := context.WithTimeout(ctx, outsideTimeout)
	defer cancel()
	var answer struct{ Error json.RawMessage }
	m, err := b.nc.RequestWithContext(ctx, b.names().JetStream("STREAM.INFO."+b.names().EventStream(0)), []byte(`{"is_it_strict":true}`))
	if err == nil {
		err = json.Unmarshal(m.Data, &answer)
	}
	switch {
	case err != nil:
		return fmt.Errorf("ask NATS at %s whether its JetStream is strict: %w", url, err)
	case answer.Error == nil:
		return events.WithCode(events.CodeBadConfig, fmt.Errorf("use NATS at %s: its JetStream has strict: false, so that it may take an answer for a request: take that out of its configuration (jetstream { strict: true })", url))
	}
	return nil
}

// reachable returns an address that reaches a listener on this machine, also one that
// listens on all addresses.
func reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip.IsUnspecified()) {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return addr
}

// clusterReplicas is the number of replicas on a cluster when none is set.
const clusterReplicas = 3

// copies says how the engine's streams are kept.
type copies struct {
	replicas  int      // of streams with primary data, and of the lease
	placement []string // tags of the servers that hold them; none: any
	several   bool     // the servers are a cluster
}

// copiesWithin bounds the questions to an existing NATS about its streams.
const copiesWithin = 10 * time.Second

// findCopies finds out how many replicas the streams have: those that are set; else
// those of the event stream that is there; else three where the servers allow it.
func (b *base) findCopies(ctx context.Context) error {
	c := b.cfg.Cluster
	b.copies = copies{replicas: max(c.Replicas, 1), placement: c.Placement}
	if m := b.srv.member(); m != nil {
		b.copies.several = true
		if b.copies.replicas = c.Replicas; c.Replicas == 0 {
			b.copies.replicas = clusterReplicas
		}
		if n := len(m.nodes); b.copies.replicas > n {
			return fmt.Errorf("cluster.replicas is %d, and the cluster has %d nodes: set it to %d or less", c.Replicas, n, n)
		}
		return nil
	}
	if b.srv != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, copiesWithin)
	defer cancel()
	js, err := connect.JetStream(b.nc, b.names())
	if err != nil {
		return err
	}
	s, err := js.Stream(ctx, b.names().EventStream(0))
	switch {
	case err == nil:
		b.copies.several = onCluster(s.CachedInfo())
		have := s.CachedInfo().Config.Replicas
		if c.Replicas == 0 {
			b.copies.replicas = max(have, 1)
		}
		if b.copies.several && b.copies.replicas == 1 && c.Replicas == 0 {
			b.log.Warn("the event stream has one replica on a cluster of servers: set cluster.replicas = 3 to survive the loss of one", "stream", b.names().EventStream(0))
		}
		return nil
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return b.tryCopies(ctx, js)
	}
	return b.outside.denied.explain(fmt.Errorf("look at the event stream %s: %w", b.names().EventStream(0), err))
}

// tryCopies makes the first stream, that of the lease, with as many replicas as are
// set, or as the servers allow.
func (b *base) tryCopies(ctx context.Context, js jetstream.JetStream) error {
	tries := []int{clusterReplicas, 1}
	if n := b.cfg.Cluster.Replicas; n != 0 {
		tries = []int{n}
	}
	var err error
	for _, n := range tries {
		var info *jetstream.StreamInfo
		info, err = kvstate.NewPartitions(js, b.names(), b.cfg.Cluster.Lease).Replicate(n, b.copies.placement).Make(ctx)
		if err == nil {
			b.copies.replicas, b.copies.several = n, onCluster(info)
			return nil
		}
		var api *jetstream.APIError
		if !errors.As(err, &api) {
			break
		}
	}
	return fmt.Errorf("make the first stream: %w: see that cluster.replicas and cluster.placement fit the servers", err)
}

// onCluster reports whether a stream is on a cluster of servers.
func onCluster(info *jetstream.StreamInfo) bool {
	return info.Cluster != nil && info.Cluster.Name != ""
}

const (
	// startPatience bounds how long an engine that starts waits for servers of others that
	// don't answer, and for more servers: longer than they need to choose their leaders.
	startPatience = time.Minute
	// startTry bounds one try, and startAgain is the wait before the next. Right after an
	// election the servers drop requests without a word.
	startTry   = 5 * time.Second
	startAgain = 250 * time.Millisecond
	// startTell is the time between two lines about what does not answer.
	startTell = 5 * time.Second
)

// patiently does what may find no leader when several servers start or have just lost one.
// Where there is one server, or it has refused something, it does it once. fn must be fit to be
// repeated. A node of a cluster waits for a leader until ctx ends, as it does for its quorum:
// on busy machines one election may follow another.
func (b *base) patiently(ctx context.Context, fn func(context.Context) error) error {
	if b.srv != nil && !b.cfg.Cluster.On() {
		return fn(ctx)
	}
	var told time.Time
	for end := time.Now().Add(startPatience); ; {
		try, cancel := context.WithTimeout(ctx, startTry)
		err := fn(try)
		cancel()
		late := time.Now().After(end)
		again := !late && (silence(err) || gathering(err)) || b.cfg.Cluster.On() && leaderless(err)
		if err == nil || ctx.Err() != nil || !again || b.outside.denied.any() {
			return err
		}
		b.does("the NATS servers do not answer yet: %v", err)
		if time.Since(told) > startTell {
			b.log.Warn("the NATS servers do not answer yet: trying again", "error", err)
			told = time.Now()
		}
		if sleep.For(ctx, startAgain) != nil {
			return err
		}
	}
}

// silence reports whether an error says that no server has answered, or that those which did
// have no leader.
func silence(err error) bool {
	for _, is := range []error{context.DeadlineExceeded, nats.ErrTimeout, nats.ErrNoResponders, jetstream.ErrNoStreamResponse, eventlog.ErrUnreachable} {
		if errors.Is(err, is) {
			return true
		}
	}
	var api *jetstream.APIError
	return errors.As(err, &api) && api.Code == 503
}

// leaderless reports whether an error says that there is no leader, or says nothing: an election
// ends that.
func leaderless(err error) bool {
	const notAvailable = 10008
	var api *jetstream.APIError
	return silence(err) && (!errors.As(err, &api) || api.ErrorCode == notAvailable)
}

// gathering reports whether an error says that there are not enough servers for a stream. While
// a cluster starts that passes; if the placement asks for servers that there are not, it stays.
func gathering(err error) bool {
	const noPeers = 10005
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == noPeers
}
