package dispatcher

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/dispatcher/natsio"
	"github.com/streamwright/streamwright/events"
)

// asMade waits until the type's consumer is as the engine makes it.
func (h *harness) asMade(typ string) jetstream.Consumer {
	h.t.Helper()
	var c jetstream.Consumer
	h.until("the consumer is as the engine makes it", func() bool {
		var err error
		if c, err = h.js.Consumer(h.ctx(), "WORK_DISPATCH", typ); err != nil {
			return false
		}
		cfg := c.CachedInfo().Config
		return cfg.AckPolicy == jetstream.AckExplicitPolicy && cfg.MaxDeliver == 1 && cfg.SampleFrequency != "" && cfg.AckWait == 30*time.Second+natsio.AckSlack && !c.CachedInfo().Paused
	})
	return c
}

// A consumer that somebody deletes is made again. What a worker had is delivered
// once more, what was acked is not, and each item completes once.
func TestADeletedAckConsumer(t *testing.T) {
	h := ackHarness(t, nil)
	c := h.ackConsumer("thumb")
	acked, held, waits := h.submit("thumb"), h.submit("thumb"), h.submit("thumb")
	if err := h.nextAck(c).DoubleAck(h.ctx()); err != nil {
		t.Fatal(err)
	}
	m := h.nextAck(c)
	h.until("all are sent", func() bool { return h.ackMsgs() >= 2 })
	if err := h.js.DeleteConsumer(h.ctx(), "WORK_DISPATCH", "thumb"); err != nil {
		t.Fatal(err)
	}
	c = h.asMade("thumb")
	if err := m.Ack(); err != nil { // of the consumer of before, whose name is the same
		t.Fatal(err)
	}
	cc, err := c.Consume(func(m jetstream.Msg) {
		if m.Headers().Get("Work-Id") == acked.String() {
			t.Error("what was acked is delivered again")
		}
		_ = m.Ack()
	})
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Stop()
	for _, id := range []events.ID{acked, held, waits} {
		if it := h.becomes(id, events.StateCompleted); it.Attempt != 1 {
			t.Errorf("%+v", it)
		}
	}
	for id, n := range h.kinds(events.KindCompleted) {
		if n != 1 {
			t.Errorf("%s has completed %d times", id, n)
		}
	}
}

// A consumer that somebody changes is changed back by the sweep, and one that
// was made in another way is made anew: work goes on.
func TestAChangedAckConsumer(t *testing.T) {
	h := ackHarness(t, nil)
	for name, meddle := range map[string]func(cfg jetstream.ConsumerConfig) error{
		"deliveries, lease and sampling": func(cfg jetstream.ConsumerConfig) error {
			cfg.MaxDeliver, cfg.AckWait, cfg.SampleFrequency = 5, time.Hour, ""
			_, err := h.js.UpdateConsumer(h.ctx(), "WORK_DISPATCH", cfg)
			return err
		},
		"paused": func(cfg jetstream.ConsumerConfig) error {
			_, err := h.js.PauseConsumer(h.ctx(), "WORK_DISPATCH", cfg.Durable, time.Now().Add(time.Hour))
			return err
		},
		"no acks": func(cfg jetstream.ConsumerConfig) error {
			// The engine, which sees the first one go, may be quicker than the other.
			for {
				if err := h.js.DeleteConsumer(h.ctx(), "WORK_DISPATCH", cfg.Durable); err != nil {
					return err
				}
				_, err := h.js.CreateConsumer(h.ctx(), "WORK_DISPATCH", jetstream.ConsumerConfig{Durable: cfg.Durable, FilterSubject: cfg.FilterSubject, AckPolicy: jetstream.AckNonePolicy})
				if err == nil || h.ctx().Err() != nil {
					return err
				}
			}
		},
	} {
		c := h.asMade("thumb")
		before := h.submit("thumb")
		h.until("it is sent", func() bool { return h.ackMsgs() == 1 })
		if err := meddle(c.CachedInfo().Config); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		after := h.submit("thumb")
		c = h.asMade("thumb")
		for _, id := range []events.ID{before, after} {
			m := h.nextAck(c)
			if got := m.Headers().Get("Work-Id"); got != id.String() {
				t.Fatalf("%s: got %s, not %s", name, got, id)
			}
			if err := m.Ack(); err != nil {
				t.Fatal(err)
			}
			h.becomes(id, events.StateCompleted)
		}
		h.until("the stream is empty", func() bool { return h.ackMsgs() == 0 })
	}
}

// The stream that captures is deleted under a running engine, again and again: it is made
// again, and what was answered afterwards is heard.
func TestTheCapturingStreamIsMadeAgain(t *testing.T) {
	h := ackHarness(t, nil)
	c := h.ackConsumer("thumb")
	const name = "WORK_DISPATCH_ACKS"
	for round := range 2 {
		s, err := h.js.Stream(h.ctx(), name)
		if err != nil {
			t.Fatal(err)
		}
		created := s.CachedInfo().Created
		id := h.submit("thumb")
		m := h.nextAck(c)
		if err := h.js.DeleteStream(h.ctx(), name); err != nil {
			t.Fatal(err)
		}
		h.until("it is there again", func() bool {
			s, err := h.js.Stream(h.ctx(), name)
			return err == nil && !s.CachedInfo().Created.Equal(created)
		})
		if err := m.DoubleAck(h.ctx()); err != nil {
			t.Fatal(err)
		}
		if it := h.becomes(id, events.StateCompleted); it.Attempt != 1 {
			t.Fatalf("round %d: %+v", round, it)
		}
	}
}
