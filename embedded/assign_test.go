package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/oklog/ulid/v2"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/logins"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

// register registers a worker as somebody, and returns the refusal.
func register(t *testing.T, nc *nats.Conn, e *Engine, r wire.Register) (reply wire.Registered, err error) {
	t.Helper()
	body, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	m, err := nc.RequestWithContext(testContext(t), e.names().API(wire.APIRegister), body)
	if err != nil {
		t.Fatal(err)
	}
	var refused wire.ErrorReply
	if err := json.Unmarshal(m.Data, &refused); err == nil && refused.Error != nil {
		return reply, refused.Error.Err()
	}
	return reply, json.Unmarshal(m.Data, &reply)
}

// Items run, however long they take; what spawns, snoozes, or saves a checkpoint does so as ever.
func TestItemsAreAssigned(t *testing.T) {
	slow(t)
	t.Parallel()
	e := mustStart(t, Options{Memory: true})
	c := mustClient(t, e)
	began := make(chan struct{})
	hold := make(chan struct{})
	serve(t, e, 8, func(ctx context.Context, it *workers.RawItem) (any, error) {
		switch {
		case string(it.Raw) == `"long"`:
			close(began)
			<-hold
		case string(it.Raw) == `"snooze"` && it.Checkpoint == nil:
			if err := workers.Checkpoint(ctx, 1); err != nil {
				return nil, err
			}
			return workers.Snooze(10 * time.Millisecond), nil
		case string(it.Raw) == `"spawn"` && it.Continuation == nil:
			return workers.Spawn(workers.Child{Type: "email", Params: "child"}).Then("end"), nil
		case string(it.Raw) == `"fail"` && it.Attempt == 1:
			return nil, errors.New("once")
		}
		return string(it.Raw), nil
	}, "email")
	list := []streamwright.Item{{Type: "email", Params: "long"}, {Type: "email", Params: "snooze"}, {Type: "email", Params: "spawn"}, {Type: "email", Params: "fail"}}
	for i := range 300 {
		list = append(list, streamwright.Item{Type: "email", Params: i})
	}
	subs, err := c.SubmitMany(testContext(t), list)
	if err != nil {
		t.Fatal(err)
	}
	<-began
	until(t, "the long one is known to run", func() bool {
		it, err := c.Get(testContext(t), subs[0].ID)
		return err == nil && it.State == events.StateRunning
	})
	close(hold)
	for _, s := range subs {
		it, err := c.Wait(testContext(t), s.ID)
		if err != nil || it.State != events.StateCompleted {
			t.Fatalf("%+v %v", it, err)
		}
		if it.StartedAt.IsZero() || it.StartedAt.Before(it.ClaimedAt) {
			t.Errorf("claimed at %s, started at %s", it.ClaimedAt, it.StartedAt)
		}
	}
}

