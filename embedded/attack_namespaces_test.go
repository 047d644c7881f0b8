package embedded

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

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
				for _, r := range []access.Role{access.Submit, access.Work, access.Read, access.Operate, access.Approve} {
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

// The server answers a pull, or an ack, with nothing, and does not rewrite a reply subject that
// begins with $JS.ACK: a worker of one namespace must not acknowledge what another one's has.
func TestNobodyAcknowledgesInAnotherNamespace(t *testing.T) {
	e, spy := withNamespaces(t, []config.NATSUser{userIn(t, "a", "acme/work"), userIn(t, "b", "beta/work"), userIn(t, "d", "work", "submit", "operate")}, "acme", "beta")
	ctx := testContext(t)
	js, err := jetstream.New(spy)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "d"} {
		attacker, n := dial(t, e.srv, name), wire.Default.Namespace(map[string]events.Namespace{"a": "acme", "d": events.DefaultNamespace}[name])
		beta := wire.Default.Namespace("beta")
		for i := range 3 {
			if _, err := js.Publish(ctx, beta.AckRun("email"), fmt.Append(nil, i)); err != nil {
				t.Fatal(err)
			}
		}
		c, err := js.Consumer(ctx, beta.DispatchStream(), "email")
		if err != nil {
			t.Fatal(err)
		}
		batch, err := c.Fetch(3)
		if err != nil {
			t.Fatal(err)
		}
		var replies []string
		for m := range batch.Messages() {
			replies = append(replies, m.Reply())
		}
		api := wire.Default.Imported().JetStream("")
		for _, reply := range replies {
			for _, request := range []string{api + "CONSUMER.MSG.NEXT." + n.DispatchStream() + ".email", "$JS.ACK." + n.DispatchStream() + ".email.1.1.1.1.0"} {
				for _, body := range []string{"", "+ACK", "+TERM", "-NAK", `{"batch":1,"no_wait":true}`, "no JSON"} {
					if err := attacker.PublishRequest(request, reply, []byte(body)); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		if _, err := attacker.Request(api+"CONSUMER.INFO."+n.DispatchStream()+".email", nil, time.Second); err != nil && name != "d" { // default has no ack type
			t.Fatal(err)
		}
		info, err := c.Info(ctx)
		if err != nil || info.NumAckPending != 3 {
			t.Errorf("of 3 that a worker of beta has, %d are left after %s: %v", info.NumAckPending, name, err)
		}
		for _, reply := range replies {
			if _, err := spy.Request(reply, nil, testTimeout); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A user of a namespace hears nothing of another one, and reads nothing that it has stored.
func TestANamespaceIsNotSeenFromAnother(t *testing.T) {
	t.Parallel()
	all := []events.Namespace{events.DefaultNamespace, "acme", "beta"}
	var users []config.NATSUser
	for _, ns := range all {
		users = append(users, config.NATSUser{Name: string(ns), Password: testPassword, Roles: access.Memberships{}.With(ns, access.All)})
	}
	e, spy := withNamespaces(t, users, "acme", "beta")
	submit(t, e, wire.Submit{Type: "email"})
	for _, ns := range all {
		nc, own := dial(t, e.srv, string(ns)), wire.Default.Namespace(ns)
		if !mayHear(t, nc, own.EventAll()) || !mayHear(t, nc, "$KV."+own.Bucket("workers")+".>") {
			t.Errorf("%s does not hear what is its own", ns)
		}
		var heard []*nats.Subscription
		for _, pattern := range []string{">", "*.>", "*.event.>", "work-*.>", "work-*.event.>", "$KV.>", "$JS.>", "_R_.>", "*.api.*", "_INBOX.>", "_INBOX_" + string(ns) + ".>"} {
			sub, err := nc.SubscribeSync(pattern)
			if err != nil {
				t.Fatal(err)
			}
			heard = append(heard, sub)
		}
		for _, other := range all {
			if other == ns {
				continue
			}
			n := wire.Default.Namespace(other)
			for _, s := range []string{n.EventAll(), n.LogAll(), n.RunOfAll(), n.Control(">"), n.Probe(">"), "$KV." + n.Bucket("workers") + ".>", "_INBOX_" + string(other) + ".>", n.API(">"), n.SubmitAll(), n.FrameAll()} {
				if mayHear(t, nc, s) {
					t.Errorf("%s may hear %s", ns, s)
				}
			}
			for _, api := range []string{wire.Default.Imported().JetStream(""), "$JS.API."} {
				for _, r := range []string{"STREAM.INFO." + n.EventStream(0), "STREAM.MSG.GET." + n.EventStream(0), "DIRECT.GET." + n.EventStream(0), "STREAM.MSG.GET." + blobs.Stream(n), "STREAM.INFO.KV_" + n.Bucket("keys"), "CONSUMER.MSG.NEXT." + n.DispatchStream() + ".email", "CONSUMER.CREATE." + n.EventStream(0) + ".x", "STREAM.NAMES", "STREAM.LIST", "INFO"} {
					if m, err := nc.Request(api+r, []byte(`{"seq":1}`), 20*time.Millisecond); err == nil {
						t.Errorf("%s is answered %s%s: %s", ns, api, r, m.Data)
					}
				}
			}
			for _, s := range []string{n.API(wire.APIInfo), n.API(wire.APIStats), n.Submit("email"), n.Forward(wire.APIInfo), "$KV." + n.Bucket("dedup") + ".x", "$O." + n.Bucket("blobs") + ".C.x", "$JS.ACK." + n.DispatchStream() + ".email.1.1.1.1.0"} {
				if m, err := nc.Request(s, nil, 20*time.Millisecond); err == nil {
					t.Errorf("%s is answered %s: %s", ns, s, m.Data)
				}
			}
			// What the engine tells there.
			for _, s := range []string{n.Event(0, "email", events.KindQueued), "$KV." + n.Bucket("workers") + ".w1", n.Control("w1")} {
				if err := spy.Publish(s, []byte("secret")); err != nil {
					t.Fatal(err)
				}
			}
		}
		if _, err := spy.Request(own.API(wire.APIInfo), []byte("{}"), testTimeout); err != nil {
			t.Fatal(err)
		}
		if err := nc.FlushTimeout(testTimeout); err != nil {
			t.Fatal(err)
		}
		for _, sub := range heard {
			for {
				m, err := sub.NextMsg(time.Millisecond)
				if err != nil {
					break
				}
				if string(m.Data) == "secret" {
					t.Errorf("%s hears %s by %s", ns, m.Subject, sub.Subject)
				}
			}
		}
	}
}
