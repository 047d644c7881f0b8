package embedded

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

// Of two engines on one NATS the first is stopped while a worker runs an item. The second
// takes over; the worker hears of it long before its next heartbeat, what it ran is
// reported as the first attempt's, and new work reaches it.
func TestWorkersFollowTheOwner(t *testing.T) {
	srv, err := natsserver.NewServer(&natsserver.Options{Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), MaxPayload: 4 << 20, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	const heartbeat = 10 * time.Minute // never in this test
	options := func() Options {
		o := Options{Dir: t.TempDir(), NATSURL: srv.ClientURL(), HTTP: config.Off}
		o.Config.Workers.HeartbeatInterval = heartbeat
		o.Config.Types = map[events.Type]config.Type{}
		for _, typ := range []events.Type{"long", "short"} {
			o.Config.Types[typ] = config.Type{Patch: config.Patch{"lease": 4 * heartbeat}}
		}
		return o
	}
	first, err := Start(ctx, options())
	if err != nil {
		t.Fatal(err)
	}
	next := make(chan *Engine, 1)
	go func() {
		second, err := Start(ctx, options()) // stands by until the first has gone
		if err != nil {
			t.Error(err)
		}
		next <- second
	}()
	c, err := streamwright.Connect(ctx, srv.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	nc, err := nats.Connect(srv.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	w, err := workers.New(nc, workers.Config{Concurrency: 2})
	if err != nil {
		t.Fatal(err)
	}
	begun, release := make(chan struct{}, 1), make(chan struct{})
	workers.Handle(w, "long", func(ctx context.Context, _ *workers.Item[struct{}]) (any, error) {
		begun <- struct{}{}
		select {
		case <-release:
			return 1, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	})
	workers.Handle(w, "short", func(context.Context, *workers.Item[struct{}]) (any, error) { return 2, nil })
	if err := w.Start(ctx); err != nil {
		t.Fatal(err)
	}
	defer w.Stop(ctx)
	submit := func(typ string) string {
		s, err := c.Submit(ctx, streamwright.Item{Type: typ, Params: struct{}{}})
		if err != nil {
			t.Fatal(err)
		}
		return s.ID
	}
	completed := func(id string) {
		it, err := c.Wait(ctx, id)
		if err != nil || it.State != events.StateCompleted || it.Attempt != 1 {
			t.Fatalf("item %s is %s after attempt %d: %v", id, it.State, it.Attempt, err)
		}
	}
	long := submit("long")
	<-begun
	completed(submit("short"))
	both := make(chan error, 1)
	go func() { // goes on at the second
		w, err := c.WaitAll(ctx, []string{long, submit("short")})
		if err == nil && len(w.Ended) != 2 {
			err = fmt.Errorf("waited for %+v", w)
		}
		both <- err
	}()

	stopping := time.Now()
	if err := first.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	close(release) // its report meets no owner, or one that does not know the worker
	again := submit("short")
	completed(again)
	completed(long)
	if err := <-both; err != nil {
		t.Error(err)
	}
	t.Logf("from the stop of the first to the completion by the second: %s", time.Since(stopping))
	second := <-next
	if second == nil {
		t.FailNow()
	}
	defer func() {
		if err := second.Stop(ctx); err != nil {
			t.Error(err)
		}
	}()
	need.Eventually(t, "the worker is known to the new owner", func() bool { return w.Stats().Registered })
}

// startThree starts three engines that form a cluster, and returns the owner and the others,
// which follow it, with a client of the owner's node.
func startThree(t *testing.T, change ...func(*Options)) (owner *Engine, others []*Engine, c *streamwright.Client) {
	t.Helper()
	ctx, all := testContext(t), clusterOptions(t, 3)
	engines, errs := make([]*Engine, 3), make([]error, 3)
	var starting sync.WaitGroup
	for i, o := range all {
		for _, c := range change {
			c(&o)
		}
		starting.Go(func() { engines[i], errs[i] = Start(ctx, o) })
	}
	starting.Wait()
	for i, e := range engines {
		if errs[i] != nil {
			t.Fatal(errs[i])
		}
		t.Cleanup(func() { (&node{e, all[i]}).stop(t) })
	}
	at := slices.IndexFunc(engines, func(e *Engine) bool { return e.ledger.lease.owns.Load() })
	if at < 0 {
		t.Fatal("three nodes are ready, and none owns the log")
	}
	owner, others = engines[at], slices.Delete(slices.Clone(engines), at, at+1)
	c, err := owner.Client(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	var seen string
	defer func() {
		if t.Failed() {
			t.Log("the nodes were", seen)
		}
	}()
	need.Eventually(t, "two standbys that follow", func() bool {
		r, err := c.Engine().Nodes(ctx)
		seen = fmt.Sprintf("%+v, error %v", r, err)
		return err == nil && len(slices.DeleteFunc(r.Nodes, func(n wire.Node) bool { return !n.Online || n.Role != wire.RoleStandby })) == 2
	})
	return owner, others, c
}

// An owner that was fenced, and has nothing to append, hears that another has taken over, and stands
// by. When nobody says so any more, one of the nodes owns the log again.
func TestAnOvertakenOwnerStandsBy(t *testing.T) {
	need.Seconds(t)
	t.Parallel()
	owner, others, c := startThree(t)
	lease := owner.ledger.lease
	lease.mu.Lock()
	later := fmt.Sprintf(`{"owner":"another","node":"another","epoch":%d}`, lease.epoch+1)
	lease.mu.Unlock()
	need.Eventually(t, "it stands by", func() bool {
		if err := others[0].nc.Publish(owner.names().Lease(0), []byte(later)); err != nil {
			t.Fatal(err)
		}
		return !lease.owns.Load()
	})
	need.Eventually(t, "one owns the log", func() bool {
		return slices.ContainsFunc(append(others, owner), func(e *Engine) bool { return e.ledger.lease.owns.Load() })
	})
	if _, err := c.Submit(testContext(t), streamwright.Item{Type: "email", Params: struct{}{}}); err != nil {
		t.Error(err)
	}
}

// When a node that owns the log has stopped, its heir owns it: the stop waits for that.
func TestAStopEndsWithAnOwner(t *testing.T) {
	need.Seconds(t)
	t.Parallel()
	owner, others, _ := startThree(t)
	if err := owner.Stop(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if others[0].ledger.lease.owns.Load() == others[1].ledger.lease.owns.Load() {
		t.Errorf("the owner has stopped; that the others own the log is %t and %t", others[0].ledger.lease.owns.Load(), others[1].ledger.lease.owns.Load())
	}
}

// An owner without room hands the log, its leadership too, to the node that has room, which
// takes new work at once. When none has room, the owner stays.
func TestAFullOwnerHandsTheLogOver(t *testing.T) {
	need.Seconds(t)
	t.Parallel()
	owner, others, c := startThree(t)
	ctx, heir := testContext(t), others[1]
	others[0].room.SetLeast(1 << 62)
	need.Eventually(t, "a standby is full", func() bool { return others[0].room.Full() != nil })
	owner.room.SetLeast(1 << 62)
	need.Eventually(t, "the node with room owns the log", heir.ledger.lease.owns.Load)
	s, err := c.Submit(ctx, streamwright.Item{Type: "email", Params: struct{}{}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Get(ctx, s.ID); err != nil {
		t.Error(err)
	}
	need.Eventually(t, "all know who owns the log, and why", func() bool {
		r, err := c.Engine().Nodes(ctx)
		i := slices.IndexFunc(r.Nodes, func(n wire.Node) bool { return n.Node == heir.nodeName() })
		return err == nil && r.Owner == heir.nodeName() && i >= 0 && r.Nodes[i].TookOverBecause == wire.TakeoverFull && r.Nodes[i].TookOverFrom == owner.nodeName() && r.Nodes[i].LeadsLog
	})

	heir.room.SetLeast(1 << 62)
	need.Eventually(t, "all are full", func() bool { return heir.room.Full() != nil })
	heir.ledger.lease.handOnFull(ctx, heir.room.Full())
	if !heir.ledger.lease.owns.Load() {
		t.Error("no node has room, and the owner has handed the log over")
	}
	owner.room.SetLeast(0)
	need.Eventually(t, "the first has room again", func() bool { return owner.room.Full() == nil })
	heir.ledger.lease.handOnFull(ctx, heir.room.Full())
	need.Eventually(t, "it owns the log again", owner.ledger.lease.owns.Load)
}
