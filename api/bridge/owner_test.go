package bridge_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/streamwright/streamwright/api/bridge"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

// counted is an engine that counts the requests to each endpoint.
type counted struct {
	engine bridge.Caller

	mu    sync.Mutex
	calls map[string]int
}

func (f *counted) Call(ctx context.Context, endpoint string, body []byte) ([]byte, error) {
	f.mu.Lock()
	f.calls[endpoint]++
	f.mu.Unlock()
	return f.engine.Call(ctx, endpoint, body)
}

func (f *counted) count(endpoint string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[endpoint]
}

// A worker that waits for work is registered with a new owner at once, and its poll goes on.
func TestNewOwnerHearsOfThoseWhoWait(t *testing.T) {
	f := &counted{calls: map[string]int{}}
	b, e := bareWith(t, func(c *bridge.Config) { f.engine, c.Engine = c.Engine, f })
	ctx := testContext(t)
	reg, err := b.Register(ctx, wire.WorkerRegistration{Types: []string{"step"}, Slots: 1})
	if err != nil {
		t.Fatal(err)
	}
	polled := make(chan wire.Polled, 1)
	go func() {
		got, err := b.Poll(ctx, reg.Worker, wire.Poll{Session: reg.Session, Wait: ms(30 * time.Second)})
		if err != nil {
			t.Error(err)
		}
		polled <- got
	}()
	need.Eventually(t, "the poll is open", func() bool { return e.waiting(t, "step") == 1 })
	was := f.count(wire.APIRegister)
	if _, err := e.client.Engine().Rebuild(ctx, nil); err != nil { // after which the engine takes its log over anew
		t.Fatal(err)
	}
	need.Eventually(t, "another registration", func() bool { return f.count(wire.APIRegister) > was })
	id := e.submit(t, "step", `{}`)
	if got := <-polled; len(got.Items) != 1 || got.Items[0].ID != id {
		t.Errorf("polled %+v", got)
	}
}
