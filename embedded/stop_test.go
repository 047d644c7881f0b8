package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

// longCommands configures two types whose children run for longer than any test.
func longCommands(t *testing.T) config.Config {
	sleep := need.Program(t, "sleep")
	return configOf(t, fmt.Sprintf("[types.one]\nexec = [%q, \"600\"]\n[types.two]\nexec = [%q, \"600\"]\n", sleep, sleep))
}

func startChildren(t *testing.T, e *Engine) (ids []string) {
	t.Helper()
	for _, typ := range []string{"one", "two"} {
		s := submit(t, e, wire.Submit{Type: typ, Params: json.RawMessage(`{}`)})
		need.Eventually(t, "its child runs", func() bool { return get(t, e, s).State == events.StateRunning })
		ids = append(ids, s.ID)
	}
	return ids
}

// Children that would run for longer than a stop may take don't use up its time: all else
// stops in order, and their items are queued again with no attempt used.
func TestStopWithLongChildren(t *testing.T) {
	slow(t)
	t.Parallel()
	o := Options{Dir: t.TempDir(), NATSListen: config.Off, HTTP: "127.0.0.1:0", Config: longCommands(t)}
	e := mustStart(t, o)
	ids := startChildren(t, e)
	c := mustClient(t, e)

	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Second)
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- e.Stop(ctx) }()
	begun, answered := time.Now(), time.Duration(0)
	for ctx.Err() == nil {
		ask, cancel := context.WithTimeout(ctx, time.Second)
		_, err := c.Get(ask, ids[0])
		if cancel(); err != nil {
			break
		}
		answered = time.Since(begun)
	}
	if answered < 3*time.Second {
		t.Errorf("the children have four seconds to finish, and requests were answered for %s", answered)
	}
	if err := <-stopped; err != nil {
		t.Errorf("stop: %v", err)
	}
	if ctx.Err() != nil {
		t.Error("the stop took all of its time")
	}

	o.Config = config.Config{}
	e = mustStart(t, o)
	for _, id := range ids {
		if it := request[wire.Item](t, e, wire.APIGet, wire.Get{ID: id}); it.State != events.StateQueued || it.Attempt > 1 {
			t.Errorf("item of a child that was ended by the stop: %s, attempt %d, %+v", it.State, it.Attempt, it.Error)
		}
	}
}

// An owner with a long child hands the log to its heir, which has it when the stop ends.
func TestStopWithLongChildHasAnHeir(t *testing.T) {
	slow(t)
	t.Parallel()
	srv, err := natsserver.NewServer(&natsserver.Options{Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), MaxPayload: 4 << 20, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	options := func(node string) Options {
		return Options{Dir: t.TempDir(), NATSURL: srv.ClientURL(), HTTP: config.Off, Config: longCommands(t), Cluster: config.Cluster{Node: node}}
	}
	first := mustStart(t, options("n1"))
	startChildren(t, first)
	second := mustStart(t, options("n2"))
	need.Eventually(t, "the second can be the heir", func() bool { return first.ledger.lease.chooseHeir(testContext(t)) == second.nodeName() })

	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Second)
	defer cancel()
	if err := first.Stop(ctx); err != nil {
		t.Errorf("stop: %v", err)
	}
	if !second.ledger.lease.owns.Load() {
		t.Error("the first has stopped, and the heir does not own the log")
	}
}

// A stop whose time is over returns, and lets go of the data folder, only when the NATS
// server has stopped. The folder can be used at once then.
func TestStopKeepsTheFolderUntilTheServerHasStopped(t *testing.T) {
	o := quiet(t.TempDir())
	e, err := Start(testContext(t), o)
	if err != nil {
		t.Fatal(err)
	}
	s := submit(t, e, wire.Submit{Type: "email", Params: json.RawMessage(`{}`)})
	e.srv.changing.RLock() // the server can't stop; readers go on
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- e.Stop(ended) }()
	need.Eventually(t, "all but the server has stopped", e.nc.IsClosed)
	select {
	case err := <-stopped:
		t.Errorf("Stop returned while the NATS server runs: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	if _, err := Start(testContext(t), o); !errors.Is(err, ErrInUse) {
		t.Errorf("a start in the folder of an engine whose NATS server runs: %v", err)
	}
	e.srv.changing.RUnlock()
	if err := <-stopped; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	e = mustStart(t, o)
	if it := get(t, e, s); it.State != events.StateQueued {
		t.Errorf("%+v", it)
	}
}