// A handler whose item is cancelled stops, and its slot goes to the next item.
func TestAnAssignedRunIsCancelled(t *testing.T) {
	t.Parallel()
	e := mustStart(t, Options{Memory: true})
	c := mustClient(t, e)
	began := make(chan string, 10)
	serve(t, e, 1, func(ctx context.Context, it *workers.RawItem) (any, error) {
		began <- string(it.Raw)
		if string(it.Raw) == `"a"` {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		return nil, nil
	}, "email")
	a, err := c.Submit(testContext(t), streamwright.Item{Type: "email", Params: "a"})
	if err != nil {
		t.Fatal(err)
	}
	b, err := c.Submit(testContext(t), streamwright.Item{Type: "email", Params: "b"})
	if err != nil {
		t.Fatal(err)
	}
	if got := <-began; got != `"a"` {
		t.Fatalf("%s began", got)
	}
	if _, _, err := c.Cancel(testContext(t), a.ID, "no more"); err != nil {
		t.Fatal(err)
	}
	if it, err := c.Wait(testContext(t), b.ID); err != nil || it.State != events.StateCompleted {
		t.Fatalf("%+v %v", it, err)
	}
}

// A worker is given no more than it has slots for, of a type no more than its handler's
// limit; workers with inboxes and workers that pull serve one type.
func TestAssignedWithinTheSlots(t *testing.T) {
	slow(t)
	t.Parallel()
	e := mustStart(t, Options{Memory: true})
	c := mustClient(t, e)
	var all, slowOnes, most, mostSlow atomic.Int64
	raise := func(to *atomic.Int64, n int64) {
		for was := to.Load(); n > was && !to.CompareAndSwap(was, n); was = to.Load() {
		}
	}
	nc, err := e.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	w, err := workers.New(nc, workers.Config{Logger: slog.New(slog.DiscardHandler), Names: e.names(), Concurrency: 5})
	if err != nil {
		t.Fatal(err)
	}
	run := func(n *atomic.Int64, max *atomic.Int64) workers.Handler {
		return func(context.Context, *workers.RawItem) (any, error) {
			raise(&most, all.Add(1))
			raise(max, n.Add(1))
			time.Sleep(time.Millisecond)
			n.Add(-1)
			all.Add(-1)
			return nil, nil
		}
	}
	workers.HandleRaw(w, "slow", run(&slowOnes, &mostSlow), workers.Limit(2))
	var quick, mostQuick atomic.Int64
	workers.HandleRaw(w, "quick", run(&quick, &mostQuick))
	if err := w.Start(testContext(t)); err != nil {
		t.Fatal(err)
	}
	var list []streamwright.Item
	for i := range 400 {
		list = append(list, streamwright.Item{Type: []string{"slow", "quick"}[i%2], Params: i})
	}
	subs, err := c.SubmitMany(testContext(t), list)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range subs {
		if it, err := c.Wait(testContext(t), s.ID); err != nil || it.State != events.StateCompleted {
			t.Fatalf("%+v %v", it, err)
		}
	}
	if most.Load() > 5 || mostSlow.Load() > 2 {
		t.Errorf("%d ran at once, %d of them slow", most.Load(), mostSlow.Load())
	}
	if err := w.Stop(testContext(t)); err != nil {
		t.Error(err)
	}
}

// What runs when the engine stops is completed with the next one, which knows the worker
// again; what waited goes on.
func TestAssignedRunsOutliveTheEngine(t *testing.T) {
	logins.Open(t, "it connects as nobody")
	slow(t)
	t.Parallel()
	o := quiet(t.TempDir())
	o.Config = config.Default()
	o.NATSListen = "127.0.0.1:0"
	e := mustStart(t, o)
	url := e.URL()
	o.NATSListen = url[len("nats://"):]
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	w, err := workers.New(nc, workers.Config{Logger: slog.New(slog.DiscardHandler), Concurrency: 2})
	if err != nil {
		t.Fatal(err)
	}
	began, hold := make(chan struct{}, 10), make(chan struct{})
	workers.HandleRaw(w, "email", func(context.Context, *workers.RawItem) (any, error) {
		began <- struct{}{}
		<-hold
		return nil, nil
	})
	if err := w.Start(testContext(t)); err != nil {
		t.Fatal(err)
	}
	var ids []string
	c := mustClient(t, e)
	for i := range 5 {
		s, err := c.Submit(testContext(t), streamwright.Item{Type: "email", Params: i})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, s.ID)
	}
	<-began
	<-began
	stopEngine(t, e)
	e = mustStart(t, o)
	close(hold)
	c = mustClient(t, e)
	for _, id := range ids {
		it, err := c.Wait(testContext(t), id)
		if err != nil || it.State != events.StateCompleted || it.Attempt != 1 {
			t.Fatalf("%+v %v", it, err)
		}
	}
	if err := w.Stop(testContext(t)); err != nil {
		t.Error(err)
	}
}

