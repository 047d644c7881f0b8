package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/logins"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/kvstate"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

// mustStart starts an engine that is stopped with the test.
func mustStart(t testing.TB, o Options) *Engine {
	t.Helper()
	if os.Getenv(need.Verbose) != "" {
		o.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	e, err := Start(testContext(t), secured(t, o))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopEngine(t, e) })
	return e
}

func stopEngine(t testing.TB, e *Engine) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	if err := e.Stop(ctx); err != nil {
		t.Errorf("stop: %v", err)
	}
}

// secured gives an engine users and TLS where logins.Env asks for it: the clients of this
// process are in an account of their own then. What the server refuses anybody fails the test.
func secured(t testing.TB, o Options) Options {
	t.Helper()
	l := logins.Of(t)
	if l == nil || o.NATSURL != "" || len(o.Config.NATS.Users) > 0 {
		return o
	}
	l.Secure(t, &o.Config)
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	o.Logger = l.Watch(t, log)
	return o
}

func quiet(dir string) Options {
	return Options{Dir: dir, NATSListen: config.Off, HTTP: config.Off}
}

func mustClient(t testing.TB, e *Engine) *streamwright.Client {
	t.Helper()
	c, err := e.Client(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func submit(t testing.TB, e *Engine, s wire.Submit) wire.Submitted {
	t.Helper()
	return request[wire.Submitted](t, e, wire.APISubmit, s)
}

// request asks as any client would.
func request[T any](t testing.TB, e *Engine, endpoint string, req any) (reply T) {
	t.Helper()
	nc, err := e.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	body, err := json.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	msg, err := nc.RequestWithContext(testContext(t), e.names().API(endpoint), body)
	if err != nil {
		t.Fatalf("%s: %v", endpoint, err)
	}
	if code := msg.Header.Get("Nats-Service-Error-Code"); code != "" {
		t.Fatalf("%s: %s", endpoint, msg.Data)
	}
	if err := json.Unmarshal(msg.Data, &reply); err != nil {
		t.Fatal(err)
	}
	return reply
}

func get(t testing.TB, e *Engine, s wire.Submitted) wire.Item {
	t.Helper()
	return request[wire.Item](t, e, wire.APIGet, wire.Get{ID: s.ID, MinPosition: s.Position})
}

// work runs a worker that completes what it gets.
func work(t testing.TB, e *Engine, typ string) {
	t.Helper()
	nc, err := e.Connect()
	if err != nil {
		t.Fatal(err)
	}
	w, err := workers.New(nc, workers.Config{Logger: slog.New(slog.DiscardHandler), Names: e.names()})
	if err != nil {
		t.Fatal(err)
	}
	workers.HandleRaw(w, typ, func(context.Context, *workers.RawItem) (any, error) { return "done", nil })
	if err := w.Start(testContext(t)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Stop(testContext(t)); err != nil {
			t.Errorf("stop worker: %v", err)
		}
		nc.Close()
	})
}

func waitFor(t testing.TB, e *Engine, s wire.Submitted, want events.ItemState) wire.Item {
	t.Helper()
	it := request[wire.Waited](t, e, wire.APIWait, wire.Wait{IDs: []string{s.ID}, MinPosition: s.Position, Timeout: events.DurationOf(testTimeout)}).Ended[0]
	if it.State != want {
		t.Fatalf("item %+v, want %s", it, want)
	}
	return it
}

func TestEngineInMemory(t *testing.T) {
	var wg sync.WaitGroup
	for range 4 {
		e := mustStart(t, Options{Memory: true})
		if e.URL() != "" || e.HTTP() != "" || e.Dir() != "" {
			t.Errorf("a memory engine listens or has a folder: %q %q %q", e.URL(), e.HTTP(), e.Dir())
		}
		work(t, e, "email")
		wg.Go(func() {
			s := submit(t, e, wire.Submit{Type: "email"})
			it := waitFor(t, e, s, events.StateCompleted)
			if string(it.Result) != `"done"` {
				t.Errorf("result %s", it.Result)
			}
		})
	}
	wg.Wait()
}

func TestEngineKeepsData(t *testing.T) {
	slow(t)
	t.Parallel()
	for _, d := range []config.Durability{config.Always, config.Interval} {
		o := quiet(filepath.Join(t.TempDir(), "data"))
		o.Durability = d
		e := mustStart(t, o)
		s := submit(t, e, wire.Submit{Type: "email", Params: json.RawMessage(`{"n":1}`), DedupKey: "k"})
		before := get(t, e, s)
		stopEngine(t, e)
		stopEngine(t, e)

		e = mustStart(t, o)
		if after := get(t, e, s); string(after.Params) != `{"n":1}` || after.Position != before.Position || after.State != events.StateQueued {
			t.Errorf("%s: after a restart %+v", d, after)
		}
		stopEngine(t, e)

		// The store is derived: deleted, or damaged, it comes back.
		if err := os.RemoveAll(filepath.Join(o.Dir, "store")); err != nil {
			t.Fatal(err)
		}
		e = mustStart(t, o)
		get(t, e, s)
		stopEngine(t, e)
		damage(t, filepath.Join(o.Dir, "store"))
		e = mustStart(t, o)
		if after := get(t, e, s); after.Position != before.Position {
			t.Errorf("%s: from a damaged store %+v", d, after)
		}
		work(t, e, "email")
		waitFor(t, e, s, events.StateCompleted)
	}
}

// damage overwrites every file below a folder.
func damage(t *testing.T, dir string) {
	t.Helper()
	n := 0
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		n++
		return os.WriteFile(path, []byte("damaged"), 0o600)
	})
	if err != nil || n == 0 {
		t.Fatalf("damaged %d files: %v", n, err)
	}
}

