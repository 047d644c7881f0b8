package secured

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
)

// eventually waits until something is so, which only asking tells.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for late := time.Now().Add(patience); !so(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("it does not become true that %s", what)
		}
	}
}

// What is refused says what, at once and with a code.
func TestRefusals(t *testing.T) {
	url, file := passwords(t)
	as := func(user string) login {
		return login{[]string{"--server", url, "--user", user, "--password-file", file}, nil}
	}
	server := login{[]string{"--user", "engine", "--password-file", file}, nil}.begin(t, "engine", "serve", "--nats-url", url, "--http", "off", "--dir", t.TempDir())
	server.says("engine ready")

	// How long this machine takes for a program that does what it is told.
	began := time.Now()
	as("read").run(t, "list").wants(t, 0)
	tooLong := 8*time.Second + 10*time.Since(began)

	wrong := write(t, filepath.Join(t.TempDir(), "wrong"), "wrong password")
	for _, c := range []struct {
		what string
		l    login
		args []string
		code int
		says []string
	}{
		{"no login", login{[]string{"--server", url}, nil}, []string{"list"}, 1, []string{"refused the login", "unauthenticated"}},
		{"a wrong password", login{[]string{"--server", url, "--user", "read", "--password-file", wrong}, nil}, []string{"list"}, 1, []string{"refused the login", "unauthenticated"}},
		{"no password", login{[]string{"--server", url, "--user", "read"}, nil}, []string{"list"}, 2, []string{"has no password", "NATS_PASSWORD"}},
		{"no such file", login{[]string{"--server", url, "--creds", "/nonexistent"}, nil}, []string{"list"}, 1, []string{"/nonexistent", "bad_config"}},
		{"two logins", login{[]string{"--server", url, "--creds", "a", "--nkey", "b"}, nil}, []string{"list"}, 2, []string{"creds and nkey", "give one"}},
		{"a URL with a login and another", login{[]string{"--server", "nats://a:b@127.0.0.1", "--nkey", "b"}, nil}, []string{"list"}, 2, []string{"the server's URL", "give one"}},
		{"an engine without login", login{}, []string{"serve", "--nats-url", url, "--http", "off", "--dir", t.TempDir()}, 1, []string{"refused the login", "unauthenticated"}},
		{"flags for an embedded server", login{[]string{"--creds", "x"}, nil}, []string{"serve", "--http", "off", "--dir", t.TempDir()}, 2, []string{"--nats-url"}},
		{"an engine that may not", login{[]string{"--user", "operate", "--password-file", file}, nil}, []string{"serve", "--nats-url", url, "--http", "off", "--dir", t.TempDir()}, 1, []string{"$JS.API.INFO", "engine permissions", "forbidden"}},
		{"a submitter that reads", as("submit"), []string{"list"}, 1, []string{"work.api.list", "publish", "forbidden"}},
		{"a reader that submits", as("read"), []string{"submit", "email", "{}"}, 1, []string{"work.api.submit", "forbidden"}},
		{"a reader that submits many", as("read"), []string{"submit", "email", "--lines", write(t, filepath.Join(t.TempDir(), "lines"), "{}\n")}, 1, []string{"work.api.submit", "forbidden"}},
		{"an operator that tails", as("operate"), []string{"tail"}, 1, []string{"work.api.events", "forbidden"}},
		{"another's inbox", as("read").with("--inbox-prefix", "_INBOX_other"), []string{"list"}, 1, []string{"_INBOX_other", "subscribe", "forbidden"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			start := time.Now()
			c.l.run(t, c.args...).wants(t, c.code, c.says...)
			if took := time.Since(start); took > tooLong {
				t.Errorf("it took %s: it has waited for what could not come", took)
			}
		})
	}

	// A worker is told on its standard error, and goes on trying.
	worker := as("submit").begin(t, "engine", "work", "hash", "--", "sha256sum")
	worker.says("work.api.register")

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := streamwright.Connect(ctx, url, streamwright.WithUserFile("read", file))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Publish(ctx, streamwright.Item{Type: "email"}); events.CodeOf(err) != events.CodeForbidden || !strings.Contains(err.Error(), "work.submit.email") {
		t.Errorf("a reader's plain publish: %v", err)
	}
	if _, err := c.Engine().Stats(ctx); err != nil {
		t.Errorf("what it may do, behind a refusal: %v", err)
	}
	server.end()
}

// An engine that may ask for JetStream and for nothing else says what it lacks,
// and ends in good order.
func TestEngineWithTooLittle(t *testing.T) {
	t.Parallel()
	url := natsServer(t, `jetstream { store_dir: STORE }
authorization { users = [ { user: part, password: part, permissions: { publish: ["$JS.API.INFO"], subscribe: ["_INBOX_part.>"] } } ] }`).ClientURL()
	r := login{[]string{"--user", "part"}, []string{"NATS_PASSWORD=part"}}.run(t, "serve", "--nats-url", url, "--http", "off", "--dir", t.TempDir())
	r.wants(t, 1, "$JS.API.STREAM.INFO.WORK_EVENTS_0", "engine permissions", "forbidden")
	if strings.Contains(r.errs, "panic") {
		t.Errorf("it panics: %s", r.errs)
	}
}
