package door

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/internal/leaks"
	"github.com/streamwright/streamwright/internal/natscluster"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

func TestMain(m *testing.M) { leaks.Check(m) }

const patience = 30 * time.Second

type globalAccount struct{ *natsserver.Server }

func (s globalAccount) Map(from, to string) error { return s.GlobalAccount().AddMapping(from, to) }
func (s globalAccount) Unmap(from string)         { s.GlobalAccount().RemoveMapping(from) }

// house is a door with a loop that decides what the test wants, and the stream behind it.
type house struct {
	t      *testing.T
	server globalAccount
	nc     *nats.Conn
	js     jetstream.JetStream
	door   *Door
	taken  chan *Batch
	late   bool // Config.Late

	answered, read atomic.Uint64
	position       atomic.Uint64

	mu      sync.Mutex
	decided []string // bodies, in order
	byDoor  int
}

func newHouse(t *testing.T) *house {
	s := natscluster.Alone(t, 0)
	h := &house{t: t, server: globalAccount{s}, taken: make(chan *Batch, 4)}
	h.nc = h.connect()
	var err error
	if h.js, err = jetstream.New(h.nc); err != nil {
		t.Fatal(err)
	}
	n := wire.Default
	if _, err := h.js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: n.IntakeStream(), Subjects: []string{n.SubmitAll(), n.Intake(0, "*")}, Storage: jetstream.MemoryStorage,
		SubjectTransform: &jetstream.SubjectTransformConfig{Source: n.SubmitAll(), Destination: n.Intake(0, "{{wildcard(1)}}")},
	}); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *house) connect() *nats.Conn {
	nc, err := nats.Connect("", nats.InProcessServer(h.server.Server))
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(nc.Close)
	return nc
}

// open opens the door, and returns what ends it.
func (h *house) open() (end func()) {
	var err error
	h.door, err = Open(Config{
		Conn: h.nc, Names: wire.Default, Mapping: h.server, Late: h.late, Logger: slog.New(slog.DiscardHandler), NewID: func() events.ID { return events.ID{1} },
		Now: time.Now, Rate: func(*core.Submit) {}, Answered: h.answered.Load, Read: h.read.Load,
		Take: func(ctx context.Context, b *Batch) bool {
			select {
			case h.taken <- b:
				return true
			case <-ctx.Done():
				return false
			}
		},
	})
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(h.t.Context()))
	var running sync.WaitGroup
	running.Go(func() { h.door.Run(ctx) })
	return func() {
		cancel()
		running.Wait()
		h.door.End()
	}
}

// readStream decides what is in the stream until stop is called.
func (h *house) readStream() (stop func()) {
	c, err := h.js.OrderedConsumer(h.t.Context(), wire.Default.IntakeStream(), jetstream.OrderedConsumerConfig{})
	if err != nil {
		h.t.Fatal(err)
	}
	cc, err := c.Consume(func(m jetstream.Msg) {
		meta, err := m.Metadata()
		if err != nil {
			h.t.Error(err)
			return
		}
		h.read.Store(meta.Sequence.Stream)
		h.door.Strayed(meta.Sequence.Stream)
		h.decide(string(m.Data()))
		h.answered.Store(meta.Sequence.Stream)
		h.door.Settled()
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return func() { cc.Stop(); <-cc.Closed() }
}

func (h *house) decide(body string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.decided = append(h.decided, body)
}

// decideBatch decides a batch as the loop does; some give messages back.
func (h *house) decideBatch(b *Batch, refuse func() bool) {
	for i, m := range b.Messages {
		if b.Shut() || refuse() {
			b.GiveBack(i)
			continue
		}
		h.decide(string(m.Submit.Params))
		h.mu.Lock()
		h.byDoor++
		h.mu.Unlock()
		m.Became(nil, events.Seq(h.position.Add(1)), false)
	}
	b.End()
}

// await returns once the door leads to the loop.
func (h *house) await(want way) {
	h.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		h.door.mu.Lock()
		now := h.door.way
		h.door.mu.Unlock()
		if now == want {
			return
		}
		if time.Now().After(end) {
			h.t.Fatalf("the way is %d, want %d", now, want)
		}
	}
}

// Whatever way a message takes, it is decided once, in its publisher's order, and
// acknowledged: while the loop gives messages back, and while some ask of the stream what
// only the stream can do.
func TestOrderHoldsAcrossBothWays(t *testing.T) {
	h := newHouse(t)
	end := h.open()
	stop := h.readStream()
	h.await(toLoop)
	loopEnded := make(chan struct{})
	go func() {
		defer close(loopEnded)
		for b := range h.taken {
			h.decideBatch(b, func() bool { return rand.IntN(300) == 0 })
		}
	}()
	const publishers, each = 4, 1500
	var all sync.WaitGroup
	for p := range publishers {
		nc := h.connect()
		js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(64))
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			var acks []jetstream.PubAckFuture
			for i := range each {
				m := &nats.Msg{Subject: "work.submit.email", Header: nats.Header{}, Data: fmt.Appendf(nil, "[%d,%d]", p, i)}
				if i%500 == 250 {
					m.Header.Set("Nats-Unheard-Of", "1")
				}
				ack, err := js.PublishMsgAsync(m, jetstream.WithStallWait(patience))
				if err != nil {
					t.Error(err)
					return
				}
				acks = append(acks, ack)
			}
			for _, a := range acks {
				select {
				case ack := <-a.Ok():
					if ack.Stream != wire.Default.IntakeStream() || ack.Sequence == 0 {
						t.Errorf("ack %+v", ack)
					}
				case err := <-a.Err():
					t.Error(err)
				case <-time.After(patience):
					t.Error("no ack")
					return
				}
			}
		})
	}
	all.Wait()
	end()
	close(h.taken)
	<-loopEnded
	decided := func() int {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.decided)
	}
	for until := time.Now().Add(patience); decided() < publishers*each && time.Now().Before(until); {
		time.Sleep(time.Millisecond)
	}
	stop()
	next := [publishers]int{}
	for _, body := range h.decided {
		var m [2]int
		if err := json.Unmarshal([]byte(body), &m); err != nil {
			t.Fatal(err)
		}
		if m[1] != next[m[0]] {
			t.Fatalf("publisher %d: message %d is decided in place of %d", m[0], m[1], next[m[0]])
		}
		next[m[0]]++
	}
	for p, n := range next {
		if n != each {
			t.Errorf("publisher %d: %d messages are decided, want %d", p, n, each)
		}
	}
	if h.byDoor == 0 || h.byDoor == publishers*each {
		t.Errorf("%d of %d messages came by the door", h.byDoor, publishers*each)
	}
}

