package httpauth

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/events"
)

const (
	tokenA = "tokenA-0123456789-abcdef"
	tokenB = "tokenB-9876543210-fedcba"
)

func hashedForm(token string) string {
	sum := sha256.Sum256([]byte(token))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func TestParseTokens(t *testing.T) {
	list, err := ParseTokens("tokens", []byte("# who\n\nalice "+tokenA+" submit,read # hers\n  bob\t"+hashedForm(tokenB)+" operate\r\n"))
	if err != nil || len(list) != 2 {
		t.Fatalf("got %+v, %v", list, err)
	}
	for token, want := range map[string]access.Identity{
		tokenA: identity("alice", access.InDefault(access.RolesOf(access.Submit, access.Read))),
		tokenB: identity("bob", access.InDefault(access.RolesOf(access.Operate))),
	} {
		if got, ok := list.find(token); !ok || got != want {
			t.Errorf("got %+v, %v, want %+v", got, ok, want)
		}
	}
	// What is near is as wrong as what is not; nor is the hash a token.
	for _, wrong := range []string{"", tokenA[:len(tokenA)-1], tokenA + "x", "b" + tokenA[1:], strings.ToUpper(tokenA), hashedForm(tokenB), hashedForm(tokenB)[7:]} {
		if got, ok := list.find(wrong); ok {
			t.Errorf("%q is %+v", wrong, got)
		}
	}
}

func TestParseTokensRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"two words":       {"alice " + tokenA, "f:1: there are 2 words: write it as: name token role"},
		"four words":      {"alice " + tokenA + " read more", "there are 4 words"},
		"name":            {"a.b " + tokenA + " read", `f:1: "a.b" is no name`},
		"role":            {"\nalice " + tokenA + " read,root", `f:2: unknown role "root"`},
		"no role":         {"alice " + tokenA + " ,", "unknown role"},
		"short":           {"alice abcdefghijklmnopqrs read", "f:1: the token is weak"},
		"long":            {"alice " + strings.Repeat("abcdefgh", 65) + " read", "or too long"},
		"monotonous":      {"alice ababababababababababab read", "the token is weak"},
		"beyond ASCII":    {"alice é" + tokenA + " read", "beyond ASCII"},
		"short hash":      {"alice sha256:abcd read", "64 hexadecimal digits"},
		"no hash":         {"alice sha256:" + strings.Repeat("g", 64) + " read", "64 hexadecimal digits"},
		"same name":       {"alice " + tokenA + " read\nalice " + tokenB + " read", "f:2: the name alice is that of line 1"},
		"same token":      {"alice " + tokenA + " read\nbob " + tokenA + " read", "f:2: the token is that of line 1 (alice)"},
		"same as hash":    {"alice " + tokenA + " read\nbob " + hashedForm(tokenA) + " read", "f:2: the token is that of line 1 (alice)"},
		"too many":        {manyTokens(MaxTokens + 1), "f: there are more than 1000 tokens"},
		"several at once": {"a.b " + tokenA + " read\nbob " + tokenB + " root", "f:2: "},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseTokens("f", []byte(tc.text))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), tokenA) {
				t.Errorf("the error tells a token: %v", err)
			}
		})
	}
}

