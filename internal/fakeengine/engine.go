package fakeengine

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Now is the fake engine's time: the start of its life.
var Now = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// Engine is the fake.
type Engine struct {
	URL string
	JS  jetstream.JetStream
	nc  *nats.Conn
	t   testing.TB

	server *natsserver.Server
	pages  *eventlog.Pages
	dir    string // the server's data

	appended atomic.Uint64

	mu       sync.Mutex
	items    map[string]*wire.Item
	position events.Seq
	seen     []wire.Position // min_position of every query
	requests map[string]int
	stumble  map[string][]Stumble
	changed  chan struct{} // closed at each change of an item
	settings map[string]events.TypeSettings
	drained  []string

	ctx   context.Context // ends requests for events
	leave context.CancelFunc
	stop  chan struct{} // ends waits
	waits sync.WaitGroup
}

// Stumble happens to one request instead of an answer.
type Stumble struct {
	Lose   bool          // it is done, but no reply comes
	Refuse *events.Error // this is the reply
	Meddle func() []byte // this is
}

// Start makes a fake engine with its streams on a server of its own.
func Start(t testing.TB) *Engine {
	t.Helper()
	dir := t.TempDir()
	server := ServerAt(t, dir, natsserver.RANDOM_PORT)
	url := server.ClientURL()
	nc := Dial(t, url)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	e := &Engine{
		URL: url, JS: js, server: server, dir: dir, nc: nc, t: t, items: map[string]*wire.Item{}, requests: map[string]int{},
		stumble: map[string][]Stumble{}, changed: make(chan struct{}), settings: map[string]events.TypeSettings{},
		stop: make(chan struct{}), pages: eventlog.NewPages(nc, wire.Default, func() events.Seq { return 0 }, nil),
	}
	e.ctx, e.leave = context.WithCancel(context.Background())
	n := wire.Default
	for _, cfg := range []jetstream.StreamConfig{
		{Name: n.IntakeStream(), Subjects: []string{n.SubmitAll()}},
		{Name: n.EventStream(0), Subjects: []string{n.Frame(0)}, AllowDirect: true},
		{Name: n.LogStream(), Subjects: []string{n.LogAll()}, AllowDirect: true},
	} {
		if _, err := js.CreateStream(context.Background(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	sub, err := nc.Subscribe(n.API("*"), e.serve)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = sub.Drain()
		close(e.stop)
		e.leave()
		e.waits.Wait()
	})
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return e
}

// Next makes the coming requests of an endpoint stumble, one after the other.
func (e *Engine) Next(endpoint string, s ...Stumble) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stumble[endpoint] = append(e.stumble[endpoint], s...)
}

// Requests returns the number of requests that an endpoint has had.
func (e *Engine) Requests(endpoint string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.requests[endpoint]
}

// Seen returns the min_position of each query so far.
func (e *Engine) Seen() []wire.Position {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.seen)
}

// Drained lists the workers that were asked to drain.
func (e *Engine) Drained() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.drained)
}

// Len returns the number of items.
func (e *Engine) Len() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.items)
}

// Set changes an item, making it if need be.
func (e *Engine) Set(id string, change func(*wire.Item)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	it, ok := e.items[id]
	if !ok {
		it = &wire.Item{ID: id, CreatedAt: Now, State: events.StateQueued, Type: "email"}
		e.items[id] = it
	}
	change(it)
	e.touch(it)
}

// touch gives an item a new position and wakes who waits. Call with mu held.
func (e *Engine) touch(it *wire.Item) {
	e.position++
	it.Position = wire.PositionOf(e.position)
	close(e.changed)
	e.changed = make(chan struct{})
}

// Append puts events into the log, as one frame.
func (e *Engine) Append(evs ...events.Event) {
	e.t.Helper()
	before := e.appended.Add(uint64(len(evs))) - uint64(len(evs))
	msg, err := eventlog.NewMessage(wire.Default, 0, &eventlog.Write{Epoch: 1, Node: "fake", Before: before, Events: evs})
	if err != nil {
		e.t.Fatal(err)
	}
	// Tried again under the same id: the server may just be restarting.
	msg.Header.Set(jetstream.MsgIDHeader, strconv.FormatUint(before, 36))
	for tries := 0; ; tries++ {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		_, err := e.JS.PublishMsg(ctx, msg)
		cancel()
		if err == nil {
			e.pages.Grown()
			return
		}
		if tries == 10 {
			e.t.Fatal(err)
		}
	}
}

// Log puts a record into an item's log.
func (e *Engine) Log(typ, id, message string) {
	e.t.Helper()
	wid, err := events.ParseID(id)
	if err != nil {
		e.t.Fatal(err)
	}
	data, _ := json.Marshal(wire.LogRecord{At: Now, Level: "info", Attempt: 1, Message: message})
	if _, err := e.JS.Publish(context.Background(), wire.Default.Log(events.Type(typ), wid), data); err != nil {
		e.t.Fatal(err)
	}
}

func (e *Engine) serve(m *nats.Msg) {
	op := m.Subject[len("work.api."):]
	if op == wire.APIWait {
		e.waits.Go(func() { e.wait(m) })
		return
	}
	if op == wire.APIEvents {
		e.waits.Go(func() { e.events(m) })
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.requests[op]++
	var s Stumble
	if q := e.stumble[op]; len(q) > 0 {
		s, e.stumble[op] = q[0], q[1:]
	}
	switch {
	case s.Refuse != nil:
		e.reply(m, wire.ErrorReply{Error: wire.FromError(s.Refuse)})
		return
	case s.Meddle != nil:
		_ = m.Respond(s.Meddle())
		return
	}
	answer, err := e.answer(op, m)
	if err != nil {
		answer = wire.ErrorReply{Error: wire.FromError(err)}
	}
	if !s.Lose && answer != nil {
		e.reply(m, answer)
	}
}

func (e *Engine) reply(m *nats.Msg, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		e.t.Error(err)
	}
	_ = m.Respond(data)
}

// find returns the item a query is about. Call with mu held.
func (e *Engine) find(id string) (*wire.Item, error) {
	it, ok := e.items[id]
	if !ok {
		return nil, events.Refuse(events.CodeNotFound, "there is no item %s", id)
	}
	return it, nil
}

// sorted returns all items, by id.
func (e *Engine) sorted() (out []wire.Item) {
	for _, id := range slices.Sorted(maps.Keys(e.items)) {
		out = append(out, *e.items[id])
	}
	return out
}
