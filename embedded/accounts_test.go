package embedded

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

// restarted starts an engine on a folder with some users, and ends it when fn
// returns.
func restarted(t *testing.T, dir string, users []config.NATSUser, fn func(*Engine)) {
	t.Helper()
	c := config.Default()
	c.NATS.Users = users
	e, err := Start(testContext(t), Options{Config: c, Dir: dir, NATSListen: "127.0.0.1:0", HTTP: config.Off})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Stop(testContext(t)); err != nil {
			t.Error(err)
		}
	}()
	fn(e)
}

// Users come and go with the same data, and a folder of format 1, whose streams
// are in the global account, is moved once; a crash in the midst of that is
// made good by the next start.
func TestTheDataStaysWhateverTheUsers(t *testing.T) {
	slow(t)
	t.Parallel()
	dir := t.TempDir()
	users := []config.NATSUser{user("feeder", access.Submit), user("ops", access.Read)}
	var ids []string
	add := func(e *Engine, c *streamwright.Client) {
		t.Helper()
		sub, err := c.Submit(testContext(t), streamwright.Item{Type: "email"})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, sub.ID)
		for _, id := range ids {
			if it, err := mustClient(t, e).Get(testContext(t), id); err != nil || it.State != events.StateQueued {
				t.Errorf("%s: %+v, %v", id, it, err)
			}
		}
	}
	open := func(e *Engine) { add(e, mustClient(t, e)) }
	guarded := func(e *Engine) {
		c, _ := as(t, e, "feeder")
		add(e, c)
	}
	restarted(t, dir, nil, open)
	restarted(t, dir, users, guarded)
	restarted(t, dir, nil, open)
}

// Reloads that add users, take them away and change their roles go by without
// anybody noticing who is not concerned: no request of theirs is lost, and
// nobody, the engine neither, has to connect again.
func TestReloadsDisturbNobodyElse(t *testing.T) {
	need.NoRace(t, "nats-server 2.15.2 compares its accounts by reflection at a reload (diffOptions), which reads counters that its connections add to")
	c := config.Default()
	c.NATS.Users = []config.NATSUser{user("submit", access.Submit), user("work", access.Work), user("read", access.Read)}
	e := mustStart(t, Options{Config: c, Dir: t.TempDir(), NATSListen: "127.0.0.1:0", HTTP: config.Off})
	ctx := testContext(t)
	submitter, _ := as(t, e, "submit")
	worker, _ := as(t, e, "work")
	reader, _ := as(t, e, "read")
	runWorkerAs(t, worker)
	inside := mustClient(t, e)

	seen, enough := context.WithCancel(ctx)
	defer enough()
	var mu sync.Mutex
	completed := map[string]bool{}
	tail := make(chan error, 1)
	go func() {
		tail <- reader.Tail(seen, streamwright.TailOptions{FromSeq: 1, Kinds: []streamwright.Kind{streamwright.KindCompleted}}, func(ev streamwright.Event) error {
			mu.Lock()
			defer mu.Unlock()
			completed[ev.ID] = true
			return nil
		})
	}()
	asking, stop := context.WithCancel(ctx)
	ended := make(chan []string, 1)
	go func() {
		var ids []string
		for asking.Err() == nil {
			sub, err := submitter.Submit(ctx, streamwright.Item{Type: "email"})
			if err != nil {
				t.Errorf("submit: %v", err)
				break
			}
			ids = append(ids, sub.ID)
			if it, err := submitter.Wait(ctx, sub.ID); err != nil || it.State != events.StateCompleted {
				t.Errorf("wait: %+v, %v", it, err)
				break
			}
		}
		ended <- ids
	}()
	other := c
	for i := range 12 {
		other.NATS.Users = append(c.NATS.Users[:3:3], user(fmt.Sprintf("u%d", i), access.Submit, access.Read), user("changing", []access.Role{access.Submit, access.Work, access.Read}[i%3]))
		mustReload(t, e, other)
		added, _ := as(t, e, fmt.Sprintf("u%d", i))
		if _, err := added.Submit(ctx, streamwright.Item{Type: "idle"}); err != nil {
			t.Fatalf("a user who was added: %v", err)
		}
		if i%4 == 3 {
			mustReload(t, e, c)
			if _, err := nats.Connect(e.URL(), nats.UserInfo(fmt.Sprintf("u%d", i), testPassword)); !errors.Is(err, nats.ErrAuthorization) {
				t.Errorf("a user who was removed comes in: %v", err)
			}
		}
	}
	stop()
	ids := <-ended
	if _, err := inside.Engine().Stats(ctx); err != nil {
		t.Errorf("a client of this process: %v", err)
	}
	for late := time.Now().Add(testTimeout); ; time.Sleep(10 * time.Millisecond) {
		mu.Lock()
		missing := 0
		for _, id := range ids {
			if !completed[id] {
				missing++
			}
		}
		mu.Unlock()
		if missing == 0 {
			break
		}
		if time.Now().After(late) {
			t.Fatalf("the tail lacks %d of %d", missing, len(ids))
		}
	}
	enough()
	<-tail
	for name, nc := range map[string]*nats.Conn{"the submitter": submitter.Conn(), "the worker": worker.Conn(), "the reader": reader.Conn(), "the engine": e.nc, "a client of this process": inside.Conn()} {
		if n := nc.Stats().Reconnects; n != 0 {
			t.Errorf("%s had to connect %d times more", name, n)
		}
	}
	if p, err := reader.Engine().Verify(ctx, nil); err != nil || !p.Equal {
		t.Errorf("verify: %+v, %v", p, err)
	}
	t.Logf("%d items in the midst of 15 reloads", len(ids))
}

// A user who is removed loses what its account had of the engine's, also the
// live subjects, and one who comes back has them again.
func TestRemovedUserHearsNothing(t *testing.T) {
	c := config.Default()
	c.NATS.Users = []config.NATSUser{user("read", access.Read), user("submit", access.Submit)}
	e := mustStart(t, Options{Config: c, Dir: t.TempDir(), NATSListen: "127.0.0.1:0", HTTP: config.Off})
	ctx := testContext(t)
	submitter, _ := as(t, e, "submit")
	reader, refused := as(t, e, "read", nats.ReconnectWait(10*time.Millisecond))
	heard := make(chan *nats.Msg, 100)
	if _, err := reader.Conn().ChanSubscribe(wire.Default.EventAll(), heard); err != nil {
		t.Fatal(err)
	}
	if err := reader.Conn().FlushTimeout(testTimeout); err != nil {
		t.Fatal(err)
	}
	hears := func() {
		t.Helper()
		if _, err := submitter.Submit(ctx, streamwright.Item{Type: "email"}); err != nil {
			t.Fatal(err)
		}
		select {
		case <-heard:
		case <-time.After(testTimeout):
			t.Fatal("a reader hears no events")
		}
	}
	hears()
	without := c
	without.NATS.Users = c.NATS.Users[1:]
	mustReload(t, e, without)
	refusedBy(t, refused)
	for len(heard) > 0 {
		<-heard
	}
	if _, err := submitter.Submit(ctx, streamwright.Item{Type: "email"}); err != nil {
		t.Fatal(err)
	}
	mustReload(t, e, c)
	back, _ := as(t, e, "read")
	if _, err := back.Engine().Stats(ctx); err != nil {
		t.Fatal(err)
	}
	if len(heard) > 2 { // a connection that came back meanwhile may hear what follows
		t.Errorf("it has heard %d events", len(heard))
	}
}
