package api

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/dispatcher"
	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/internal/leaks"
	"github.com/streamwright/streamwright/projector"
	"github.com/streamwright/streamwright/projector/query"
	"github.com/streamwright/streamwright/wire"
)

func TestMain(m *testing.M) { leaks.Check(m) }

const patience = 2 * time.Minute

// rig is a service in front of a real server, log, store and engine.
type rig struct {
	t       testing.TB
	srv     *natsserver.Server
	nc      *nats.Conn // a client's
	store   *projector.Store
	eng     *dispatcher.Dispatcher
	svc     *Service
	log     eventlog.Log
	metrics *Metrics
	items   chan wire.Assigned // of the worker: see worker
}

// prover replays for verify and rebuild.
// queries is what the service asks of the projection.
type queries struct {
	*projector.Store
	query.Reader
}

type prover struct {
	store *projector.Store
	log   eventlog.Log
}

func (p prover) Verify(ctx context.Context, fn projector.Progress) (projector.Verified, error) {
	return p.store.Verify(ctx, p.log, fn)
}

func (p prover) Rebuild(ctx context.Context, fn projector.Progress) error {
	return p.store.Rebuild(ctx, p.log, fn)
}

func (p prover) AsOf(ctx context.Context, through events.Seq, until time.Time, fn projector.Progress, use func(*projector.Store) error) error {
	return p.store.AsOf(ctx, p.log, through, until, fn, use)
}

func newRig(t testing.TB, edit func(*Config)) *rig {
	t.Helper()
	r := &rig{t: t, metrics: NewMetrics()}
	var err error
	if r.srv, err = natsserver.NewServer(&natsserver.Options{JetStream: true, StoreDir: t.TempDir(), DontListen: true, NoSigs: true, NoLog: true, MaxPayload: 8 << 20}); err != nil {
		t.Fatal(err)
	}
	r.srv.Start()
	r.nc = r.connect()
	own := r.connect()
	ctx := r.ctx()
	if r.log, err = eventlog.Open(ctx, eventlog.Config{Connect: func() (*nats.Conn, error) {
		return nats.Connect("", nats.InProcessServer(r.srv), nats.ReconnectBufSize(-1))
	}}); err != nil {
		t.Fatal(err)
	}
	if r.store, err = projector.Open(t.TempDir(), projector.Options{}); err != nil {
		t.Fatal(err)
	}
	hooks := r.metrics.Hook(dispatcher.Hooks{
		Projected: func(c *core.Changes) { r.svc.Notify(c.Items) },
		Appended:  func(int, int, time.Duration) { r.svc.LogGrew() },
	})
	if r.eng, err = dispatcher.New(dispatcher.Config{Log: r.log, Store: r.store, Conn: own, Alone: true, Owner: "test", Hooks: hooks}); err != nil {
		t.Fatal(err)
	}
	logs, err := OpenLogs(ctx, LogsConfig{Conn: own, Names: wire.Default})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Conn: own, Names: wire.Default, Core: r.eng, Queries: queries{r.store, query.Of(r.store)}, Prover: prover{r.store, r.log}, Logs: logs, Metrics: r.metrics,
		Info: wire.InfoReply{Version: "1.2.3", Owner: "test"}, Logger: slog.New(slog.DiscardHandler)}
	if edit != nil {
		edit(&cfg)
	}
	if r.svc, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	if err := r.eng.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if err := r.svc.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.stop(own) })
	return r
}

func (r *rig) stop(own *nats.Conn) {
	for _, err := range []error{r.svc.Stop(r.ctx()), r.svc.Stop(r.ctx()), r.eng.Stop(r.ctx()), r.log.Close(), r.store.Close()} {
		if err != nil {
			r.t.Error(err)
		}
	}
	own.Close()
	r.nc.Close()
	r.srv.Shutdown()
	r.srv.WaitForShutdown()
}

func (r *rig) connect() *nats.Conn {
	nc, err := nats.Connect("", nats.InProcessServer(r.srv))
	if err != nil {
		r.t.Fatal(err)
	}
	return nc
}

