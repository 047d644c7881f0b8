package secured

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/connect"
)

// authority makes certificates.
type authority struct {
	dir  string
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	next int64
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	a.cert, a.key = a.issue(t, "ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, Subject: pkix.Name{CommonName: "test authority"}})
	return a
}

// issue makes a certificate and writes it and its key to files.
func (a *authority) issue(t *testing.T, name string, c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	a.next++
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c.SerialNumber, c.NotBefore, c.NotAfter = big.NewInt(a.next), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	der = must(t, der, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	secret = must(t, secret, err)
	write(t, a.file(name), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	write(t, a.keyFile(name), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
	cert, err := x509.ParseCertificate(der)
	return must(t, cert, err), key
}

func (a *authority) file(name string) string    { return filepath.Join(a.dir, name+".pem") }
func (a *authority) keyFile(name string) string { return filepath.Join(a.dir, name+".key") }

func (a *authority) server(t *testing.T) {
	a.issue(t, "server", &x509.Certificate{
		Subject: pkix.Name{CommonName: "nats"}, DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
}

func (a *authority) user(t *testing.T, name string) {
	a.issue(t, name, &x509.Certificate{Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
}

// tls is the server's block of that name.
func (a *authority) tls(more string) string {
	return "tls { cert_file: \"" + a.file("server") + "\", key_file: \"" + a.keyFile("server") + "\", ca_file: \"" + a.file("ca") + "\"" + more + " }\n"
}

// The server knows its users by their certificates.
func TestClientCertificates(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	a.server(t)
	auth := accounts(t, func(user string) []string {
		a.user(t, user)
		return []string{"--certificate", user}
	})
	url := natsServer(t, "jetstream { store_dir: STORE }\n"+a.tls(", verify_and_map: true, handshake_first: true")+auth).ClientURL()
	url = strings.Replace(url, "nats://", "tls://", 1)
	tour(t, way{url: url,
		login: func(user string) login {
			if user == "submit" {
				return login{nil, []string{"NATS_CA=" + a.file("ca"), "NATS_CERT=" + a.file(user), "NATS_KEY=" + a.keyFile(user), "NATS_TLS_FIRST=true", "NATS_INBOX_PREFIX=_INBOX_" + user}}
			}
			return login{[]string{"--tlsca", a.file("ca"), "--tlscert", a.file(user), "--tlskey", a.keyFile(user), "--tlsfirst", "--inbox-prefix", "_INBOX_" + user}, nil}
		},
		conn: func(user string) connect.Settings {
			return connect.Settings{CA: a.file("ca"), Cert: a.file(user), Key: a.keyFile(user), TLSFirst: true, InboxPrefix: "_INBOX_" + user}
		},
	})
	// Without a certificate, and with a server whose CA is not known.
	login{[]string{"--server", url, "--tlsca", a.file("ca"), "--tlsfirst"}, nil}.run(t, "status").wants(t, 1, "certificate", "unavailable")
	login{[]string{"--server", url, "--tlscert", a.file("read"), "--tlskey", a.keyFile("read"), "--tlsfirst"}, nil}.run(t, "status").wants(t, 1, "unknown authority", "unavailable")
	login{[]string{"--server", url, "--tlscert", a.file("read")}, nil}.run(t, "status").wants(t, 2, "tlskey")
}
