package embedded

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/connect"
)

const (
	// systemAccount is the NATS account of the servers' own traffic.
	systemAccount = "$SYS"
	// routeUser is the name by which nodes log in to each other.
	routeUser = "streamwright"
	// routePing is the time between two pings of a link to another node, and
	// routePings the number without an answer after which it counts as broken.
	routePing  = time.Second
	routePings = 3
	// resolveWithin bounds the time to find out which peer is this node.
	resolveWithin = 5 * time.Second
)

// membership is this node's place in a cluster of embedded servers.
type membership struct {
	cluster, node string
	host          string // where it listens for other nodes
	port          int
	advertise     string   // host:port; empty: host and port
	own           string   // its address among nodes
	nodes         []string // host:port of every node
	tls           *tls.Config
	secret        []byte // nil: none
}

// checkCluster refuses what the nodes of a cluster can't do without, and a cluster in memory:
// a node that starts again with nothing would vote as if it had never voted.
func (b *base) checkCluster() error {
	switch {
	case !b.cfg.Cluster.On():
		return nil
	case b.o.Memory:
		return errors.New("start a cluster: its nodes keep their data in folders: leave out Memory, or the cluster")
	case b.cfg.Server.NATSListen == config.Off:
		return errors.New("start a cluster: its NATS servers listen for clients: use --nats-listen 127.0.0.1:0 (any free port) in place of off")
	}
	return nil
}

// membership works out this node's place in the cluster from [cluster].
func (b *base) membership(ctx context.Context) (*membership, error) {
	c := b.cfg.Cluster
	host, port, err := net.SplitHostPort(c.ListenAddress())
	if err != nil {
		return nil, fmt.Errorf("cluster.listen: %w", err)
	}
	m := &membership{cluster: c.Name, node: c.Node, host: host, advertise: c.AdvertiseAddress()}
	if m.port, err = strconv.Atoi(port); err != nil {
		return nil, fmt.Errorf("cluster.listen: %w", err)
	}
	if m.secret, err = readSecret(c.SecretFile, b.log); err != nil {
		return nil, err
	}
	if c.TLSCert != "" {
		if m.tls, err = nodeTLS(c); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, resolveWithin)
	defer cancel()
	m.own, m.nodes = ownNode(ctx, c)
	if n := len(m.nodes); n%2 == 0 {
		return nil, fmt.Errorf("the cluster %s would have %d nodes (%s): it must have 3 or 5: name each node once, by the address that it advertises or listens on; none of the peers may be this node (%s) under another address", c.Name, n, strings.Join(m.nodes, ", "), m.own)
	}
	return m, nil
}

// readSecret reads the secret that the nodes share; nil if there is none.
func readSecret(file string, log *slog.Logger) ([]byte, error) {
	if file == "" {
		return nil, nil
	}
	line, err := secretLine(file, "the cluster's secret", log)
	if err != nil {
		return nil, fmt.Errorf("read the cluster's secret: %w: openssl rand -hex 32 makes one, the same for each node", err)
	}
	if len(line) < config.MinPasswordLen {
		return nil, fmt.Errorf("read the cluster's secret: the first line of %s has %d characters: use %d or more, such as openssl rand -hex 32 makes", file, len(line), config.MinPasswordLen)
	}
	return []byte(line), nil
}

// nodeTLS returns the TLS of the links between nodes, in which each side shows a
// certificate of the cluster's CA.
func nodeTLS(c config.Cluster) (*tls.Config, error) {
	t, _, err := access.ServerTLS(c.TLSCert, c.TLSKey, c.TLSCA, false)
	if err != nil {
		return nil, fmt.Errorf("[cluster]: %w", err)
	}
	t.RootCAs = t.ClientCAs
	return t, nil
}

// key derives a key for one purpose from the secret; nil without a secret.
func (m *membership) key(purpose string) []byte {
	if m == nil || m.secret == nil {
		return nil
	}
	h := hmac.New(sha256.New, m.secret)
	_, _ = io.WriteString(h, "streamwright "+purpose) // a hash takes everything
	return h.Sum(nil)
}

// configure makes a server's options those of a node. The routes name every node,
// this one included: of their number JetStream makes the quorum of a new cluster.
func (m *membership) configure(opts *natsserver.Options) {
	opts.ServerName = m.node
	opts.Tags.Add(connect.NodeTag(m.node))
	opts.DontListen = false // the server opens its routes after its port for clients
	opts.Cluster = natsserver.ClusterOpts{
		Name: m.cluster, Host: m.host, Port: m.port, Advertise: m.advertise,
		PingInterval: routePing, MaxPingsOut: routePings, ConnectBackoff: false,
	}
	user := (*url.Userinfo)(nil)
	if key := m.key("routes"); key != nil {
		password := hex.EncodeToString(key)
		opts.Cluster.Username, opts.Cluster.Password = routeUser, password
		user = url.UserPassword(routeUser, password)
	}
	if m.tls != nil {
		opts.Cluster.TLSConfig, opts.Cluster.TLSTimeout = m.tls, tlsTimeout
	}
	opts.ConnectErrorReports = everyFailure
	opts.Routes = nil
	for _, n := range m.nodes {
		opts.Routes = append(opts.Routes, &url.URL{Scheme: "nats-route", User: user, Host: n})
	}
}