// A failed start says what to do, and undoes what it has begun.
func TestEngineDoesNotStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := mustStart(t, Options{Dir: dir, NATSListen: "127.0.0.1:0", HTTP: "127.0.0.1:0"})
	newer := t.TempDir()
	if err := os.WriteFile(filepath.Join(newer, versionFile), []byte("99"), 0o600); err != nil {
		t.Fatal(err)
	}
	small, err := natsserver.NewServer(&natsserver.Options{Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	small.Start()
	defer func() { small.Shutdown(); small.WaitForShutdown() }()
	bad := config.Default()
	bad.Limits.MaxRunning = -1
	tests := []struct {
		name string
		o    Options
		want string
	}{
		{"folder in use", quiet(dir), "held by process"},
		{"newer folder", quiet(newer), "use a newer program"},
		{"NATS port in use", Options{Dir: t.TempDir(), NATSListen: first.URL()[strings.Index(first.URL(), "//")+2:], HTTP: config.Off}, "choose another address (nats_listen)"},
		{"HTTP port in use", Options{Dir: t.TempDir(), NATSListen: config.Off, HTTP: first.HTTP()}, "choose another address (http)"},
		{"NATS unreachable", Options{Dir: t.TempDir(), NATSURL: "nats://127.0.0.1:1", HTTP: config.Off}, "start it, or correct nats_url"},
		{"small payload", Options{Dir: t.TempDir(), NATSURL: small.ClientURL(), HTTP: config.Off}, "max_payload"},
		{"configuration", Options{Memory: true, Config: bad}, "limits.max_running is -1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e, err := Start(testContext(t), tt.o)
			if err == nil {
				stopEngine(t, e)
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error %v, want %q", err, tt.want)
			}
			if tt.o.Dir == "" || tt.o.Dir == dir || tt.o.Dir == newer {
				return
			}
			d, err := openDataDir(tt.o.Dir)
			if err != nil {
				t.Fatalf("the failed start has kept the folder: %v", err)
			}
			d.Close()
		})
	}
}

