package nodeclient

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

// A producer, a worker and a reader, each as a user in an account of its own.
const accountsScript = `
import { connect, Worker } from "streamwright";
const [servers] = process.argv.slice(2);
const as = (user) => connect({ servers, user, pass: user });
const [submit, work, read] = [await as("submit"), await as("work"), await as("read")];
const worker = new Worker(work, { id: "w1", probe: true, types: { email: (item) => ({ text: item.params.text + "!" }) } });
await worker.start();
const large = "x".repeat(2_000_000);
const { id } = await submit.submit({ type: "email", params: { text: large } });
const item = await submit.wait(id);
const result = await read.result(item);
console.log("result:", item.state, result.text === large + "!");
for await (const e of read.events({ id, fromSeq: 1 })) {
  console.log("event:", e.kind);
  if (e.kind === "completed") break;
}
for (;;) {
  const { workers } = await read.request("workers");
  if (workers[0]?.probed_at && workers[0].status === "active") { console.log("probed:", workers[0].status); break; }
  await new Promise((r) => setTimeout(r, 50));
}
await worker.stop();
await Promise.all([submit.close(), work.close(), read.close()]);
`

// Users in accounts of their own, without JetStream, submit, work and read, also
// what is too large for a message, without being told how they are set up.
func TestNodeInAccountsOfTheirOwn(t *testing.T) {
	need.Seconds(t)
	node := built(t)
	dir := t.TempDir()
	conf := filepath.Join(dir, "nats.conf")
	accounts := access.Accounts{ // as `engine permissions` prints them; each user's name is its password
		Names: wire.Default, Engine: access.EngineGrant{Names: wire.Default, Partitions: 1, User: "engine"},
		Login: func(user string) string { return fmt.Sprintf("user: %q, password: %q", user, user) },
	}
	for _, role := range []access.Role{access.Read, access.Submit, access.Work} {
		accounts.Grants = append(accounts.Grants, access.Grant{Names: wire.Default, User: role.String(), Roles: access.InDefault(access.RolesOf(role))})
	}
	text := "listen: 127.0.0.1:-1\nmax_payload: 8MB\njetstream { store_dir: \"" + dir + "\" }\n" + accounts.Config()
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	opts, err := natsserver.ProcessConfigFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	opts.NoSigs, opts.NoLog = true, true
	srv, err := natsserver.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(time.Minute) {
		t.Fatal("the NATS server does not start")
	}
	c := config.Default()
	c.Workers.ProbeInterval, c.Workers.ProbeTimeout = time.Second, 900*time.Millisecond
	e, err := embedded.Start(t.Context(), embedded.Options{Config: c, Dir: t.TempDir(), NATSURL: srv.ClientURL(), HTTP: config.Off, NATSOptions: []nats.Option{nats.UserInfo("engine", "engine")}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Stop(context.Background()) }()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, node, "--input-type=module", "-", srv.ClientURL())
	cmd.Dir, cmd.Stdin = folder, strings.NewReader(accountsScript)
	out, err := cmd.CombinedOutput()
	const want = "result: completed true\nevent: created\nevent: queued\nevent: claimed\nevent: running\nevent: completed\nprobed: active\n"
	if err != nil || string(out) != want {
		t.Errorf("the program said (%v):\n%s\nwant:\n%s", err, out, want)
	}
}
