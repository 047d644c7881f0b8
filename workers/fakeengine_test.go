package workers

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/oklog/ulid/v2"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// fakeItem is one item in the fake engine's table.
type fakeItem struct {
	id      string
	typ     string
	params  string
	state   events.ItemState
	token   string
	attempt int
	reports []wire.Report // granted ones, starts left out
	life    *fakeLife     // that has its present run
	more    func(*wire.Assigned)

	checkpoint   json.RawMessage
	continuation *wire.Continuation
}

// fakeLife is one session of a worker.
type fakeLife struct {
	reg     wire.Register
	busy    int
	ofType  map[string]int
	resting bool // given nothing before its next heartbeat
	unfit   bool // by its own checks
	held    bool // by a control message
}

// room returns how many more items of a type the session takes.
func (l *fakeLife) room(typ string) int {
	if l.resting || l.unfit || l.held || l.reg.Offers || !slices.Contains(l.reg.Types, typ) {
		return 0
	}
	n := l.reg.Slots - l.busy
	if most := l.reg.Most[typ]; most > 0 {
		n = min(n, most-l.ofType[typ])
	}
	return n
}

// fakeEngine answers the worker protocol from a table in memory.
type fakeEngine struct {
	t     testing.TB
	nc    *nats.Conn
	names wire.Names

	mu        sync.Mutex
	lease     time.Duration
	timeout   time.Duration
	beat      time.Duration
	items     map[string]*fakeItem
	workers   map[string]string    // sessions
	lives     map[string]*fakeLife // by session
	waiting   []*fakeItem          // to be sent, oldest first
	absent    bool
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
	putsBack   bool          // send again what is handed back
}

func newFakeEngine(t testing.TB, url string) *fakeEngine {
	t.Helper()
	nc := dial(t, url)
	f := &fakeEngine{t: t, nc: nc, names: wire.Default, lease: 30 * time.Second, timeout: time.Minute, beat: 20 * time.Second,
		items: map[string]*fakeItem{}, workers: map[string]string{}, lives: map[string]*fakeLife{}, tokens: uint64(time.Now().UnixNano()), changed: make(chan struct{})}
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
	f.mu.Lock()
	defer f.mu.Unlock()
	f.absent = false
	f.assign()
}

func (f *fakeEngine) away() {
	f.mu.Lock()
	f.absent = true
	f.mu.Unlock()
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
	reply := wire.Registered{Session: r.Session, Heartbeat: events.DurationOf(f.beat), Lease: map[string]events.Duration{}}
	for _, typ := range r.Types {
		reply.Lease[typ] = events.DurationOf(f.lease)
	}
	f.workers[r.Worker] = r.Session
	f.life(&r)
	f.assign()
	f.signal()
	return reply
}

// life returns a session, as its worker describes it now. REQUIRES: mu.
func (f *fakeEngine) life(r *wire.Register) *fakeLife {
	l := f.lives[r.Session]
	if l == nil {
		l = &fakeLife{ofType: map[string]int{}}
		f.lives[r.Session] = l
	}
	l.reg = *r
	return l
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
	l := f.life(&h.Register)
	l.resting, l.unfit = false, f.beatReply.ShouldDrain || f.beatReply.Status == wire.WorkerUnhealthy || h.Health.Reason() != ""
	f.assign()
	return f.beatReply
}

func (f *fakeEngine) unregister(m *nats.Msg) any {
	var u wire.Unregister
	_ = json.Unmarshal(m.Data, &u)
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.workers, u.Worker)
	delete(f.lives, u.Session)
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
	f.assign()
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
	}
	if it.state == events.StateClaimed && (r.Event == wire.ReportStart || r.Start) {
		it.state = events.StateRunning
		it.attempt++
	}
	if r.Event == wire.ReportStart {
		if it.state != events.StateRunning {
			return no(events.CodeWrongState)
		}
		return wire.Reported{OK: true, Attempt: it.attempt, Timeout: events.DurationOf(f.timeout)}
	}
	if !f.quiet {
		it.reports = append(it.reports, r)
	}
	switch {
	case r.Event == wire.ReportProgress || r.Event == wire.ReportCheckpoint:
	case it.state == events.StateClaimed && it.life != nil:
		it.life.resting = true
		fallthrough
	default:
		f.free(it)
	}
	switch r.Event {
	case wire.ReportComplete:
		it.state = events.StateCompleted
		f.completed++
	case wire.ReportFail:
		it.state = events.StateFailed
	case wire.ReportRelease, wire.ReportSnooze:
		it.state = events.StateQueued
		if r.Event == wire.ReportRelease && f.putsBack {
			f.waiting = append(f.waiting, it)
		}
	case wire.ReportSpawn:
		it.state = events.StateWaiting
	case wire.ReportCheckpoint:
		it.checkpoint = r.Checkpoint
	}
	return wire.Reported{OK: true}
}

