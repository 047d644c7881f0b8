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
		if c, err = h.js.Consumer(h.ctx(), "WORK_NATIVE", typ); err != nil {
			return false
		}
		cfg := c.CachedInfo().Config
		return cfg.AckPolicy == jetstream.AckExplicitPolicy && cfg.MaxDeliver == 1 && cfg.SampleFrequency != "" && cfg.AckWait == 30*time.Second+natsio.AckSlack && !c.CachedInfo().Paused
	})
	return c
}

// A consumer that somebody deletes is made again. What a worker had is delivered
// once more, what was acked is not, and each item completes once.
func TestADeletedNativeConsumer(t *testing.T) {
	h := nativeHarness(t, nil)
	c := h.nativeConsumer("thumb")
	acked, held, waits := h.submit("thumb"), h.submit("thumb"), h.submit("thumb")
	if err := h.nextNative(c).DoubleAck(h.ctx()); err != nil {
		t.Fatal(err)
	}
	m := h.nextNative(c)
	h.until("all are sent", func() bool { return h.nativeMsgs() >= 2 })
	if err := h.js.DeleteConsumer(h.ctx(), "WORK_NATIVE", "thumb"); err != nil {
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
func TestAChangedNativeConsumer(t *testing.T) {
	h := nativeHarness(t, nil)
	for name, meddle := range map[string]func(cfg jetstream.ConsumerConfig) error{
		"deliveries, lease and sampling": func(cfg jetstream.ConsumerConfig) error {
			cfg.MaxDeliver, cfg.AckWait, cfg.SampleFrequency = 5, time.Hour, ""
			_, err := h.js.UpdateConsumer(h.ctx(), "WORK_NATIVE", cfg)
			return err
		},
		"paused": func(cfg jetstream.ConsumerConfig) error {
			_, err := h.js.PauseConsumer(h.ctx(), "WORK_NATIVE", cfg.Durable, time.Now().Add(time.Hour))
			return err
		},
		"no acks": func(cfg jetstream.ConsumerConfig) error {
			// The engine, which sees the first one go, may be quicker than the other.
			for {
				if err := h.js.DeleteConsumer(h.ctx(), "WORK_NATIVE", cfg.Durable); err != nil {
					return err
				}
				_, err := h.js.CreateConsumer(h.ctx(), "WORK_NATIVE", jetstream.ConsumerConfig{Durable: cfg.Durable, FilterSubject: cfg.FilterSubject, AckPolicy: jetstream.AckNonePolicy})
				if err == nil || h.ctx().Err() != nil {
					return err
				}
			}
		},
	} {
		c := h.asMade("thumb")
		before := h.submit("thumb")
		h.until("it is sent", func() bool { return h.nativeMsgs() == 1 })
		if err := meddle(c.CachedInfo().Config); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		after := h.submit("thumb")
		c = h.asMade("thumb")
		for _, id := range []events.ID{before, after} {
			m := h.nextNative(c)
			if got := m.Headers().Get("Work-Id"); got != id.String() {
				t.Fatalf("%s: got %s, not %s", name, got, id)
			}
			if err := m.Ack(); err != nil {
				t.Fatal(err)
			}
			h.becomes(id, events.StateCompleted)
		}
		h.until("the stream is empty", func() bool { return h.nativeMsgs() == 0 })
	}
}

// Both streams that capture are deleted under a running engine, again and again:
// they are made again, and what was answered afterwards is heard.
func TestBothCapturingStreamsAreMadeAgain(t *testing.T) {
	h := nativeHarness(t, nil)
	c := h.nativeConsumer("thumb")
	streams := []string{"WORK_NATIVE_ACKS", "WORK_NATIVE_SIGNALS"}
	for round := range 2 {
		created := map[string]time.Time{}
		for _, name := range streams {
			s, err := h.js.Stream(h.ctx(), name)
			if err != nil {
				t.Fatal(err)
			}
			created[name] = s.CachedInfo().Created
		}
		id := h.submit("thumb")
		m := h.nextNative(c)
		for _, name := range streams {
			if err := h.js.DeleteStream(h.ctx(), name); err != nil {
				t.Fatal(err)
			}
		}
		h.until("both are there again", func() bool {
			for _, name := range streams {
				s, err := h.js.Stream(h.ctx(), name)
				if err != nil || s.CachedInfo().Created.Equal(created[name]) {
					return false
				}
			}
			return true
		})
		if err := m.DoubleAck(h.ctx()); err != nil {
			t.Fatal(err)
		}
		if it := h.becomes(id, events.StateCompleted); it.Attempt != 1 {
			t.Fatalf("round %d: %+v", round, it)
		}
	}
}
