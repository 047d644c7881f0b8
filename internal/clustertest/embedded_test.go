package clustertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/internal/logins"
)

// newEmbedded starts three engines whose own NATS servers form the cluster.
func newEmbedded(t *testing.T, d disks) *cluster { return newNodes(t, d, 3) }

// newNodes starts so many such engines. One alone forms no cluster.
func newNodes(t *testing.T, d disks, n int) *cluster {
	c := newCluster(t, d)
	c.own = true
	for i := range n {
		c.servers = append(c.servers, fmt.Sprintf("n%d", i+1))
		c.add(&node{name: c.servers[i], engine: true, nats: true})
	}
	var err error
	if c.logins, err = logins.New(t.TempDir(), c.addresses()...); err != nil {
		t.Fatal(err)
	}
	secured := c.secrets()
	for _, n := range c.nodes {
		text := c.settings()
		if len(c.nodes) > 1 {
			text += c.membership(n) + secured
		}
		toml := c.write(n.name+".toml", text)
		n.argv = func() *exec.Cmd {
			return c.net.command(n.name, binary, "serve", "--config", toml, "--dir", n.dir,
				"--nats-listen", c.net.listen(n.name, clientPort), "--http", c.net.listen(n.name, httpPort))
		}
	}
	for _, n := range c.nodes {
		n.start()
	}
	c.formed()
	return c
}

// membership is the place of a node in the cluster, as its file says it.
func (c *cluster) membership(n *node) string {
	listen := c.net.listen(n.name, routePort)
	peers := []string{listen}
	for _, other := range c.servers {
		if other != n.name {
			peers = append(peers, c.net.dial(n.name, other, routePort))
		}
	}
	text := fmt.Sprintf("[cluster]\nname = \"test\"\nnode = %q\nlisten = %q\npeers = [\"%s\"]\n", n.name, listen, strings.Join(peers, `", "`))
	if c.net.local() {
		text += "advertise = \"127.0.0.1:1\"\n" // routes are those through the proxies alone
	}
	return text
}

// secrets makes what nodes that are not all on one machine need: a secret, and
// certificates of one CA.
func (c *cluster) secrets() string {
	c.t.Helper()
	if c.net.local() {
		return ""
	}
	now := time.Now()
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "node"}, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, KeyUsage: x509.KeyUsageDigitalSignature}
	leaf.IPAddresses = c.addresses()
	caKey, key := newKey(c.t), newKey(c.t)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		c.t.Fatal(err)
	}
	return fmt.Sprintf("tls_cert = %q\ntls_key = %q\ntls_ca = %q\nsecret_file = %q\n",
		c.write("node.pem", certificate(c.t, leaf, ca, key, caKey)),
		c.write("node.key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))),
		c.write("ca.pem", certificate(c.t, ca, ca, caKey, caKey)),
		c.write("secret", rand.Text()+"\n"))
}

// addresses returns those of the nodes.
func (c *cluster) addresses() (ips []net.IP) {
	c.t.Helper()
	for _, name := range c.servers {
		host, _, err := net.SplitHostPort(c.net.listen(name, routePort))
		if err != nil {
			c.t.Fatal(err)
		}
		ips = append(ips, net.ParseIP(host))
	}
	return ips
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// certificate returns one of a CA, in PEM.
func certificate(t *testing.T, of, ca *x509.Certificate, key, caKey *ecdsa.PrivateKey) string {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, of, ca, &key.PublicKey, caKey)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