// A late door lets the stream have the first messages, and opens behind them.
func TestALateDoor(t *testing.T) {
	h := newHouse(t)
	h.late = true
	end := h.open()
	stop := h.readStream()
	publish := func(body string) (ack jetstream.PubAck) {
		t.Helper()
		m, err := h.connect().Request("work.submit.email", []byte(body), patience)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(m.Data, &ack); err != nil {
			t.Fatal(err)
		}
		return ack
	}
	if ack := publish("1"); ack.Sequence != 1 {
		t.Errorf("the first message has the sequence %d, not that of the stream", ack.Sequence)
	}
	h.await(toLoop)
	go func() { h.decideBatch(<-h.taken, func() bool { return false }) }()
	if _, direct := wire.DirectPosition(publish("2").Sequence); !direct {
		t.Error("the second message came by the stream")
	}
	stop()
	end()
	if got := strings.Join(h.decided, " "); got != "1 2" {
		t.Errorf("decided: %s", got)
	}
}

// What may be decided, and what may not, goes to the stream when the loop gives it up; the
// first under the id of the item that it may have become.
func TestWhatIsAbandonedGoesToTheStream(t *testing.T) {
	h := newHouse(t)
	end := h.open()
	h.await(toLoop)
	answered := make(chan *nats.Msg, 2)
	nc := h.connect()
	inbox := nc.NewInbox()
	if _, err := nc.ChanSubscribe(inbox, answered); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		if err := nc.PublishRequest("work.submit.email", inbox, fmt.Appendf(nil, "%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	batches := []*Batch{<-h.taken}
	if len(batches[0].Messages) == 1 {
		batches = append(batches, <-h.taken)
	}
	batches[0].Messages[0].Became(nil, 7, false)
	for _, b := range batches {
		b.Abandon()
	}
	h.await(toStream)
	end()
	s, err := h.js.Stream(t.Context(), wire.Default.IntakeStream())
	if err != nil {
		t.Fatal(err)
	}
	need.Eventually(t, "both messages in the stream", func() bool {
		info, err := s.Info(t.Context())
		return err == nil && info.State.Msgs == 2
	})
	for i, id := range []string{events.ID{1}.String(), ""} {
		m, err := s.GetMsg(t.Context(), uint64(i+1))
		if err != nil {
			t.Fatal(err)
		}
		if string(m.Data) != fmt.Sprint(i) || m.Subject != wire.Default.Intake(0, "email") || m.Header.Get(wire.HeaderID) != id {
			t.Errorf("message %d is %q on %s, with %v", i, m.Data, m.Subject, m.Header)
		}
		select {
		case a := <-answered:
			var ack jetstream.PubAck
			if err := json.Unmarshal(a.Data, &ack); err != nil || ack.Sequence != uint64(i+1) {
				t.Errorf("ack %s, %v", a.Data, err)
			}
		case <-time.After(patience):
			t.Fatal("no ack")
		}
	}
}

// A message that can't be kept within the door's bound goes to the stream, and so does
// everything behind it.
func TestTheDoorIsBounded(t *testing.T) {
	h := newHouse(t)
	end := h.open()
	h.await(toLoop)
	nc := h.connect()
	big := make([]byte, 512<<10)
	const n = maxBytes/(512<<10) + 8
	for range n {
		if err := nc.Publish("work.submit.email", big); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	h.await(closing)
	h.door.mu.Lock()
	if h.door.bytes > maxHeldBytes {
		t.Errorf("the door holds %d bytes, its bound is %d", h.door.bytes, maxHeldBytes)
	}
	h.door.mu.Unlock()
	loopEnded := make(chan struct{})
	go func() {
		defer close(loopEnded)
		for b := range h.taken {
			h.decideBatch(b, func() bool { return false })
		}
	}()
	h.await(toStream)
	end()
	close(h.taken)
	<-loopEnded
	if h.door.bytes != 0 {
		t.Errorf("%d bytes are left", h.door.bytes)
	}
	for until := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		s, err := h.js.Stream(t.Context(), wire.Default.IntakeStream())
		if err != nil {
			t.Fatal(err)
		}
		got := s.CachedInfo().State.LastSeq
		if got == n {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("the stream has %d messages of %d", got, n)
		}
	}
}
