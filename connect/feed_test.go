package connect

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/wire"
)

// A Feed notices that a delivery was lost on its way, even if nothing comes after it.
func TestFeedNoticesALostDelivery(t *testing.T) {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	defer func() { s.Shutdown(); s.WaitForShutdown() }()
	nc, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := JetStream(nc, wire.Default)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}, Storage: jetstream.MemoryStorage}); err != nil {
		t.Fatal(err)
	}
	publish := func() {
		t.Helper()
		if _, err := js.Publish(ctx, "s", nil); err != nil {
			t.Fatal(err)
		}
	}
	f, err := OpenFeed(ctx, js, wire.Default, FeedConfig{Stream: "S", FromSeq: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	publish()
	if m, err := f.Next(ctx); err != nil || m.Seq != 1 {
		t.Fatalf("%+v, %v", m, err)
	}

	// The second goes elsewhere.
	f2, err := OpenFeed(ctx, js, wire.Default, FeedConfig{Stream: "S", FromSeq: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer f2.Close()
	elsewhere, err := nc.SubscribeSync(nc.NewInbox())
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.PublishRequest(f2.pull, elsewhere.Subject, []byte(`{"batch":1,"expires":60000000000}`)); err != nil {
		t.Fatal(err)
	}
	publish()
	if _, err := elsewhere.NextMsgWithContext(ctx); err != nil {
		t.Fatal(err)
	}
	if m, err := f2.Next(ctx); !errors.Is(err, ErrFeedLost) {
		t.Errorf("%+v, %v: want %v", m, err, ErrFeedLost)
	}
	if m, err := f.Next(ctx); err != nil || m.Seq != 2 { // of which nothing is lost
		t.Errorf("%+v, %v", m, err)
	}
}
