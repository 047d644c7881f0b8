package config

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/streamwright/streamwright/access"
)

// Cluster makes several nodes work on one log. With a name, the embedded NATS
// servers form a cluster; without one, Node, Replicas, Placement, StaleReads
// and Lease are for engines on an existing NATS.
type Cluster struct {
	Name      string   // the same on each node; empty: the embedded server stands alone
	Node      string   // this node
	Listen    string   // host or host:port for the other nodes: see ListenAddress
	Advertise string   // by which they reach this one; empty: Listen
	Peers     []string // every node, with or without this one: see PeerAddresses

	TLSCert    string // PEM files
	TLSKey     string
	TLSCA      string
	SecretFile string // its first line is the secret that the nodes share

	Replicas   int      // of streams with primary data; 0: 3 on a cluster
	Placement  []string // tags of the servers of an existing NATS
	StaleReads StaleReads
	// Lease is the silence of the owner after which another engine may take its log
	// over.
	Lease time.Duration
}

// StaleReads says what a node that is cut off from the others does with reads.
type StaleReads string

// The ways to treat reads on a node that is cut off.
const (
	AnswerStale StaleReads = "answer" // from its own store, marked as stale
	RefuseStale StaleReads = "refuse"
)

// DefaultClusterPort is the port of nodes whose address has none.
const DefaultClusterPort = "6222"

// Bounds of a cluster.
const (
	// MinNodes is the least number of nodes of a cluster: two can't lose one.
	MinNodes = 3
	// MaxNodes bounds the peers. More than five only cost.
	MaxNodes = 9
	// MaxReplicas is JetStream's own bound.
	MaxReplicas = 5
	// DefaultLease is longer than the pauses of a healthy process.
	DefaultLease = 3 * time.Second
	MinLease     = time.Second
	MaxLease     = time.Minute
	// MaxPlacement bounds the tags of placement.
	MaxPlacement = 16
	maxNodeName  = 63
)

// On reports whether the embedded NATS servers are to form a cluster.
func (c Cluster) On() bool { return c.Name != "" }

// ListenAddress returns Listen as host:port.
func (c Cluster) ListenAddress() string { return withPort(c.Listen) }

// AdvertiseAddress returns Advertise as host:port; empty if it is not set.
func (c Cluster) AdvertiseAddress() string {
	if c.Advertise == "" {
		return ""
	}
	return withPort(c.Advertise)
}

