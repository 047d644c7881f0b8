// Package logins runs tests a second time, against secured engines: where the
// environment variable [Env] is set, engines started through it have a user for
// each role and TLS on NATS, and the tests connect with these logins. What a
// NATS server refuses anybody fails the test.
package logins

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/connect"
)

// Env is the environment variable that secures the engines of tests; CI sets it
// in a step of its own.
const Env = "STREAMWRIGHT_TEST_SECURED"

// All is a user with all roles. Each role has a user named like it.
const All = "all"

const password = "correct horse battery"

// Logins are the logins of engines. A nil Logins is for open ones.
type Logins struct{ cert, key string }

// New returns logins whose certificate, for this machine and for other addresses, is in a
// folder; nil unless Env is set.
func New(dir string, others ...net.IP) (*Logins, error) {
	if os.Getenv(Env) == "" {
		return nil, nil
	}
	l := &Logins{cert: filepath.Join(dir, "server.pem"), key: filepath.Join(dir, "server.key")}
	return l, l.write(others)
}

// Of returns the logins of one test; nil unless Env is set.
func Of(t testing.TB) *Logins {
	t.Helper()
	l, err := New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Open skips a test that is for open engines alone; why says why.
func Open(t testing.TB, why string) {
	t.Helper()
	if os.Getenv(Env) != "" {
		t.Skip("not on a secured engine: " + why)
	}
}

// write writes a certificate, which is its own CA.
func (l *Logins) write(others []net.IP) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "engine"}, IPAddresses: append(others, net.IPv4(127, 0, 0, 1)), DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	cert, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	for path, block := range map[string]*pem.Block{l.cert: {Type: "CERTIFICATE", Bytes: cert}, l.key: {Type: "EC PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// TOML returns the part of an engine.toml that secures the engine.
func (l *Logins) TOML() string {
	if l == nil {
		return ""
	}
	text := fmt.Sprintf("\n[nats]\ntls_cert = %q\ntls_key = %q\n", l.cert, l.key)
	for user, roles := range l.users() {
		text += fmt.Sprintf("[[nats.users]]\nname = %q\npassword = %q\nroles = [%s]\n", user, password, roles)
	}
	return text
}

// HTTP returns the part of an engine.toml that secures the engine's HTTP server: TLS, and
// the tokens of a file.
func (l *Logins) HTTP(tokens string) string {
	if l == nil {
		return ""
	}
	return fmt.Sprintf("\n[http]\ntls_cert = %q\ntls_key = %q\ntokens_file = %q\n", l.cert, l.key, tokens)
}

// users returns the users with their roles, quoted.
func (l *Logins) users() map[string]string {
	users, all := map[string]string{}, []string{}
	for _, r := range []access.Role{access.Submit, access.Work, access.Read, access.Operate, access.Approve} {
		users[r.String()] = fmt.Sprintf("%q", r)
		all = append(all, users[r.String()])
	}
	users[All] = strings.Join(all, ", ")
	return users
}

// Secure gives a configuration the users and TLS, unless it has users of its own.
func (l *Logins) Secure(t testing.TB, c *config.Config) {
	t.Helper()
	if l == nil || len(c.NATS.Users) > 0 {
		return
	}
	secured, err := config.Parse("engine.toml", []byte(l.TOML()))
	if err != nil {
		t.Fatal(err)
	}
	c.NATS = secured.NATS
}

// Settings returns how a user connects.
func (l *Logins) Settings(user string) connect.Settings {
	if l == nil {
		return connect.Settings{}
	}
	return connect.Settings{User: user, Password: password, CA: l.cert}
}

// Options returns the options of a user's connection.
func (l *Logins) Options(t testing.TB, user string) []nats.Option {
	t.Helper()
	opts, err := l.Settings(user).Options()
	if err != nil {
		t.Fatal(err)
	}
	return opts
}

// Environ returns the environment of a program that connects as a user.
func (l *Logins) Environ(user string) []string {
	if l == nil {
		return nil
	}
	return []string{connect.Env.User + "=" + user, connect.Env.Password + "=" + password, connect.Env.CA + "=" + l.cert}
}

// Scheme returns the beginning of the NATS server's URL.
func (l *Logins) Scheme() string {
	if l == nil {
		return "nats://"
	}
	return "tls://"
}

// violation matches what NATS servers and clients log of what is refused.
var violation = regexp.MustCompile(`(?i).*\bviolation\b.*`)

// Check fails the test if a log tells that a NATS server has refused somebody something.
func (l *Logins) Check(t testing.TB, log string) {
	t.Helper()
	if l == nil {
		return
	}
	if said := violation.FindString(log); said != "" {
		t.Errorf("the NATS server refuses what is needed: %s", said)
	}
}

// Watch returns a logger that passes everything on to next, and fails the test as Check
// does.
func (l *Logins) Watch(t testing.TB, next *slog.Logger) *slog.Logger {
	if l == nil {
		return next
	}
	return slog.New(&watch{Handler: next.Handler(), l: l, t: t})
}

type watch struct {
	slog.Handler
	l *Logins
	t testing.TB
}

func (w *watch) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn || w.Handler.Enabled(ctx, level)
}

func (w *watch) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		var line bytes.Buffer
		_ = slog.NewTextHandler(&line, nil).Handle(ctx, r) // a buffer takes everything
		w.l.Check(w.t, line.String())
	}
	if !w.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return w.Handler.Handle(ctx, r)
}

func (w *watch) WithAttrs(a []slog.Attr) slog.Handler {
	return &watch{w.Handler.WithAttrs(a), w.l, w.t}
}
func (w *watch) WithGroup(name string) slog.Handler {
	return &watch{w.Handler.WithGroup(name), w.l, w.t}
}
