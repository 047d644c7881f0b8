package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/outbox"
	"github.com/streamwright/streamwright/outbox/internal/pgtest"
	"github.com/streamwright/streamwright/wire"
)

const patience = 3 * time.Minute

// secured is a NATS server with the accounts of an engine, of a reader, and of
// a relay that has this grant.
func secured(t *testing.T, g access.Grant) string {
	t.Helper()
	g.Names, g.User = wire.Default, "outbox"
	a := access.Accounts{
		Names: wire.Default, Grants: []access.Grant{g, {Names: wire.Default, User: "reader", Roles: access.InDefault(access.RolesOf(access.Read))}}, Engine: access.EngineGrant{Names: wire.Default, User: "engine"},
		Login: func(user string) string { return fmt.Sprintf("user: %q, password: \"the password of %s\"", user, user) },
	}
	return natsServer(t, a.Config())
}

// natsServer is a NATS server with JetStream and these users.
func natsServer(t *testing.T, users string) string {
	t.Helper()
	dir := t.TempDir()
	path := write(t, filepath.Join(dir, "nats.conf"), fmt.Sprintf("listen: 127.0.0.1:-1\nmax_payload: 8MB\njetstream { store_dir: %q }\n%s", dir, users))
	opts, err := natsserver.ProcessConfigFile(path)
	if err != nil {
		t.Fatal(err)
	}
	opts.NoSigs, opts.NoLog = true, true
	s, err := natsserver.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(patience) {
		t.Fatal("the NATS server does not start")
	}
	return s.ClientURL()
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The relay logs in like the engine's programs, and needs no more than to
// publish.
func TestRelayLogsIn(t *testing.T) {
	for name, g := range map[string]access.Grant{
		"publish": {Roles: access.InDefault(access.RolesOf(access.Submit)), PublishOnly: true},
		"submit":  {Roles: access.InDefault(access.RolesOf(access.Submit))},
	} {
		t.Run(name, func(t *testing.T) { relayed(t, secured(t, g)) })
	}
}

// relayed has the relay publish an item to an engine.
func relayed(t *testing.T, url string) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	db := pgtest.Start(t).URL()
	e, err := embedded.Start(ctx, embedded.Options{Dir: t.TempDir(), HTTP: config.Off, NATSURL: url, Connect: connect.Settings{User: "engine", Password: "the password of engine"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Stop(context.Background()) }()

	file := write(t, filepath.Join(t.TempDir(), "password"), "the password of outbox\n")
	var out, errs need.Log
	if code := run(ctx, []string{"--database-url", db, "create"}, &out, &errs); code != 0 {
		t.Fatalf("create: %s", errs.String())
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan int, 1)
	go func() {
		ended <- run(running, []string{"--database-url", db, "--server", url, "--user", "outbox", "--password-file", file, "relay"}, &out, &errs)
	}()
	defer func() {
		stop()
		if code := <-ended; code != 0 || strings.Contains(errs.String(), "NATS:") {
			t.Errorf("exit code %d: %s", code, errs.String())
		}
	}()
	pool, err := pgxpool.New(ctx, db)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	id, err := outbox.Outbox{}.Insert(ctx, pool, streamwright.Item{Type: "email"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := streamwright.Connect(ctx, url, streamwright.WithUser("reader", "the password of reader"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for {
		if _, err := c.Get(ctx, id); err == nil {
			break
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the item does not arrive: %s", errs.String())
		case <-time.After(20 * time.Millisecond): // between two looks
		}
	}
}

func TestRelayIsRefused(t *testing.T) {
	db, url := pgtest.Start(t).URL(), secured(t, access.Grant{Roles: access.InDefault(access.RolesOf(access.Submit)), PublishOnly: true})
	for want, args := range map[string][]string{
		"refused the login":  {"--server", url},
		"has no password":    {"--server", url, "--user", "outbox"},
		"creds and nkey":     {"--creds", "a", "--nkey", "b"},
		"there is no file":   {"--context", "nobody"},
		"read the password:": {"--user", "outbox", "--password-file", "/nonexistent"},
	} {
		var out, errs need.Log
		wantCode := 1
		if strings.Contains(want, "has no password") || strings.Contains(want, "creds and nkey") {
			wantCode = 2 // the command line contradicts itself
		}
		if code := run(t.Context(), append(append([]string{"--database-url", db}, args...), "relay"), &out, &errs); code != wantCode || !strings.Contains(errs.String(), want) {
			t.Errorf("%v: exit code %d, %s", args, code, errs.String())
		}
	}
}

// What is wrong with a command line is told without the database's password.
func TestUsage(t *testing.T) {
	t.Setenv("DATABASE_URL", "postgres://shop:a-secret@127.0.0.1:1/shop")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{nil, 2, "a command is missing"},
		{[]string{"--help"}, 0, "DATABASE_URL"},
		{[]string{"relay", "--help"}, 0, "--batch"},
		{[]string{"relay", "--nosuch"}, 2, "there is no flag --nosuch"},
		{[]string{"nosuch"}, 2, `there is no command "nosuch": use schema, create, relay, status, retry`},
		{[]string{"status", "x"}, 2, "outbox status --help"},
		{[]string{"status"}, 1, "connect to PostgreSQL"},
	} {
		var out, errs need.Log
		if code := run(t.Context(), c.args, &out, &errs); code != c.code || !strings.Contains(out.String()+errs.String(), c.want) {
			t.Errorf("%v: exit code %d, %s%s", c.args, code, out.String(), errs.String())
		}
		if strings.Contains(out.String()+errs.String(), "a-secret") {
			t.Errorf("%v prints the password: %s%s", c.args, out.String(), errs.String())
		}
	}
}
