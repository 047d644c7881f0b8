package workers_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/oklog/ulid/v2"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/faultproxy"
	"github.com/streamwright/streamwright/internal/leaks"
	"github.com/streamwright/streamwright/internal/natscluster"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

func TestMain(m *testing.M) { leaks.Check(m) }

const patience = 2 * time.Minute

// rig is an engine, its client, and what stands between it and the workers.
type rig struct {
	*faultproxy.Proxy
	t       testing.TB
	options embedded.Options
	engine  *embedded.Engine
	c       *streamwright.Client
	pushed  uint64
}

// newRig starts an engine in memory, until the test ends.
func newRig(t testing.TB, set ...func(*config.Config)) *rig {
	t.Helper()
	return newRigAs(t, embedded.Options{Memory: true, NATSListen: "127.0.0.1:0"}, set...)
}

// newOpenRig is newRig on a NATS server where a test may speak in the engine's place.
func newOpenRig(t testing.TB, set ...func(*config.Config)) *rig {
	t.Helper()
	return newRigAs(t, embedded.Options{Memory: true, NATSURL: natscluster.Alone(t, 0).ClientURL()}, set...)
}

func newRigAs(t testing.TB, o embedded.Options, set ...func(*config.Config)) *rig {
	t.Helper()
	o.HTTP, o.Config = config.Off, config.Default()
	for _, fn := range set {
		fn(&o.Config)
	}
	r := &rig{t: t, options: o}
	r.begin()
	t.Cleanup(r.end)
	r.Proxy = faultproxy.New(t, cmp.Or(o.NATSURL, r.engine.URL()))
	return r
}

// often has workers send a heartbeat as often as they can.
func often(c *config.Config) { c.Workers.HeartbeatInterval = 100 * time.Millisecond }

