package embedded

import (
	"log/slog"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/blobs"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/dispatcher/ackmode"
	"github.com/streamwright/streamwright/dispatcher/natsio"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/doors"
	"github.com/streamwright/streamwright/wire"
)

// withNamespaces starts an engine with users, and makes namespaces beside its own: with their
// streams, buckets and an ack consumer, and an API that answers whatever it is asked.
func withNamespaces(t *testing.T, users []config.NATSUser, namespaces ...events.Namespace) (*Engine, *nats.Conn) {
	t.Helper()
	c := config.Default()
	c.NATS.Users = users
	e := mustStart(t, Options{Config: c, Dir: t.TempDir(), NATSListen: "127.0.0.1:0", HTTP: config.Off})
	spy, err := e.connect(true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(spy.Close)
	for _, ns := range namespaces {
		makeNamespace(t, spy, wire.Default.Namespace(ns))
	}
	mustSetNamespaces(t, e.srv, namespaces...)
	return e, spy
}

func makeNamespace(t *testing.T, nc *nats.Conn, n wire.Names) {
	t.Helper()
	ctx := testContext(t)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	zero := func() uint64 { return 0 }
	topology := natsio.NewTopology(natsio.Config{Conn: nc, JS: js, Names: n, Logger: slog.New(slog.DiscardHandler), Replicas: 1, IntakeMaxBytes: 1 << 20, MaxRunning: 1000, Answered: zero, Read: zero, Epoch: zero, AcksLost: func() {}})
	if err := topology.EnsureStreams(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := topology.EnsureAckStreams(ctx); err != nil {
		t.Fatal(err)
	}
	if err := topology.EnsureAckConsumer(ctx, ackmode.Consumer{Type: "email", Ack: true, Lease: testTimeout, Window: 100}); err != nil {
		t.Fatal(err)
	}
	for name, subject := range map[string]string{n.EventStream(0): n.FrameAll(), n.LogStream(): n.LogAll()} {
		if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: name, Subjects: []string{subject}, AllowDirect: true}); err != nil {
			t.Fatal(err)
		}
	}
	for _, bucket := range []string{"dedup", "workers", "partitions", "keys"} {
		if _, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: n.Bucket(bucket)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: n.Bucket("blobs")}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Stream(ctx, blobs.Stream(n)); err != nil {
		t.Fatal(err)
	}
	if _, err := nc.Subscribe(n.API("*"), func(m *nats.Msg) { _ = m.Respond([]byte("{}")) }); err != nil {
		t.Fatal(err)
	}
}

// A user of a namespace reaches no other one, whatever it sends to the subjects of its roles.
func TestNoDoorLeadsToAnotherNamespace(t *testing.T) {
	slow(t)
	t.Parallel()
	namespaces := []events.Namespace{events.DefaultNamespace, "acme", "beta"}
	for _, ns := range namespaces[:2] {
		t.Run(string(ns), func(t *testing.T) {
			doors.Try(t, func(t *testing.T) doors.Server {
				var users []config.NATSUser
				for _, r := range []access.Role{access.Submit, access.Work, access.Read, access.Operate} {
					users = append(users, config.NATSUser{Name: r.String(), Password: testPassword, Roles: access.Memberships{}.With(ns, access.RolesOf(r))})
				}
				e, spy := withNamespaces(t, users, "acme", "beta")
				submit(t, e, wire.Submit{Type: "email"})
				s := doors.Server{Names: wire.Default, Namespace: ns, Spy: spy, Dial: func(t *testing.T, r access.Role) *nats.Conn { return dial(t, e.srv, r.String()) }}
				for _, other := range namespaces {
					if other != ns {
						s.Others = append(s.Others, other)
					}
				}
				return s
			})
		})
	}
}
