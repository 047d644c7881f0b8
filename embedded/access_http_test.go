package embedded

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/api/rest"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/events"
)

// tokens has one of each role, named like it.
func tokens() (text string, of map[access.Role]string) {
	of = map[access.Role]string{}
	for _, r := range []access.Role{access.Submit, access.Work, access.Read, access.Operate, access.Approve} {
		of[r] = "0123456789-abcdef-" + r.String()
		text += r.String() + " " + of[r] + " */" + r.String() + "\n"
	}
	return text, of
}

// ask makes a request and returns its status, once that has come, and problem.
func ask(t *testing.T, c *http.Client, method, url, token string) (int, rest.Problem) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := c.Do(r)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	defer resp.Body.Close()
	var p rest.Problem
	if strings.Contains(resp.Header.Get("Content-Type"), "problem") {
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(body, &p); err != nil {
			t.Fatalf("%s %s: %s: %v", method, url, body, err)
		}
		if resp.StatusCode == http.StatusUnauthorized && resp.Header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s %s: 401 without WWW-Authenticate", method, url)
		}
	}
	return resp.StatusCode, p
}

// route is an operation of the API, or a handler beside it.
type route struct {
	method, path string
	needs        access.Roles
}

// routes are all that the API has, with something in place of each parameter.
func routes(e *Engine) []route {
	list := []route{{"GET", "/metrics", access.RolesOf(access.Read)}}
	for path, item := range e.faces.http.API().OpenAPI().Paths {
		for _, op := range []*huma.Operation{item.Get, item.Put, item.Post, item.Delete, item.Patch} {
			if op == nil {
				continue
			}
			needs, ok := op.Metadata["needs"].(access.Roles)
			if !ok {
				needs = access.RolesOf(access.Operate)
			}
			path := strings.NewReplacer("{id}", events.ID{1}.String(), "{seq}", "1", "{type}", "email", "{name}", "nightly").Replace(path)
			list = append(list, route{op.Method, path, needs})
		}
	}
	return list
}

// Each route lets in who has a role that it needs, and nobody else.
func TestEachRouteHasItsRoles(t *testing.T) {
	text, of := tokens()
	e := mustStart(t, Options{Memory: true, NATSListen: config.Off, HTTP: "127.0.0.1:0", HTTPTokens: text})
	c := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(c.CloseIdleConnections)
	all := routes(e)
	if len(all) < 2 {
		t.Fatalf("the API has %d routes", len(all))
	}
	for _, r := range all {
		url := e.HTTPURL() + r.path
		if r.needs == 0 { // for everyone
			if status, p := ask(t, c, r.method, url, ""); status == http.StatusUnauthorized || status == http.StatusForbidden {
				t.Errorf("%s %s without a token: %d %+v", r.method, r.path, status, p)
			}
			continue
		}
		for name, token := range map[string]string{"no token": "", "a wrong token": of[access.Read] + "x"} {
			if status, p := ask(t, c, r.method, url, token); status != http.StatusUnauthorized || p.Code != events.CodeUnauthenticated {
				t.Errorf("%s %s with %s: %d %+v", r.method, r.path, name, status, p)
			}
		}
		for role, token := range of {
			status, p := ask(t, c, r.method, url, token)
			refused := status == http.StatusUnauthorized || status == http.StatusForbidden
			switch {
			case !r.needs.Has(access.RolesOf(role)) && (status != http.StatusForbidden || p.Code != events.CodeForbidden):
				t.Errorf("%s %s as %s: %d %+v, and it needs %s", r.method, r.path, role, status, p, r.needs)
			case r.needs.Has(access.RolesOf(role)) && refused:
				t.Errorf("%s %s as %s is refused: %+v", r.method, r.path, role, p)
			}
		}
	}
	if status, _ := ask(t, c, "GET", e.HTTPURL()+"/healthz", ""); status != http.StatusOK {
		t.Errorf("health without a token: %d", status)
	}
}

