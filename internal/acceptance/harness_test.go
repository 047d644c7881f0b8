package acceptance

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/logins"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

// patience bounds every wait. It is generous: what it bounds takes a moment,
// and a machine under load must not fail a test. It is longer than the minute
// after which the engine's sweep finds what the server did not tell it: the
// server's word that a stream was deleted may be lost.
const patience = 3 * time.Minute

func TestMain(m *testing.M) {
	// Most tests wait for leases, kills and restarts, and compute little.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	if flag.Parse(); testing.Short() {
		fmt.Println("all of these tests take seconds: skipped by -short")
		return
	}
	os.Exit(withProgram(m.Run))
}

// secured has the logins of all engines; nil: they are open.
var secured *logins.Logins

// withProgram runs the tests with the program built.
func withProgram(run func() int) int {
	dir, err := os.MkdirTemp("", "streamwright-acceptance-")
	if err == nil {
		defer os.RemoveAll(dir)
		secured, err = logins.New(dir)
	}
	if err == nil {
		err = build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return run()
}

// testContext bounds a whole test, of many waits.
func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	t.Cleanup(cancel)
	return ctx
}

// eventually polls until ok; what says for what.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never came to this: %s", what)
		}
	}
}

// recv takes from a channel, or fails.
func recv[T any](t *testing.T, what string, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("nothing came: %s", what)
		panic("unreachable")
	}
}

// must is for what can't fail in a test that goes well.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func parse(t *testing.T, toml string) config.Config {
	t.Helper()
	return must(config.Parse("engine.toml", []byte(toml)))(t)
}

// logBook keeps what was logged.
type logBook struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *logBook) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBook) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func logTo(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelInfo}))
}

// rig is an engine in this process, with a client and a connection of a
// client's rights.
type rig struct {
	t   *testing.T
	ctx context.Context
	opt embedded.Options
	log *logBook
	eng *embedded.Engine
	c   *streamwright.Client
	nc  *nats.Conn
	js  jetstream.JetStream
}

// inMemory starts an engine in memory with this configuration.
func inMemory(t *testing.T, toml string) *rig {
	t.Helper()
	return newRig(t, embedded.Options{Memory: true, Config: parse(t, toml)})
}

// onDisk starts an engine with a data folder; NATS is reached in-process alone.
func onDisk(t *testing.T, toml string) *rig {
	t.Helper()
	c := parse(t, toml)
	if c.Server.HTTP == config.Default().Server.HTTP {
		c.Server.HTTP = config.Off
	}
	return newRig(t, embedded.Options{Dir: filepath.Join(t.TempDir(), "data"), NATSListen: config.Off, Durability: config.Interval, Config: c})
}

func newRig(t *testing.T, o embedded.Options) *rig {
	t.Helper()
	r := &rig{t: t, ctx: testContext(t), opt: o, log: &logBook{}}
	r.opt.Logger = secured.Watch(t, logTo(r.log))
	if secured != nil && o.NATSURL == "" {
		secured.Secure(t, &r.opt.Config)
		r.opt.NATSListen = need.Address(t).String()
	}
	t.Cleanup(func() {
		r.stop()
		if t.Failed() {
			t.Logf("the engine's log:\n%s", tailOf(r.log.String(), 6000))
		}
	})
	r.start()
	return r
}

func tailOf(s string, n int) string { return s[max(0, len(s)-n):] }

func (r *rig) start() {
	r.t.Helper()
	r.eng = must(embedded.Start(r.ctx, r.opt))(r.t)
	r.c = r.client()
	r.nc = r.connect(logins.All)
	r.js = jetStream(r.t, r.nc)
}

// client opens a client, on a connection of its own.
func (r *rig) client() *streamwright.Client {
	r.t.Helper()
	if secured == nil || r.opt.NATSURL != "" {
		return must(r.eng.Client(r.ctx))(r.t)
	}
	return must(streamwright.Connect(r.ctx, r.eng.URL(), streamwright.WithConnection(secured.Settings(logins.All))))(r.t)
}

// connect opens a connection with a client's rights, as a user if the engine is secured.
func (r *rig) connect(user string, opts ...nats.Option) *nats.Conn {
	r.t.Helper()
	if secured == nil || r.opt.NATSURL != "" {
		return must(r.eng.Connect(opts...))(r.t)
	}
	return must(nats.Connect(r.eng.URL(), append(secured.Options(r.t, user), opts...)...))(r.t)
}

// names returns the names by which a client's connection reaches the engine's streams.
func names(nc *nats.Conn) wire.Names {
	return connect.NewFinder(nc, wire.Default).Names(context.Background())
}

// jetStream returns JetStream with the engine's streams.
func jetStream(t *testing.T, nc *nats.Conn) jetstream.JetStream {
	t.Helper()
	if n := names(nc); n.Domain != "" {
		return must(jetstream.NewWithDomain(nc, n.Domain))(t)
	}
	return must(jetstream.New(nc))(t)
}

