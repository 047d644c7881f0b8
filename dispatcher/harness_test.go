package dispatcher

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/projector"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/wire/command"
)

const patience = 2 * time.Minute

// harness is a real server, log, store and engine.
type harness struct {
	t     testing.TB
	dir   string
	srv   *server.Server
	nc    *nats.Conn
	js    jetstream.JetStream
	log   eventlog.Log
	store *projector.Store
	eng   *Dispatcher
	edit  func(*Config)

	sessions  map[string]string // of workers
	receiving sync.Mutex        // guards items
	items     map[string]chan received
}

func newHarness(t testing.TB, edit func(*Config)) *harness {
	h := &harness{t: t, dir: t.TempDir(), edit: edit}
	h.startServer()
	h.startEngine()
	t.Cleanup(func() { h.stopEngine(); h.nc.Close(); h.srv.Shutdown(); h.srv.WaitForShutdown() })
	return h
}

func (h *harness) startServer() {
	opts := &server.Options{JetStream: true, StoreDir: h.dir + "/js", DontListen: true, NoSigs: true, NoLog: true, MaxPayload: 8 << 20}
	srv, err := server.NewServer(opts)
	if err != nil {
		h.t.Fatal(err)
	}
	srv.Start()
	if !srv.ReadyForConnections(patience) {
		h.t.Fatal("the server does not start")
	}
	h.srv = srv
	h.nc = h.connect()
	if h.js, err = jetstream.New(h.nc); err != nil {
		h.t.Fatal(err)
	}
}

func (h *harness) connect(opts ...nats.Option) *nats.Conn {
	nc, err := nats.Connect("", append(opts, nats.InProcessServer(h.srv))...)
	if err != nil {
		h.t.Fatal(err)
	}
	return nc
}

func (h *harness) startEngine() {
	log, err := eventlog.Open(h.ctx(), eventlog.Config{Connect: func() (*nats.Conn, error) {
		return nats.Connect("", nats.InProcessServer(h.srv), nats.ReconnectBufSize(-1))
	}})
	if err != nil {
		h.t.Fatal(err)
	}
	store, err := projector.Open(h.dir+"/store", projector.Options{})
	if err != nil {
		h.t.Fatal(err)
	}
	cfg := Config{Log: log, Store: store, Conn: h.nc, Alone: true, Owner: "test"}
	if os.Getenv(need.Verbose) != "" {
		cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	if h.edit != nil {
		h.edit(&cfg)
	}
	eng, err := New(cfg)
	if err != nil {
		h.t.Fatal(err)
	}
	if err := eng.Start(h.ctx()); err != nil {
		h.t.Fatal(err)
	}
	h.log, h.store, h.eng = log, store, eng
}

func (h *harness) stopEngine() {
	if err := h.eng.Stop(h.ctx()); err != nil {
		h.t.Errorf("stop: %v", err)
	}
	_ = h.log.Close()
	if err := h.store.Close(); err != nil {
		h.t.Errorf("close store: %v", err)
	}
}

func (h *harness) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	h.t.Cleanup(cancel)
	return ctx
}

func (h *harness) do(c core.Command) Outcome {
	h.t.Helper()
	o, err := h.eng.one(h.ctx(), c)
	if err != nil {
		h.t.Fatalf("%T: %v", c, err)
	}
	return o
}

func (h *harness) submit(typ events.Type) events.ID {
	h.t.Helper()
	return h.do(core.Submit{Type: typ, NewID: h.eng.NewID(), Params: json.RawMessage(`{"n":1}`)}).Decision.ID
}

// register registers a worker, which receives what is sent to it: see pull.
func (h *harness) register(worker string, slots int, types ...string) wire.Registered {
	h.t.Helper()
	return h.registerAs(wire.Register{Worker: worker, Types: types, Slots: slots})
}

// registerAs registers a worker under a session of its own, the one that it has already.
func (h *harness) registerAs(r wire.Register) wire.Registered {
	h.t.Helper()
	r.Session = h.listen(r.Worker)
	reply, err := h.eng.Register(h.ctx(), r)
	if err != nil {
		h.t.Fatal(err)
	}
	return reply
}

// listen returns the session of a worker, and has it receive items.
func (h *harness) listen(worker string) (session string) {
	h.t.Helper()
	if session = h.sessions[worker]; session != "" {
		return session
	}
	session = nuid.Next()
	if h.sessions == nil {
		h.sessions, h.items = map[string]string{}, map[string]chan received{}
	}
	h.sessions[worker] = session
	_, err := h.nc.Subscribe(wire.Default.RunsOf(session), func(m *nats.Msg) {
		var list []wire.Assigned
		if err := json.Unmarshal(m.Data, &list); err != nil {
			h.t.Error(err)
		}
		for _, it := range list {
			h.received(it.Type) <- received{it, worker}
		}
	})
	if err == nil {
		err = h.nc.Flush()
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return session
}

// received is an item that a worker has received.
type received struct {
	wire.Assigned
	worker string
}

func (h *harness) received(typ string) chan received {
	h.receiving.Lock()
	defer h.receiving.Unlock()
	c := h.items[typ]
	if c == nil {
		c = make(chan received, 10_000)
		h.items[typ] = c
	}
	return c
}

// report has reports decided, as the API passes them on.
func (h *harness) report(rs ...wire.Report) []wire.Reported {
	h.t.Helper()
	prepared := command.Reports(rs)
	for i := range prepared {
		if err := prepared[i].Prepare(h.eng.NewID, events.MaxParamsBytes); err != nil {
			h.t.Fatal(err)
		}
	}
	return h.reportPrepared(prepared...)
}

func (h *harness) reportPrepared(rs ...command.Report) []wire.Reported {
	h.t.Helper()
	out := make(chan []wire.Reported, 1)
	if err := h.eng.Report(h.ctx(), rs, func(a []wire.Reported) { out <- a }); err != nil {
		h.t.Fatal(err)
	}
	select {
	case a := <-out:
		return a
	case <-time.After(patience):
		h.t.Fatal("no answer to a report")
		return nil
	}
}

// pull returns the next item of a type that a worker has received.
func (h *harness) pull(typ string) received {
	h.t.Helper()
	select {
	case m := <-h.received(typ):
		return m
	case <-time.After(patience):
		h.t.Fatalf("no worker received an item of type %s", typ)
		return received{}
	}
}

func reportOf(m received, event string) wire.Report {
	return wire.Report{ID: m.ID, Token: m.Token, Worker: m.worker, Event: event}
}

// begin reports the start of an item.
func (h *harness) begin(m received) wire.Reported {
	h.t.Helper()
	return h.report(reportOf(m, wire.ReportStart))[0]
}

func (h *harness) item(id events.ID) *events.Item {
	h.t.Helper()
	if err := h.eng.Await(h.ctx(), h.eng.Position()); err != nil {
		h.t.Fatal(err)
	}
	it, err := h.store.Item(id)
	if err != nil || it == nil {
		h.t.Fatalf("item %s: %v %v", id, it, err)
	}
	return it
}

// until waits for a condition that some goroutine will bring about.
func (h *harness) until(what string, ok func() bool) {
	h.t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			h.t.Fatalf("it never came about that %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}
