package workers

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/oklog/ulid/v2"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/fakeengine"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

// fakeItem is one item in the fake engine's table.
type fakeItem struct {
	id      string
	typ     string
	params  string
	state   events.ItemState
	token   string
	worker  string
	attempt int
	reports []wire.Report // granted ones, claims left out
	headers map[string]string

	checkpoint   json.RawMessage
	continuation *wire.Continuation
}

// fakeEngine answers the worker protocol from a table in memory.
type fakeEngine struct {
	t     testing.TB
	nc    *nats.Conn
	js    jetstream.JetStream
	names wire.Names

	mu        sync.Mutex
	lease     time.Duration
	timeout   time.Duration
	beatMS    int64
	window    int
	items     map[string]*fakeItem
	workers   map[string]string
	tokens    uint64
	completed int
	requests  int
	largest   int
	beats     []wire.Heartbeat
	gone      []string // unregistered
	logs      []wire.LogRecord
	subs      []*nats.Subscription
	// refuse, if set, may answer a report before the table does.
	refuse     func(r wire.Report) *wire.Error
	refusedAs  events.ItemState // that refuse answers
	beatReply  wire.HeartbeatReply
	onRegister func(r wire.Register) *wire.Error
	changed    chan struct{} // closed and replaced at every change
	quiet      bool          // keep no reports (benchmarks)
	putsBack   bool          // dispatch again what is handed back unclaimed
}

func newFakeEngine(t testing.TB, url string) *fakeEngine {
	t.Helper()
	nc := fakeengine.Dial(t, url)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeEngine{t: t, nc: nc, js: js, names: wire.Default, lease: 30 * time.Second, timeout: time.Minute, beatMS: 20_000, window: 1000,
		items: map[string]*fakeItem{}, workers: map[string]string{}, tokens: uint64(time.Now().UnixNano()), changed: make(chan struct{})}
	f.makeStream()
	f.back()
	if _, err := nc.Subscribe(f.names.LogAll(), func(m *nats.Msg) {
		var r wire.LogRecord
		_ = json.Unmarshal(m.Data, &r)
		f.mu.Lock()
		f.logs = append(f.logs, r)
		f.signal()
		f.mu.Unlock()
	}); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fakeEngine) signal() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// makeStream makes the dispatch stream anew, as an engine does at its start.
func (f *fakeEngine) makeStream() {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_ = f.js.DeleteStream(ctx, f.names.DispatchStream())
	if _, err := f.js.CreateStream(ctx, jetstream.StreamConfig{
		Name: f.names.DispatchStream(), Subjects: []string{f.names.RunAll()}, Storage: jetstream.MemoryStorage,
		Retention: jetstream.WorkQueuePolicy, FirstSeq: uint64(time.Now().UnixMilli()),
	}); err != nil {
		f.t.Fatal(err)
	}
}

// back makes the engine answer; away makes it silent.
func (f *fakeEngine) back() {
	for name, h := range map[string]func(*nats.Msg) any{
		wire.APIRegister: f.register, wire.APIHeartbeat: f.heartbeat, wire.APIUnregister: f.unregister, wire.APIReport: f.report,
	} {
		sub, err := f.nc.Subscribe(f.names.API(name), func(m *nats.Msg) {
			b, err := json.Marshal(h(m))
			if err == nil {
				err = m.Respond(b)
			}
			if err != nil {
				f.t.Log("fake engine:", err)
			}
		})
		if err != nil {
			f.t.Fatal(err)
		}
		f.subs = append(f.subs, sub)
	}
	if err := f.nc.Flush(); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fakeEngine) away() {
	for _, s := range f.subs {
		_ = s.Unsubscribe()
	}
	f.subs = nil
	_ = f.nc.Flush()
}