// PeerAddresses returns Peers as host:port, each once, in their order.
func (c Cluster) PeerAddresses() []string {
	var all []string
	for _, p := range c.Peers {
		if p = withPort(p); !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return all
}

// Secured reports whether the nodes prove themselves to each other: by
// certificates and by a secret.
func (c Cluster) Secured() bool { return c.TLSCert != "" && c.SecretFile != "" }

// Local reports whether all nodes are on this machine, out of reach for others.
func (c Cluster) Local() bool {
	for _, a := range append(c.PeerAddresses(), c.ListenAddress()) {
		if !access.IsLoopback(a) {
			return false
		}
	}
	return c.Advertise == "" || access.IsLoopback(c.AdvertiseAddress())
}

// Over returns c with what is set in o in place of its own.
func (c Cluster) Over(o Cluster) Cluster {
	set := func(dst *string, v string) {
		if v != "" {
			*dst = v
		}
	}
	set(&c.Name, o.Name)
	set(&c.Node, o.Node)
	set(&c.Listen, o.Listen)
	set(&c.Advertise, o.Advertise)
	set(&c.TLSCert, o.TLSCert)
	set(&c.TLSKey, o.TLSKey)
	set(&c.TLSCA, o.TLSCA)
	set(&c.SecretFile, o.SecretFile)
	if len(o.Peers) > 0 {
		c.Peers = o.Peers
	}
	if len(o.Placement) > 0 {
		c.Placement = o.Placement
	}
	if o.Replicas != 0 {
		c.Replicas = o.Replicas
	}
	if o.StaleReads != "" {
		c.StaleReads = o.StaleReads
	}
	if o.Lease != 0 {
		c.Lease = o.Lease
	}
	return c
}

// withPort returns an address with the default port if it has none.
func withPort(addr string) string {
	if _, _, err := net.SplitHostPort(addr); err == nil {
		return addr
	}
	return net.JoinHostPort(strings.Trim(addr, "[]"), DefaultClusterPort)
}

// IsClusterAddress reports whether addr is the address of a node: a host, or
// host:port.
func IsClusterAddress(addr string) bool {
	host, port, err := net.SplitHostPort(withPort(addr))
	n, perr := strconv.Atoi(port)
	return err == nil && perr == nil && n > 0 && n <= 65535 && host != "" && !strings.ContainsAny(host, " /@[]")
}

func checkClusterAddress(addr string) error {
	if !IsClusterAddress(addr) {
		return fmt.Errorf("has %q: it must be host:port such as 10.0.0.1:6222, or a host alone", addr)
	}
	return nil
}

// checkNodeName refuses what can't be the name of a NATS server, a tag and a part of
// a subject alike.
func checkNodeName(s string) error {
	if len(s) > maxNodeName || !namePattern.MatchString(s) {
		return fmt.Errorf("is %q: it must be at most %d characters of a-z and 0-9, with single - or _ between them", s, maxNodeName)
	}
	return nil
}

func checkTag(s string) error {
	if s == "" || strings.ContainsAny(s, " \t\r\n") {
		return fmt.Errorf("has %q: a tag has no spaces", s)
	}
	return nil
}

func checkReplicas(n int) error {
	switch n {
	case 0, 1, 3, MaxReplicas:
		return nil
	case 2, 4:
		return fmt.Errorf("is %d: it must be 1, 3 or 5, since %d copies survive no more than %d", n, n, n-1)
	}
	return fmt.Errorf("is %d: it must be 1, 3 or 5", n)
}

// checkCluster reports settings of [cluster] that don't fit each other, or the rest.
func (c Config) checkCluster(ch *checker) {
	if ch.failed("cluster") {
		return
	}
	l := c.Cluster
	if !l.On() {
		l.checkAlone(ch, c.External())
		return
	}
	switch {
	case c.Server.NATSURL != "":
		ch.failf("cluster.name", "is for embedded NATS servers: leave out server.nats_url (--nats-url), or the name; engines on one existing NATS find each other without it")
	case c.External():
		ch.failf("cluster.name", "is for embedded NATS servers: leave out connect.context (--context), or the name; engines on one existing NATS find each other without it")
	}
	if l.Node == "" {
		ch.failf("cluster.node", "is missing: give each node a name of its own, such as a, b and c (--node)")
	}
	if l.Listen == "" {
		ch.failf("cluster.listen", "is missing: name the address at which the other nodes reach this one, such as 10.0.0.1:6222 (--cluster-listen)")
	}
	switch n := len(l.PeerAddresses()); {
	case n == 0:
		ch.failf("cluster.peers", "is missing: name every node, such as [\"10.0.0.1:6222\", \"10.0.0.2:6222\", \"10.0.0.3:6222\"] (--peer for each)")
	case n < MinNodes-1:
		ch.failf("cluster.peers", "names %d node: a cluster has %d or more, since fewer can't lose one; name every node (--peer for each)", n, MinNodes)
	}
	if len(l.Placement) > 0 {
		ch.failf("cluster.placement", "is for an existing NATS: leave it out, the embedded servers hold every stream")
	}
	l.checkSecurity(ch, len(c.NATS.Users) > 0)
}

// checkAlone reports what is only for a cluster, where there is none.
func (c Cluster) checkAlone(ch *checker, external bool) {
	for _, of := range []struct {
		key, why string
		set      bool
	}{
		{"listen", "is the address of a node", c.Listen != ""}, {"advertise", "is the address of a node", c.Advertise != ""}, {"peers", "names nodes", len(c.Peers) > 0},
		{"tls_cert", "is for the links between nodes", c.TLSCert+c.TLSKey+c.TLSCA != ""}, {"secret_file", "is for the links between nodes", c.SecretFile != ""},
		{"node", "names a node", c.Node != "" && !external}, {"replicas", "is for several servers", c.Replicas > 1 && !external},
		{"placement", "is for an existing NATS", len(c.Placement) > 0 && !external},
	} {
		if of.set {
			ch.failf("cluster."+of.key, "%s, and the cluster has no name: set cluster.name (--cluster), or leave it out", of.why)
		}
	}
}

// checkSecurity refuses nodes that others can reach and that don't prove themselves.
func (c Cluster) checkSecurity(ch *checker, users bool) {
	given := 0
	for _, s := range []string{c.TLSCert, c.TLSKey, c.TLSCA} {
		if s != "" {
			given++
		}
	}
	if given != 0 && given != 3 {
		ch.failf("cluster.tls_cert", "and tls_key and tls_ca belong together: name all three or none")
	}
	if users && c.SecretFile == "" {
		ch.failf("cluster.secret_file", "is missing: with [[nats.users]] the nodes need a secret in common, from which the names of accounts are made; openssl rand -hex 32 makes one")
	}
	if c.Listen == "" || c.Secured() || c.Local() {
		return
	}
	ch.failf("cluster", "reaches beyond this machine, so the nodes must prove themselves: set tls_cert, tls_key, tls_ca and secret_file, which docs/operate/CLUSTER.md makes by three commands; or let listen and all peers be addresses of this machine (127.0.0.1)")
}
