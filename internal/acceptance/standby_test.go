package acceptance

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/oklog/ulid/v2"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/internal/need"
)

// owns is what an engine says that stood by and has become the owner.
const owns = "this engine owns the log now"

// pair is two engines on one NATS server.
type pair struct {
	t    *testing.T
	url  string
	http [2]string
	dir  [2]string
	p    [2]*proc
	c    *streamwright.Client
	js   jetstream.JetStream
	ids  []string
}

func newPair(t *testing.T) *pair {
	srv, err := natsserver.NewServer(&natsserver.Options{Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), MaxPayload: 4 << 20, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	p := &pair{t: t, url: srv.ClientURL()}
	for i := range p.p {
		p.http[i], p.dir[i] = need.Address(t).String(), filepath.Join(t.TempDir(), "data")
	}
	nc := must(nats.Connect(p.url))(t)
	p.js, p.c = must(jetstream.New(nc))(t), must(streamwright.New(nc))(t)
	t.Cleanup(func() { p.c.Close(); nc.Close() })
	return p
}

func (p *pair) start(i int) {
	p.t.Helper()
	// Longer than any pause of a machine that is busy with other tests.
	file := filepath.Join(p.t.TempDir(), "engine.toml")
	if err := os.WriteFile(file, []byte("[cluster]\nlease = \"10s\"\n"), 0o600); err != nil {
		p.t.Fatal(err)
	}
	p.p[i] = begin(p.t, p.url, "serve", "--config", file, "--nats-url", p.url, "--dir", p.dir[i], "--http", p.http[i])
}

// says waits until an engine has said something so many times.
func (p *pair) says(i, times int, what string) {
	p.t.Helper()
	eventually(p.t, what, func() bool { return strings.Count(p.p[i].log.String(), what) >= times })
}

func (p *pair) submit(n int) {
	p.t.Helper()
	for range n {
		id := ulid.Make().String() // the same for each try
		eventually(p.t, "a submission is taken", func() bool {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			_, err := p.c.Submit(ctx, streamwright.Item{ID: id, Type: "email"})
			return err == nil
		})
		p.ids = append(p.ids, id)
	}
}

// owned counts the ownerships that the log has seen.
func (p *pair) owned() (n int) {
	p.t.Helper()
	s := must(p.js.Stream(context.Background(), "WORK_EVENTS_0"))(p.t)
	for seq := s.CachedInfo().State.FirstSeq; seq <= s.CachedInfo().State.LastSeq; seq++ {
		m := must(s.GetMsg(context.Background(), seq))(p.t)
		n += bytes.Count(m.Data, []byte(`"kind":"owned"`))
	}
	return n
}

func (p *pair) get(i int, path string) (int, string) {
	p.t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	res := must(client.Get("http://" + p.http[i] + path))(p.t)
	defer func() { _ = res.Body.Close() }()
	return res.StatusCode, string(must(io.ReadAll(res.Body))(p.t))
}

// standsBy checks that an engine which does not own the log is healthy and ready, and
// answers over HTTP, also what only the owner can.
func (p *pair) standsBy(i int) {
	p.t.Helper()
	for path, want := range map[string]string{"/healthz": `"status":"standby"`, "/readyz": `"ready":true`, "/api/v1/types": `"types"`, "/api/v1/work": `"items"`, "/api/v1/info": `"role":"standby"`} {
		if code, body := p.get(i, path); code != http.StatusOK || !strings.Contains(body, want) {
			p.t.Errorf("%s: %d %s", path, code, body)
		}
	}
	// What it is given it passes on, and it shows at once what it has been told.
	id := ulid.Make().String()
	res := must(http.Post("http://"+p.http[i]+"/api/v1/work", "application/json", strings.NewReader(fmt.Sprintf(`{"type":"email","id":%q}`, id))))(p.t)
	_ = res.Body.Close()
	if res.StatusCode != http.StatusCreated {
		p.t.Errorf("submit to a standby: %d", res.StatusCode)
	}
	for n := range p.http {
		if n != i {
			eventually(p.t, "the owner answers over HTTP", func() bool { // it may have just become that
				res, err := http.Get("http://" + p.http[n] + "/readyz")
				if err == nil {
					_ = res.Body.Close()
				}
				return err == nil && res.StatusCode == http.StatusOK
			})
		}
		if code, body := p.get(n, "/api/v1/work/"+id); code != http.StatusOK || !strings.Contains(body, id) {
			p.t.Errorf("engine %d does not show what the standby was given: %d %s", n, code, body)
		}
	}
	p.ids = append(p.ids, id)
}

// A second engine on the same NATS stands by while the first one lives, and takes
// over when that is killed, stopped or paused. Nothing is lost, and the log
// changes hands no more often than that.
func TestStandby(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.start(0)
	p.says(0, 1, "engine ready")
	p.start(1)
	p.says(1, 1, "standing by")
	p.says(1, 1, "engine ready")
	p.standsBy(1)
	p.submit(300)
	if n := p.owned(); n != 1 {
		t.Fatalf("%d ownerships while the first engine lived", n)
	}

	p.p[0].kill()
	p.says(1, 1, owns) // when the lease has ended
	p.submit(20)
	p.start(0)
	p.says(0, 1, "standing by")
	p.says(0, 1, "engine ready")
	p.standsBy(0)

	began := time.Now()
	if code := p.p[1].end(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	p.says(0, 1, owns)
	t.Logf("taken over %s after it was asked to stop", time.Since(began))
	p.submit(20)
	p.start(1)
	p.says(1, 1, "standing by")
	if n := p.owned(); n != 3 {
		t.Fatalf("%d ownerships, want 3", n)
	}

	p.p[0].signal(syscall.SIGSTOP)
	p.says(1, 1, owns)
	p.p[0].signal(syscall.SIGCONT)
	p.says(0, 2, "standing by: ") // it finds out by itself
	p.submit(20)
	p.standsBy(0)
	if n := p.owned(); n != 4 {
		t.Fatalf("%d ownerships, want 4", n)
	}
	for _, id := range p.ids {
		if _, err := p.c.Get(context.Background(), id); err != nil {
			t.Fatalf("item %s: %v", id, err)
		}
	}
	if code := p.p[0].end(); code != 0 { // a standby has nothing to finish
		t.Fatalf("exit code %d", code)
	}
}

// One engine alone needs no bucket: it is made again, and the log stays its own.
func TestLeaseBucketDeleted(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.start(0)
	p.says(0, 1, "engine ready")
	if err := p.js.DeleteKeyValue(context.Background(), "work_partitions"); err != nil {
		t.Fatal(err)
	}
	p.submit(20)
	eventually(t, "the lease is there again", func() bool {
		kv, err := p.js.KeyValue(context.Background(), "work_partitions")
		if err != nil {
			return false
		}
		_, err = kv.Get(context.Background(), "0")
		return err == nil
	})
	p.submit(20)
	if n := p.owned(); n != 1 {
		t.Fatalf("%d ownerships", n)
	}
}

// What a reload has put into force outlasts the loss of the log: a token that was
// taken out lets nobody in when the engine owns the log again.
func TestReloadOutlastsTheLog(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	const before, after = "0123456789-abcdef-before", "0123456789-abcdef-after"
	dir := t.TempDir()
	file := filepath.Join(dir, "engine.toml")
	name := func(user, token string) {
		t.Helper()
		tokens := filepath.Join(dir, user)
		for path, text := range map[string]string{tokens: user + " " + token + " read\n", file: fmt.Sprintf("[http]\ntokens_file = %q\n", tokens)} {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	status := func(token string) int {
		t.Helper()
		r := must(http.NewRequest(http.MethodGet, "http://"+p.http[0]+"/api/v1/types", nil))(t)
		r.Header.Set("Authorization", "Bearer "+token)
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
		res := must(client.Do(r))(t)
		_ = res.Body.Close()
		return res.StatusCode
	}
	name("before", before)
	p.p[0] = begin(t, p.url, "serve", "--config", file, "--nats-url", p.url, "--dir", p.dir[0], "--http", p.http[0])
	p.says(0, 1, "engine ready")
	p.start(1)
	p.says(1, 1, "standing by")
	name("after", after)
	p.p[0].signal(syscall.SIGHUP)
	eventually(t, "the new token is in force", func() bool { return status(after) == http.StatusOK })

	p.p[0].signal(syscall.SIGSTOP)
	p.says(1, 1, owns)
	p.p[0].signal(syscall.SIGCONT)
	p.says(0, 1, "standing by")
	p.p[1].kill()
	p.says(0, 1, owns)
	if is := status(before); is != http.StatusUnauthorized {
		t.Errorf("the token that was taken out: %d", is)
	}
	if is := status(after); is != http.StatusOK {
		t.Errorf("the token that is in force: %d", is)
	}
}
