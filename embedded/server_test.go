package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

const testTimeout = 5 * time.Minute

func testOptions() serverOptions {
	return serverOptions{Listen: config.Off, Names: wire.Default, Partitions: 1, Log: slog.New(slog.DiscardHandler)}
}

func mustServe(t testing.TB, o serverOptions) *server {
	t.Helper()
	s, err := startServer(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func mustConnect(t testing.TB, s *server, privileged bool, opts ...nats.Option) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	nc, err := s.connect(privileged, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return nc, js
}

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

func addEventStream(t testing.TB, js jetstream.JetStream, storage jetstream.StorageType) jetstream.Stream {
	t.Helper()
	st, err := js.CreateStream(testContext(t), jetstream.StreamConfig{
		Name: wire.Default.EventStream(0), Subjects: []string{wire.Default.EventFilter("0", "*", "*")}, Storage: storage,
	})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// What is stored survives a restart, in both durabilities.
func TestServerKeepsData(t *testing.T) {
	for _, durability := range []config.Durability{config.Always, config.Interval} {
		t.Run(string(durability), func(t *testing.T) {
			o := testOptions()
			o.Dir, o.Durability = t.TempDir(), durability
			subject := wire.Default.Event(0, "email", events.KindCreated)
			for round := range 2 {
				s, err := startServer(o)
				if err != nil {
					t.Fatal(err)
				}
				_, js := mustConnect(t, s, true)
				if round == 0 {
					addEventStream(t, js, jetstream.FileStorage)
				}
				ack, err := js.Publish(testContext(t), subject, []byte("{}"))
				if err != nil || ack.Sequence != uint64(round+1) {
					t.Fatalf("round %d: ack %+v, %v", round, ack, err)
				}
				if err := s.Stop(); err != nil {
					t.Fatal(err)
				}
				if err := s.Stop(); err != nil {
					t.Fatalf("second Stop: %v", err)
				}
			}
		})
	}
}

func TestServersInMemory(t *testing.T) {
	var wg sync.WaitGroup
	for i := range 5 {
		s := mustServe(t, testOptions())
		wg.Go(func() {
			_, js := mustConnect(t, s, true)
			st := addEventStream(t, js, jetstream.MemoryStorage)
			if info := st.CachedInfo(); info.State.Msgs != 0 {
				t.Errorf("server %d shares data: %+v", i, info.State)
			}
			if _, err := js.Publish(testContext(t), wire.Default.Event(0, "a", events.KindQueued), nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestServerListens(t *testing.T) {
	o := testOptions()
	o.Listen = "127.0.0.1:0"
	s := mustServe(t, o)
	nc, err := nats.Connect(s.URL())
	if err != nil {
		t.Fatalf("connect to %q: %v", s.URL(), err)
	}
	defer nc.Close()
	if nc.MaxPayload() != MaxPayload {
		t.Errorf("max payload %d", nc.MaxPayload())
	}
	if _, err := nats.Connect(s.URL(), nats.UserInfo("engine", "guess")); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("made-up credentials: %v", err)
	}
	if off := mustServe(t, testOptions()); off.URL() != "" {
		t.Errorf("a server that does not listen has the URL %q", off.URL())
	}
}

func TestPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	o := testOptions()
	o.Listen = l.Addr().String()
	s, err := startServer(o)
	if err == nil {
		s.Stop()
		t.Fatal("started on a port in use")
	}
	for _, want := range []string{o.Listen, "in use", "choose another address"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q lacks %q", err, want)
		}
	}
	for _, bad := range []string{"4222", "host:port", "127.0.0.1:70000"} {
		o.Listen = bad
		if _, err := startServer(o); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("address %q: %v", bad, err)
		}
	}
}

// What clients may not do is refused, and everything that the protocol needs
// works.
func TestClientPermissions(t *testing.T) {
	n := wire.Default
	s := mustServe(t, testOptions())
	_, engine := mustConnect(t, s, true)
	addEventStream(t, engine, jetstream.MemoryStorage)
	denied := make(chan string, 1)
	nc, js := mustConnect(t, s, false, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { denied <- err.Error() }))

	id := events.ID{1}
	refused := []string{
		n.Event(0, "email", events.KindCompleted), n.Event(7, "email", events.KindQueued), n.Intake(0, "email"), n.Run("email", ""), n.Run("email", "gpu"), n.RunOf("email", "s1"), n.Control("w1"),
		"$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.WORK_DISPATCH.email", "$KV.work_dedup.a.b", "$KV.work_workers.w", "$KV.work_partitions.0",
		"$JS.API.STREAM.DELETE.WORK_EVENTS_0", "$JS.API.STREAM.PURGE.WORK_EVENTS_0", "$JS.API.STREAM.MSG.DELETE.WORK_EVENTS_0", "$JS.API.STREAM.UPDATE.WORK_EVENTS_0", "$JS.API.STREAM.CREATE.WORK_EVENTS_0",
		"$JS.API.STREAM.PURGE.WORK_INTAKE", "$JS.API.STREAM.DELETE.WORK_LOGS",
		"$JS.API.CONSUMER.CREATE.WORK_DISPATCH", "$JS.API.CONSUMER.CREATE.WORK_DISPATCH.x.work.run.email", "$JS.API.CONSUMER.DURABLE.CREATE.WORK_DISPATCH.x", "$JS.API.CONSUMER.DELETE.WORK_DISPATCH.email",
		n.Native("email"), "$JS.EVENT.METRIC.CONSUMER.ACK.WORK_NATIVE.email", "$JS.API.STREAM.MSG.DELETE.WORK_NATIVE", "$JS.API.STREAM.DELETE.WORK_NATIVE_ACKS", "$JS.API.STREAM.PURGE.WORK_NATIVE_SIGNALS",
		"$JS.API.CONSUMER.CREATE.WORK_NATIVE.email.work.native.email", "$JS.API.CONSUMER.PAUSE.WORK_NATIVE.email",
	}
	for _, subject := range refused {
		if err := nc.Publish(subject, nil); err != nil {
			t.Fatal(err)
		}
		expect(t, denied, "Permissions Violation for Publish to \""+subject)
	}
	sub, err := nc.QueueSubscribeSync(n.API("submit"), "q")
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Unsubscribe()
	expect(t, denied, "Permissions Violation for Subscription to \"work.api.submit\"")

	for _, subject := range []string{n.Submit("email"), n.API("submit"), n.Log("email", id), "$JS.API.CONSUMER.MSG.NEXT.WORK_DISPATCH.email", "$JS.ACK.WORK_DISPATCH.email.1.1.1.1.0", "$JS.API.CONSUMER.INFO.WORK_DISPATCH.email", "$JS.API.STREAM.CREATE.MINE", "mine.subject",
		"$JS.API.CONSUMER.MSG.NEXT.WORK_NATIVE.email", "$JS.ACK.WORK_NATIVE.email.1.1.1.1.0", "$JS.API.CONSUMER.INFO.WORK_NATIVE.email"} {
		if err := nc.Publish(subject, nil); err != nil {
			t.Fatal(err)
		}
	}
	// A tail: an ordered consumer on the log.
	if _, err := engine.Publish(testContext(t), n.Event(0, "email", events.KindDead), []byte("{}")); err != nil {
		t.Fatal(err)
	}
	tail, err := js.OrderedConsumer(testContext(t), n.EventStream(0), jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if msg, err := tail.Next(jetstream.FetchMaxWait(testTimeout)); err != nil || msg.Subject() != n.Event(0, "email", events.KindDead) {
		t.Fatalf("tail: %v, %v", msg, err)
	}
	if err := nc.FlushTimeout(testTimeout); err != nil {
		t.Fatal(err)
	}
	select {
	case e := <-denied:
		t.Errorf("refused what clients need: %s", e)
	default:
	}
}

func expect(t *testing.T, got <-chan string, want string) {
	t.Helper()
	select {
	case e := <-got:
		if !strings.Contains(strings.ToLower(e), strings.ToLower(want)) {
			t.Errorf("got %q, want %q", e, want)
		}
	case <-time.After(testTimeout):
		t.Fatalf("not refused: %s", want)
	}
}

// The server's start is a small part of the engine's. Reported, not asserted.
func BenchmarkServerStart(b *testing.B) {
	for b.Loop() {
		s, err := startServer(testOptions())
		if err != nil {
			b.Fatal(err)
		}
		nc, err := s.connect(true)
		if err != nil {
			b.Fatal(err)
		}
		nc.Close()
		s.Stop()
	}
}

// A publish and its ack over the pipe and over the loopback interface, one at
// a time and in flight together.
func BenchmarkConnect(b *testing.B) {
	o := testOptions()
	o.Listen = "127.0.0.1:0"
	s := mustServe(b, o)
	engine, js := mustConnect(b, s, true)
	addEventStream(b, js, jetstream.MemoryStorage)
	key, err := s.engine.PublicKey()
	if err != nil {
		b.Fatal(err)
	}
	tcp, err := nats.Connect(s.URL(), nats.Nkey(key, s.engine.Sign))
	if err != nil {
		b.Fatal(err)
	}
	defer tcp.Close()
	for name, nc := range map[string]*nats.Conn{"pipe": engine, "tcp": tcp} {
		for _, inFlight := range []int{1, 1000} {
			b.Run(fmt.Sprintf("%s/%d", name, inFlight), func(b *testing.B) { benchPublish(b, nc, inFlight) })
		}
	}
}

func benchPublish(b *testing.B, nc *nats.Conn, inFlight int) {
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(inFlight))
	if err != nil {
		b.Fatal(err)
	}
	body, subject := make([]byte, 256), wire.Default.Event(0, "a", events.KindQueued)
	for b.Loop() {
		if inFlight == 1 {
			if _, err := js.Publish(context.Background(), subject, body); err != nil {
				b.Fatal(err)
			}
		} else if _, err := js.PublishAsync(subject, body); err != nil {
			b.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
}
