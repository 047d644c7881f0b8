package embedded

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/internal/logins"
	"github.com/streamwright/streamwright/internal/need"
)

// nodeCertificate writes a CA, and a certificate of it for this machine.
func nodeCertificate(t *testing.T, dir string) (cert, key, ca string) {
	t.Helper()
	authority := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "CA"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "node"}, NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	leafKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	put := func(name, kind string, der []byte, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	der, err := x509.CreateCertificate(rand.Reader, authority, authority, &caKey.PublicKey, caKey)
	ca = put("ca.pem", "CERTIFICATE", der, err)
	der, err = x509.CreateCertificate(rand.Reader, leaf, authority, &leafKey.PublicKey, caKey)
	cert = put("node.pem", "CERTIFICATE", der, err)
	der, err = x509.MarshalECPrivateKey(leafKey)
	return cert, put("node.key", "EC PRIVATE KEY", der, err), ca
}

// Nodes with certificates and a secret form a cluster with users of its own, whose
// accounts are the same on each node. One with another secret, or without a
// certificate, stays outside.
func TestNodesProveThemselves(t *testing.T) {
	logins.Open(t, "it has users of its own")
	need.Seconds(t)
	t.Parallel()
	dir := t.TempDir()
	cert, key, ca := nodeCertificate(t, dir)
	secret := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good, bad := secret("good", strings.Repeat("0123", 8)), secret("bad", strings.Repeat("4567", 8))
	all := clusterOptions(t, 3)
	for i := range all {
		c := &all[i].Cluster
		c.TLSCert, c.TLSKey, c.TLSCA, c.SecretFile = cert, key, ca, good
		all[i].Config.NATS.Users = []config.NATSUser{{Name: "ops", Password: "0123456789abcdef", Roles: access.InDefault(access.All)}}
	}
	for name, change := range map[string]func(*config.Cluster){
		"another secret": func(c *config.Cluster) { c.SecretFile = bad },
		"no certificate": func(c *config.Cluster) { c.TLSCert, c.TLSKey, c.TLSCA = "", "", "" },
	} {
		o := all[2]
		o.Dir = filepath.Join(t.TempDir(), "data")
		change(&o.Cluster)
		ctx, cancel := context.WithCancel(testContext(t))
		var seen []int
		o.WaitingForNodes = func(_ string, here, of int) { seen = append(seen, here) }
		done := make(chan error, 1)
		go func() { _, err := startNode(ctx, o); done <- err }()
		g := all[0]
		g.Dir = filepath.Join(t.TempDir(), "data")
		short, stop := context.WithTimeout(ctx, 2*time.Second) // enough to link, if it could
		if _, err := startNode(short, g); err == nil {
			t.Errorf("%s: a cluster was formed", name)
		}
		stop()
		cancel()
		if err := <-done; err == nil || slices.Max(seen) != 1 {
			t.Errorf("%s: %v, and %v nodes were linked", name, err, seen)
		}
	}
	nodes := startNodes(t, all)
	if a, b := nodes[0].srv.named("ops"), nodes[2].srv.named("ops"); a != b {
		t.Errorf("the accounts of one user are %s and %s", a, b)
	}
	// A client of one node hears of the others.
	a, err := nats.Connect(nodes[0].URL(), nats.UserInfo("ops", "0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	need.Eventually(t, "the other nodes' addresses", func() bool { return len(a.DiscoveredServers()) == 2 })
}
