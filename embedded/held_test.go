package embedded

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/logins"
)

const heldKey = "project 17/\x00*.>" // any byte may be in a key

// heldSays waits until a key has the wanted holder: the node that answers may lag by some
// milliseconds.
func heldSays(t *testing.T, c *streamwright.Client, want streamwright.Holder) {
	t.Helper()
	ctx := testContext(t)
	for {
		h, err := c.DedupKeys().Holder(ctx, "check", heldKey)
		if err != nil && events.CodeOf(err) != events.CodeNotFound {
			t.Fatal(err)
		}
		if h == want {
			return
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("the holder is %+v, want %+v", h, want)
		}
	}
}

// watched are the changes that a watch of heldKey tells.
func watched(t *testing.T, c *streamwright.Client) <-chan streamwright.Holder {
	t.Helper()
	told := make(chan streamwright.Holder, 100)
	ctx, cancel := context.WithCancel(testContext(t))
	ended := make(chan error, 1)
	go func() {
		ended <- c.DedupKeys().Watch(ctx, "check", heldKey, func(h streamwright.Holder) error { told <- h; return nil })
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the watch has ended with %v", err)
		}
	})
	return told
}

func toldNext(t *testing.T, told <-chan streamwright.Holder, want streamwright.Holder) {
	t.Helper()
	select {
	case h := <-told:
		if h != want {
			t.Fatalf("told %+v, want %+v", h, want)
		}
	case <-time.After(testTimeout):
		t.Fatalf("not told of %+v", want)
	}
}

// heldLife follows a key through an item's life: as its submitter reads it, and as
// another client reads and watches it.
func heldLife(t *testing.T, submitter, reader *streamwright.Client, mayRead bool) {
	ctx := testContext(t)
	if _, err := reader.DedupKeys().Holder(ctx, "check", heldKey); events.CodeOf(err) != events.CodeNotFound {
		t.Fatalf("a free key: %v", err)
	}
	told := watched(t, reader)
	toldNext(t, told, streamwright.Holder{})
	sub, err := submitter.Submit(ctx, streamwright.Item{Type: "check", DedupKey: heldKey})
	if err != nil {
		t.Fatal(err)
	}
	want := streamwright.Holder{ID: sub.ID, State: events.StateQueued}
	if mayRead { // what it was told it sees, without a wait
		if h, err := submitter.DedupKeys().Holder(ctx, "check", heldKey); h != want || err != nil {
			t.Fatalf("the holder is %+v, %v; want %+v", h, err, want)
		}
	}
	heldSays(t, reader, want)
	toldNext(t, told, want)
	if _, _, err := submitter.Cancel(ctx, sub.ID, "enough"); err != nil {
		t.Fatal(err)
	}
	heldSays(t, reader, streamwright.Holder{})
	toldNext(t, told, streamwright.Holder{})
	for _, c := range []struct {
		typ, key string
		code     events.Code
	}{{"Bad Type", "k", events.CodeBadType}, {"check", "", events.CodeBadRequest}} {
		if _, err := reader.DedupKeys().Holder(ctx, c.typ, c.key); events.CodeOf(err) != c.code {
			t.Errorf("type %q, key %q: %v", c.typ, c.key, err)
		}
		if err := reader.DedupKeys().Watch(ctx, c.typ, c.key, nil); events.CodeOf(err) != c.code {
			t.Errorf("watch of type %q, key %q: %v", c.typ, c.key, err)
		}
	}
}

func TestHolder(t *testing.T) {
	logins.Open(t, "it connects as nobody")
	e := mustStart(t, Options{Config: config.Default(), Dir: t.TempDir(), NATSListen: "127.0.0.1:0", HTTP: config.Off})
	submitter, _ := as(t, e, "")
	reader, _ := as(t, e, "")
	heldLife(t, submitter, reader, true)
}

// Where users live in accounts of their own, the engine is asked, and the server
// has nothing to refuse.
func TestHolderWithUsers(t *testing.T) {
	e := guarded(t, func(c *config.Config) { c.NATS.Users = append(c.NATS.Users, user("both", access.Submit, access.Read)) })
	submitter, _ := as(t, e, "both")
	reader, refused := as(t, e, "read")
	heldLife(t, submitter, reader, true)
	select {
	case why := <-refused:
		t.Errorf("the server refused the reader: %s", why)
	default:
	}
	feeder, _ := as(t, e, "submit")
	if _, err := feeder.DedupKeys().Holder(testContext(t), "check", heldKey); events.CodeOf(err) != events.CodeForbidden {
		t.Errorf("a user without the role read: %v", err)
	}
	if err := feeder.DedupKeys().Watch(testContext(t), "check", heldKey, nil); events.CodeOf(err) != events.CodeForbidden {
		t.Errorf("a watch of a user without the role read: %v", err)
	}
}

// Without the bucket the engine is asked. One that is left from before tells
// nobody anything.
func TestHolderWithoutBucket(t *testing.T) {
	logins.Open(t, "it connects as nobody")
	slow(t)
	t.Parallel()
	dir := t.TempDir()
	c := config.Default()
	var left string
	restarted := func(fn func(*Engine)) {
		e := mustStart(t, Options{Config: c, Dir: dir, NATSListen: "127.0.0.1:0", HTTP: config.Off})
		fn(e)
		if err := e.Stop(testContext(t)); err != nil {
			t.Fatal(err)
		}
	}
	restarted(func(e *Engine) {
		client, _ := as(t, e, "")
		sub, err := client.Submit(testContext(t), streamwright.Item{Type: "check", DedupKey: heldKey})
		if err != nil {
			t.Fatal(err)
		}
		left = sub.ID
		heldSays(t, client, streamwright.Holder{ID: left, State: events.StateQueued})
		if err := e.decider.mirror.dedup.Load().Await(testContext(t), e.decider.dispatcher.Position()); err != nil {
			t.Fatal(err)
		}
	})
	c.Server.NoDedupBucket = true
	restarted(func(e *Engine) {
		client, _ := as(t, e, "")
		ctx := testContext(t)
		js, err := jetstream.New(client.Conn())
		if err != nil {
			t.Fatal(err)
		}
		for {
			_, err := js.Stream(ctx, "KV_work_dedup")
			if errors.Is(err, jetstream.ErrStreamNotFound) {
				break
			}
			if err != nil && !errors.Is(err, nats.ErrTimeout) {
				t.Fatal(err)
			}
		}
		if _, _, err := client.Cancel(ctx, left, "enough"); err != nil {
			t.Fatal(err)
		}
		submitter, _ := as(t, e, "")
		reader, _ := as(t, e, "")
		heldLife(t, submitter, reader, true)
	})
}
