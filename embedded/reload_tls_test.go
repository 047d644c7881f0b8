package embedded

import (
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/internal/logins"
)

// exchange puts the content of one file into the place of another.
func exchange(t *testing.T, path, by string) {
	t.Helper()
	data, err := os.ReadFile(by)
	if err != nil {
		t.Fatal(err)
	}
	rewrite(t, path, string(data))
}

// certificateOf is the common name of the certificate that HTTPS shows to who comes.
func certificateOf(t *testing.T, addr string) string {
	t.Helper()
	c, err := tls.DialWithDialer(&net.Dialer{Timeout: testTimeout}, "tcp", addr, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0].Subject.CommonName
}

// A certificate that is renewed in its file is shown from the reload on, and
// nobody is disconnected.
func TestExchangedCertificate(t *testing.T) {
	logins.Open(t, "it has a certificate of its own")
	ca := newAuthority(t, "ours")
	hour := time.Now().Add(time.Hour)
	cert, key := ca.issue("before", hour)
	cert2, key2 := ca.issue("after", hour)
	c := config.Default()
	c.HTTP.TLSCert, c.HTTP.TLSKey, c.NATS.TLSCert, c.NATS.TLSKey = cert, key, cert, key
	e := mustStart(t, Options{Memory: true, Config: c, NATSListen: "127.0.0.1:0", HTTP: "127.0.0.1:0"})
	there, err := nats.Connect(e.URL(), nats.RootCAs(ca.file))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(there.Close)
	serverName := func(nc *nats.Conn) string {
		t.Helper()
		state, err := nc.TLSConnectionState()
		if err != nil {
			t.Fatal(err)
		}
		return state.PeerCertificates[0].Subject.CommonName
	}
	if got := [2]string{certificateOf(t, e.HTTP()), serverName(there)}; got != [2]string{"before", "before"} {
		t.Fatalf("it shows %q", got)
	}
	exchange(t, cert, cert2)
	if _, err := e.Reload(c); err == nil {
		t.Error("a certificate is taken whose key is another's: the exchange is half done")
	}
	exchange(t, key, key2)
	mustReload(t, e, c)
	later, err := nats.Connect(e.URL(), nats.RootCAs(ca.file))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(later.Close)
	if got := [2]string{certificateOf(t, e.HTTP()), serverName(later)}; got != [2]string{"after", "after"} {
		t.Errorf("it shows %q", got)
	}
	if err := there.FlushTimeout(testTimeout); err != nil || there.Stats().Reconnects != 0 {
		t.Errorf("who was there: %v, %d reconnects", err, there.Stats().Reconnects)
	}
	clear := c
	clear.HTTP.TLSCert, clear.HTTP.TLSKey, clear.NATS.TLSCert, clear.NATS.TLSKey = "", "", "", ""
	if got := mustReload(t, e, clear); len(got) != 2 || got[0] != "http.tls_cert" || got[1] != "nats.tls_cert" {
		t.Errorf("TLS switched off: %q wait", got)
	}
	if got := certificateOf(t, e.HTTP()); got != "after" {
		t.Errorf("then it shows %q", got)
	}
}

// A CA of clients that is exchanged shuts out who has a certificate of the
// earlier one, on connections that are open as well.
func TestExchangedClientCA(t *testing.T) {
	ours, former, next := newAuthority(t, "server"), newAuthority(t, "former"), newAuthority(t, "next")
	hour := time.Now().Add(time.Hour)
	c := config.Default()
	c.HTTP.TLSCert, c.HTTP.TLSKey = ours.issue("engine", hour)
	c.HTTP.ClientCA = writeFile(t, "clients.pem", "")
	exchange(t, c.HTTP.ClientCA, former.file)
	c.HTTP.Clients = []config.HTTPClient{{Name: "reader", Roles: access.InDefault(access.RolesOf(access.Read))}}
	c.NATS.TLSCert, c.NATS.TLSKey, c.NATS.ClientCA = c.HTTP.TLSCert, c.HTTP.TLSKey, c.HTTP.ClientCA
	c.NATS.Users = []config.NATSUser{user("a", access.Read)}
	e := mustStart(t, Options{Memory: true, Config: c, NATSListen: "127.0.0.1:0", HTTP: "127.0.0.1:0"})
	formerCert, formerKey := former.issue("reader", hour)
	nextCert, nextKey := next.issue("reader", hour)
	before, after := ours.browser(formerCert, formerKey, 0), ours.browser(nextCert, nextKey, 0)
	if status, err := getStatus(t, before, e.HTTPURL()+"/metrics"); status != http.StatusOK {
		t.Fatalf("%d, %v", status, err)
	}
	ended := make(chan struct{}, 1)
	connect := func(cert, key string) (*streamwright.Client, error) {
		return streamwright.Connect(testContext(t), e.URL(), streamwright.WithTLS(ours.file, cert, key), streamwright.WithUser("a", testPassword),
			streamwright.WithNATS(nats.DisconnectErrHandler(func(*nats.Conn, error) {
				select {
				case ended <- struct{}{}:
				default:
				}
			})))
	}
	cl, err := connect(formerCert, formerKey)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)

	both, err := os.ReadFile(former.file)
	if err != nil {
		t.Fatal(err)
	}
	rewrite(t, c.HTTP.ClientCA, string(both)+pemOf("CERTIFICATE", next.cert.Raw))
	mustReload(t, e, c)
	for name, b := range map[string]*http.Client{"former": before, "next": after} {
		if status, err := getStatus(t, b, e.HTTPURL()+"/metrics"); status != http.StatusOK {
			t.Errorf("with both, the %s one: %d, %v", name, status, err)
		}
	}
	if err := cl.Conn().FlushTimeout(testTimeout); err != nil || cl.Conn().Stats().Reconnects != 0 {
		t.Errorf("with both, on NATS: %v, %d reconnects", err, cl.Conn().Stats().Reconnects)
	}
	exchange(t, c.HTTP.ClientCA, next.file)
	mustReload(t, e, c)
	// On the connection that it has: 401. On a new one: no handshake.
	if status, err := getStatus(t, before, e.HTTPURL()+"/metrics"); err != nil || status != http.StatusUnauthorized {
		t.Errorf("the former one, on its connection: %d, %v", status, err)
	}
	before.CloseIdleConnections()
	if status, err := getStatus(t, before, e.HTTPURL()+"/metrics"); err == nil {
		t.Errorf("the former one comes back: %d", status)
	}
	if status, err := getStatus(t, after, e.HTTPURL()+"/metrics"); status != http.StatusOK {
		t.Errorf("the next one: %d, %v", status, err)
	}
	select {
	case <-ended:
	case <-time.After(testTimeout):
		t.Fatal("the NATS connection of the former one goes on")
	}
	if again, err := connect(formerCert, formerKey); err == nil {
		again.Close()
		t.Error("the former one comes back on NATS")
	}
	again, err := connect(nextCert, nextKey)
	if err != nil {
		t.Fatalf("the next one on NATS: %v", err)
	}
	again.Close()
}
