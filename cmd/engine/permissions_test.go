package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
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
// command prints for the engine and a user of each role.
func external(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	cheap, err := bcrypt.GenerateFromPassword([]byte(natsPassword), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"permissions", "--password-file", "engine=-"}
	stdin := natsPassword + "\n"
	for _, role := range []string{"submit", "work", "read", "operate"} {
		args = append(args, "--user", role+"-user="+role, "--password-file", role+"-user=-")
		stdin += natsPassword + "\n"
	}
	accounts := engine(t, stdin, args...).wants(t, 0, "_INBOX_read-user.>", "WORK_read-user").out
	// The printed hashes are checked for what they are; a cheap one of the same
	// password keeps a slow machine from giving up while the server computes.
	hashes := regexp.MustCompile(`\$2a\$[./A-Za-z0-9$]+`).FindAllString(accounts, -1)
	if len(hashes) != 5 {
		t.Fatalf("%d hashes", len(hashes))
	}
	for _, hash := range hashes {
		if err := bcrypt.CompareHashAndPassword([]byte(hash), []byte(natsPassword)); err != nil {
			t.Fatalf("the hash %q: %v", hash, err)
		}
		accounts = strings.Replace(accounts, hash, string(cheap), 1)
	}
	path := filepath.Join(dir, "nats.conf")
	text := "listen: 127.0.0.1:-1\njetstream { store_dir: " + `"` + dir + `"` + " }\nmax_payload: 8MB\n" + accounts
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
	engine(t, "", "--server", url("operate"), "types", "pause", "email").wants(t, 0)
	engine(t, "", "--server", url("operate"), "types", "resume", "email").wants(t, 0)
	for _, refused := range [][]string{{"submit", "list"}, {"read", "submit", "email", "{}"}, {"work", "types", "pause", "email"}, {"operate", "list"}} {
		args := append([]string{"--server", url(refused[0]), "--request-timeout", "10s"}, refused[1:]...)
		engine(t, "", args...).wants(t, 1)
	}
	// An inbox of one's own is not needed, and another's can't be had.
	c, err := streamwright.Connect(t.Context(), "nats://"+addr, streamwright.WithNATS(nats.UserInfo("read-user", natsPassword)))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Engine().Stats(t.Context()); err != nil {
		t.Error(err)
	}
	engine(t, "", "--server", url("read"), "--inbox-prefix", "_INBOX_other", "--request-timeout", "10s", "list").wants(t, 1, string(events.CodeForbidden))
}

func TestPermissionsRefuses(t *testing.T) {
	for want, args := range map[string][]string{
		"there is no user":    {},
		"no role":             {"--user", "a"},
		"unknown role":        {"--user", "a=root"},
		"stands by itself":    {"--user", "a=publish+read"},
		"invalid name":        {"--user", "a.b=work"},
		"is there twice":      {"--user", "a=work", "--user", "a=read"},
		"engine is there":     {"--user", "engine=work"},
		"not a user's public": {"--user", "a=work", "--nkey", "a=UABC"},
		"no user \"b\"":       {"--user", "a=work", "--nkey", "b=UABC"},
		"no user \"c\"":       {"--user", "a=work", "--certificate", "c"},
		"no user \"d\"":       {"--user", "a=work", "--no-documents", "d"},
		"use NAME=FILE":       {"--user", "a=work", "--password-file", "x"},
		"given twice":         {"--user", "a=work", "--nkey", "a=U1", "--nkey", "a=U2"},
		"is no namespace":     {"--user", "a=Acme/work"},
		"--namespace: \"A\"":  {"--user", "a=work", "--namespace", "A"},
		"acme/publish":        {"--user", "a=acme/publish+read"},
		"more than one of":    {"--user", "a=work", "--password-file", "a=x", "--certificate", "a"},
	} {
		engine(t, "", append([]string{"permissions", "--certificate", "engine"}, args...)...).wants(t, 2, want)
	}
	engine(t, "short\n", "permissions", "--certificate", "engine", "--user", "a=work", "--password-file", "a=-").wants(t, 1, "weak password")
	fresh := engine(t, "", "permissions", "--certificate", "engine", "--user", "a=work").wants(t, 0, "shown this once", "$2a$")
	if strings.Contains(fresh.out, "shown this once") {
		t.Errorf("the password is on standard output: %s", fresh.out)
	}
	engine(t, "", "permissions", "--json", "--user", "a=work+submit").wants(t, 0, `"account":"WORK","jetstream":true,"user":"engine"`, `"account":"WORK_a","user":"a","roles":"submit,work"`, `"response":"Stream"`)
	engine(t, "", "permissions", "--json", "--namespace", "beta", "--user", "a=acme/work,read", "--user", "b=*/submit", "--user", "c=submit/publish").wants(t, 0,
		`"account":"WORK_a","user":"a","roles":"read,acme/work"`, `"subject":"work-beta.submit.*","response":"Singleton","accounts":["WORK_b"]`, `"subject":"work-acme.submit.*","response":"Singleton","accounts":["WORK_b"]`,
		`"user":"c","roles":"submit/publish","publish":["work-submit.submit.*"]`, `"$JS.API.STREAM.CREATE.WORK-ACME_LOGS"`, `"$JS.API.STREAM.CREATE.WORK-BETA_LOGS"`)
	engine(t, "", "permissions", "--certificate", "engine,a", "--namespace", "beta", "--user", "a=acme/work").wants(t, 0, "# a: acme/work\n",
		`"$JS.API.CONSUMER.MSG.NEXT.WORK-ACME_DISPATCH.*" }, to: "$JS.work.API.CONSUMER.MSG.NEXT.WORK-ACME_DISPATCH.*"`)
	engine(t, "", "permissions", "--certificate", "engine,a", "--js-domain", "hub", "--prefix", "acme", "--user", "a=work").wants(t, 0,
		`"$JS.hub.API.CONSUMER.MSG.NEXT.ACME_DISPATCH.*" }, to: "$JS.acme.API.CONSUMER.MSG.NEXT.ACME_DISPATCH.*"`)
}

// The example of docs/operate/ACCESS.md is a configuration, and its command prints the
// same users.
func TestTheExampleOfNamespaces(t *testing.T) {
	page, err := os.ReadFile("../../docs/operate/ACCESS.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "## Users of namespaces\n")
	block := func(language string) string {
		_, rest, _ := strings.Cut(section, "```"+language+"\n")
		code, _, ok := strings.Cut(rest, "```")
		if !ok {
			t.Fatalf("the section has no %s", language)
		}
		return code
	}
	c, err := config.Parse("example", []byte(block("toml")))
	if err != nil {
		t.Fatal(err)
	}
	var users []string
	for _, u := range c.NATS.Users {
		users = append(users, u.Name+": "+strings.ReplaceAll(u.Roles.String(), ",", ", "))
	}
	if want := []string{"acme-workers: acme/work", "ops: */read, */operate, acme/submit"}; !slices.Equal(users, want) {
		t.Errorf("its users are %q, want %q", users, want)
	}
	command, _, _ := strings.Cut(strings.TrimPrefix(block("sh"), "engine "), " >")
	args := strings.Fields(strings.ReplaceAll(command, "'", ""))
	engine(t, "", append(args, "--certificate", "engine,acme-workers,ops")...).wants(t, 0, "# "+users[0], "# "+users[1], "work-beta.event.>", "$JS.API.STREAM.CREATE.WORK-BETA_LOGS")
}
