package secured

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/workers"
)

// users are those that every server has, by what they are for.
var users = []string{"engine", "publish", "submit", "work", "read", "operate", "approve"}

// natsServer runs a nats-server with a configuration.
func natsServer(t *testing.T, text string) *natsserver.Server {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "nats.conf")
	text = "listen: 127.0.0.1:-1\nmax_payload: 8MB\n" + strings.ReplaceAll(text, "STORE", `"`+dir+`"`)
	write(t, path, text)
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
	if !s.ReadyForConnections(patience) {
		t.Fatal("the NATS server does not start")
	}
	return s
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// accounts is the block of accounts that the command prints for all users, whose
// logins are by these flags.
func accounts(t *testing.T, flags func(user string) []string, more ...string) string {
	t.Helper()
	args := []string{"permissions"}
	for _, u := range users {
		if u != "engine" {
			args = append(args, "--user", u+"="+u)
		}
		args = append(args, flags(u)...)
	}
	return login{}.run(t, append(args, more...)...).wants(t, 0).out
}

// way is a way to log in to a server.
type way struct {
	url   string
	login func(user string) login
	conn  func(user string) connect.Settings // for the client
}

var itemID = regexp.MustCompile(`[0-9A-HJKMNP-TV-Z]{26}`)

// tour does everything that the users are for, with the programs, the client
// and the worker runtime.
func tour(t *testing.T, w way) {
	server := w.login("engine").begin(t, "engine", "serve", "--nats-url", w.url, "--http", "off", "--dir", t.TempDir())
	server.says("engine ready")
	visit(t, w)
	server.end()
	if strings.Contains(server.log(), "refuses") {
		t.Errorf("the engine lacks a permission:\n%s", server.log())
	}
}

// visit is what users of an engine do.
func visit(t *testing.T, w way) {
	as := func(user string) login { return w.login(user).with("--server", w.url) }
	worker := as("work").begin(t, "engine", "work", "hash", "--probe", "--", "sh", "-c", "echo hashing >&2; sha256sum")
	worker.says("waits for hash items")
	tail := as("read").begin(t, "tail", "--from-seq", "1")
	filtered := as("read").begin(t, "engine", "tail", "--json", "--kind", "completed", "--from-seq", "1")

	out := as("submit").run(t, "submit", "hash", `{"n":1}`, "--wait").wants(t, 0, "completed in")
	id := itemID.FindString(out.out + out.errs)
	tail.says("completed")
	filtered.says(id)
	lines := write(t, filepath.Join(t.TempDir(), "items"), strings.Repeat(`{"n":2}`+"\n", 20))
	as("submit").run(t, "submit", "hash", "--lines", lines).wants(t, 0, "20")
	as("read").run(t, "list").wants(t, 0, id)
	as("read").run(t, "show", id).wants(t, 0, "completed")
	as("read").run(t, "logs", id).wants(t, 0, "hashing")
	as("read").run(t, "workers").wants(t, 0, "hash")
	as("read").run(t, "status").wants(t, 0)
	as("read").run(t, "verify").wants(t, 0)
	as("operate").run(t, "types", "pause", "hash").wants(t, 0)
	as("operate").run(t, "types", "resume", "hash").wants(t, 0)
	goClient(t, w)
	worker.end()
	tail.end()
	filtered.end()
	for _, p := range []*proc{worker, tail, filtered} {
		if strings.Contains(p.log(), "permissions violation") {
			t.Errorf("it lacks a permission:\n%s", p.log())
		}
	}
}

// goClient submits with the client, by a plain publish and large params too, to
// the worker runtime.
func goClient(t *testing.T, w way) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	open := func(user string) *streamwright.Client {
		c, err := streamwright.Connect(ctx, w.url, streamwright.WithConnection(w.conn(user)))
		if err != nil {
			t.Fatalf("connect as %s: %v", user, err)
		}
		t.Cleanup(c.Close)
		return c
	}
	work := open("work")
	rt, err := workers.New(work.Conn(), workers.Config{Names: work.Names()})
	if err != nil {
		t.Fatal(err)
	}
	type params struct {
		Text string `json:"text"`
	}
	workers.Handle(rt, "count", func(_ context.Context, it *workers.Item[params]) (any, error) { return len(it.Params.Text), nil })
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- rt.Run(running) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the worker: %v", err)
		}
	}()

	submit, read := open("submit"), open("read")
	done, err := submit.Submit(ctx, streamwright.Item{Type: "count", Params: params{strings.Repeat("x", 3<<20)}})
	if err != nil {
		t.Fatal(err)
	}
	it, err := submit.Wait(ctx, done.ID)
	if err != nil || it.State != events.StateCompleted || string(it.Result) != "3145728" {
		t.Errorf("item %+v, %v", it, err)
	}
	published, err := open("publish").Publish(ctx, streamwright.Item{Type: "count", Params: params{"abc"}})
	if err != nil {
		t.Fatal(err)
	}
	seen, enough := context.WithCancel(ctx)
	defer enough()
	err = read.Tail(seen, streamwright.TailOptions{ID: published.ID, FromSeq: 1}, func(ev streamwright.Event) error {
		if ev.Kind == events.KindCompleted {
			enough()
		}
		return nil
	})
	if seen.Err() == nil || ctx.Err() != nil {
		t.Errorf("the published item: %v", err)
	}
}
