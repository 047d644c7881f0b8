package dispatcher

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector"
	"github.com/streamwright/streamwright/wire"
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
	eng   *Engine
	edit  func(*Config)
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
	if os.Getenv("VERBOSE") != "" {
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

func (h *harness) register(worker string, slots int, types ...string) wire.Registered {
	h.t.Helper()
	r, err := h.eng.Register(h.ctx(), wire.Register{Pull: true, Worker: worker, Types: types, Slots: slots})
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}

func (h *harness) report(rs ...wire.Report) []wire.Reported {
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

// pull takes the next dispatched item of a type.
func (h *harness) pull(consumer string) jetstream.Msg {
	h.t.Helper()
	c, err := h.js.Consumer(h.ctx(), "WORK_DISPATCH", consumer)
	if err != nil {
		h.t.Fatal(err)
	}
	m, err := c.Next(jetstream.FetchMaxWait(patience))
	if err != nil {
		h.t.Fatal(err)
	}
	return m
}

func reportOf(m jetstream.Msg, worker, event string) wire.Report {
	return wire.Report{ID: m.Headers().Get(wire.HeaderID), Token: m.Headers().Get(wire.HeaderToken), Worker: worker, Event: event}
}

func (h *harness) claim(m jetstream.Msg, worker string) wire.Reported {
	r := reportOf(m, worker, wire.ReportClaim)
	r.Start = true
	return h.report(r)[0]
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