func (r *rig) begin() {
	r.t.Helper()
	var err error
	if r.engine, err = embedded.Start(r.t.Context(), r.options); err != nil {
		r.t.Fatal(err)
	}
	if r.c, err = r.engine.Client(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) end() {
	r.c.Close()
	if err := r.engine.Stop(context.Background()); err != nil {
		r.t.Error(err)
	}
}

// dial connects to a server until the test ends, and again soon where it is lost.
func dial(t testing.TB, url string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond), nats.ReconnectJitter(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// worker makes a worker on a connection of its own.
func (r *rig) worker(cfg workers.Config) *workers.Worker {
	r.t.Helper()
	cfg.Logger = need.Logger(r.t)
	w, err := workers.New(dial(r.t, r.URL), cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	return w
}

// start starts a worker. When the test ends it stops at once, and must have an answer to all
// that it has reported.
func (r *rig) start(w *workers.Worker) {
	r.t.Helper()
	if err := w.Start(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := w.Stop(ctx); err != nil {
			r.t.Error(err)
		}
	})
}

// work starts a worker with the handler of a type.
func (r *rig) work(cfg workers.Config, typ string, h workers.Handler) *workers.Worker {
	r.t.Helper()
	w := r.worker(cfg)
	workers.HandleRaw(w, typ, h)
	r.start(w)
	return w
}

// submit submits an item with its params in JSON.
func (r *rig) submit(typ, params string, more ...func(*streamwright.Item)) string {
	r.t.Helper()
	item := streamwright.Item{Type: typ, Params: json.RawMessage(params)}
	for _, fn := range more {
		fn(&item)
	}
	s, err := r.c.Submit(r.t.Context(), item)
	if err != nil {
		r.t.Fatal(err)
	}
	return s.ID
}

// push sends a worker an item that its engine would not send it now. The engine refuses what
// is reported on it: it does not know it. REQUIRES: newOpenRig.
func (r *rig) push(w *workers.Worker, typ string) string {
	r.t.Helper()
	r.pushed++
	a := wire.Assigned{
		ID: ulid.Make().String(), Type: typ, Token: events.NewToken(1<<20, r.pushed).String(), Attempt: 1,
		Lease: events.DurationOf(events.DefaultLease), Bytes: 2, Params: json.RawMessage(`{}`),
	}
	r.publish(wire.Default.RunOf(events.Type(typ), r.session(w)), []wire.Assigned{a})
	return a.ID
}

// publish publishes in the engine's place. REQUIRES: newOpenRig.
func (r *rig) publish(subject string, v any) {
	r.t.Helper()
	body, err := json.Marshal(v)
	if err == nil {
		err = errors.Join(r.c.Conn().Publish(subject, body), r.c.Conn().Flush())
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) control(w *workers.Worker, c wire.Control) {
	r.t.Helper()
	r.publish(wire.Default.Control(w.ID()), c)
}

// requests returns what an endpoint was asked through the proxy.
func requests[T any](r *rig, endpoint string) (list []T) {
	r.t.Helper()
	for _, body := range r.Requests(endpoint) {
		list = append(list, decode[T](r.t, body))
	}
	return list
}

func decode[T any](t testing.TB, body []byte) (v T) {
	if err := json.Unmarshal(body, &v); err != nil {
		t.Errorf("%s: %v", body, err)
	}
	return v
}

// session returns the session under which a worker has registered.
func (r *rig) session(w *workers.Worker) string {
	r.t.Helper()
	for _, reg := range requests[wire.Register](r, wire.APIRegister) {
		if reg.Worker == string(w.ID()) {
			return reg.Session
		}
	}
	r.t.Fatalf("%s has not registered", w.ID())
	return ""
}

// lastBeat returns the last heartbeat.
func (r *rig) lastBeat() wire.Heartbeat {
	r.t.Helper()
	list := requests[wire.Heartbeat](r, wire.APIHeartbeat)
	if len(list) == 0 {
		return wire.Heartbeat{}
	}
	return list[len(list)-1]
}

// told returns what was reported on an item, starts left out.
func (r *rig) told(id string) (list []wire.Report) {
	r.t.Helper()
	for _, batch := range requests[[]wire.Report](r, wire.APIReport) {
		for _, rep := range batch {
			if rep.ID == id && rep.Event != wire.ReportStart {
				list = append(list, rep)
			}
		}
	}
	return list
}

// eventsOf returns the events of reports.
func eventsOf(reports []wire.Report) (list []string) {
	for _, rep := range reports {
		list = append(list, rep.Event)
	}
	return list
}

// outcome waits for the n-th report on an item, starts left out.
func (r *rig) outcome(id string, n int) wire.Report {
	r.t.Helper()
	need.Eventually(r.t, "a report on the item", func() bool { return len(r.told(id)) >= n })
	return r.told(id)[n-1]
}

// refuse answers in the engine's place a report that is judged so, and what comes in the same
// request as if it were taken: the next report on the run says again that it has started.
func (r *rig) refuse(judge func(*wire.Report) *wire.Reported) {
	r.Judge(wire.APIReport, func(request []byte) (f faultproxy.Fault) {
		reports := decode[[]wire.Report](r.t, request)
		answers, refused := make([]wire.Reported, len(reports)), false
		for i := range reports {
			answers[i].OK = true
			if no := judge(&reports[i]); no != nil {
				answers[i], refused = *no, true
			}
		}
		if !refused {
			return f
		}
		body, err := json.Marshal(answers)
		if err != nil {
			r.t.Error(err)
		}
		return faultproxy.Reply(string(body))
	})
}

// refused is the answer to a report that is refused.
func refused(code events.Code) *wire.Reported {
	return &wire.Reported{Error: &wire.Error{Code: code, Message: "refused by the test"}}
}

// get returns an item as the engine has it now.
func (r *rig) get(id string) streamwright.WorkItem {
	r.t.Helper()
	info, err := r.c.Engine().Info(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	r.c.ObservePosition(info.Position)
	it, err := r.c.Get(r.t.Context(), id)
	if err != nil {
		r.t.Fatal(err)
	}
	return it
}

// ended waits for the end of an item.
func (r *rig) ended(id string, want events.ItemState) streamwright.WorkItem {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	it, err := r.c.Wait(ctx, id)
	if err != nil || it.State != want {
		r.t.Fatalf("got %+v, %v, want %s", it, err, want)
	}
	return it
}

func (r *rig) completed(id string) streamwright.WorkItem {
	r.t.Helper()
	return r.ended(id, events.StateCompleted)
}

// workers returns the workers that the engine knows.
func (r *rig) workers() []wire.WorkerInfo {
	r.t.Helper()
	list, err := r.c.Workers().List(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return list
}

func recv[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("waited in vain for: %s", what)
		panic("unreachable")
	}
}

// blocker is a handler that says when it has begun and lasts until released or
// until its context ends.
type blocker struct {
	begun   chan events.ID
	release chan struct{}
	cause   chan error
}

func newBlocker() *blocker {
	return &blocker{make(chan events.ID, 1000), make(chan struct{}), make(chan error, 1000)}
}

func (b *blocker) run(ctx context.Context, it *workers.RawItem) (any, error) {
	b.begun <- it.ID
	select {
	case <-b.release:
		return "done", nil
	case <-ctx.Done():
		b.cause <- context.Cause(ctx)
		return nil, ctx.Err()
	}
}

// nothing is a handler that returns at once.
func nothing(context.Context, *workers.RawItem) (any, error) { return nil, nil }

type sum struct{ A, B int }

func add(_ context.Context, it *workers.Item[sum]) (any, error) {
	return it.Params.A + it.Params.B, nil
}
