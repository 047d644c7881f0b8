package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"golang.org/x/crypto/bcrypt"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
)

const natsPassword = "correct horse battery"

// external runs a nats-server whose configuration has what the permissions
// command prints for each role, and an unlimited user for the engine.
func external(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	cheap, err := bcrypt.GenerateFromPassword([]byte(natsPassword), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	hashed := regexp.MustCompile(`\$2a\$[./A-Za-z0-9$]+`)
	var users []string
	for _, role := range []string{"submit", "work", "read", "operate"} {
		out := engine(t, natsPassword+"\n", "permissions", "--role", role, "--user", role+"-user", "--password-file", "-")
		out.wants(t, 0, "_INBOX_"+role+"-user.>")
		_, list, ok := strings.Cut(out.out, "users = [")
		if !ok {
			t.Fatalf("no users block in %s", out.out)
		}
		// The printed hash is checked for what it is; a cheap one of the same
		// password keeps a slow machine from giving up while the server computes.
		hash := hashed.FindString(list)
		if err := bcrypt.CompareHashAndPassword([]byte(hash), []byte(natsPassword)); err != nil {
			t.Fatalf("the hash %q: %v", hash, err)
		}
		users = append(users, strings.Replace(list[:strings.LastIndex(list, "]")], hash, string(cheap), 1))
	}
	path := filepath.Join(dir, "nats.conf")
	text := "listen: 127.0.0.1:-1\njetstream { store_dir: " + `"` + dir + `"` + " }\nmax_payload: 8MB\nauthorization { users = [\n  { user: engine, password: \"" + natsPassword + "\" }\n" + strings.Join(users, "\n") + "] }\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	opts, err := natsserver.ProcessConfigFile(path)
	if err != nil {
		t.Fatalf("nats-server does not read %s: %v", text, err)
	}
	opts.NoSigs, opts.NoLog = true, true
	s, err := natsserver.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	return strings.TrimPrefix(s.ClientURL(), "nats://")
}

// The printed permissions are those of a real server, by whose users the
// command line does each role's work and nothing else.
func TestPermissionsOnAnExternalServer(t *testing.T) {
	addr := external(t)
	url := func(role string) string {
		return "nats://" + role + "-user:" + strings.ReplaceAll(natsPassword, " ", "%20") + "@" + addr
	}
	e, err := embedded.Start(t.Context(), embedded.Options{Dir: t.TempDir(), HTTP: config.Off, NATSURL: "nats://" + addr, NATSOptions: []nats.Option{nats.UserInfo("engine", natsPassword)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Stop(t.Context()) })

	engine(t, "", "--server", url("submit"), "submit", "email", "{}").wants(t, 0, "queued")
	engine(t, "", "--server", url("read"), "list").wants(t, 0, "email")
	engine(t, "", "--server", url("operate"), "pause", "email").wants(t, 0)
	engine(t, "", "--server", url("operate"), "resume", "email").wants(t, 0)
	for _, refused := range [][]string{{"submit", "list"}, {"read", "submit", "email", "{}"}, {"work", "pause", "email"}, {"operate", "list"}} {
		args := append([]string{"--server", url(refused[0]), "--request-timeout", "10s"}, refused[1:]...)
		engine(t, "", args...).wants(t, 1)
	}
	// With no name in the URL, the prefix is given by the flag; a wrong one
	// hears no reply.
	c, err := streamwright.Connect(t.Context(), "nats://"+addr, streamwright.WithNATS(nats.UserInfo("read-user", natsPassword)))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Stats(t.Context()); err != nil {
		t.Error(err)
	}
	engine(t, "", "--server", url("read"), "--inbox-prefix", "_INBOX_other", "--request-timeout", "10s", "list").wants(t, 1, string(events.CodeForbidden))
}

func TestPermissionsRefuses(t *testing.T) {
	for want, args := range map[string][]string{
		"no role":       {"--user", "a"},
		"is no role":    {"--user", "a", "--role", "root"},
		"is no name":    {"--role", "work", "--user", "a.b"},
		"is no user's ": {"--role", "work", "--user", "a", "--nkey", "UABC"},
	} {
		engine(t, "", append([]string{"permissions"}, args...)...).wants(t, 2, want)
	}
	engine(t, "short\n", "permissions", "--role", "work", "--user", "a", "--password-file", "-").wants(t, 1, "weak password")
	fresh := engine(t, "", "permissions", "--role", "work", "--user", "a").wants(t, 0, "shown this once", "$2a$")
	if strings.Contains(fresh.out, "shown this once") {
		t.Errorf("the password is on standard output: %s", fresh.out)
	}
	engine(t, "", "permissions", "--json", "--role", "work,submit", "--user", "a").wants(t, 0, `"roles":"submit,work","inbox_prefix":"_INBOX_a"`, `"allow_responses":true`)
}