func TestEngineOnExternalNATS(t *testing.T) {
	srv, err := natsserver.NewServer(&natsserver.Options{Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), MaxPayload: 4 << 20, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	o := Options{Dir: t.TempDir(), NATSURL: srv.ClientURL(), HTTP: config.Off}
	e := mustStart(t, o)
	if e.URL() != srv.ClientURL() {
		t.Errorf("URL %q", e.URL())
	}
	work(t, e, "email")
	waitFor(t, e, submit(t, e, wire.Submit{Type: "email"}), events.StateCompleted)
	c := mustClient(t, e)
	if _, err := c.Engine().Stats(testContext(t)); err != nil {
		t.Error(err)
	}
}

func TestEngineHTTP(t *testing.T) {
	e := mustStart(t, Options{Dir: t.TempDir(), NATSListen: config.Off, HTTP: "127.0.0.1:0"})
	submit(t, e, wire.Submit{Type: "email"})
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: testTimeout}
	read := func(path string) (int, string) {
		resp, err := client.Get("http://" + e.HTTP() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	if code, body := read("/healthz"); code != 200 || !strings.Contains(body, `"status":"ok"`) {
		t.Errorf("health %d %s", code, body)
	}
	for _, want := range []string{`streamwright_items{state="queued",type="email"}`, "streamwright_append_seconds_count", "streamwright_partition_owned 1", "go_goroutines"} {
		for end := time.Now().Add(testTimeout); ; time.Sleep(5 * time.Millisecond) { // the projection may be a moment behind
			_, body := read("/metrics")
			if strings.Contains(body, want) {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("metrics lack %s", want)
			}
		}
	}
	e.room.Stop() // it looks here alone
	e.room.SetLeast(1 << 62)
	e.room.Look()
	if code, body := read("/healthz"); code != 503 || !strings.Contains(body, "disk_low") {
		t.Errorf("health on a full disk %d %s", code, body)
	}
	st := request[wire.StatsReply](t, e, wire.APIStats, wire.StatsRequest{})
	if len(st.Alarms) != 1 || st.Alarms[0].Code != wire.AlarmDiskLow || st.Alarms[0].Severity != wire.AlarmCritical || !strings.Contains(st.Alarms[0].Message, "nothing new is begun") {
		t.Errorf("on a full disk the alarms are %+v", st.Alarms)
	}
	if _, body := read("/metrics"); !strings.Contains(body, `streamwright_alarm{code="disk_low",severity="critical"} 1`) || !strings.Contains(body, "streamwright_accepting 0") {
		t.Error("no metric says that the disk is full")
	}
	nc, err := e.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	msg, err := nc.RequestWithContext(testContext(t), "work.api.submit", []byte(`{"type":"email"}`))
	if err != nil || !strings.Contains(string(msg.Data), "nearly full") {
		t.Errorf("submit on a full disk: %s, %v", msg.Data, err)
	}
}

func configOf(t *testing.T, text string) config.Config {
	t.Helper()
	c, err := config.Parse("engine.toml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The file owns what it names, also against what the log says; the rest stays
// the API's.
func TestEngineConfiguration(t *testing.T) {
	dir := t.TempDir()
	o := quiet(dir)
	configure := func(e *Engine, settings string) (string, wire.TypeReply) {
		nc, err := e.Connect()
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		msg, err := nc.RequestWithContext(testContext(t), "work.api.configure", []byte(`{"type":"email","settings":`+settings+`}`))
		if err != nil {
			t.Fatal(err)
		}
		var r wire.TypeReply
		_ = json.Unmarshal(msg.Data, &r)
		return msg.Header.Get("Nats-Service-Error-Code"), r
	}
	e := mustStart(t, o)
	if code, r := configure(e, `{"capacity":5,"max_attempts":9}`); code != "" || r.Settings.Capacity != 5 {
		t.Fatalf("configure: %s %+v", code, r)
	}
	stopEngine(t, e)

	o.Config = configOf(t, "[types.email]\ncapacity = 7\n[types.other]\nlease=\"5s\"")
	e = mustStart(t, o)
	for _, r := range request[wire.TypesReply](t, e, wire.APITypes, wire.StatsRequest{}).Types {
		if r.Type == "email" && (r.Settings.Capacity != 7 || r.Settings.MaxAttempts != 9 || r.Source != events.SourceAPI) {
			t.Errorf("after a start with a file %+v", r)
		}
	}
	if code, _ := configure(e, `{"capacity":8}`); code != string(events.CodeSetInFile) {
		t.Errorf("changing what the file sets: %q", code)
	}
	if code, r := configure(e, `{"max_attempts":4}`); code != "" || r.Settings.MaxAttempts != 4 || r.Settings.Capacity != 7 {
		t.Errorf("changing another setting: %q %+v", code, r)
	}
}

func TestEngineRunsCommands(t *testing.T) {
	o := Options{Memory: true, Config: configOf(t, fmt.Sprintf("[types.echo]\ncapacity = 2\nexec = [%q]", need.Program(t, "cat")))}
	e := mustStart(t, o)
	for i := range 5 {
		s := submit(t, e, wire.Submit{Type: "echo", Params: json.RawMessage(fmt.Sprintf(`{"n":%d}`, i))})
		if it := waitFor(t, e, s, events.StateCompleted); string(it.Result) != fmt.Sprintf(`{"n":%d}`, i) {
			t.Errorf("result %s", it.Result)
		}
	}
}

// The buckets show what is so, and come back when they are deleted.
func TestEngineBuckets(t *testing.T) {
	logins.Open(t, "it deletes buckets of the engine's")
	slow(t)
	t.Parallel()
	e := mustStart(t, quiet(t.TempDir()))
	nc, err := e.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	s := submit(t, e, wire.Submit{Type: "email", DedupKey: "invoice 7"})
	request[wire.Registered](t, e, wire.APIRegister, wire.Register{Worker: "w1", Session: "s", Types: []string{"other"}, Slots: 1})
	check := func() {
		t.Helper()
		shows(t, js, "work_dedup", kvstate.DedupKey("email", "invoice 7"), s.ID)
		shows(t, js, "work_workers", "w1", `"other"`)
		shows(t, js, "work_partitions", "0", `"epoch":1`)
	}
	check()
	if err := js.DeleteStream(testContext(t), "KV_work_dedup"); err != nil {
		t.Fatal(err)
	}
	shows(t, js, "work_dedup", kvstate.DedupKey("email", "invoice 7"), s.ID)

	off := configOf(t, "[server]\ndedup_bucket = false")
	e2 := mustStart(t, Options{Memory: true, Config: off})
	get(t, e2, submit(t, e2, wire.Submit{Type: "email", DedupKey: "k"}))
}

// shows returns once a bucket's entry contains a text.
func shows(t *testing.T, js jetstream.JetStream, bucket, key, text string) {
	t.Helper()
	ctx := testContext(t)
	var last string
	for ctx.Err() == nil {
		kv, err := js.KeyValue(ctx, bucket)
		if err == nil {
			var entry jetstream.KeyValueEntry
			if entry, err = kv.Get(ctx, key); err == nil {
				if last = string(entry.Value()); strings.Contains(last, text) {
					return
				}
			}
		}
		if err != nil {
			last = err.Error()
		}
	}
	t.Fatalf("%s of bucket %s: %s, want %s", key, bucket, last, text)
}

// A plain NATS client, with no credentials and no library of ours.
func TestEngineTakesPlainPublishes(t *testing.T) {
	logins.Open(t, "it connects as nobody")
	e := mustStart(t, Options{Dir: t.TempDir(), NATSListen: "127.0.0.1:0", HTTP: config.Off})
	nc, err := nats.Connect(e.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	work(t, e, "email")
	ended, err := nc.SubscribeSync("work.event.*.email.completed")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nc.RequestWithContext(testContext(t), "work.submit.email", []byte(`{"to":"a"}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := ended.NextMsg(testTimeout); err != nil {
		t.Fatalf("no completed event: %v", err)
	}
	if err := nc.Publish("work.event.0.email.completed", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	_ = nc.Flush()
	if !errors.Is(nc.LastError(), nats.ErrPermissionViolation) {
		t.Errorf("publishing an event: %v", nc.LastError())
	}
}

// From nothing to answering, and down again.
func BenchmarkEngineStart(b *testing.B) {
	for b.Loop() {
		start := time.Now()
		e, err := Start(context.Background(), Options{Memory: true})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(time.Since(start).Microseconds())/1000, "ms-up")
		if err := e.Stop(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}