// The items of a customer go to one worker: also when it works for another owner, and not
// while it has no slot free. Those of a worker that goes spread over the others, which keep
// theirs. Other types have their own way.
func TestATypeSaysWhoIsAssignedItsItems(t *testing.T) {
	logins.Open(t, "it connects as nobody")
	slow(t)
	t.Parallel()
	o := quiet(t.TempDir())
	o.Config = config.Default()
	o.NATSListen = "127.0.0.1:0"
	o.Config.Types = map[events.Type]config.Type{"email": {Patch: config.Patch{"assign_by": "label:customer"}}}
	e := mustStart(t, o)
	url := e.URL()
	o.NATSListen = url[len("nats://"):]
	c := mustClient(t, e)
	if _, err := c.Types().Configure(testContext(t), "page", streamwright.Settings{AssignBy: new(events.AssignRoundRobin)}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Types().Configure(testContext(t), "email", streamwright.Settings{AssignBy: new(events.PerTenant)}); events.CodeOf(err) != events.CodeSetInFile {
		t.Errorf("what the file sets is changed: %v", err)
	}
	began, hold := make(chan struct{}), make(chan struct{})
	stop := map[string]func(){}
	for i := range 3 {
		id := fmt.Sprint("w", i)
		stop[id] = serveAs(t, url, id, func(_ context.Context, it *workers.RawItem) (any, error) {
			if string(it.Raw) == `"long"` {
				close(began)
				<-hold
			}
			return nil, nil
		}, "email", "page")
	}
	submit := func(item streamwright.Item) string {
		t.Helper()
		s, err := c.Submit(testContext(t), item)
		if err != nil {
			t.Fatal(err)
		}
		return s.ID
	}
	ran := func(id string) string {
		t.Helper()
		it, err := c.Wait(testContext(t), id)
		if err != nil || it.State != events.StateCompleted {
			t.Fatalf("%+v %v", it, err)
		}
		return string(it.Worker)
	}
	all := func(n int) {
		t.Helper()
		until(t, fmt.Sprintf("%d workers take turns", n), func() bool {
			seen := map[string]bool{}
			for range n {
				seen[ran(submit(streamwright.Item{Type: "page"}))] = true
			}
			return len(seen) == n
		})
	}
	const customers = 11
	of := func(i int) streamwright.Item {
		return streamwright.Item{Type: "email", Labels: map[string]string{"customer": fmt.Sprint("c", i)}}
	}
	homes := func() (list []string) {
		t.Helper()
		for i := range customers {
			list = append(list, ran(submit(of(i))))
		}
		return list
	}
	all(3)
	first := homes()
	if again := homes(); !slices.Equal(again, first) {
		t.Errorf("first %s, then %s", first, again)
	}
	stopEngine(t, e)
	e = mustStart(t, o)
	c = mustClient(t, e)
	all(3)
	if again := homes(); !slices.Equal(again, first) {
		t.Errorf("with one owner %s, with the next %s", first, again)
	}
	long := of(0)
	long.Params = "long"
	id := submit(long)
	<-began
	if w := ran(submit(of(0))); w == first[0] {
		t.Errorf("%s has run two at once", w)
	}
	close(hold)
	if w := ran(id); w != first[0] {
		t.Errorf("the first was with %s, not %s", w, first[0])
	}
	stop[first[0]]()
	for i, w := range homes() {
		if moved := w != first[i]; moved != (first[i] == first[0]) {
			t.Errorf("%s has gone: customer %d was with %s, and is with %s", first[0], i, first[i], w)
		}
	}
}

// serveAs runs a worker with a name and one slot.
func serveAs(t *testing.T, url, id string, handle workers.Handler, types ...string) (stop func()) {
	t.Helper()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, nc, workers.Config{ID: events.WorkerID(id), Concurrency: 1}, handle, types...)
}

