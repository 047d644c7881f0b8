package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/access/quota"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/dispatcher/natsio"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

const (
	// MaxPayload bounds a message of the embedded server, in bytes.
	MaxPayload = 8 << 20
	// syncInterval is the interval of the durability "interval".
	syncInterval = time.Second
	// connectTimeout bounds an in-process connection.
	connectTimeout = 5 * time.Second
	// reconnectWait is the pause before an in-process connection tries to come back when
	// the server is restarted, and maxReconnects how often in a row: for two
	// minutes, like other connections.
	reconnectWait = 100 * time.Millisecond
	maxReconnects = 1200
	// partitions is the number of partitions of the log.
	partitions = 1
)

// serverOptions configure startServer.
type serverOptions struct {
	Dir        string // the data folder; empty: in memory
	Listen     string // host:port, or config.Off
	Durability config.Durability
	Names      wire.Names
	Namespaces []events.Namespace // that exist, beside default
	Partitions int
	Access     config.NATS
	Leaf       config.Leaf
	Quotas     quota.Settings
	MaxMemory  int64 // bytes of JetStream memory; 0: three quarters of the machine's
	MaxStore   int64 // bytes of JetStream files; 0: what the disk allows
	Log        *slog.Logger
	// Before, if set, is called when the server runs, and before it listens: so
	// far nobody but this process can reach it.
	// A node of a cluster listens at once.
	Before func(*server) error
	Member *membership // nil: it stands alone
	Hub    *hubLink    // nil: it follows none
}

// serverOptions returns the options of the engine's own server.
func (b *base) serverOptions() serverOptions {
	so := serverOptions{
		Dir: b.dir.root(), Listen: b.cfg.Server.NATSListen, Durability: b.cfg.Server.Durability, Names: b.names(), Partitions: partitions, Access: b.cfg.NATS, Leaf: b.cfg.Leaf, Quotas: b.cfg.Quotas,
		MaxMemory: b.cfg.Limits.MaxMemoryBytes, MaxStore: b.cfg.Limits.MaxStoreBytes, Log: b.log,
	}
	so.Namespaces = b.dir.namespaces()
	if b.dir == nil {
		so.MaxMemory = 0 // everything is there: as much as the machine allows
	}
	return so
}

// server is a NATS server in this process. It may be restarted; connections of
// this process then find the new one by themselves.
type server struct {
	now    atomic.Pointer[natsserver.Server]
	log    *natsLog
	given  serverOptions
	opts   *natsserver.Options // as the server has them; replaced by reload alone
	engine nkeys.KeyPair       // proves that a connection is the engine's
	client nkeys.KeyPair       // that it is a client's in this process
	system nkeys.KeyPair       // that it asks about the cluster
	public []string            // their public parts: the client's, the engine's, the system's
	// accountKey signs the names of the users' accounts.
	accountKey []byte
	secure     bool // others connect over TLS
	// isolated: clients of this process have an account of their own. It is so
	// if there were users when the server started, and stays so, since a
	// connection that changes its account is closed.
	isolated bool
	tmp      string // of a server in memory, which wants a folder all the same

	changing sync.RWMutex // held by restart, reload and Stop, for reading by who connects; guards what follows, opts, and the Access and Namespaces of given
	applied  int64        // how often who may do what was exchanged
	stopped  bool
	addr     *net.TCPAddr // where it listens; nil: nowhere
}

// ns returns the server that runs now, or that ran last.
func (s *server) ns() *natsserver.Server { return s.now.Load() }

// InProcessConn implements nats.InProcessConnProvider: a connection to the server
// that runs at that moment.
func (s *server) InProcessConn() (net.Conn, error) { return s.ns().InProcessConn() }