func (f *fakeEngine) register(m *nats.Msg) any {
	var r wire.Register
	_ = json.Unmarshal(m.Data, &r)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.onRegister != nil {
		if e := f.onRegister(r); e != nil {
			return wire.ErrorReply{Error: e}
		}
	}
	if s := f.workers[r.Worker]; s != "" && s != r.Session {
		return wire.ErrorReply{Error: &wire.Error{Code: events.CodeWorkerIDInUse, Message: "the id is alive in another session"}}
	}
	reply := wire.Registered{Session: r.Session, Stream: f.names.DispatchStream(), Consumers: map[string][]string{}, HeartbeatMS: f.beatMS, LeaseMS: map[string]int64{}}
	if reply.Session == "" {
		reply.Session = ulid.Make().String()
	}
	for _, typ := range r.Types {
		// Short: a server that is shutting down never answers.
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_, err := f.js.CreateOrUpdateConsumer(ctx, f.names.DispatchStream(), jetstream.ConsumerConfig{
			Durable: typ, FilterSubject: f.names.Run(events.Type(typ), ""), AckWait: f.lease, MaxDeliver: 1,
			AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: f.window, MemoryStorage: true,
		})
		cancel()
		if err != nil {
			return wire.ErrorReply{Error: &wire.Error{Code: events.CodeUnavailable, Message: err.Error()}}
		}
		reply.Consumers[typ] = []string{typ}
		reply.LeaseMS[typ] = f.lease.Milliseconds()
	}
	f.workers[r.Worker] = reply.Session
	f.signal()
	return reply
}

func (f *fakeEngine) heartbeat(m *nats.Msg) any {
	var h wire.Heartbeat
	_ = json.Unmarshal(m.Data, &h)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.beats = append(f.beats, h)
	f.signal()
	if f.workers[h.Worker] == "" {
		return wire.ErrorReply{Error: &wire.Error{Code: events.CodeUnknownWorker, Message: "register first"}}
	}
	if f.workers[h.Worker] != h.Session {
		return wire.ErrorReply{Error: &wire.Error{Code: events.CodeWorkerIDInUse, Message: "the id is alive in another session"}}
	}
	return f.beatReply
}

func (f *fakeEngine) unregister(m *nats.Msg) any {
	var u wire.Unregister
	_ = json.Unmarshal(m.Data, &u)
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.workers, u.Worker)
	f.gone = append(f.gone, u.Worker)
	f.signal()
	return wire.OK{OK: true}
}

func (f *fakeEngine) report(m *nats.Msg) any {
	var rs []wire.Report
	if err := json.Unmarshal(m.Data, &rs); err != nil {
		return wire.ErrorReply{Error: &wire.Error{Code: events.CodeBadRequest, Message: err.Error()}}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests++
	f.largest = max(f.largest, len(rs))
	out := make([]wire.Reported, len(rs))
	for i, r := range rs {
		if f.refuse != nil {
			if e := f.refuse(r); e != nil {
				out[i].Error, out[i].State = e, f.refusedAs
				continue
			}
		}
		out[i] = f.decide(r)
	}
	f.signal()
	return out
}

func (f *fakeEngine) decide(r wire.Report) wire.Reported {
	no := func(c events.Code) wire.Reported {
		return wire.Reported{Error: &wire.Error{Code: c, Message: "refused by the fake engine"}}
	}
	it := f.items[r.ID]
	switch {
	case it == nil:
		return no(events.CodeNotFound)
	case it.token != r.Token:
		return no(events.CodeStaleToken)
	case r.Event == wire.ReportClaim:
		if it.state == events.StateQueued {
			it.state, it.worker = events.StateRunning, r.Worker
			it.attempt++
		}
		if it.state != events.StateRunning || it.worker != r.Worker {
			return no(events.CodeWrongState)
		}
		return wire.Reported{OK: true, Attempt: it.attempt, TimeoutMS: f.timeout.Milliseconds(), Checkpoint: it.checkpoint, Continuation: it.continuation}
	}
	if !f.quiet {
		it.reports = append(it.reports, r)
	}
	if it.state != events.StateRunning {
		if r.Event == wire.ReportRelease && f.putsBack {
			f.dispatchLocked(it)
		}
		return wire.Reported{OK: true}
	}
	switch r.Event {
	case wire.ReportComplete:
		it.state = events.StateCompleted
		f.completed++
	case wire.ReportFail:
		it.state = events.StateFailed
	case wire.ReportRelease, wire.ReportSnooze:
		it.state = events.StateQueued
	case wire.ReportSpawn:
		it.state = events.StateWaiting
	case wire.ReportCheckpoint:
		it.checkpoint = r.Checkpoint
	}
	return wire.Reported{OK: true}
}

// submit makes an item and dispatches it.
func (f *fakeEngine) submit(typ, params string, headers ...string) string {
	f.t.Helper()
	f.mu.Lock()
	it := &fakeItem{id: ulid.Make().String(), typ: typ, params: params, state: events.StateQueued, headers: map[string]string{}}
	for i := 0; i+1 < len(headers); i += 2 {
		it.headers[headers[i]] = headers[i+1]
	}
	f.items[it.id] = it
	f.mu.Unlock()
	f.dispatch(it)
	return it.id
}

// dispatch publishes an item with a fresh token.
func (f *fakeEngine) dispatch(it *fakeItem) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dispatchLocked(it)
}

