package embedded

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/config"
)

func rewrite(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// authority is a CA of a test.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{t: t}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	a.cert, a.key = a.sign(template, template, nil)
	a.file = writeFile(t, "ca.pem", pemOf("CERTIFICATE", a.cert.Raw))
	return a
}

func (a *authority) sign(template, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	if signer == nil {
		signer = key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

// issue makes a certificate for a name, good for servers on this machine and
// for clients until then.
func (a *authority) issue(name string, until time.Time) (cert, key string) {
	a.t.Helper()
	c, k := a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: until, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.cert, a.key)
	der, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		a.t.Fatal(err)
	}
	return writeFile(a.t, "cert.pem", pemOf("CERTIFICATE", c.Raw)), writeFile(a.t, "key.pem", pemOf("EC PRIVATE KEY", der))
}

func pemOf(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// browser is an HTTPS client that trusts the authority, with a certificate if
// there is one.
func (a *authority) browser(cert, key string, maxVersion uint16) *http.Client {
	a.t.Helper()
	conf := &tls.Config{RootCAs: x509.NewCertPool(), MaxVersion: maxVersion}
	conf.RootCAs.AddCert(a.cert)
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			a.t.Fatal(err)
		}
		// Shown whether or not the server says that it trusts its issuer.
		conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: conf}, Timeout: testTimeout}
	a.t.Cleanup(c.CloseIdleConnections)
	return c
}

func getStatus(t *testing.T, c *http.Client, url string) (int, error) {
	t.Helper()
	resp, err := c.Get(url)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body) // or the connection could not be used again
	return resp.StatusCode, err
}

// With certificates alone, who has none of the CA's does not get past the
// handshake; with tokens too, who has none may bring a token.
func TestHTTPClientCertificates(t *testing.T) {
	ca, other := newAuthority(t, "ours"), newAuthority(t, "another")
	hour := time.Now().Add(time.Hour)
	c := config.Default()
	c.HTTP.TLSCert, c.HTTP.TLSKey = ca.issue("engine", hour)
	c.HTTP.ClientCA = ca.file
	c.HTTP.Clients = []config.HTTPClient{{Name: "reader", Roles: access.InDefault(access.RolesOf(access.Read))}, {Name: "feeder", Roles: access.InDefault(access.RolesOf(access.Submit))}}
	type client struct {
		browser *http.Client
		only    int // status of /metrics with certificates alone; 0: no handshake
		both    int // and with tokens too
	}
	make := func(a *authority, name string, until time.Time) *http.Client {
		cert, key := a.issue(name, until)
		return ca.browser(cert, key, 0)
	}
	clients := map[string]client{
		"a known one":        {make(ca, "reader", hour), 200, 200},
		"of another role":    {make(ca, "feeder", hour), 403, 403},
		"an unknown one":     {make(ca, "stranger", hour), 401, 401},
		"of another CA":      {make(other, "reader", hour), 0, 0},
		"expired":            {make(ca, "reader", time.Now().Add(-time.Minute)), 0, 0},
		"none":               {ca.browser("", "", 0), 0, 401},
		"with TLS 1.1 alone": {ca.browser("", "", tls.VersionTLS11), 0, 0},
	}
	for _, withTokens := range []bool{false, true} {
		o := Options{Memory: true, Config: c, NATSListen: config.Off, HTTP: "127.0.0.1:0"}
		text, of := tokens()
		if withTokens {
			o.HTTPTokens = text
		}
		e := mustStart(t, o)
		if !strings.HasPrefix(e.HTTPURL(), "https://") {
			t.Fatalf("URL %s", e.HTTPURL())
		}
		for name, cl := range clients {
			want := cl.only
			if withTokens {
				want = cl.both
			}
			status, err := getStatus(t, cl.browser, e.HTTPURL()+"/metrics")
			if status != want || (err == nil) != (want != 0) {
				t.Errorf("%s (tokens: %v): %d, %v, want %d", name, withTokens, status, err, want)
			}
		}
		if !withTokens {
			continue
		}
		if status, p := ask(t, clients["none"].browser, "GET", e.HTTPURL()+"/metrics", of[access.Read]); status != http.StatusOK {
			t.Errorf("a token: %d %+v", status, p)
		}
	}
}

// The embedded NATS server takes no connection in clear, and with a CA none
// without a certificate; within the process all is as before.
func TestNATSOverTLS(t *testing.T) {
	ca, other := newAuthority(t, "ours"), newAuthority(t, "another")
	hour := time.Now().Add(time.Hour)
	serverCert, serverKey := ca.issue("engine", hour)
	clientCert, clientKey := ca.issue("client", hour)
	otherCert, otherKey := other.issue("client", hour)
	ctx := testContext(t)
	connect := func(e *Engine, opts ...streamwright.Option) error {
		opts = append(opts, streamwright.WithNATS(nats.UserInfo("read", testPassword)))
		cl, err := streamwright.Connect(ctx, e.URL(), opts...)
		if err != nil {
			return err
		}
		defer cl.Close()
		_, err = cl.Engine().Stats(ctx)
		return err
	}
	for _, mutual := range []bool{false, true} {
		e := guarded(t, func(c *config.Config) {
			c.NATS.TLSCert, c.NATS.TLSKey = serverCert, serverKey
			if mutual {
				c.NATS.ClientCA = ca.file
			}
		})
		if err := connect(e, streamwright.WithTLS(ca.file, clientCert, clientKey)); err != nil {
			t.Errorf("mutual %v, with a certificate: %v", mutual, err)
		}
		if err := connect(e, streamwright.WithTLS(ca.file, "", "")); (err != nil) != mutual {
			t.Errorf("mutual %v, without one: %v", mutual, err)
		}
		if err := connect(e, streamwright.WithTLS(ca.file, otherCert, otherKey)); (err != nil) != mutual {
			t.Errorf("mutual %v, with another CA's: %v", mutual, err)
		}
		if err := connect(e, streamwright.WithTLS(other.file, clientCert, clientKey)); err == nil {
			t.Errorf("mutual %v: the client trusts a server that it should not", mutual)
		}
		if _, err := mustClient(t, e).Engine().Stats(ctx); err != nil {
			t.Errorf("mutual %v, in the process: %v", mutual, err)
		}
	}
}
