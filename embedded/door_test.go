package embedded

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/logins"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

// byStream makes the door give a message to the stream: only that knows what to do with it.
const byStream = "Nats-Unheard-Of"

func direct(seq uint64) bool {
	_, is := wire.DirectPosition(seq)
	return is
}

// publisher publishes as any NATS client does.
type publisher struct {
	t  *testing.T
	js jetstream.JetStream
}

func newPublisher(t *testing.T, e *Engine) publisher {
	nc, err := e.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return publisherOn(t, nc)
}

func publisherOn(t *testing.T, nc *nats.Conn) publisher {
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return publisher{t, js}
}

func (p publisher) publish(body string, header ...string) *jetstream.PubAck {
	p.t.Helper()
	m := &nats.Msg{Subject: "work.submit.email", Header: nats.Header{}, Data: []byte(body)}
	for i := 0; i < len(header); i += 2 {
		m.Header.Set(header[i], header[i+1])
	}
	ack, err := p.js.PublishMsg(testContext(p.t), m)
	if err != nil {
		p.t.Fatal(err)
	}
	if ack.Stream != wire.Default.IntakeStream() || ack.Sequence == 0 {
		p.t.Errorf("ack %+v", ack)
	}
	return ack
}

// open publishes until the door leads to the loop.
func (p publisher) open() {
	p.t.Helper()
	for end := time.Now().Add(testTimeout); !direct(p.publish("0").Sequence); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			p.t.Fatal("publishes go by the stream")
		}
	}
}

// A repeated message id makes no second item, whichever way it comes, and the ack leads to
// the item.
func TestMessageIDsHoldAcrossBothWays(t *testing.T) {
	t.Parallel()
	e := mustStart(t, Options{Memory: true})
	c, p := mustClient(t, e), newPublisher(t, e)
	p.open()
	itemOf := func(ack *jetstream.PubAck) string {
		t.Helper()
		it, err := c.GetByIntake(testContext(t), ack.Sequence)
		if err != nil {
			t.Fatal(err)
		}
		return it.ID
	}
	first := p.publish(`1`, nats.MsgIdHdr, "a", nats.ExpectedStreamHdr, wire.Default.IntakeStream())
	if !direct(first.Sequence) || first.Duplicate {
		t.Errorf("ack %+v", first)
	}
	if again := p.publish(`1`, nats.MsgIdHdr, "a"); !again.Duplicate || again.Sequence != first.Sequence {
		t.Errorf("a repeat is acknowledged with %+v, want %d", again, first.Sequence)
	}
	id := itemOf(first)
	stored := p.publish(`1`, nats.MsgIdHdr, "a", byStream, "1")
	if direct(stored.Sequence) || itemOf(stored) != id {
		t.Errorf("a repeat by the stream, %+v, is item %s, want %s", stored, itemOf(stored), id)
	}
	other := p.publish(`2`, nats.MsgIdHdr, "b", byStream, "1")
	of := itemOf(other)
	p.open()
	if again := p.publish(`2`, nats.MsgIdHdr, "b"); !again.Duplicate || again.Sequence != other.Sequence {
		t.Errorf("a repeat of what came by the stream is acknowledged with %+v, want %d", again, other.Sequence)
	} else if itemOf(again) != of {
		t.Error("it is another item")
	}
}

// What can't become an item is acknowledged, and recorded as it was.
func TestTheDoorRecordsWhatItRejects(t *testing.T) {
	t.Parallel()
	e := mustStart(t, Options{Memory: true})
	c, p := mustClient(t, e), newPublisher(t, e)
	p.open()
	ack := p.publish(`{no json`, "Work-Priority", "high", "X-Own", "kept")
	if !direct(ack.Sequence) {
		t.Errorf("ack %+v", ack)
	}
	r, err := c.Rejected().GetByIntake(testContext(t), ack.Sequence)
	if err != nil {
		t.Fatal(err)
	}
	if r.Text != `{no json` || r.Type != "email" || r.Headers["X-Own"][0] != "kept" {
		t.Errorf("recorded as %+v", r)
	}
	if _, err := c.GetByIntake(testContext(t), ack.Sequence); events.CodeOf(err) != events.CodeNotFound {
		t.Errorf("its item: %v", err)
	}
	if _, err := c.GetByIntake(testContext(t), ack.Sequence+1000); events.CodeOf(err) != events.CodeNotFound {
		t.Errorf("the item of no publish: %v", err)
	}
}

