package dispatcher

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/dispatcher/ackmode"
	"github.com/streamwright/streamwright/dispatcher/natsio"
	"github.com/streamwright/streamwright/events"
)

// A worker that waits while the consumer rests is given what there is as soon as
// it goes on, and not when its request ends.
func TestAWaitingWorkerIsServedWhenTheConsumerGoesOn(t *testing.T) {
	h := ackHarness(t, nil)
	c := h.ackConsumer("thumb")
	h.stopEngine()
	if err := natsio.HoldAcks(h.ctx(), h.js, h.eng.cfg.Names); err != nil {
		t.Fatal(err)
	}
	if info, err := c.Info(h.ctx()); err != nil || !info.Paused {
		t.Fatalf("held, it is %+v, %v", info, err)
	}
	if err := natsio.HoldAcks(h.ctx(), h.js, h.eng.cfg.Names); err != nil { // again: nothing to do
		t.Fatal(err)
	}
	// One more message than the engine knows of: nothing new comes to wake the consumer.
	got := make(chan jetstream.Msg, 1)
	cc, err := c.Consume(func(m jetstream.Msg) { got <- m }, jetstream.PullExpiry(10*time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Stop()
	if _, err := h.js.Publish(h.ctx(), "work.run.thumb", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	h.until("the worker waits", func() bool {
		info, err := c.Info(h.ctx())
		return err == nil && info.NumWaiting > 0
	})
	topo := natsio.NewTopology(natsio.Config{Conn: h.nc, JS: h.js, Names: h.eng.cfg.Names, Logger: h.eng.cfg.Logger})
	if err := topo.EnsureAckConsumer(h.ctx(), ackmode.Consumer{Type: "thumb", Ack: true, Lease: time.Minute, Window: 5}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-got:
	case <-time.After(patience):
		t.Fatal("nothing was delivered")
	}
	info, err := c.Info(h.ctx())
	if err != nil || info.Paused || info.Config.MaxAckPending != 5 {
		t.Fatalf("it is %+v, %v", info, err)
	}
	h.startEngine()
}

// What a worker had answered to a server that then forgot it is not run again:
// here the consumer's state is made to go back by making it anew.
func TestAForgetfulServerDeliversNothingThatWasAcked(t *testing.T) {
	h := ackHarness(t, nil)
	c := h.ackConsumer("thumb")
	var ids []events.ID
	for range 20 {
		ids = append(ids, h.submit("thumb"))
	}
	h.until("all are sent", func() bool { return h.ackMsgs() == 20 })
	h.stopEngine()
	for range 20 {
		if err := h.nextAck(c).DoubleAck(h.ctx()); err != nil {
			t.Fatal(err)
		}
	}
	// The server has forgotten all of it, and its consumer rests.
	cfg := c.CachedInfo().Config
	if err := h.js.DeleteConsumer(h.ctx(), "WORK_DISPATCH", "thumb"); err != nil {
		t.Fatal(err)
	}
	cfg.PauseUntil = &natsio.AtRest
	c, err := h.js.CreateConsumer(h.ctx(), "WORK_DISPATCH", cfg)
	if err != nil {
		t.Fatal(err)
	}
	again := make(chan jetstream.Msg, 20)
	cc, err := c.Consume(func(m jetstream.Msg) { again <- m })
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Stop()
	h.startEngine()
	for _, id := range ids {
		if it := h.becomes(id, events.StateCompleted); it.Attempt != 1 {
			t.Fatalf("%+v", it)
		}
	}
	last := h.submit("thumb") // and what comes then is delivered
	select {
	case m := <-again:
		if got := m.Headers().Get("Work-Id"); got != last.String() {
			t.Fatalf("%s was acked, and delivered again", got)
		}
		if err := m.Ack(); err != nil {
			t.Fatal(err)
		}
	case <-time.After(patience):
		t.Fatal("nothing is delivered any more")
	}
	h.becomes(last, events.StateCompleted)
}
