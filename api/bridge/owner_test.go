package bridge_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/streamwright/streamwright/api/bridge"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

// fickle is an engine that refuses the first requests to each endpoint, as while the
// owner changes, and counts them.
type fickle struct {
	engine bridge.Caller
	refuse []error

	mu    sync.Mutex
	calls map[string]int
}

func (f *fickle) Call(ctx context.Context, endpoint string, body []byte) ([]byte, error) {
	f.mu.Lock()
	n := f.calls[endpoint]
	f.calls[endpoint]++
	f.mu.Unlock()
	if n < len(f.refuse) {
		return nil, f.refuse[n]
	}
	return f.engine.Call(ctx, endpoint, body)
}

func (f *fickle) count(endpoint string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[endpoint]
}

// An HTTP worker sees no error while the owner changes: what it asks for is done a little
// later.
func TestOwnerChangeIsNotSeen(t *testing.T) {
	f := &fickle{calls: map[string]int{}, refuse: []error{events.ErrShuttingDown, events.Refuse(events.CodeNotOwner, "another engine owns the log"), events.Refuse(events.CodeUnavailable, "no engine answers")}}
	b, e := bareWith(t, func(c *bridge.Config) { f.engine, c.Engine = c.Engine, f })
	ctx := testContext(t)
	reg, err := b.Register(ctx, wire.WorkerRegistration{Types: []string{"step"}, Slots: 1})
	if err != nil {
		t.Fatal(err)
	}
	e.submit(t, "step", `{}`)
	got, err := b.Poll(ctx, reg.Worker, wire.Poll{Session: reg.Session, Claim: true})
	if err != nil || len(got.Items) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	it := got.Items[0]
	if _, err := b.Heartbeat(ctx, reg.Worker, wire.WorkerHeartbeat{Session: reg.Session, InFlight: []wire.RunRef{{ID: it.ID, Token: it.Token}}}); err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	clear(f.calls)
	f.mu.Unlock()
	if rs, err := b.Report(ctx, reg.Worker, reg.Session, []wire.Report{complete(it, `1`)}); err != nil || !rs[0].OK {
		t.Fatalf("%+v, %v", rs, err)
	}
	if n := f.count(wire.APIReport); n != 1+len(f.refuse) {
		t.Errorf("%d requests", n)
	}
}

// A worker that waits for work is registered with a new owner at once.
func TestNewOwnerHearsOfThoseWhoWait(t *testing.T) {
	f := &fickle{calls: map[string]int{}}
	b, e := bareWith(t, func(c *bridge.Config) { f.engine, c.Engine = c.Engine, f })
	ctx := testContext(t)
	reg, err := b.Register(ctx, wire.WorkerRegistration{Types: []string{"step"}, Slots: 1})
	if err != nil {
		t.Fatal(err)
	}
	polled := make(chan error, 1)
	go func() {
		_, err := b.Poll(ctx, reg.Worker, wire.Poll{Session: reg.Session, WaitMS: ms(30 * time.Second)})
		polled <- err
	}()
	need.Eventually(t, "the poll is open", func() bool { return e.waiting(t, "step") == 1 })
	was := f.count(wire.APIRegister)
	if _, err := e.client.Engine().Rebuild(ctx, nil); err != nil { // after which the engine takes its log over anew
		t.Fatal(err)
	}
	need.Eventually(t, "another registration", func() bool { return f.count(wire.APIRegister) > was })
	e.submit(t, "step", `{}`)
	if err := <-polled; err != nil {
		t.Error(err)
	}
}