// startServer returns once the server takes connections: first from this
// process, and from others once o.Before has returned.
func startServer(o serverOptions) (*server, error) {
	log := o.Log.With("part", "nats-server")
	s := &server{given: o, log: &natsLog{log: log, hub: o.Hub, peers: &lostPeers{log: log}}}
	opts, err := s.options(o)
	if err != nil {
		return nil, errors.Join(err, s.removeTmp())
	}
	s.opts = opts
	if err := s.launch(); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// launch makes a server of s.opts and starts it.
func (s *server) launch() error {
	ns, err := natsserver.NewServer(s.opts)
	if err != nil {
		return fmt.Errorf("start NATS server: %w", err)
	}
	o := s.given
	s.log.begin()
	ns.SetLoggerV2(s.log, false, false, false)
	// Start returns with everything up, or with a fatal entry in the log.
	ns.Start()
	err = s.startError()
	if err == nil && o.Before != nil {
		// Only Before reaches it now: in a restart there are connections that
		// come back.
		alone := &server{log: s.log, given: o, opts: s.opts, engine: s.engine, client: s.client, public: s.public}
		alone.now.Store(ns)
		err = o.Before(alone)
	}
	if err == nil && o.Listen != config.Off && o.Member == nil {
		ns.AcceptLoop(make(chan struct{}))
		err = s.startError()
	}
	if err != nil {
		ns.Shutdown()
		ns.WaitForShutdown()
		s.log.peers.forget()
		return err
	}
	s.now.Store(ns)
	if addr, ok := ns.Addr().(*net.TCPAddr); ok && addr != nil && s.addr == nil {
		s.addr = addr
	}
	return nil
}

// errServerStopped is the error of a restart of a server that was stopped.
var errServerStopped = errors.New("restart NATS server: it has been stopped")

// restart restarts a server that is at fault. Another may have done it meanwhile.
func (s *server) restart() error {
	s.changing.Lock()
	defer s.changing.Unlock()
	if s.fault() == "" {
		return nil
	}
	return s.renew(func() error { return nil })
}

// restartAfter restarts the server, and calls change while there is none. It starts one after
// an error of change, too.
func (s *server) restartAfter(change func() error) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	return s.renew(change)
}

// renew ends the server and starts another one in its place, with the same
// users, on the same address and the same files, which change may change in between.
// Connections break and come back; what was in memory streams is gone. If none can be
// started there is no server until restart succeeds. REQUIRES: changing.
func (s *server) renew(change func() error) error {
	if s.stopped {
		return errServerStopped
	}
	opts := s.opts.Clone()
	if s.addr != nil {
		opts.Port = s.addr.Port // it may have been any free one
	}
	if c := s.ns().JetStreamConfig(); c != nil {
		// Else the server would take a share of what is free now.
		opts.JetStreamMaxStore, opts.JetStreamMaxMemory = c.MaxStore, c.MaxMemory
	}
	s.shutDown()
	s.opts = opts
	err := change()
	return errors.Join(err, s.launch())
}

// fault says why the server takes no writes until it is restarted, empty if it
// does.
func (s *server) fault() string {
	switch why := s.log.failedWrite(); {
	case why != "":
		return why
	case !s.ns().Running():
		return "it does not run"
	case !s.ns().JetStreamEnabled():
		return "JetStream is switched off"
	}
	return ""
}

func (s *server) shutDown() {
	if ns := s.ns(); ns != nil {
		ns.Shutdown()
		ns.WaitForShutdown()
		s.log.peers.forget()
	}
}

func (s *server) options(o serverOptions) (*natsserver.Options, error) {
	if err := s.keys(); err != nil {
		return nil, err
	}
	s.isolated = len(o.Access.Users) > 0
	opts := &natsserver.Options{
		ServerName:             "streamwright",
		NoSigs:                 true,
		NoLog:                  true,
		MaxPayload:             MaxPayload,
		JetStream:              true,
		JetStreamMaxMemory:     o.MaxMemory,
		JetStreamMaxStore:      o.MaxStore,
		SyncAlways:             o.Durability != config.Interval,
		SyncInterval:           syncInterval,
		DisableJetStreamBanner: true,
		NoJetStreamStrict:      false, // a request with an unknown field is refused
		NoAuthUser:             s.public[0],
	}
	if err := listen(opts, o.Listen); err != nil {
		return nil, err
	}
	if o.Member != nil {
		o.Member.configure(opts)
	}
	if o.Hub != nil {
		o.Hub.configure(opts, o.Names.Account())
	}
	if _, err := s.login(opts, o); err != nil {
		return nil, err
	}
	if err := s.leafNodes(opts, o); err != nil {
		return nil, err
	}
	if o.Dir != "" {
		opts.StoreDir = o.Dir
		return opts, nil
	}
	tmp, err := os.MkdirTemp("", "streamwright-")
	if err != nil {
		return nil, fmt.Errorf("start NATS server in memory: %w", err)
	}
	s.tmp = tmp
	opts.StoreDir = tmp
	opts.SyncAlways = false
	return opts, nil
}

