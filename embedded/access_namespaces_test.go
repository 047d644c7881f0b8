package embedded

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

// userIn is a NATS user with the test's password and roles in namespaces, such as acme/submit.
func userIn(t testing.TB, name string, roles ...string) config.NATSUser {
	t.Helper()
	m, err := access.ParseMemberships(roles)
	if err != nil {
		t.Fatal(err)
	}
	return config.NATSUser{Name: name, Password: testPassword, Roles: m}
}

// serverOf starts a NATS server with some users, and answers requests of the API of default and
// of some namespaces by their prefix.
func serverOf(t testing.TB, users []config.NATSUser, namespaces ...events.Namespace) *server {
	t.Helper()
	o := testOptions()
	o.Listen = "127.0.0.1:0"
	o.Access.Users = users
	s := mustServe(t, o)
	nc, err := s.connect(true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	for _, ns := range append(namespaces, events.DefaultNamespace) {
		n := wire.Default.Namespace(ns)
		if _, err := nc.Subscribe(n.API("*"), func(m *nats.Msg) { _ = m.Respond([]byte(n.Prefix)) }); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.FlushTimeout(testTimeout); err != nil {
		t.Fatal(err)
	}
	return s
}

// dial connects to a server as a user; without a name as whoever connects.
func dial(t testing.TB, s *server, name string) *nats.Conn {
	t.Helper()
	opts := []nats.Option{nats.PermissionErrOnSubscribe(true), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})}
	if name != "" {
		opts = append(opts, nats.UserInfo(name, testPassword))
	}
	nc, err := nats.Connect(s.URL(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// answers reports whether a namespace answers a user's request.
func answers(nc *nats.Conn, ns events.Namespace) bool {
	n := wire.Default.Namespace(ns)
	m, err := nc.Request(n.API(wire.APIInfo), nil, 150*time.Millisecond) // one that is refused is not answered at all
	return err == nil && string(m.Data) == n.Prefix
}

// mayHear reports whether the server takes a subscription.
func mayHear(t *testing.T, nc *nats.Conn, subject string) bool {
	t.Helper()
	sub, err := nc.SubscribeSync(subject)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := nc.FlushTimeout(testTimeout); err != nil {
		t.Fatal(err)
	}
	_, err = sub.NextMsg(time.Millisecond)
	return !errors.Is(err, nats.ErrPermissionViolation)
}

func mustSetNamespaces(t testing.TB, s *server, list ...events.Namespace) {
	t.Helper()
	need.NoReload(t)
	if err := s.reload(func(o *serverOptions) { o.Namespaces = list }); err != nil {
		t.Fatal(err)
	}
}

// A namespace that is added can be used at once by those with roles in it, and nobody notices
// anything who has none, or had his before.
func TestAddingANamespaceDisturbsNobody(t *testing.T) {
	need.NoRace(t, "nats-server 2.15.2 compares its accounts by reflection at a reload (diffOptions), which reads counters that its connections add to")
	s := serverOf(t, []config.NATSUser{userIn(t, "here", "read"), userIn(t, "there", "acme/read"), userIn(t, "every", "*/read")}, "acme", "beta")
	inside, err := s.connect(false)
	if err != nil {
		t.Fatal(err)
	}
	defer inside.Close()
	engine, err := s.connect(true)
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	all := map[string]*nats.Conn{"inside": inside, "engine": engine}
	for _, name := range []string{"here", "there", "every"} {
		all[name] = dial(t, s, name)
	}
	subs := map[string]*nats.Subscription{}
	for name, subject := range map[string]string{"here": "work.event.>", "there": "work-acme.event.>", "every": "work.event.>"} {
		sub, err := all[name].SubscribeSync(subject)
		if err != nil {
			t.Fatal(err)
		}
		if err := all[name].FlushTimeout(testTimeout); err != nil {
			t.Fatal(err)
		}
		subs[name] = sub
	}
	check := func(when string, exist ...events.Namespace) {
		t.Helper()
		for _, ns := range []events.Namespace{events.DefaultNamespace, "acme", "beta"} {
			for name, want := range map[string]bool{"here": ns == events.DefaultNamespace, "there": ns == "acme", "every": true, "inside": true} {
				if got := answers(all[name], ns); got != want {
					t.Errorf("%s: %s in %s: %v", when, name, ns, got)
				}
			}
		}
		for _, ns := range []events.Namespace{"acme", "beta"} {
			if got, want := mayHear(t, all["every"], "$KV."+wire.Default.Namespace(ns).Bucket("workers")+".>"), slices.Contains(exist, ns); got != want {
				t.Errorf("%s: who has roles in every namespace hears the bucket of %s: %v", when, ns, got)
			}
		}
		for _, subject := range []string{"work.event.0.email.queued", "work-acme.event.0.email.queued"} {
			if err := engine.Publish(subject, []byte(when)); err != nil {
				t.Fatal(err)
			}
		}
		for name, sub := range subs {
			if m, err := sub.NextMsg(testTimeout); err != nil || string(m.Data) != when {
				t.Errorf("%s: %s hears %v, %v", when, name, m, err)
			}
		}
		for name, nc := range all {
			if n := nc.Stats().Reconnects; n != 0 {
				t.Errorf("%s: %s had to connect %d times more", when, name, n)
			}
		}
	}
	check("before")
	mustSetNamespaces(t, s, "acme")
	check("with acme", "acme")
	mustSetNamespaces(t, s, "acme", "beta")
	check("with beta", "acme", "beta")
	// Other users leave the namespaces as they are.
	if err := s.reload(func(o *serverOptions) { o.Access.Users = append(o.Access.Users[:3:3], userIn(t, "late", "*/read")) }); err != nil {
		t.Fatal(err)
	}
	check("with another user", "acme", "beta")
	if late := dial(t, s, "late"); !answers(late, "beta") {
		t.Error("a user who was added has no part in beta")
	}
	mustSetNamespaces(t, s, "beta")
	check("without acme", "beta")
	if err := s.restartAfter(func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	if late := dial(t, s, "late"); !answers(late, events.DefaultNamespace) && answers(late, "acme") {
		t.Error("after a restart it has other namespaces")
	}
}

// In an open engine nobody may publish what is the engine's alone, in any namespace.
func TestTheOpenModeProtectsNamespaces(t *testing.T) {
	s := serverOf(t, nil, "acme")
	nc := dial(t, s, "")
	engine, err := s.connect(true)
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	heard, err := engine.SubscribeSync(">")
	if err != nil {
		t.Fatal(err)
	}
	if err := engine.FlushTimeout(testTimeout); err != nil {
		t.Fatal(err)
	}
	n := wire.Default.Namespace("acme")
	denied := []string{n.Event(0, "email", events.KindCompleted), n.Frame(0), n.Intake(0, "email"), n.Forward("submit"), n.Lease(0), n.Control("w1"), "$KV." + n.Bucket("keys") + ".x", "$JS.API.STREAM.DELETE." + n.EventStream(0), "$JS.API.CONSUMER.DELETE." + n.DispatchStream() + ".email"}
	try := func() (reached int) {
		for _, subject := range denied {
			if err := nc.Publish(subject, []byte("{}")); err != nil {
				t.Fatal(err)
			}
		}
		if err := nc.Publish("last", nil); err != nil {
			t.Fatal(err)
		}
		for {
			m, err := heard.NextMsg(testTimeout)
			if err != nil {
				t.Fatal(err)
			}
			if m.Subject == "last" {
				return reached
			}
			if slices.Contains(denied, m.Subject) {
				reached++
			}
		}
	}
	if got := try(); got != len(denied) {
		t.Fatalf("%d of %d subjects of no namespace are open", got, len(denied))
	}
	mustSetNamespaces(t, s, "acme")
	if got := try(); got != 0 {
		t.Errorf("%d of %d subjects of acme are open", got, len(denied))
	}
	if !answers(nc, "acme") || nc.Stats().Reconnects != 0 {
		t.Error("a client is not served any more")
	}
	// What others are asked is not heard.
	sub, err := nc.SubscribeSync(n.API(">"))
	if err != nil {
		t.Fatal(err)
	}
	if !answers(dial(t, s, ""), "acme") {
		t.Error("a client is not served")
	}
	if m, err := sub.NextMsg(50 * time.Millisecond); err == nil {
		t.Errorf("a client hears a request: %s", m.Subject)
	}
}

// BenchmarkAddNamespace measures how long the server takes to add one namespace to others.
func BenchmarkAddNamespace(b *testing.B) {
	for _, n := range []int{1, 50, 200} {
		for _, open := range []bool{false, true} {
			b.Run(fmt.Sprintf("namespaces=%d/open=%v", n, open), func(b *testing.B) {
				var users []config.NATSUser
				for i := range 5 {
					if !open {
						users = append(users, userIn(b, fmt.Sprintf("u%d", i), "*/submit", "*/work", "*/read", "*/operate"))
					}
				}
				s := serverOf(b, users)
				var list []events.Namespace
				for i := range n {
					list = append(list, events.Namespace(fmt.Sprintf("n%d", i)))
				}
				mustSetNamespaces(b, s, list...)
				var conns []*nats.Conn
				for _, u := range users {
					conns = append(conns, dial(b, s, u.Name))
				}
				for i := 0; b.Loop(); i++ {
					mustSetNamespaces(b, s, append(list[:n:n], events.Namespace(fmt.Sprintf("more%d", i)))...)
				}
				for _, nc := range conns {
					if nc.Stats().Reconnects > 0 {
						b.Error("a user had to connect again")
					}
				}
			})
		}
	}
}