// What a role may do on HTTP, spelled out.
func TestRolesOnHTTP(t *testing.T) {
	text, of := tokens()
	e := mustStart(t, Options{Memory: true, NATSListen: config.Off, HTTP: "127.0.0.1:0", HTTPTokens: text})
	c := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(c.CloseIdleConnections)
	unknown := "/api/v1/work/" + events.ID{1}.String()
	for _, tc := range []struct {
		role   access.Role
		path   string
		status int
	}{
		{access.Read, unknown, 404}, {access.Submit, unknown, 403}, {access.Work, unknown, 403}, {access.Operate, unknown, 403},
		{access.Read, "/metrics", 200}, {access.Submit, "/metrics", 403}, {access.Work, "/metrics", 403}, {access.Operate, "/metrics", 403},
	} {
		if status, p := ask(t, c, "GET", e.HTTPURL()+tc.path, of[tc.role]); status != tc.status {
			t.Errorf("%s as %s: %d %+v, want %d", tc.path, tc.role, status, p, tc.status)
		}
	}
}

// Open to this machine, and to no other's web page.
func TestOpenHTTP(t *testing.T) {
	e := mustStart(t, Options{Memory: true, NATSListen: config.Off, HTTP: "127.0.0.1:0"})
	e.faces.http.Mount("/any", access.RolesOf(access.Operate), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	c := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(c.CloseIdleConnections)
	if status, p := ask(t, c, "GET", e.HTTPURL()+"/metrics", ""); status != http.StatusOK {
		t.Errorf("without a token: %d %+v", status, p)
	}
	for name, change := range map[string]func(*http.Request){
		"another name":   func(r *http.Request) { r.Host = "evil.example" },
		"another origin": func(r *http.Request) { r.Method = http.MethodPost; r.Header.Set("Origin", "http://evil.example") },
	} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", e.HTTPURL()+"/any", nil)
		if err != nil {
			t.Fatal(err)
		}
		change(r)
		resp, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %d", name, resp.StatusCode)
		}
	}
}

// An engine that others than this machine reach does not start open.
func TestRefusesToStartOpen(t *testing.T) {
	start := func(o Options, change func(*config.Config)) error {
		o.Memory, o.Config = true, config.Default()
		change(&o.Config)
		e, err := Start(testContext(t), o)
		if err == nil {
			stopEngine(t, e)
		}
		return err
	}
	text, _ := tokens()
	nothing := func(*config.Config) {}
	user := config.NATSUser{Name: "a", Password: testPassword, Roles: access.InDefault(access.All)}
	for want, o := range map[string]Options{
		"serve HTTP on 0.0.0.0:0: everyone who reaches it could do everything: give tokens": {HTTP: "0.0.0.0:0", NATSListen: config.Off},
		"serve NATS on :0: everyone who reaches it could do everything: give users":         {HTTP: config.Off, NATSListen: ":0"},
		// Tokens are for HTTP, users for NATS.
		"serve NATS on [::]:0": {HTTP: "127.0.0.1:0", NATSListen: "[::]:0", HTTPTokens: text},
	} {
		if err := start(o, nothing); err == nil || !strings.Contains(err.Error(), want) || events.CodeOf(err) != events.CodeBadConfig {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	both := Options{HTTP: "0.0.0.0:0", NATSListen: "0.0.0.0:0"}
	if err := start(both, func(c *config.Config) { c.HTTP.AllowOpen, c.NATS.AllowOpen = true, true }); err != nil {
		t.Errorf("allowed to: %v", err)
	}
	both.HTTPTokens = text
	if err := start(both, func(c *config.Config) { c.NATS.Users = []config.NATSUser{user} }); err != nil {
		t.Errorf("with tokens and users: %v", err)
	}
	for want, change := range map[string]func(*config.Config){
		"no such file": func(c *config.Config) { c.HTTP.TokensFile = "absent" },
		"read the certificate absent": func(c *config.Config) {
			c.NATS.TLSCert, c.NATS.TLSKey = "absent", "absent"
		},
		"read the password of the NATS user a": func(c *config.Config) {
			c.NATS.Users = []config.NATSUser{{Name: "a", PasswordFile: "absent", Roles: access.InDefault(access.All)}}
		},
		"has a weak password": func(c *config.Config) {
			c.NATS.Users = []config.NATSUser{{Name: "a", PasswordFile: writeFile(t, "p", "short\n"), Roles: access.InDefault(access.All)}}
		},
	} {
		if err := start(Options{HTTP: "127.0.0.1:0", NATSListen: "127.0.0.1:0"}, change); err == nil || !strings.Contains(err.Error(), want) || events.CodeOf(err) != events.CodeBadConfig {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
