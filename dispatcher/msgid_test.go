package dispatcher

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/dispatcher/natsio"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector/query"
)

// withMsgID is a message of the intake stream.
func withMsgID(typ events.Type, msgID string) *nats.Msg {
	return &nats.Msg{Subject: "work.intake.0." + string(typ), Data: []byte("{}"), Header: nats.Header{nats.MsgIdHdr: {msgID}}}
}

// became lists the items that messages of the intake stream became, or repeat.
func (s *sim) became() (ids []events.ID) {
	s.t.Helper()
	for i := range s.intake {
		id, found, err := s.store.ByIntake(uint64(i + 1))
		s.ok(err)
		if !found {
			_, id, _, err = query.Of(s.store).Answer(uint64(i + 1))
			s.ok(err)
		}
		ids = append(ids, id)
	}
	return ids
}

// A message id is one of a type, and a repeat within the window makes no second
// item, though the server's own window is far shorter. Behind it, it does.
func TestMessageIDsOfTypes(t *testing.T) {
	s := newSim(t, nil)
	publish := func(typ events.Type) {
		s.arrive(withMsgID(typ, "order-4711"))
		s.settle()
	}
	publish("email")
	publish("invoice")
	s.tick(events.MsgIDWindow - time.Millisecond)
	publish("email")
	publish("invoice")
	s.tick(time.Millisecond)
	publish("email")
	ids := s.became()
	if ids[0] == ids[1] || ids[2] != ids[0] || ids[3] != ids[1] || ids[4] == ids[0] || slices.Contains(ids, events.ID{}) {
		t.Fatalf("%v", ids)
	}
	s.check()
}

// What counts is when messages were published: those that were a minute apart
// are repeats, however long they lie in the intake, or the engine is away, and
// those that were three minutes apart are not, though they are read together.
func TestMessageIDsOfMessagesThatLieLong(t *testing.T) {
	s := newSim(t, nil)
	s.arrive(withMsgID("email", "first"))
	s.settle()
	s.tick(time.Minute)
	// From here on nothing of the intake is read.
	handed := s.handed
	later := func(d time.Duration, msgID string) {
		s.arrive(withMsgID("email", msgID))
		s.published[len(s.published)-1] = simStart.Add(time.Minute + d)
	}
	later(0, "first")
	later(0, "second")
	later(time.Minute, "second")
	later(time.Minute, "first") // two minutes behind the first
	later(3*time.Minute, "second")
	s.at = simStart.Add(time.Hour)
	s.l.queues.intake.jobs, s.handed = nil, handed
	s.submit(core.Submit{}) // the log's time goes on
	s.crash()
	s.submit(core.Submit{})
	ids := s.became()
	if ids[1] != ids[0] || ids[3] != ids[2] || ids[4] == ids[0] || ids[5] == ids[2] || slices.Contains(ids, events.ID{}) {
		t.Fatalf("%v", ids)
	}
	s.check()
}

// A round re-states the message ids that are held.
func TestMessageIDsAreCarried(t *testing.T) {
	s := newSim(t, nil)
	s.arrive(withMsgID("email", "a"))
	s.arrive(withMsgID("invoice", "a"))
	s.settle()
	s.tick(events.MsgIDWindow + time.Minute) // no other message came: they are still held
	s.cut()
	s.settle()
	s.tick(time.Minute)
	if tip, err := s.log.Last(s.t.Context()); err != nil || tip.First == 1 {
		t.Fatalf("the log is not cut: %+v %v", tip, err)
	}
	s.check()
	s.crash()
	s.arrive(withMsgID("email", "a"))
	s.published[2] = simStart.Add(time.Second)
	s.settle()
	if ids := s.became(); ids[2] != ids[0] || ids[1] == ids[0] {
		t.Fatalf("%v", ids)
	}
	s.check()
}

// Message ids stay in the server's memory for a moment only, whatever their
// size, and those that are too long become no item.
func TestLongMessageIDsDoNotStayInMemory(t *testing.T) {
	slow(t)
	const messages, size, bound = 1500, 60 << 10, 32 << 20 // 88 MiB of ids
	h := newHarness(t, nil)
	s, err := h.js.Stream(h.ctx(), "WORK_INTAKE")
	if err != nil || s.CachedInfo().Config.Duplicates != natsio.MinDuplicates {
		t.Fatalf("%v %v", s.CachedInfo().Config.Duplicates, err)
	}
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	id := bytes.Repeat([]byte("x"), size)
	for i := range messages {
		m := &nats.Msg{Subject: "work.submit.email", Data: []byte("{}"), Header: nats.Header{nats.MsgIdHdr: {fmt.Sprint(i, string(id))}}}
		if _, err := h.js.PublishMsgAsync(m, jetstream.WithStallWait(patience)); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-h.js.PublishAsyncComplete():
	case <-time.After(patience):
		t.Fatal("the publishes are not acknowledged")
	}
	h.until("the messages are answered", func() bool {
		m, err := h.store.Meta()
		return err == nil && m.Rejected == messages
	})
	h.until("the ids are let go", func() bool { return heap() < before+bound })
	ack, err := h.js.PublishMsg(h.ctx(), withMsgIDOn("work.submit.email", "short"))
	if err != nil {
		t.Fatal(err)
	}
	h.until("a message with a short id becomes an item", func() bool {
		_, found, err := h.store.ByIntake(ack.Sequence)
		return err == nil && found
	})
}

func withMsgIDOn(subject, msgID string) *nats.Msg {
	return &nats.Msg{Subject: subject, Data: []byte("{}"), Header: nats.Header{nats.MsgIdHdr: {msgID}}}
}

// Every stream to which others can publish has the least duplicate window.
func TestNoStreamHoldsMessageIDsForLong(t *testing.T) {
	h := ackHarness(t, nil)
	h.ackConsumer("thumb")
	names := h.js.StreamNames(h.ctx())
	n := 0
	for name := range names.Name() {
		s, err := h.js.Stream(h.ctx(), name)
		if err != nil {
			t.Fatal(err)
		}
		if w := s.CachedInfo().Config.Duplicates; w > natsio.MinDuplicates {
			t.Errorf("%s remembers message ids for %v", name, w)
		}
		n++
	}
	if names.Err() != nil || n < 4 {
		t.Fatalf("%d streams, %v", n, names.Err())
	}
}