// free lets go of an item's run. REQUIRES: mu.
func (f *fakeEngine) free(it *fakeItem) {
	if it.life != nil {
		it.life.busy--
		it.life.ofType[it.typ]--
		it.life = nil
	}
}

// add makes an item that is not to be sent yet.
func (f *fakeEngine) add(typ, params string, more ...func(*wire.Assigned)) *fakeItem {
	f.mu.Lock()
	defer f.mu.Unlock()
	it := &fakeItem{id: ulid.Make().String(), typ: typ, params: params, state: events.StateQueued, more: func(a *wire.Assigned) {
		for _, fn := range more {
			fn(a)
		}
	}}
	f.items[it.id] = it
	return it
}

// submit makes an item, which is sent as soon as a worker has a slot for it.
func (f *fakeEngine) submit(typ, params string, more ...func(*wire.Assigned)) string {
	f.t.Helper()
	it := f.add(typ, params, more...)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting = append(f.waiting, it)
	f.assign()
	return it.id
}

// push makes an item and sends it to a worker, whether it has a slot or not.
func (f *fakeEngine) push(w *Worker, typ string) string {
	it := f.add(typ, `{}`)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.send(it, w.session.id)
	return it.id
}

// assign sends what waits to the workers that have room. REQUIRES: mu.
func (f *fakeEngine) assign() {
	if f.absent {
		return
	}
	rest := f.waiting[:0]
next:
	for _, it := range f.waiting {
		for _, session := range f.workers {
			if l := f.lives[session]; l != nil && l.room(it.typ) > 0 {
				f.send(it, session)
				continue next
			}
		}
		rest = append(rest, it)
	}
	f.waiting = rest
}

// send sends an item with a fresh token. REQUIRES: mu.
func (f *fakeEngine) send(it *fakeItem, session string) {
	f.free(it)
	f.tokens++
	it.token, it.state = strconv.FormatUint(f.tokens, 36), events.StateClaimed
	if it.life = f.lives[session]; it.life != nil {
		it.life.busy++
		it.life.ofType[it.typ]++
	}
	a := wire.Assigned{ID: it.id, Type: it.typ, Token: it.token, Attempt: it.attempt + 1, Lease: events.DurationOf(f.lease), Timeout: events.DurationOf(f.timeout),
		Left: wire.Left{Checkpoint: it.checkpoint, Continuation: it.continuation}, Bytes: len(it.params), Params: json.RawMessage(it.params)}
	it.more(&a)
	b, err := json.Marshal([]wire.Assigned{a})
	if err == nil {
		err = f.nc.Publish(f.names.RunOf(events.Type(it.typ), session), b)
	}
	if err != nil {
		f.t.Error(err)
	}
}

// resubmit has an item sent again, under another token.
func (f *fakeEngine) resubmit(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	it := f.items[id]
	f.free(it)
	it.state = events.StateQueued
	f.waiting = append(f.waiting, it)
	f.assign()
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

// outcome waits for an item's n-th report (starts left out) and returns it.
func (f *fakeEngine) outcome(id string, n int) wire.Report {
	f.t.Helper()
	f.until(fmt.Sprintf("report %d of %s", n, id), func() bool { return len(f.items[id].reports) >= n })
	return f.item(id).reports[n-1]
}

// control sends a worker a control message.
func (f *fakeEngine) control(w *Worker, c wire.Control) {
	f.mu.Lock()
	if l := f.lives[w.session.id]; l != nil {
		l.held = c.Drain || c.Status == wire.WorkerUnhealthy
	}
	f.mu.Unlock()
	b, _ := json.Marshal(c)
	if err := f.nc.Publish(f.names.Control(w.ID()), b); err != nil {
		f.t.Error(err)
	}
}

func (f *fakeEngine) ref(id string) wire.RunRef {
	it := f.item(id)
	return wire.RunRef{ID: id, Token: it.token}
}
