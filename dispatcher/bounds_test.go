package dispatcher

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/semaphore"

	"github.com/streamwright/streamwright/dispatcher/conf"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

func document(n int) []byte {
	doc := bytes.Repeat([]byte("x"), n)
	doc[0], doc[n-1] = '"', '"'
	return doc
}

func TestBatchesAreBoundedInBytes(t *testing.T) {
	slow(t)
	most := 0
	s := newSim(t, func(c *Config) { c.Hooks.Appended = func(_, n int, _ time.Duration) { most = max(most, n) } })
	cmds := make([]core.Command, 200)
	for i := range cmds {
		cmds[i] = core.Submit{Type: "email", NewID: s.newID(), Params: document(200 << 10)}
	}
	for _, o := range s.do(cmds...) {
		s.ok(o.Err)
	}
	if limit := maxBatchBytes + 2*events.MaxParamsBytes; most > limit || most < maxBatchBytes/2 {
		t.Fatalf("the largest batch has %d bytes: want up to %d", most, limit)
	}
	s.check()
}

func TestRequestsAreBoundedInBytes(t *testing.T) {
	ctx := context.Background()
	budget := semaphore.NewWeighted(100)
	ended := &commandJob{done: func([]Outcome) {}}
	first, err := weigh(ctx, budget, 100, ended, 60)
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := weigh(short, budget, 100, ended, 60); !errors.Is(err, context.Canceled) {
		t.Fatalf("a second one was let in: %v", err)
	}
	first.finish()
	huge, err := weigh(ctx, budget, 100, ended, 1<<30) // alone, it may
	if err != nil {
		t.Fatal(err)
	}
	huge.abandon(errUnknown)
	if !budget.TryAcquire(100) {
		t.Fatal("a part of the budget was not given back")
	}
}

// What was read of the intake and whose append failed is read again by the
// next ownership: every message is answered, and answered once.
func TestIntakeSurvivesFailedAppends(t *testing.T) {
	log := &faultyLog{}
	h := newHarness(t, func(c *Config) { log.Log = c.Log; c.Log = log })
	n := 0
	log.set(func(evs []events.Event) error {
		if n++; n%5 == 0 {
			return once(1)(evs)
		}
		return nil
	}, nil)
	const most = 300
	for range most {
		if _, err := h.js.PublishAsync("work.submit.email", []byte(`1`), jetstream.WithStallWait(patience)); err != nil {
			t.Fatal(err)
		}
	}
	h.until("all are answered", func() bool { m, err := h.store.Meta(); return err == nil && m.IntakeSeq == most })
	log.set(nil, nil)
	if err := h.eng.Await(h.ctx(), h.eng.Position()); err != nil {
		t.Fatal(err)
	}
	types, err := h.store.Types()
	if err != nil || types[0].Counts[events.StateQueued] != most {
		t.Fatalf("%+v %v", types, err)
	}
	h.equalsLog()
}

// Answered intake messages are given free when the events that answer them are
// surely on disk, and not before.
func TestIntakeIsPurgedBehindWhatIsSynced(t *testing.T) {
	c := &chaos{sim: newSim(t, nil), rng: newRand(1)}
	for range 10 {
		c.publish()
	}
	c.tick(conf.AloneSyncWithin - time.Second)
	if c.world.purged != 0 {
		t.Fatalf("purged through %d already", c.world.purged)
	}
	c.publish()
	c.tick(time.Second)
	if through := c.world.purged; through == 0 || through > 10 {
		t.Fatalf("purged through %d: the events of 10 messages are on disk", through)
	}
	c.tick(conf.AloneSyncWithin)
	if c.world.purged != 11 {
		t.Fatalf("purged through %d of 11", c.world.purged)
	}
}