func listen(opts *natsserver.Options, addr string) error {
	opts.DontListen = true // not by itself: see startServer
	if addr == config.Off {
		return nil
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("start NATS server: address %q: use host:port such as 127.0.0.1:4222, or off: %w", addr, err)
	}
	n, err := strconv.Atoi(port)
	if err != nil || n < 0 || n > 65535 {
		return fmt.Errorf("start NATS server: address %q: the port must be 0 to 65535", addr)
	}
	if n == 0 {
		n = natsserver.RANDOM_PORT
	}
	opts.Host, opts.Port = host, n
	return nil
}

// startError turns the server's fatal entry into an error that says what to
// do, by looking again at the addresses, since the entry is just text.
func (s *server) startError() error {
	fatal := s.log.fatalError()
	if fatal == "" {
		return nil
	}
	if addr := s.given.Listen; addr != config.Off {
		if err := tryListen(addr, "(nats_listen), or port 0 for any free one"); err != nil {
			return err
		}
	}
	if m := s.given.Member; m != nil {
		if err := tryListen(net.JoinHostPort(m.host, strconv.Itoa(m.port)), "(cluster.listen, and the same in the peers of each node)"); err != nil {
			return err
		}
	}
	if addr := s.given.Leaf.Listen; addr != "" && addr != config.Off {
		if err := tryListen(addr, "(leaf.listen), and tell the sites"); err != nil {
			return err
		}
	}
	return fmt.Errorf("start NATS server: %s", fatal)
}

// tryListen reports why a server can't listen on an address, and what to do instead.
func tryListen(addr, instead string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return events.WithCode(events.CodeCannotListen, fmt.Errorf("start NATS server: cannot listen on %s: %w: stop what uses it, or choose another address %s", addr, err, instead))
	}
	return l.Close()
}

// URL returns where other processes connect; empty if the server does not listen.
func (s *server) URL() string {
	addr := s.addr // set before the server is handed out, and the same from then on
	if addr == nil {
		return ""
	}
	host := addr.IP.String()
	if addr.IP.IsUnspecified() {
		host = "127.0.0.1"
	}
	scheme := "nats://"
	if s.secure {
		scheme = "tls://"
	}
	return scheme + net.JoinHostPort(host, strconv.Itoa(addr.Port))
}

// connect opens an in-process connection, with the engine's rights if
// privileged, else with a client's. Within one process a pipe is better: a
// publish and its ack take 20-26 µs, against 45-54 µs over the loopback
// interface, with the same throughput (see BenchmarkConnect).
func (s *server) connect(privileged bool, opts ...nats.Option) (*nats.Conn, error) {
	key := s.client
	if privileged {
		key = s.engine
	}
	return s.connectAs(key, opts...)
}