// Beyond the engine's own limit plain publishes wait in the stream, in their order, and none
// is refused. Afterwards they are decided at once again. Users have the same: the server has
// made the subjects that they are answered on, and takes them from no other client.
func TestTheDoorShutsWhenTheQueueIsFull(t *testing.T) {
	t.Parallel()
	full := func(c *config.Config) { c.Limits.MaxQueued = 10 }
	t.Run("open", func(t *testing.T) {
		t.Parallel()
		cfg := config.Default()
		full(&cfg)
		e := mustStart(t, Options{Config: cfg, Memory: true})
		fill(t, e, newPublisher(t, e))
	})
	t.Run("users", func(t *testing.T) {
		t.Parallel()
		e := guarded(t, full)
		c, refused := as(t, e, access.Submit.String())
		fill(t, e, publisherOn(t, c.Conn()))
		noneRefused(t, c, refused)
	})
}

// fill publishes more than the engine queues, and then runs it.
func fill(t *testing.T, e *Engine, p publisher) {
	t.Helper()
	p.open()
	const n = 50
	stored := 0
	for i := range n {
		if !direct(p.publish(fmt.Sprint(i + 1)).Sequence) {
			stored++
		}
	}
	if stored < n-10 {
		t.Errorf("%d of %d went into the stream", stored, n)
	}
	var mu sync.Mutex
	var ran []string
	all := make(chan struct{})
	serve(t, e, 1, func(_ context.Context, it *workers.RawItem) (any, error) {
		mu.Lock()
		defer mu.Unlock()
		if string(it.Raw) != "0" {
			if ran = append(ran, string(it.Raw)); len(ran) == n {
				close(all)
			}
		}
		return nil, nil
	}, "email")
	select {
	case <-all:
	case <-time.After(testTimeout):
		t.Fatalf("%d ran", len(ran))
	}
	for i, body := range ran {
		if body != fmt.Sprint(i+1) {
			t.Fatalf("item %s ran in place of %d", body, i+1)
		}
	}
	p.open()
}

// Users in accounts of their own go by the door too.
func TestUsersPublishByTheDoor(t *testing.T) {
	t.Parallel()
	e := guarded(t)
	c, refused := as(t, e, access.Submit.String())
	for end := time.Now().Add(testTimeout); ; time.Sleep(5 * time.Millisecond) {
		got, err := c.Publish(testContext(t), streamwright.Item{Type: "email"})
		if err != nil {
			t.Fatal(err)
		}
		if direct(got.IntakeSeq) {
			break
		}
		if time.Now().After(end) {
			t.Fatal("publishes go by the stream")
		}
	}
	select {
	case why := <-refused:
		t.Error(why)
	default:
	}
	if err := c.Conn().Publish(wire.Default.Door("email"), []byte("1")); err != nil {
		t.Fatal(err)
	}
	_ = c.Conn().Flush()
	select {
	case <-refused:
	case <-time.After(testTimeout):
		t.Error("a user may publish to the door's own subject")
	}
}

// An engine that stops and starts under load: who repeats what was not acknowledged has no
// publish fail, and everything is there once.
func TestPublishesSurviveStops(t *testing.T) {
	logins.Open(t, "it connects as nobody")
	slow(t)
	t.Parallel()
	o := quiet(t.TempDir())
	o.NATSListen = need.Address(t).String()
	e := mustStart(t, o)
	ctx, stop := context.WithCancel(testContext(t))
	defer stop()
	var all sync.WaitGroup
	var mu sync.Mutex
	published := map[string]bool{}
	for range 4 {
		c, err := streamwright.Connect(testContext(t), "nats://"+o.NATSListen)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		all.Go(func() {
			for ctx.Err() == nil {
				got, err := c.Publish(testContext(t), streamwright.Item{Type: "email"})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				published[got.ID] = true
				mu.Unlock()
			}
		})
	}
	count := func() int { mu.Lock(); defer mu.Unlock(); return len(published) }
	for range 3 {
		for want, end := count()+200, time.Now().Add(testTimeout); count() < want && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		stopEngine(t, e)
		e = mustStart(t, o)
	}
	stop()
	all.Wait()
	c := mustClient(t, e)
	for id := range published {
		if _, err := c.Get(testContext(t), id); err != nil {
			t.Errorf("item %s: %v", id, err)
		}
	}
	page, err := c.Rejected().List(testContext(t), streamwright.RejectedFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range page.Rejected {
		if r.Code != string(events.CodeDuplicate) {
			t.Errorf("rejected: %+v", r)
		}
	}
}
