package backup_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/backup"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/leaks"
	"github.com/streamwright/streamwright/projector"
	"github.com/streamwright/streamwright/workers"
)

func TestMain(m *testing.M) { leaks.Check(m) }

const patience = 60 * time.Second

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	t.Cleanup(cancel)
	return ctx
}

// start starts an engine that listens; change, if given, changes its options.
func start(t testing.TB, dir string, change ...func(*embedded.Options)) *embedded.Engine {
	t.Helper()
	o := embedded.Options{Dir: dir, NATSListen: "127.0.0.1:0", HTTP: config.Off, Durability: config.Interval}
	o.Config.Defaults = config.Patch{"lease": time.Second}
	for _, fn := range change {
		fn(&o)
	}
	e, err := embedded.Start(testContext(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, e) })
	return e
}

func stop(t testing.TB, e *embedded.Engine) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := e.Stop(ctx); err != nil {
		t.Error(err)
	}
}

func client(t testing.TB, e *embedded.Engine) *streamwright.Client {
	t.Helper()
	c, err := e.Client(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// take backs an engine up by a client's connection.
func take(t testing.TB, c *streamwright.Client, target string, change ...func(*backup.Options)) backup.Taken {
	t.Helper()
	done, err := tryTake(testContext(t), c, target, change...)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

func tryTake(ctx context.Context, c *streamwright.Client, target string, change ...func(*backup.Options)) (backup.Taken, error) {
	o := backup.Options{Conn: c.Conn(), Names: c.Names(), Target: target, Engine: func(ctx context.Context) (backup.Source, error) {
		info, err := c.Engine().Info(ctx)
		if err != nil {
			return backup.Source{}, err
		}
		at, err := info.Position.Seq()
		return backup.Source{Position: at, Durability: info.Durability}, err
	}}
	for _, fn := range change {
		fn(&o)
	}
	return backup.Take(ctx, o)
}

func check(t testing.TB, target string) backup.Checked {
	t.Helper()
	b, err := backup.Open(target)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	got, err := b.Verify(testContext(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// restore restores a backup into a new folder.
func restore(t testing.TB, from string, change ...func(*embedded.RestoreOptions)) embedded.Restored {
	t.Helper()
	done, err := tryRestore(testContext(t), filepath.Join(t.TempDir(), "restored"), from, change...)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

func tryRestore(ctx context.Context, dir, from string, change ...func(*embedded.RestoreOptions)) (embedded.Restored, error) {
	o := embedded.RestoreOptions{Options: embedded.Options{Dir: dir}, Backup: from}
	for _, fn := range change {
		fn(&o)
	}
	return embedded.Restore(ctx, o)
}

// verify proves an engine's store.
func verify(t testing.TB, c *streamwright.Client) {
	t.Helper()
	p, err := c.Engine().Verify(testContext(t), nil)
	if err != nil || !p.Equal {
		t.Errorf("verify: %+v, %v", p, err)
	}
}

func submit(t testing.TB, c *streamwright.Client, typ string, n int) (ids []string) {
	t.Helper()
	items := make([]streamwright.Item, n)
	for i := range items {
		items[i] = streamwright.Item{Type: typ, Params: map[string]int{"n": i}}
	}
	subs, err := c.SubmitMany(testContext(t), items)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range subs {
		ids = append(ids, s.ID)
	}
	return ids
}

// work runs a worker of a type until the returned function is called.
func work(t testing.TB, c *streamwright.Client, typ string, fn workers.Handler) (end func()) {
	t.Helper()
	w, err := workers.New(c.Conn(), workers.Config{})
	if err != nil {
		t.Fatal(err)
	}
	workers.HandleRaw(w, typ, fn)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	end = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	t.Cleanup(end)
	return end
}

// original has the log of an engine, and its whole projection.
type original struct {
	log   *eventlog.JetStream
	end   eventlog.End
	store *projector.Store
}

func originalOf(t testing.TB, url string) *original {
	t.Helper()
	log, err := eventlog.Open(testContext(t), eventlog.Config{Existing: true, Connect: func() (*nats.Conn, error) { return nats.Connect(url, nats.ReconnectBufSize(-1)) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	o := &original{log: log}
	if o.end, err = log.End(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if o.store, err = projector.StateAt(testContext(t), log, o.end.Last, time.Time{}, "", projector.Options{InMemory: true}, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.store.Close() })
	return o
}

// asOf returns the digest of the state at a moment, and the position of its last event.
func (o *original) asOf(t testing.TB, through events.Seq, until time.Time) (digest string, at events.Seq) {
	t.Helper()
	err := o.store.AsOf(testContext(t), o.log, through, until, nil, func(s *projector.Store) (err error) {
		at = s.Applied()
		digest, err = s.Digest(testContext(t))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return digest, at
}

// all returns the events of the log.
func (o *original) all(t testing.TB) (evs []events.Event) {
	t.Helper()
	err := o.log.Read(testContext(t), 0, o.end.Seq, func(f eventlog.Frame) error {
		evs = append(evs, f.Events...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return evs
}

// natsServer starts a plain NATS server with JetStream.
func natsServer(t testing.TB) *server.Server {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir(), MaxPayload: 8 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(patience) {
		t.Fatal("the server does not start")
	}
	return s
}

func dial(t testing.TB, url string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func onNATS(url string) func(*embedded.Options) {
	return func(o *embedded.Options) { o.NATSURL, o.NATSListen, o.Durability = url, "", "" }
}

// big returns a document that is too large for an event and does not compress.
func big(t testing.TB) json.RawMessage {
	t.Helper()
	b := make([]byte, 300<<10)
	if _, err := rand.Read(b); err != nil {
		t.Fatal(err)
	}
	doc, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func states(t testing.TB, c *streamwright.Client) map[string]events.ItemState {
	t.Helper()
	out := map[string]events.ItemState{}
	for it, err := range c.All(testContext(t), streamwright.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		out[it.ID] = it.State
	}
	return out
}