// An item that comes from an earlier owner, after the worker's heartbeat to this one, does
// not run: it has been taken back.
func TestItemsOfAnEarlierOwnerDoNotRun(t *testing.T) {
	slow(t)
	t.Parallel()
	o := Options{Memory: true}
	o.Config = config.Default()
	o.Config.Workers.HeartbeatInterval = 100 * time.Millisecond
	e := mustStart(t, o)
	c := mustClient(t, e)
	sent, beats := make(chan *nats.Msg, 10), make(chan *nats.Msg, 1000)
	for subject, to := range map[string]chan *nats.Msg{e.names().RunOfAll(): sent, e.names().API(wire.APIHeartbeat): beats} {
		if _, err := e.nc.ChanSubscribe(subject, to); err != nil {
			t.Fatal(err)
		}
	}
	began, hold := make(chan string, 10), make(chan struct{})
	defer close(hold)
	serve(t, e, 4, func(ctx context.Context, it *workers.RawItem) (any, error) {
		began <- it.ID.String()
		<-hold
		return nil, nil
	}, "email")
	first, err := c.Submit(testContext(t), streamwright.Item{Type: "email"})
	if err != nil {
		t.Fatal(err)
	}
	msg := <-sent
	if id := <-began; id != first.ID {
		t.Fatalf("%s runs, not %s", id, first.ID)
	}
	<-beats
	<-beats // the first has been answered
	var items []wire.Assigned
	if err := json.Unmarshal(msg.Data, &items); err != nil || len(items) != 1 {
		t.Fatalf("%s: %v", msg.Data, err)
	}
	for i, epoch := range []events.Epoch{e.decider.dispatcher.Epoch() - 1, e.decider.dispatcher.Epoch()} {
		items[0].ID, items[0].Token = ulid.Make().String(), events.NewToken(epoch, 1<<39).String()
		body, err := json.Marshal(items)
		if err != nil {
			t.Fatal(err)
		}
		if err := e.nc.Publish(msg.Subject, body); err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			if id := <-began; id != items[0].ID {
				t.Errorf("%s runs, not %s", id, items[0].ID)
			}
		}
	}
}

// Nobody gets another's items by what he registers, and nobody but the engine assigns.
func TestNobodySendsWorkersItems(t *testing.T) {
	slow(t)
	e := guarded(t)
	c, refused := as(t, e, "work")
	for _, session := range []string{"", "*", ">", "a.b", "a b", "é", fmt.Sprintf("%065d", 1)} {
		_, err := register(t, c.Conn(), e, wire.Register{Worker: "w", Types: []string{"email"}, Slots: 1, Session: session})
		if events.CodeOf(err) != events.CodeBadRequest {
			t.Errorf("session %q: %v", session, err)
		}
	}
	reg, err := register(t, c.Conn(), e, wire.Register{Worker: "w", Types: []string{"email"}, Slots: 1, Session: "abc"})
	if err != nil || reg.Session != "abc" {
		t.Fatalf("%+v, %v", reg, err)
	}
	got := make(chan *nats.Msg, 10)
	if _, err := c.Conn().ChanSubscribe(e.names().RunsOf("abc"), got); err != nil {
		t.Fatal(err)
	}
	noneRefused(t, c, refused)
	// While it lives, its id is nobody else's.
	if _, err := register(t, c.Conn(), e, wire.Register{Worker: "w", Types: []string{"email"}, Slots: 1, Session: "def"}); events.CodeOf(err) != events.CodeWorkerIDInUse {
		t.Errorf("another session under the id: %v", err)
	}
	for _, user := range []string{"work", "submit", "read"} {
		other, refused := as(t, e, user)
		if err := other.Conn().Publish(e.names().RunOf("email", "abc"), []byte(`[]`)); err != nil {
			t.Fatal(err)
		}
		if err := other.Conn().FlushTimeout(testTimeout); err != nil {
			t.Fatal(err)
		}
		select {
		case <-refused:
		case <-time.After(testTimeout):
			t.Errorf("%s may send a worker items", user)
		}
	}
	for _, user := range []string{"submit", "read"} {
		other, refused := as(t, e, user)
		if _, err := other.Conn().ChanSubscribe(e.names().RunOfAll(), make(chan *nats.Msg, 1)); err != nil {
			t.Fatal(err)
		}
		if err := other.Conn().FlushTimeout(testTimeout); err != nil {
			t.Fatal(err)
		}
		select {
		case <-refused:
		case <-time.After(testTimeout):
			t.Errorf("%s may listen to what workers are sent", user)
		}
	}
	// An item comes to it, and to report on it takes its token.
	s := submit(t, e, wire.Submit{Type: "email"})
	m := <-got
	list, err := wire.DecodeAssigned(nil, m.Data)
	if err != nil || len(list) != 1 || list[0].ID != s.ID || m.Reply != "" {
		t.Fatalf("%+v, %v", list, err)
	}
}