func manyTokens(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "u%d %s%d read\n", i, tokenA, i)
	}
	return b.String()
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, c Config) *Authenticator {
	t.Helper()
	a, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func request(method, target string, header ...string) *http.Request {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

func wantCode(t *testing.T, err error, code events.Code) {
	t.Helper()
	if got := events.CodeOf(err); err == nil || got != code {
		t.Errorf("got %v (%s), want %s", err, got, code)
	}
}

func TestBearer(t *testing.T) {
	a := must(t, Config{Tokens: "alice " + tokenA + " submit; bob " + tokenB + " read"})
	for header, name := range map[string]string{"Bearer " + tokenA: "alice", "bearer  " + tokenA: "alice", "Bearer " + tokenB: "bob"} {
		if id, err := a.Authenticate(request("GET", "http://engine.example/x", "Authorization", header)); err != nil || id.Name != name {
			t.Errorf("%s: %+v, %v", header, id, err)
		}
	}
	for _, header := range []string{"Bearer", "Bearer " + tokenA + "x", "Basic " + tokenA, tokenA, "Bearer " + tokenA + " " + tokenB} {
		_, err := a.Authenticate(request("GET", "http://localhost/", "Authorization", header))
		wantCode(t, err, events.CodeUnauthenticated)
		if err != nil && strings.Contains(err.Error(), tokenA) {
			t.Errorf("the error tells a token: %v", err)
		}
	}
	_, err := a.Authenticate(request("GET", "http://localhost/"))
	wantCode(t, err, events.CodeUnauthenticated)
}

// What is known stays in force until something good replaces it, and who
// watches is told then.
func TestReload(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	write(t, path, "alice "+tokenA+" read\n", 0o600)
	var log strings.Builder
	cfg := Config{TokensFile: path, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	a := must(t, cfg)
	known := func(token string) bool {
		_, err := a.Authenticate(request("GET", "http://localhost/", "Authorization", "Bearer "+token))
		return err == nil
	}
	if log.Len() > 0 || !known(tokenA) {
		t.Fatalf("log %q", log.String())
	}
	write(t, path, "bob "+tokenB+" read\n", 0o644)
	changed := a.Changed()
	next, err := a.Prepare(cfg)
	if err != nil || next.Tokens() != 1 || !known(tokenA) || known(tokenB) || changed.Err() != nil {
		t.Fatalf("what is prepared is in force already, or: %v", err)
	}
	next.Apply()
	if known(tokenA) || !known(tokenB) || changed.Err() == nil || a.Changed().Err() != nil {
		t.Errorf("what is applied is not in force")
	}
	if !strings.Contains(log.String(), "everyone on this machine may read the tokens") {
		t.Errorf("log %q", log.String())
	}
	for _, bad := range []string{"bob short read\n", "# none\n"} {
		write(t, path, bad, 0o600)
		if _, err := a.Prepare(cfg); err == nil || !known(tokenB) || a.Open() {
			t.Errorf("after %q: %v", bad, err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Prepare(cfg); !errors.Is(err, os.ErrNotExist) || !known(tokenB) {
		t.Errorf("after its removal: %v", err)
	}
	if _, err := a.Prepare(Config{}); err == nil || !strings.Contains(err.Error(), "everyone could do everything") {
		t.Errorf("a reload opens the engine: %v", err)
	}
}

func TestNewRefuses(t *testing.T) {
	dir := t.TempDir()
	empty, one, big := filepath.Join(dir, "empty"), filepath.Join(dir, "one"), filepath.Join(dir, "big")
	write(t, empty, "# nothing\n", 0o600)
	write(t, one, "alice "+tokenA+" read\n", 0o600)
	write(t, big, strings.Repeat("# x\n", MaxTokensBytes/4+1), 0o600)
	for want, c := range map[string]Config{
		"has no token":             {TokensFile: empty},
		"no such file":             {TokensFile: filepath.Join(dir, "absent")},
		"at most 1048576 are read": {TokensFile: big},
		"WORK_TOKENS:2":            {Tokens: "a " + tokenA + " read;b x read"},
		"one:1: the name alice is that of line 1 as w": {TokensFile: one, Tokens: "alice " + tokenB + " read"},
	} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// An engine that is open answers nobody's web page but its own.
func TestOpenIsForThisMachine(t *testing.T) {
	a := must(t, Config{Hosts: []string{"engine.internal"}})
	for _, host := range []string{"localhost", "LOCALHOST:8484", "localhost.:8484", "127.0.0.1:8484", "[::1]:8484", "10.1.2.3", "engine.internal:80"} {
		r := request("POST", "http://x/api/v1/work")
		r.Host = host
		if id, err := a.Authenticate(r); err != nil || id != access.Anyone {
			t.Errorf("%s: %+v, %v", host, id, err)
		}
	}
	for _, host := range []string{"evil.example:8484", "localhost.evil.example", "127.0.0.1.evil.example", "", "engine.internal.evil.example"} {
		r := request("GET", "http://x/api/v1/work")
		r.Host = host
		_, err := a.Authenticate(r)
		wantCode(t, err, events.CodeForbidden)
	}
	_, err := a.Authenticate(request("POST", "http://localhost:8484/api/v1/work", "Origin", "http://evil.example"))
	wantCode(t, err, events.CodeForbidden)
	_, err = a.Authenticate(request("DELETE", "http://localhost:8484/api/v1/work/x", "Sec-Fetch-Site", "cross-site"))
	wantCode(t, err, events.CodeForbidden)
	for _, own := range [][]string{{"Origin", "http://localhost:8484"}, {"Sec-Fetch-Site", "same-origin"}} {
		if _, err := a.Authenticate(request("POST", "http://localhost:8484/api/v1/work", own...)); err != nil {
			t.Errorf("%v: %v", own, err)
		}
	}
}

func TestCheckListen(t *testing.T) {
	open, closed := must(t, Config{}), must(t, Config{Tokens: "a " + tokenA + " read"})
	for _, addr := range []string{"127.0.0.1:0", "localhost:1", "[::1]:1"} {
		if err := open.CheckListen(addr); err != nil {
			t.Errorf("%s: %v", addr, err)
		}
	}
	for _, addr := range []string{":8484", "0.0.0.0:8484", "[::]:8484", "192.168.1.1:1", "engine.example:1"} {
		if err := open.CheckListen(addr); !errors.Is(err, ErrOpen) || !strings.Contains(err.Error(), "tokens_file") {
			t.Errorf("%s: %v", addr, err)
		}
		if err := closed.CheckListen(addr); err != nil {
			t.Errorf("%s with a token: %v", addr, err)
		}
	}
}

// A certificate counts once it is verified; a token that is sent goes first.
func TestCertificates(t *testing.T) {
	spiffe, _ := url.Parse("spiffe://example.org/feeder")
	clients := []Client{{Name: "feeder", Roles: access.InDefault(access.RolesOf(access.Submit))}, {Name: "ops.example.org", Roles: access.InDefault(access.RolesOf(access.Operate))}, {Name: spiffe.String(), Roles: access.InDefault(access.RolesOf(access.Read))}}
	a := must(t, Config{Clients: clients, Tokens: "alice " + tokenA + " work"})
	with := func(cert *x509.Certificate, verified bool, header ...string) (access.Identity, error) {
		r := request("GET", "https://engine.example/", header...)
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}}
		if verified {
			r.TLS.VerifiedChains = [][]*x509.Certificate{{cert}}
		}
		return a.Authenticate(r)
	}
	feeder := &x509.Certificate{Subject: pkix.Name{CommonName: "feeder"}}
	for _, tc := range []struct {
		cert *x509.Certificate
		want string
	}{
		{feeder, "feeder"},
		{&x509.Certificate{DNSNames: []string{"a", "ops.example.org"}}, "ops.example.org"},
		{&x509.Certificate{URIs: []*url.URL{spiffe}}, spiffe.String()},
	} {
		if id, err := with(tc.cert, true); err != nil || id.Name != tc.want {
			t.Errorf("%s: %+v, %v", tc.want, id, err)
		}
	}
	_, err := with(feeder, false)
	wantCode(t, err, events.CodeUnauthenticated)
	_, err = with(&x509.Certificate{Subject: pkix.Name{CommonName: "stranger"}}, true)
	wantCode(t, err, events.CodeUnauthenticated)
	if id, err := with(feeder, true, "Authorization", "Bearer "+tokenA); err != nil || id.Name != "alice" {
		t.Errorf("with a token: %+v, %v", id, err)
	}
	_, err = with(feeder, true, "Authorization", "Bearer wrong")
	wantCode(t, err, events.CodeUnauthenticated)
}

// A request to a namespace has the roles there. Where its maker has none, the namespace
// might as well not exist.
func TestNamespaces(t *testing.T) {
	tokenC := "tokenC-5550123456-abcdef"
	a := must(t, Config{Tokens: "alice " + tokenA + " acme/submit,acme/read; bob " + tokenB + " operate; all " + tokenC + " */read"})
	for _, tc := range []struct {
		token string
		ns    events.Namespace
		roles access.Roles
		code  events.Code
	}{
		{tokenA, "acme", access.RolesOf(access.Submit, access.Read), ""},
		{tokenA, "beta", 0, events.CodeNotFound},
		{tokenA, events.DefaultNamespace, 0, ""},
		{tokenB, "acme", 0, events.CodeNotFound},
		{tokenB, events.DefaultNamespace, access.RolesOf(access.Operate), ""},
		{tokenC, "acme", access.RolesOf(access.Read), ""},
		{tokenC, events.DefaultNamespace, access.RolesOf(access.Read), ""},
		{"unknown", "acme", 0, events.CodeUnauthenticated},
		{"unknown", events.DefaultNamespace, 0, events.CodeUnauthenticated},
	} {
		r := request("GET", "http://localhost/ns/acme/api/v1/work", "Authorization", "Bearer "+tc.token)
		id, err := a.In(tc.ns).Authenticate(r)
		if id.Roles != tc.roles || (err == nil) != (tc.code == "") {
			t.Errorf("%s in %s: %+v, %v", tc.token, tc.ns, id, err)
		}
		if tc.code == "" {
			continue
		}
		wantCode(t, err, tc.code)
		if missing := a.Missing(r, string(tc.ns)); missing.Error() != err.Error() && tc.ns != events.DefaultNamespace {
			t.Errorf("%s in %s is told %v, of one that does not exist %v", tc.token, tc.ns, err, missing)
		}
	}
	open := must(t, Config{})
	if id, err := open.In("acme").Authenticate(request("GET", "http://localhost/")); err != nil || id != access.Anyone {
		t.Errorf("an open engine: %+v, %v", id, err)
	}
	wantCode(t, open.Missing(request("GET", "http://localhost/"), "beta"), events.CodeNotFound)
	wantCode(t, open.Missing(request("GET", "http://evil.example/"), "beta"), events.CodeForbidden)
}