// admin returns JetStream to change the engine's streams with, which no user may.
func (r *rig) admin() jetstream.JetStream {
	r.t.Helper()
	logins.Open(r.t, "it changes or reads the engine's streams")
	return r.js
}

func (r *rig) stop() {
	r.t.Helper()
	if r.eng == nil {
		return
	}
	r.c.Close()
	r.nc.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := r.eng.Stop(ctx); err != nil {
		r.t.Errorf("stop the engine: %v", err)
	}
	r.eng = nil
}

// worker starts a worker for one type on a connection of its own, and stops it
// before the engine.
func (r *rig) worker(cfg workers.Config, typ string, h workers.Handler) *workers.Worker {
	r.t.Helper()
	nc := r.connect(access.Work.String(), nats.MaxReconnects(-1))
	cfg.Logger = logTo(r.log)
	w := must(workers.New(nc, cfg))(r.t)
	workers.HandleRaw(w, typ, h)
	if err := w.Start(r.ctx); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = w.Stop(ctx)
		nc.Close()
	})
	return w
}

func (r *rig) submit(it streamwright.Item) string {
	r.t.Helper()
	return must(r.c.Submit(r.ctx, it))(r.t).ID
}

func (r *rig) get(id string) streamwright.WorkItem {
	r.t.Helper()
	return must(r.c.Get(r.ctx, id))(r.t)
}

// until waits for an item to be in a state.
func (r *rig) until(id string, state events.ItemState) streamwright.WorkItem {
	r.t.Helper()
	var it streamwright.WorkItem
	for end := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		if it = r.get(id); it.State == state {
			return it
		}
		if time.Now().After(end) {
			r.t.Fatalf("item %s is %s, not %s: %+v; history %v", id, it.State, state, it, r.kinds(id))
		}
	}
}

// wait waits for an item's end, which must be this state.
func (r *rig) wait(id string, state events.ItemState) streamwright.WorkItem {
	r.t.Helper()
	it := must(r.c.Wait(r.ctx, id))(r.t)
	if it.State != state {
		r.t.Fatalf("item %s ended %s (%+v, %s), not %s: %v", id, it.State, it.Error, it.Reason, state, r.kinds(id))
	}
	return it
}

// kinds are those of an item's events, in order.
func (r *rig) kinds(id string) []string {
	r.t.Helper()
	var out []string
	for _, ev := range must(r.c.History(r.ctx, id))(r.t) {
		out = append(out, ev.Kind.String())
	}
	return out
}

// verify replays the log and returns the digest, which must be the live one.
func (r *rig) verify() string {
	r.t.Helper()
	res := must(r.c.Engine().Verify(r.ctx, nil))(r.t)
	if !res.Equal {
		r.t.Fatalf("verify: the log gives another state than the store's: %+v", res)
	}
	return res.Digest
}

// log reads all events up to now.
func (r *rig) events() []streamwright.Event {
	r.t.Helper()
	last := must(must(r.c.Engine().Info(r.ctx))(r.t).Position.Seq())(r.t)
	var out []streamwright.Event
	end := errors.New("the end")
	err := r.c.Tail(r.ctx, streamwright.TailOptions{FromSeq: 1}, func(ev streamwright.Event) error {
		out = append(out, ev)
		if ev.Seq >= last {
			return end
		}
		return nil
	})
	if !errors.Is(err, end) {
		r.t.Fatal(err)
	}
	return out
}

// completedOnce checks that each of the items has one completed event.
func (r *rig) completedOnce(ids []string) {
	r.t.Helper()
	n := map[string]int{}
	for _, ev := range r.events() {
		if ev.Kind == events.KindCompleted {
			n[ev.ID]++
		}
	}
	for _, id := range ids {
		if n[id] != 1 {
			r.t.Errorf("item %s was completed %d times: %v", id, n[id], r.kinds(id))
		}
	}
}

// wantCode checks an error's stable code, and that its text says something.
func wantCode(t *testing.T, err error, code events.Code, says ...string) {
	t.Helper()
	if err == nil || events.CodeOf(err) != code {
		t.Errorf("got %v, want an error with code %s", err, code)
		return
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("the error %q does not say %q", err, s)
		}
	}
}

// done is a handler that completes at once.
func done(context.Context, *workers.RawItem) (any, error) { return "done", nil }

// gate is a handler that tells of each run and holds it until it is let go.
type gate struct {
	begun chan *workers.RawItem
	open  chan struct{}
}

func newGate() *gate {
	return &gate{begun: make(chan *workers.RawItem, 1000), open: make(chan struct{})}
}

func (g *gate) run(ctx context.Context, it *workers.RawItem) (any, error) {
	g.begun <- it
	select {
	case <-g.open:
		return fmt.Sprintf("attempt %d", it.Attempt), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func contains(s, sub string) bool { return strings.Contains(s, sub) }

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	return must(json.Marshal(v))(t)
}

func fromJSON(t *testing.T, data []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(data, v); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
}
