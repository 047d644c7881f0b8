package dispatcher

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/dispatcher/natsio"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

func (h *harness) setLease(typ events.Type, lease time.Duration, edit func(*events.TypeSettings)) {
	h.t.Helper()
	set := events.DefaultTypeSettings()
	set.Lease = events.DurationOf(lease)
	if edit != nil {
		edit(&set)
	}
	if o := h.do(core.Configure{Type: typ, Source: events.SourceAPI, Settings: set}); o.Err != nil {
		h.t.Fatal(o.Err)
	}
}

// A lease that is made shorter holds for what begins from then on: a run that is
// lost is noticed by it. A run that began before goes on, though its worker, which
// was told 30 s, renews too seldom for the server.
func TestAShorterLeaseHoldsAtOnce(t *testing.T) {
	slow(t)
	t.Parallel()
	h := newHarness(t, nil)
	asked := make(chan struct{}, 8)
	sub, err := h.nc.Subscribe(wire.Default.Control("w"), func(m *nats.Msg) {
		if string(m.Data) == `{"register":true}` {
			asked <- struct{}{}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if r := h.register("w", 10, "email"); r.Lease["email"] != events.Millis(30_000) || r.Heartbeat != events.Millis(10_000) {
		t.Fatalf("%+v", r)
	}
	before := h.submit("email")
	old := h.pull("email")
	if a := h.begin(old); !a.OK {
		t.Fatalf("%+v", a.Error)
	}
	h.setLease("email", 3*time.Second, nil)
	after := h.submit("email")
	m := h.pull("email")
	if m.Lease != events.Millis(3000) {
		t.Fatalf("the worker is told a lease of %d ms", m.Lease.Milliseconds())
	}
	if a := h.begin(m); !a.OK {
		t.Fatalf("%+v", a.Error)
	}
	h.until("the run is lost", func() bool { return h.item(after).Code == events.FailLeaseExpired })
	if it := h.item(before); it.State != events.StateRunning || it.Attempt != 1 {
		t.Fatalf("what ran before is %s in attempt %d: %s", it.State, it.Attempt, it.Error)
	}
	if a := h.report(reportOf(old, wire.ReportComplete))[0]; !a.OK {
		t.Fatalf("%+v", a.Error)
	}
	select {
	case <-asked:
	case <-time.After(patience):
		t.Fatal("the worker was not asked to register again")
	}
	if r := h.register("v", 1, "email"); r.Lease["email"] != events.Millis(3000) || r.Heartbeat.Duration >= 3*time.Second {
		t.Fatalf("%+v", r)
	}
}

// Ack workers send no heartbeats: their consumer gets the shorter lease once
// what was sent with the longer one has ended.
func TestAShorterAckLeaseWaits(t *testing.T) {
	h := newHarness(t, nil)
	ack := func(s *events.TypeSettings) { s.Protocol = events.ProtocolAck }
	h.setLease("email", 20*time.Second, ack)
	ackWait := func() time.Duration {
		c, err := h.js.Consumer(h.ctx(), "WORK_DISPATCH", "email")
		if err != nil {
			return 0
		}
		return c.CachedInfo().Config.AckWait
	}
	h.submit("email")
	h.until("the consumer is there", func() bool { return ackWait() == 20*time.Second+natsio.AckSlack })
	next := func() (m jetstream.Msg) {
		h.until("an item is delivered", func() bool {
			c, err := h.js.Consumer(h.ctx(), "WORK_DISPATCH", "email")
			if err == nil {
				m, err = c.Next(jetstream.FetchMaxWait(time.Second))
			}
			return err == nil
		})
		return m
	}
	old := next()
	h.setLease("email", 2*time.Second, ack)
	h.submit("email")
	m := next()
	if got := m.Headers().Get(wire.HeaderLease); got != "2s" {
		t.Fatalf("the worker is told a lease of %s", got)
	}
	if err := m.Ack(); err != nil {
		t.Fatal(err)
	}
	if got := ackWait(); got != 20*time.Second+natsio.AckSlack {
		t.Fatalf("the consumer waits for %s while a worker has been told 20s", got)
	}
	if err := old.Ack(); err != nil {
		t.Fatal(err)
	}
	h.until("the shorter lease is applied", func() bool { return ackWait() == 2*time.Second+natsio.AckSlack })
}