// ctx ends with the rig's patience.
func (r *rig) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	time.AfterFunc(patience, cancel)
	return ctx
}

// raw sends a request and returns the reply.
func (r *rig) raw(endpoint, body string) *nats.Msg {
	r.t.Helper()
	msg, err := r.nc.RequestWithContext(r.ctx(), wire.Default.API(endpoint), []byte(body))
	if err != nil {
		r.t.Fatalf("%s: %v", endpoint, err)
	}
	return msg
}

// ask sends a request that must succeed, and reads the reply into a T.
func ask[T any](r *rig, endpoint string, req any) T {
	r.t.Helper()
	v, err := try[T](r, endpoint, req)
	if err != nil {
		r.t.Fatalf("%s: %v", endpoint, err)
	}
	return v
}

func try[T any](r *rig, endpoint string, req any) (T, error) {
	r.t.Helper()
	body, err := json.Marshal(req)
	if err != nil {
		r.t.Fatal(err)
	}
	return read[T](r.t, r.raw(endpoint, string(body)))
}

func read[T any](t testing.TB, msg *nats.Msg) (T, error) {
	t.Helper()
	var v T
	if msg.Header.Get("Nats-Service-Error-Code") != "" {
		var e wire.ErrorReply
		if err := json.Unmarshal(msg.Data, &e); err != nil {
			t.Fatalf("refusal %q: %v", msg.Data, err)
		}
		if string(e.Error.Code) != msg.Header.Get("Nats-Service-Error-Code") || msg.Header.Get("Nats-Service-Error") == "" {
			t.Errorf("headers %v do not fit %+v", msg.Header, e.Error)
		}
		return v, e.Error.Err()
	}
	if err := json.Unmarshal(msg.Data, &v); err != nil {
		t.Fatalf("reply %q: %v", msg.Data, err)
	}
	return v, nil
}

func wantCode(t testing.TB, err error, code events.Code) {
	t.Helper()
	if !errors.Is(err, &events.Error{Code: code}) {
		t.Errorf("error %v, want %s", err, code)
	}
}

func (r *rig) submit(s wire.Submit) wire.Submitted {
	r.t.Helper()
	return ask[wire.Submitted](r, wire.APISubmit, s)
}

// worker registers the worker w1 for a type, with the session s1, whose items next returns.
func (r *rig) worker(typ string) {
	r.t.Helper()
	if r.items == nil {
		r.items = make(chan wire.Assigned, 100)
		_, err := r.nc.Subscribe(wire.Default.RunsOf("s1"), func(m *nats.Msg) {
			var list []wire.Assigned
			if json.Unmarshal(m.Data, &list) == nil {
				for _, a := range list {
					r.items <- a
				}
			}
		})
		if err == nil {
			err = r.nc.Flush()
		}
		if err != nil {
			r.t.Fatal(err)
		}
	}
	ask[wire.Registered](r, wire.APIRegister, wire.Register{Worker: "w1", Session: "s1", Types: []string{typ}, Slots: 5})
}

// next returns the next item that the worker was sent.
func (r *rig) next() wire.Assigned {
	r.t.Helper()
	select {
	case a := <-r.items:
		return a
	case <-r.ctx().Done():
		r.t.Fatal("the worker was sent nothing")
	}
	return wire.Assigned{}
}

// reportOf returns a report of the worker on an item.
func reportOf(a wire.Assigned, event string) wire.Report {
	return wire.Report{ID: a.ID, Token: a.Token, Worker: "w1", Session: "s1", Event: event}
}

// run takes the type's next item through to its end by the worker protocol.
func (r *rig) run(typ, event string) wire.Reported {
	r.t.Helper()
	r.worker(typ)
	last := reportOf(r.next(), event)
	last.Start, last.Result, last.Error = true, json.RawMessage(`{"done":true}`), "it broke"
	return ask[wire.Reported](r, wire.APIReport, last)
}
