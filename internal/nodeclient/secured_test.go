package nodeclient

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/internal/need"
)

// secured is what a user of a secured NATS server is given.
type secured struct{ url, ca, creds string }

// script connects with TLS and credentials, and does an item.
const script = `
import { connect, Worker } from "streamwright";
const [servers, caFile, credsFile] = process.argv.slice(2);
const refused = async (options) => connect({ servers, timeout: 3000, ...options }).then(() => "connected", (err) => err.code);
console.log("no CA:", await refused({ credsFile }));
console.log("no credentials:", await refused({ tls: { caFile } }));
const client = await connect({ servers, credsFile, tls: { caFile } });
const worker = new Worker(client, { types: { email: (item) => item.params.n + 1 } });
await worker.start();
const { id } = await client.submit({ type: "email", params: { n: 1 } });
console.log("result:", (await client.wait(id)).result);
await worker.stop();
await client.close();
`

// TLS and credentials files reach the NATS client: an engine and a Node program
// meet on a server that lets in nobody without.
func TestNodeOverSecuredNATS(t *testing.T) {
	need.Seconds(t)
	node := built(t)
	s := securedServer(t)
	e, err := embedded.Start(t.Context(), embedded.Options{
		Dir: t.TempDir(), NATSURL: s.url, HTTP: config.Off, NATSOptions: []nats.Option{nats.RootCAs(s.ca), nats.UserCredentials(s.creds)},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Stop(context.Background()) }()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, node, "--input-type=module", "-", s.url, s.ca, s.creds)
	cmd.Dir, cmd.Stdin = folder, strings.NewReader(script)
	out, err := cmd.CombinedOutput()
	const want = "no CA: unavailable\nno credentials: unauthenticated\nresult: 2\n"
	if err != nil || string(out) != want {
		t.Errorf("the program said (%v):\n%s\nwant:\n%s", err, out, want)
	}
}

// securedServer is a NATS server with TLS whose users have JWTs.
func securedServer(t *testing.T) secured {
	t.Helper()
	dir := t.TempDir()
	ca, cert := certificate(t)
	s := secured{ca: write(t, dir, "ca.pem", ca)}
	operatorKey, _ := nkeys.CreateOperator()
	accountKey, _ := nkeys.CreateAccount()
	systemKey, _ := nkeys.CreateAccount()
	operator := jwt.NewOperatorClaims(public(t, operatorKey))
	operator.SystemAccount = public(t, systemKey)
	resolver := &natsserver.MemAccResolver{}
	for _, key := range []nkeys.KeyPair{accountKey, systemKey} {
		account := jwt.NewAccountClaims(public(t, key))
		if key == accountKey {
			account.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: -1, DiskStorage: -1, Streams: -1, Consumer: -1}
		}
		token, err := account.Encode(operatorKey)
		if err != nil {
			t.Fatal(err)
		}
		if err := resolver.Store(public(t, key), token); err != nil {
			t.Fatal(err)
		}
	}
	s.creds = write(t, dir, "user.creds", credentials(t, accountKey))
	token, err := operator.Encode(operatorKey)
	if err != nil {
		t.Fatal(err)
	}
	claims, err := jwt.DecodeOperatorClaims(token)
	if err != nil {
		t.Fatal(err)
	}
	srv, err := natsserver.NewServer(&natsserver.Options{
		Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: filepath.Join(dir, "js"), NoSigs: true, MaxPayload: 8 << 20,
		TLS: true, TLSTimeout: 5, TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12},
		TrustedOperators: []*jwt.OperatorClaims{claims}, AccountResolver: resolver, SystemAccount: public(t, systemKey),
	})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(time.Minute) {
		t.Fatal("the NATS server does not get ready")
	}
	s.url = srv.ClientURL()
	return s
}

func public(t *testing.T, key nkeys.KeyPair) string {
	t.Helper()
	p, err := key.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// credentials is a credentials file of a new user of an account.
func credentials(t *testing.T, account nkeys.KeyPair) []byte {
	t.Helper()
	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.NewUserClaims(public(t, user)).Encode(account)
	if err != nil {
		t.Fatal(err)
	}
	seed, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	file, err := jwt.FormatUserConfig(token, seed)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// certificate is one for 127.0.0.1, signed by itself, which is its own
// authority. The Node packages of NATS take a server given by its address for
// localhost.
func certificate(t *testing.T) (ca []byte, cert tls.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "127.0.0.1"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func write(t *testing.T, dir, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
