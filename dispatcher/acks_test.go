package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

// ackHarness is a harness with a type thumb whose protocol is ack.
func ackHarness(t *testing.T, edit func(*events.TypeSettings)) *harness {
	h := newHarness(t, func(c *Config) { c.Sweep = 300 * time.Millisecond })
	h.ack("thumb", edit)
	return h
}

func (h *harness) ack(typ events.Type, edit func(*events.TypeSettings)) {
	h.t.Helper()
	set := events.DefaultTypeSettings()
	set.Protocol, set.Backoff.Jitter = events.ProtocolAck, 0
	if edit != nil {
		edit(&set)
	}
	h.do(core.Configure{Type: typ, Source: events.SourceAPI, Settings: set})
}

// Consumer is a type's consumer as any program would look it up, once
// the engine has made it.
func (h *harness) ackConsumer(typ string) jetstream.Consumer {
	h.t.Helper()
	var c jetstream.Consumer
	h.until("there is a consumer", func() (ok bool) {
		var err error
		c, err = h.js.Consumer(h.ctx(), "WORK_DISPATCH", typ)
		return err == nil
	})
	return c
}

func (h *harness) nextAck(c jetstream.Consumer) jetstream.Msg {
	h.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		m, err := c.Next(jetstream.FetchMaxWait(patience))
		switch {
		case err == nil:
			return m
		case errors.Is(err, nats.ErrNoResponders) && time.Now().Before(end):
			// The server tells of a consumer a moment before it listens for its pulls.
		default:
			h.t.Fatal(err)
		}
	}
}

func (h *harness) becomes(id events.ID, want events.ItemState) *events.Item {
	h.t.Helper()
	var it *events.Item
	defer func() {
		if h.t.Failed() {
			h.t.Logf("last seen as %+v", it)
		}
	}()
	h.until(fmt.Sprintf("%s is %s", id, want), func() bool {
		it = h.item(id)
		return it.State == want
	})
	return it
}

// retries waits until an attempt has failed and the item waits for the next.
func (h *harness) retries(id events.ID, attempt events.Attempt) *events.Item {
	h.t.Helper()
	var it *events.Item
	h.until(fmt.Sprintf("attempt %d of %s fails", attempt, id), func() bool {
		it = h.item(id)
		return it.State == events.StateQueued && it.Attempt == attempt
	})
	return it
}

func (h *harness) ackMsgs() uint64 {
	h.t.Helper()
	s, err := h.js.Stream(h.ctx(), "WORK_DISPATCH")
	if err != nil {
		h.t.Fatal(err)
	}
	return s.CachedInfo().State.Msgs
}