// connectAs opens an in-process connection with the rights of a key.
func (s *server) connectAs(key nkeys.KeyPair, opts ...nats.Option) (*nats.Conn, error) {
	all, err := s.inProcess(key)
	if err != nil {
		return nil, fmt.Errorf("connect to the embedded NATS server: %w", err)
	}
	s.changing.RLock() // while it reads its accounts again it refuses who is just connecting
	defer s.changing.RUnlock()
	nc, err := nats.Connect("", append(all, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("connect to the embedded NATS server: %w", err)
	}
	return nc, nil
}

// inProcess returns the options of a connection that proves itself by a key.
func (s *server) inProcess(key nkeys.KeyPair) ([]nats.Option, error) {
	public, err := key.PublicKey()
	if err != nil {
		return nil, err
	}
	return []nats.Option{
		nats.InProcessServer(s), nats.Timeout(connectTimeout), nats.Nkey(public, key.Sign),
		// By default two refused logins in a row end a connection for good, and a server that reads
		// its accounts again refuses who reconnects meanwhile.
		nats.IgnoreAuthErrorAbort(),
		nats.ReconnectWait(reconnectWait), nats.MaxReconnects(maxReconnects),
	}, nil
}

// Stop ends the server, and returns when it is down. It may be called again.
func (s *server) Stop() error {
	if s == nil {
		return nil
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	s.stopped = true
	s.shutDown()
	return s.removeTmp()
}

func (s *server) removeTmp() error {
	if s.tmp == "" {
		return nil
	}
	return os.RemoveAll(filepath.Clean(s.tmp))
}

// holdAcks stops the consumers of ack workers before any worker can reach
// the server: a server that was killed may have forgotten what it delivered,
// and would deliver it again before the engine knows what was acked.
func (s *server) holdAcks(ctx context.Context, names wire.Names) error {
	nc, err := s.connect(true)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err == nil {
		err = natsio.HoldAcks(ctx, js, names)
	}
	if err != nil {
		return fmt.Errorf("start NATS server: %w", err)
	}
	return nil
}

// leafNodes has the server take the leaf connections of the sites. Each is in an account of
// its own, as a user is, so that a site reaches what its roles allow and nothing else: its
// own publishes of submissions stay there, and are read from the site's stream.
func (s *server) leafNodes(opts *natsserver.Options, o serverOptions) error {
	l := o.Leaf
	if l.Listen == "" || l.Listen == config.Off {
		return nil
	}
	host, port, err := net.SplitHostPort(l.Listen)
	if err != nil {
		return fmt.Errorf("take leaf connections: %w", err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return fmt.Errorf("take leaf connections on %s: %w", l.Listen, err)
	}
	if n == 0 {
		n = natsserver.RANDOM_PORT
	}
	leaf := &opts.LeafNode
	leaf.Host, leaf.Port, leaf.NoAdvertise = host, n, true
	if l.TLSCert != "" {
		if leaf.TLSConfig, _, err = serverTLS("leaf", l.TLSCert, l.TLSKey, l.ClientCA, false); err != nil {
			return err
		}
		leaf.TLSTimeout = tlsTimeout
	} else if !access.IsLoopback(l.Listen) {
		o.Log.Warn("sites send their tokens in the clear: give [leaf] tls_cert and tls_key", "listen", l.Listen)
	}
	accounts := map[string]*natsserver.Account{}
	for _, a := range opts.Accounts {
		accounts[a.Name] = a
	}
	for _, site := range l.Sites {
		token, err := tokenOf(site, o.Log)
		if err != nil {
			return events.WithCode(events.CodeBadConfig, err)
		}
		leaf.Users = append(leaf.Users, &natsserver.User{Username: site.Name, Password: token, Account: accounts[s.siteGrant(o, site).Account]})
	}
	return nil
}

// siteGrant says what a site may do: what its roles say, but for plain publishes, which it
// keeps itself until the engine reads them. A mirror has the names of its namespace alone.
func (s *server) siteGrant(o serverOptions, site config.LeafSite) access.Grant {
	roles := site.Grants()
	if site.Mirror {
		return access.Grant{Names: o.Names.Namespace(site.Of()), User: site.Name, Mirror: site.Name, Account: o.Names.UserAccount(s.named(site.Name)), Limits: o.Quotas.Of(site.Name, roles).Account()}
	}
	return access.Grant{
		Names: o.Names, User: site.Name, Roles: access.InDefault(roles), Namespaces: o.Namespaces, Alone: true, NoPublish: true, NoDocuments: true, Site: site.Name,
		Account: o.Names.UserAccount(s.named(site.Name)), Limits: o.Quotas.Of(site.Name, roles).Account(),
	}
}

func tokenOf(site config.LeafSite, log *slog.Logger) (string, error) {
	token, err := passwordOf(config.NATSUser{Name: site.Name, Password: site.Token, PasswordFile: site.TokenFile}, log)
	if err != nil {
		return "", fmt.Errorf("the token of the site %s: %w", site.Name, err)
	}
	return token, nil
}

// leafAddr returns where sites connect; empty if they can't.
func (s *server) leafAddr() string {
	if s == nil || s.opts.LeafNode.Port == 0 {
		return ""
	}
	return net.JoinHostPort(s.opts.LeafNode.Host, strconv.Itoa(s.opts.LeafNode.Port))
}
