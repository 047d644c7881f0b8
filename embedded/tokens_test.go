package embedded

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/workers"
)

// A handler gives a token away, somebody who has no login presents it, and the item goes on: in
// each namespace, and only there. Nothing tells such a caller which namespaces there are.
func TestTokensNeedNoLogin(t *testing.T) {
	slow(t)
	need.NoReload(t)
	t.Parallel()
	const reader = "ops-0123456789abcdefg"
	c := config.Default()
	c.NATS.Users = []config.NATSUser{userIn(t, "acme", "acme/submit", "acme/work", "acme/read"), userIn(t, "ops", "*/operate", "*/submit", "*/work", "*/read")}
	e := mustStart(t, Options{Config: c, Dir: t.TempDir(), NATSListen: "127.0.0.1:0", HTTP: "127.0.0.1:0", HTTPTokens: "ops " + reader + " */read"})
	ctx := testContext(t)
	client := func(user, namespace string) *streamwright.Client {
		t.Helper()
		c, err := streamwright.New(dial(t, e.srv, user), streamwright.WithNamespace(namespace), streamwright.WithDomain(e.names().ImportDomain()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	ops := client("ops", "default")
	if _, err := ops.Namespaces().Set(ctx, "acme", streamwright.NamespaceChange{}); err != nil {
		t.Fatal(err)
	}
	awaitNamespace(t, e, "acme")
	send := func(method, path, body, login string) (int, string) {
		t.Helper()
		return overHTTP(t, ctx, method, e.HTTPURL()+path, body, login)
	}
	post := func(path, body string) (int, string) { return send(http.MethodPost, path, body, "") }
	for _, of := range []struct {
		c      *streamwright.Client
		prefix string
	}{{ops, ""}, {client("acme", "acme"), "/ns/acme"}} {
		given := make(chan string, 1)
		w, err := workers.New(of.c.Conn(), workers.Config{Names: of.c.Names()})
		if err != nil {
			t.Fatal(err)
		}
		if err := workers.HandleRaw(w, "order", func(ctx context.Context, it *workers.RawItem) (any, error) {
			if it.Waited == nil {
				token, err := workers.Token(ctx, "paid")
				if err != nil {
					return nil, err
				}
				given <- token
				return nil, workers.Wait("paid").For(testTimeout)
			}
			sum, _, err := workers.SignalOf[int](it, "paid")
			if declined := (*workers.SignalError)(nil); errors.As(err, &declined) {
				return "declined: " + declined.Message, nil
			}
			return sum, err
		}); err != nil {
			t.Fatal(err)
		}
		if err := w.Start(ctx); err != nil {
			t.Fatal(err)
		}
		defer w.Stop(ctx)
		for body, want := range map[string]string{`{"result":5}`: "5", `{"error":{"code":"declined","message":"no money"}}`: `"declined: no money"`} {
			it, err := of.c.Submit(ctx, streamwright.Item{Type: "order"})
			if err != nil {
				t.Fatal(err)
			}
			token := <-given
			at := of.prefix + "/api/v1/tokens/" + token
			var first string
			for i := range 2 {
				status, text := post(at, body)
				if i == 0 {
					first = text
				}
				if status != http.StatusOK || text != first || !strings.Contains(text, it.ID) {
					t.Errorf("%s: %d %s", body, status, text)
				}
			}
			if status, text := post(at, `{"result":6}`); status != http.StatusConflict || !strings.Contains(text, string(events.CodeAlreadyCompleted)) {
				t.Errorf("another answer: %d %s", status, text)
			}
			ended, err := of.c.Wait(ctx, it.ID)
			if err != nil || string(ended.Result) != want {
				t.Errorf("%s: %s, %v", body, ended.Result, err)
			}
			if status, text := post(at, body); status != http.StatusOK || text != first {
				t.Errorf("again after the end: %d %s", status, text)
			}
			other := "/ns/acme"
			if of.prefix != "" {
				other = ""
			}
			status, elsewhere := post(other+"/api/v1/tokens/"+token, body)
			nowhere, unknown := post("/ns/nobody/api/v1/tokens/"+token, body)
			if status != http.StatusNotFound || nowhere != status || unknown != elsewhere {
				t.Errorf("in another namespace: %d %s; in one that is not there: %d %s", status, elsewhere, nowhere, unknown)
			}
			if status, text := send(http.MethodGet, of.prefix+"/api/v1/work/"+it.ID+"/history", "", reader); status != http.StatusOK || !strings.Contains(text, `"token_given"`) || strings.Contains(text, token[len(it.ID)+1:]) {
				t.Errorf("the history lacks the token's event, or has its secret: %d %s", status, text)
			}
		}
	}
	for _, c := range [][2]string{{http.MethodGet, ""}, {http.MethodPost, "{x"}, {http.MethodPost, `{"x":1}`}, {http.MethodPost, `{"result":"` + strings.Repeat("x", 300<<10) + `"}`}} {
		for _, path := range []string{"/api/v1/tokens/x", "/api/v1/tokens/x?y=1", "/api/v1/tokens/", "/api/v1/tokens/a/b"} {
			there, one := send(c[0], "/ns/acme"+path, c[1], "")
			not, other := send(c[0], "/ns/nobody"+path, c[1], "")
			if there != not || one != other {
				t.Errorf("%s %s %.20s: %d %s, and in a namespace that is not there %d %s", c[0], path, c[1], there, one, not, other)
			}
		}
	}
	if status, text := post("/api/v1/work", `{"type":"order"}`); status != http.StatusUnauthorized {
		t.Errorf("without a login: %d %s", status, text)
	}
}

// overHTTP makes a request, with a token for its login if there is one, and returns its status and
// body.
func overHTTP(t *testing.T, ctx context.Context, method, url, body, login string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if login != "" {
		req.Header.Set("Authorization", "Bearer "+login)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}