func TestAnyConsumerIsAWorker(t *testing.T) {
	h := ackHarness(t, nil)
	c := h.ackConsumer("thumb")
	answers := map[string]struct {
		answer func(jetstream.Msg) error
		check  func(it *events.Item) error
	}{
		"ack": {jetstream.Msg.Ack, func(it *events.Item) error {
			return want(it, it.State == events.StateCompleted && it.Worker == "ack:thumb" && it.Attempt == 1)
		}},
		"double ack": {func(m jetstream.Msg) error { return m.DoubleAck(h.ctx()) }, func(it *events.Item) error { return want(it, it.State == events.StateCompleted) }},
		"nak": {jetstream.Msg.Nak, func(it *events.Item) error {
			return want(it, it.State == events.StateQueued && it.Attempt == 1 && it.AvailableAt.Sub(it.QueuedAt) == time.Second && it.Retryable)
		}},
		"nak with delay": {func(m jetstream.Msg) error { return m.NakWithDelay(time.Hour) }, func(it *events.Item) error {
			return want(it, it.State == events.StateQueued && it.Attempt == 1 && it.AvailableAt.Sub(it.QueuedAt) == time.Hour)
		}},
		"term": {func(m jetstream.Msg) error { return m.TermWithReason("no picture") }, func(it *events.Item) error {
			return want(it, it.State == events.StateDead && it.Reason == "not_retryable" && it.Error == "no picture" && it.Code == events.FailTerminated)
		}},
	}
	for name, a := range answers {
		id := h.submit("thumb")
		m := h.nextAck(c)
		if got := m.Headers().Get(wire.HeaderID); got != id.String() || string(m.Data()) != `{"n":1}` {
			t.Fatalf("%s: delivered %s, %s", name, got, m.Data())
		}
		if err := a.answer(m); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var err error
		h.until(name+" is recorded", func() bool {
			it := h.item(id)
			err = a.check(it)
			return it.Attempt == 1 && it.State != events.StateRunning
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if it := h.item(id); it.State == events.StateQueued {
			h.do(core.Cancel{ID: id})
		}
	}
	h.until("the stream is empty", func() bool { return h.ackMsgs() == 0 })
}

func want(it *events.Item, ok bool) error {
	if ok {
		return nil
	}
	return fmt.Errorf("the item is %+v", it)
}

// A client with no JetStream library: a request for a message, and a publish to
// its reply subject.
func TestAnAckWorkerNeedsNoLibrary(t *testing.T) {
	h := ackHarness(t, nil)
	h.ackConsumer("thumb")
	// A connection of its own: a message comes under its own subject, and a client
	// with several requests under way could not tell whose answer it is.
	nc := h.connect()
	defer nc.Close()
	id := h.submit("thumb")
	var m *nats.Msg
	h.until("a pull is answered", func() bool { // the server tells of a consumer a moment before it listens for its pulls
		var err error
		m, err = nc.Request("$JS.API.CONSUMER.MSG.NEXT.WORK_DISPATCH.thumb", []byte(`{"batch":1,"expires":10000000000}`), patience)
		if err != nil && !errors.Is(err, nats.ErrNoResponders) {
			t.Fatal(err)
		}
		return err == nil
	})
	if err := nc.Publish(m.Reply, nil); err != nil { // an empty answer is an ack
		t.Fatal(err)
	}
	h.becomes(id, events.StateCompleted)
	id = h.submit("thumb")
	m, err := nc.Request("$JS.API.CONSUMER.MSG.NEXT.WORK_DISPATCH.thumb", nil, patience)
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Publish(m.Reply, []byte("-NAK 2h")); err != nil {
		t.Fatal(err)
	}
	if it := h.retries(id, 1); it.AvailableAt.Sub(it.QueuedAt) != 2*time.Hour {
		t.Fatalf("it waits from %s to %s", it.QueuedAt, it.AvailableAt)
	}
}

func TestAckLeases(t *testing.T) {
	slow(t)
	t.Parallel()
	h := ackHarness(t, func(s *events.TypeSettings) { s.Lease = events.Millis(3000); s.MaxAttempts = 2 })
	c := h.ackConsumer("thumb")
	id := h.submit("thumb")
	m := h.nextAck(c)
	for begun := time.Now(); time.Since(begun) < 5*time.Second; { // it outlives its lease by renewing it
		if err := m.InProgress(); err != nil {
			t.Fatal(err)
		}
		if it := h.becomes(id, events.StateRunning); it.Attempt != 1 || it.Worker != "ack:thumb" {
			t.Fatalf("it runs as %+v", it)
		}
		time.Sleep(100 * time.Millisecond) // the pace of a worker
	}
	if it := h.item(id); it.State != events.StateRunning {
		t.Fatalf("a renewed run is %+v", it)
	}
	it := h.retries(id, 1)
	if it.Code != events.FailLeaseExpired || it.LeasesLost != 1 {
		t.Fatalf("a silent one is %+v", it)
	}
	if err := m.Ack(); err != nil { // too late: it is the next worker's
		t.Fatal(err)
	}
	second := h.nextAck(c)
	if second.Headers().Get(wire.HeaderAttempt) != "2" || second.Headers().Get(wire.HeaderToken) == m.Headers().Get(wire.HeaderToken) {
		t.Fatalf("the second delivery has %v", second.Headers())
	}
	if it := h.item(id); it.State != events.StateQueued {
		t.Fatalf("an ack that came too late made it %s", it.State)
	}
	if err := second.Ack(); err != nil {
		t.Fatal(err)
	}
	if it := h.becomes(id, events.StateCompleted); it.Attempt != 2 {
		t.Fatalf("%+v", it)
	}
}

// Never more than the capacity are with workers, whatever waits.
func TestAckCapacity(t *testing.T) {
	const capacity, items = 3, 40
	h := ackHarness(t, func(s *events.TypeSettings) { s.Capacity = capacity })
	c := h.ackConsumer("thumb")
	var ids []events.ID
	for range items {
		ids = append(ids, h.submit("thumb"))
	}
	msgs := make(chan jetstream.Msg, items)
	cc, err := c.Consume(func(m jetstream.Msg) { msgs <- m })
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Stop()
	seen := map[string]bool{}
	for done := 0; done < items; {
		var held []jetstream.Msg
		h.until("all that may run does", func() bool { return len(msgs) >= min(capacity, items-done) })
		for len(msgs) > 0 {
			held = append(held, <-msgs)
		}
		if len(held) > capacity {
			t.Fatalf("%d are with workers, of at most %d", len(held), capacity)
		}
		for _, m := range held {
			if id := m.Headers().Get(wire.HeaderID); seen[id] {
				t.Fatalf("%s was delivered twice", id)
			} else {
				seen[id] = true
			}
			if err := m.Ack(); err != nil {
				t.Fatal(err)
			}
			done++
		}
	}
	for _, id := range ids {
		h.becomes(id, events.StateCompleted)
	}
}

// deaf runs fn while some of the streams that capture are gone. The engine is
// stopped meanwhile, or it would make them again at once.
func (h *harness) deaf(fn func(), streams ...string) {
	h.t.Helper()
	h.stopEngine()
	for _, s := range streams {
		if err := h.js.DeleteStream(h.ctx(), s); err != nil {
			h.t.Fatal(err)
		}
	}
	fn()
	h.startEngine()
}

// What workers answer is captured as they send it, and as the server takes it:
// one of the two is enough.
func TestWhatIsHeardOnceIsEnough(t *testing.T) {
	for name, lost := range map[string]string{"sent": "$JS.ACK.>", "taken": "$JS.EVENT.>"} {
		t.Run(name, func(t *testing.T) {
			h := ackHarness(t, nil)
			c := h.ackConsumer("thumb")
			var ids []events.ID
			var msgs []jetstream.Msg
			for range 4 {
				ids = append(ids, h.submit("thumb"))
				msgs = append(msgs, h.nextAck(c))
			}
			h.deaf(func() {
				for i, answer := range []func(jetstream.Msg) error{
					func(m jetstream.Msg) error { return m.DoubleAck(h.ctx()) }, jetstream.Msg.Ack, jetstream.Msg.Nak,
					func(m jetstream.Msg) error { return m.TermWithReason("broken") },
				} {
					if err := answer(msgs[i]); err != nil {
						t.Fatal(err)
					}
				}
				if err := h.nc.Flush(); err != nil {
					t.Fatal(err)
				}
				s, err := h.js.Stream(h.ctx(), "WORK_DISPATCH_ACKS")
				if err != nil {
					t.Fatal(err)
				}
				h.until("both are captured", func() bool {
					info, err := s.Info(h.ctx())
					return err == nil && info.State.Msgs >= 8
				})
				if err := s.Purge(h.ctx(), jetstream.WithPurgeSubject(lost)); err != nil {
					t.Fatal(err)
				}
			})
			for _, id := range ids[:2] {
				if it := h.becomes(id, events.StateCompleted); it.Attempt != 1 {
					t.Fatalf("%+v", it)
				}
			}
			h.retries(ids[2], 1)
			if it := h.becomes(ids[3], events.StateDead); it.Error != "broken" {
				t.Fatalf("%+v", it)
			}
			// The way is open again.
			h.do(core.Cancel{ID: ids[2]})
			id := h.submit("thumb")
			if err := h.nextAck(c).Ack(); err != nil {
				t.Fatal(err)
			}
			h.becomes(id, events.StateCompleted)
		})
	}
}

// One lease ran out and another run was acked, and nothing was heard of either:
// which is which can't be told, and neither may count as done.
func TestWhatWasNotHeardAtAllRunsAgain(t *testing.T) {
	slow(t)
	t.Parallel()
	h := ackHarness(t, func(s *events.TypeSettings) { s.Lease = events.Millis(3000); s.MaxAttempts = 5 })
	c := h.ackConsumer("thumb")
	one, other := h.submit("thumb"), h.submit("thumb")
	first, _ := h.nextAck(c), h.nextAck(c)
	h.deaf(func() {
		if err := first.DoubleAck(h.ctx()); err != nil {
			t.Fatal(err)
		}
		h.until("the other's lease has run out", func() bool {
			info, err := c.Info(h.ctx())
			return err == nil && info.NumAckPending == 0
		})
	}, "WORK_DISPATCH_ACKS")
	for _, id := range []events.ID{one, other} {
		if it := h.retries(id, 1); it.Code != events.FailLeaseExpired {
			t.Fatalf("%+v", it)
		}
	}
	for range 2 {
		if err := h.nextAck(c).Ack(); err != nil {
			t.Fatal(err)
		}
	}
	h.becomes(one, events.StateCompleted)
	h.becomes(other, events.StateCompleted)
}

// Workers go on while no engine is there; what they said is recorded once it is
// back, each once, and nothing is dispatched twice.
func TestAnswersGivenWhileTheEngineIsOff(t *testing.T) {
	h := ackHarness(t, nil)
	c := h.ackConsumer("thumb")
	var ids []events.ID
	for range 5 {
		ids = append(ids, h.submit("thumb"))
	}
	h.until("all are sent", func() bool { return h.ackMsgs() == 5 })
	running := h.nextAck(c)
	if err := running.InProgress(); err != nil {
		t.Fatal(err)
	}
	h.becomes(ids[0], events.StateRunning)
	h.stopEngine()
	if err := running.Ack(); err != nil {
		t.Fatal(err)
	}
	for _, answer := range []func(jetstream.Msg) error{jetstream.Msg.Ack, func(m jetstream.Msg) error { return m.NakWithDelay(time.Hour) },
		func(m jetstream.Msg) error { return m.TermWithReason("broken") }} {
		if err := answer(h.nextAck(c)); err != nil {
			t.Fatal(err)
		}
	}
	held := h.nextAck(c)
	if err := h.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	h.startEngine()
	h.becomes(ids[0], events.StateCompleted)
	h.becomes(ids[1], events.StateCompleted)
	if it := h.retries(ids[2], 1); it.AvailableAt.Sub(it.QueuedAt) != time.Hour {
		t.Fatalf("the delay is lost: %+v", it)
	}
	if it := h.becomes(ids[3], events.StateDead); it.Error != "broken" {
		t.Fatalf("%+v", it)
	}
	if err := held.Ack(); err != nil { // delivered before, answered after
		t.Fatal(err)
	}
	if it := h.becomes(ids[4], events.StateCompleted); it.Attempt != 1 {
		t.Fatalf("%+v", it)
	}
	if _, err := c.Next(jetstream.FetchMaxWait(100 * time.Millisecond)); !errors.Is(err, nats.ErrTimeout) {
		t.Fatalf("something was dispatched again: %v", err)
	}
	claims := map[string]int{}
	for id, n := range h.kinds(events.KindCompleted) {
		if claims[id] += n; n != 1 {
			t.Fatalf("%s has completed %d times", id, n)
		}
	}
	if len(claims) != 3 {
		t.Fatalf("%d have completed", len(claims))
	}
}

// kinds counts the events of a kind in the log, by item.
func (h *harness) kinds(kind events.Kind) map[string]int {
	h.t.Helper()
	n := map[string]int{}
	err := h.log.Read(h.ctx(), 0, h.eng.Position().Frame(), func(f eventlog.Frame) error {
		for _, ev := range f.Events {
			if ev.Kind == kind {
				n[ev.ID.String()]++
			}
		}
		return nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return n
}

func TestALostAckStreamIsNoAck(t *testing.T) {
	h := ackHarness(t, nil)
	c := h.ackConsumer("thumb")
	seen, waits := h.submit("thumb"), h.submit("thumb")
	m := h.nextAck(c)
	if err := m.InProgress(); err != nil {
		t.Fatal(err)
	}
	h.becomes(seen, events.StateRunning)
	h.until("both are sent", func() bool { return h.ackMsgs() == 2 })
	if err := h.js.DeleteStream(h.ctx(), "WORK_DISPATCH"); err != nil {
		t.Fatal(err)
	}
	h.until("the stream is made again, and what waits sent again", func() bool {
		s, err := h.js.Stream(h.ctx(), "WORK_DISPATCH")
		return err == nil && s.CachedInfo().State.Msgs == 1
	})
	again := h.nextAck(h.ackConsumer("thumb"))
	if again.Headers().Get(wire.HeaderID) != waits.String() {
		t.Fatalf("sent again: %v", again.Headers())
	}
	if err := m.Ack(); err != nil { // of the earlier life: it hits nothing
		t.Fatal(err)
	}
	if err := again.Ack(); err != nil {
		t.Fatal(err)
	}
	h.becomes(waits, events.StateCompleted)
	if it := h.item(seen); it.State != events.StateRunning {
		t.Fatalf("the one that was running is %+v", it)
	}
	if done := h.kinds(events.KindCompleted); len(done) != 1 {
		t.Fatalf("completed: %v", done)
	}
}

// What was not delivered goes out by the new protocol, what was runs to its end.
func TestChangingTheProtocol(t *testing.T) {
	h := ackHarness(t, nil)
	c := h.ackConsumer("thumb")
	begun, waits := h.submit("thumb"), h.submit("thumb")
	h.until("both are sent", func() bool { return h.ackMsgs() == 2 })
	m := h.nextAck(c)
	h.register("w1", 2, "thumb")
	h.ack("thumb", func(s *events.TypeSettings) { s.Protocol = events.ProtocolOffer })
	claimed := h.pull("thumb")
	if claimed.ID != waits.String() {
		t.Fatalf("dispatched anew: %+v", claimed)
	}
	if a := h.begin(claimed); !a.OK {
		t.Fatalf("%+v", a)
	}
	// Nobody may report on what goes by acks.
	if a := h.begin(received{wire.Assigned{ID: begun.String(), Token: m.Headers().Get(wire.HeaderToken)}, "w1"}); a.OK {
		t.Fatalf("a report of an ack run was taken: %+v", a)
	}
	if err := m.Ack(); err != nil {
		t.Fatal(err)
	}
	h.becomes(begun, events.StateCompleted)
	second := h.submit("thumb")
	sent := h.pull("thumb")
	h.ack("thumb", nil)
	third := h.submit("thumb")
	if err := h.nextAck(c).Ack(); err != nil {
		t.Fatal(err)
	}
	h.becomes(third, events.StateCompleted)
	h.finish(sent)
	h.becomes(second, events.StateCompleted)
	done := reportOf(claimed, wire.ReportComplete)
	if a := h.report(done)[0]; !a.OK {
		t.Fatalf("%+v", a)
	}
	h.becomes(waits, events.StateCompleted)
}

func TestPausingAndCancellingAckItems(t *testing.T) {
	h := ackHarness(t, func(s *events.TypeSettings) { s.Capacity = 2 })
	c := h.ackConsumer("thumb")
	begun, waits := h.submit("thumb"), h.submit("thumb")
	h.until("both are sent", func() bool { return h.ackMsgs() == 2 })
	m := h.nextAck(c)
	h.do(core.PauseType{Type: "thumb"})
	h.until("what was not delivered is taken back", func() bool { return h.ackMsgs() == 1 })
	if err := m.Ack(); err != nil {
		t.Fatal(err)
	}
	h.becomes(begun, events.StateCompleted)
	h.do(core.ResumeType{Type: "thumb"})
	m = h.nextAck(c)
	if m.Headers().Get(wire.HeaderID) != waits.String() {
		t.Fatalf("delivered %v", m.Headers())
	}
	cancelled := h.submit("thumb")
	h.until("it is sent", func() bool { return h.ackMsgs() == 2 })
	h.do(core.Cancel{ID: cancelled})
	h.until("it is removed", func() bool { return h.ackMsgs() == 1 })
	// A run that is cancelled holds its slot until its worker lets go.
	if err := m.InProgress(); err != nil {
		t.Fatal(err)
	}
	h.becomes(waits, events.StateRunning)
	h.do(core.Cancel{ID: waits})
	if err := m.Ack(); err != nil {
		t.Fatal(err)
	}
	h.do(core.Cancel{ID: waits})
	id := h.submit("thumb")
	if err := h.nextAck(c).Ack(); err != nil {
		t.Fatal(err)
	}
	h.becomes(id, events.StateCompleted)
	if it := h.item(waits); it.State != events.StateCancelled {
		t.Fatalf("%+v", it)
	}
}

func TestWhyAnAckItemWaits(t *testing.T) {
	h := ackHarness(t, func(s *events.TypeSettings) { s.Capacity = 1 })
	why := func(id events.ID) events.BlockReason {
		t.Helper()
		if err := h.eng.Await(h.ctx(), h.eng.Position()); err != nil {
			t.Fatal(err)
		}
		r, err := h.eng.Why(context.Background(), id)
		if err != nil || len(r.Reasons) == 0 {
			t.Fatalf("%+v %v", r, err)
		}
		return r.Reasons[0]
	}
	h.ackConsumer("thumb")
	first, second := h.submit("thumb"), h.submit("thumb")
	h.until("one is sent", func() bool { return h.ackMsgs() == 1 })
	gpu := h.do(core.Submit{Type: "thumb", NewID: h.eng.NewID(), Capabilities: []string{"gpu"}}).Decision.ID
	for id, want := range map[events.ID]string{first: events.WhyOnItsWay, second: events.WhyTypeFull, gpu: events.WhyNoCapable} {
		if o := why(id); o.Code != want {
			t.Errorf("%s: %+v, want %s", id, o, want)
		}
	}
}

// A run that nobody renews and whose answer is slow shows as running once a
// sweep has found it delivered; its attempt's timeout counts from there.
func TestASlowAckRunIsSeenAndTimesOut(t *testing.T) {
	h := ackHarness(t, func(s *events.TypeSettings) {
		s.Timeout = events.Millis(500)
		s.Backoff.Initial, s.Backoff.Max = events.Millis(60_000), events.Millis(60_000)
	})
	c := h.ackConsumer("thumb")
	id := h.submit("thumb")
	m := h.nextAck(c)
	it := h.retries(id, 1)
	if it.Code != events.FailTimeout || it.Attempt != 1 {
		t.Fatalf("%+v", it)
	}
	if err := m.Ack(); err != nil {
		t.Fatal(err)
	}
	h.do(core.Cancel{ID: id})
	if id = h.submit("thumb"); h.nextAck(c).Ack() != nil {
		t.Fatal("ack")
	}
	h.becomes(id, events.StateCompleted)
}