// ownNode returns this node's address and those of all nodes, it among them. It is
// the peer that is its advertised address or the address on which it listens, or
// whose host is its name, or that resolves to this machine with the same port.
func ownNode(ctx context.Context, c config.Cluster) (own string, nodes []string) {
	nodes = c.PeerAddresses()
	for _, addr := range []string{c.AdvertiseAddress(), c.ListenAddress()} {
		if slices.Contains(nodes, addr) {
			return addr, nodes
		}
	}
	for _, p := range nodes {
		host, _, _ := net.SplitHostPort(p)
		if first, _, _ := strings.Cut(host, "."); net.ParseIP(host) == nil && first == c.Node {
			return p, nodes
		}
	}
	listen, port, _ := net.SplitHostPort(c.ListenAddress())
	here := addressesOf(ctx, listen)
	for _, p := range nodes {
		host, itsPort, _ := net.SplitHostPort(p)
		if itsPort == port && slices.ContainsFunc(addressesOf(ctx, host), func(ip string) bool { return slices.Contains(here, ip) }) {
			return p, nodes
		}
	}
	own = c.AdvertiseAddress()
	if own == "" {
		own = c.ListenAddress()
		if ip := net.ParseIP(listen); ip != nil && ip.IsUnspecified() {
			own = net.JoinHostPort("127.0.0.1", port)
		}
	}
	return own, append(nodes, own)
}

// addressesOf returns the IP addresses of a host: of all interfaces, if it is
// that of a listener on all of them. It returns none for a host that can't be
// resolved.
func addressesOf(ctx context.Context, host string) (ips []string) {
	ip := net.ParseIP(host)
	switch {
	case ip != nil && ip.IsUnspecified():
		addrs, _ := net.InterfaceAddrs()
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok {
				ips = append(ips, n.IP.String())
			}
		}
	case ip != nil:
		ips = []string{ip.String()}
	default:
		found, _ := net.DefaultResolver.LookupIPAddr(ctx, host)
		for _, a := range found {
			ips = append(ips, a.IP.String())
		}
	}
	return ips
}

const (
	// quorumLook is the time between two looks for a quorum, and quorumTell that
	// between two lines about one that is not there yet.
	quorumLook = 100 * time.Millisecond
	quorumTell = 5 * time.Second
	// quorumAsk bounds one question to a leader.
	quorumAsk = 500 * time.Millisecond
	// dialPeer bounds one look whether a peer's address answers.
	dialPeer = time.Second
)

// awaitQuorum returns when this node's cluster has a leader, which takes most of its
// nodes. Meanwhile it logs, each few seconds, which nodes it waits for. It ends with
// ctx.
func (b *base) awaitQuorum(ctx context.Context) error {
	m := b.srv.member()
	if m == nil {
		return nil
	}
	look := time.NewTicker(quorumLook)
	defer look.Stop()
	told, logged := 0, time.Now()
	for !b.served(ctx) {
		here := len(b.srv.linked()) + 1
		if here != told && b.o.WaitingForNodes != nil {
			b.o.WaitingForNodes(m.cluster, here, len(m.nodes))
		}
		if here != told || time.Since(logged) > quorumTell {
			b.logWaiting(ctx, m)
			told, logged = here, time.Now()
		}
		if why := b.srv.fault(); why != "" {
			return fmt.Errorf("join the cluster %s: the NATS server of this node does not work: %s", m.cluster, why)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("join the cluster %s: %d of %d nodes are here, and there is no leader: start the others, and see that they reach each other: %w", m.cluster, here, len(m.nodes), ctx.Err())
		case <-look.C:
		}
	}
	b.does("its NATS servers are asked for the streams")
	if told > 0 {
		b.log.Info("the nodes of the cluster have a leader", "cluster", m.cluster, "node", m.node)
	}
	return nil
}

// served reports whether the cluster has a leader that answers. One that has just been
// elected may drop requests without a word, so each try is short.
func (b *base) served(ctx context.Context) bool {
	if !b.srv.hasLeader() {
		return false
	}
	js, err := connect.JetStream(b.nc, b.names())
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, quorumAsk)
	defer cancel()
	_, err = js.AccountInfo(ctx)
	return err == nil
}

// logWaiting says which nodes are here, and which addresses don't answer.
func (b *base) logWaiting(ctx context.Context, m *membership) {
	var silent []string
	here := b.srv.linked()
	if len(here)+1 < len(m.nodes) {
		silent = m.silent(ctx)
	}
	b.waitsForNodes(here, len(m.nodes), silent)
	b.log.Info("waiting for the other nodes of the cluster", "cluster", m.cluster, "node", m.node, "here", len(here)+1, "of", len(m.nodes),
		"linked", strings.Join(here, ","), "no_answer", strings.Join(silent, ","))
}

// silent returns the addresses of nodes at which nothing answers.
func (m *membership) silent(ctx context.Context) (addrs []string) {
	var d net.Dialer
	for _, addr := range m.nodes {
		if addr == m.own {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, dialPeer)
		conn, err := d.DialContext(ctx, "tcp", addr)
		cancel()
		if err != nil {
			addrs = append(addrs, addr)
			continue
		}
		conn.Close()
	}
	return addrs
}

// member returns the server's place in its cluster; nil if it stands alone.
func (s *server) member() *membership {
	if s == nil {
		return nil
	}
	return s.given.Member
}

// linked returns the names of the other nodes that this one has a link to, sorted.
func (s *server) linked() (names []string) {
	routes, err := s.ns().Routez(nil)
	if err != nil {
		return nil
	}
	for _, r := range routes.Routes {
		if r.RemoteName != "" && !slices.Contains(names, r.RemoteName) {
			names = append(names, r.RemoteName)
		}
	}
	slices.Sort(names)
	return names
}

// hasLeader reports whether this node knows a leader of the cluster's metadata.
func (s *server) hasLeader() bool {
	g, ok := s.group(metaGroup)
	return ok && g.Leader != ""
}