func (f *fakeEngine) dispatchLocked(it *fakeItem) {
	f.t.Helper()
	f.tokens++
	it.token = strconv.FormatUint(f.tokens, 36)
	m := nats.NewMsg(f.names.Run(events.Type(it.typ), ""))
	m.Data = []byte(it.params)
	m.Header = nats.Header{wire.HeaderID: {it.id}, wire.HeaderType: {it.typ}, wire.HeaderToken: {it.token},
		wire.HeaderAttempt: {strconv.Itoa(it.attempt + 1)}, wire.HeaderLease: {f.lease.String()}}
	for k, v := range it.headers {
		m.Header.Set(k, v)
	}
	if _, err := f.js.PublishMsgAsync(m); err != nil {
		f.t.Error(err)
	}
}

func (f *fakeEngine) redispatch(id string) {
	f.mu.Lock()
	it := f.items[id]
	it.state = events.StateQueued
	f.mu.Unlock()
	f.dispatch(it)
}

// item returns a copy of an item.
func (f *fakeEngine) item(id string) fakeItem {
	f.mu.Lock()
	defer f.mu.Unlock()
	it := *f.items[id]
	it.reports = slices.Clone(it.reports)
	return it
}

// until waits for a condition that is asked with the table locked.
func (f *fakeEngine) until(what string, ok func() bool) {
	f.t.Helper()
	deadline := time.After(2 * time.Minute)
	for {
		f.mu.Lock()
		changed := f.changed
		done := ok()
		f.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			f.t.Fatalf("waited in vain for: %s", what)
		}
	}
}

// outcome waits for an item's n-th report (claims left out) and returns it.
func (f *fakeEngine) outcome(id string, n int) wire.Report {
	f.t.Helper()
	f.until(fmt.Sprintf("report %d of %s", n, id), func() bool { return len(f.items[id].reports) >= n })
	return f.item(id).reports[n-1]
}

// untilAcked waits until the dispatch stream is empty.
func (f *fakeEngine) untilAcked() {
	f.t.Helper()
	need.Eventually(f.t, "all messages acked", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		s, err := f.js.Stream(ctx, f.names.DispatchStream())
		return err == nil && s.CachedInfo().State.Msgs == 0
	})
}

// control sends a worker a control message.
func (f *fakeEngine) control(w *Worker, c wire.Control) {
	b, _ := json.Marshal(c)
	if err := f.nc.Publish(f.names.Control(w.ID()), b); err != nil {
		f.t.Error(err)
	}
}

func (f *fakeEngine) ref(id string) wire.RunRef {
	it := f.item(id)
	return wire.RunRef{ID: id, Token: it.token}
}
