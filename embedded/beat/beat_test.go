package beat

import (
	"errors"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

const life = 900 * time.Millisecond

// listen is an engine's ear, on a connection of its own.
func listen(t *testing.T, srv *natsserver.Server, node string) (*Beat, *nats.Conn) {
	t.Helper()
	nc, err := nats.Connect("", nats.InProcessServer(srv))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	b, err := Listen(Config{Conn: nc, Names: wire.Default, Owner: "engine " + node, Node: node, TTL: life, Leads: func() bool { return true }})
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b, nc
}

func server(t *testing.T) *natsserver.Server {
	t.Helper()
	srv, err := natsserver.NewServer(&natsserver.Options{DontListen: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(srv.Shutdown)
	if !srv.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server does not start")
	}
	return srv
}

// said has an engine say a word, and another hear it.
func said(t *testing.T, by, to *Beat, w Word, heard <-chan struct{}) {
	t.Helper()
	if err := by.say(w); err != nil {
		t.Fatal(err)
	}
	select {
	case <-heard:
	case <-time.After(10 * time.Second):
		t.Fatal("nothing was heard")
	}
}

// The lease of an owner whose program is gone is over before its life is; that of one that is
// only silent is not.
func TestGone(t *testing.T) {
	srv := server(t)
	standby, _ := listen(t, srv, "a")
	owner, nc := listen(t, srv, "b")
	if by := standby.Owner(t.Context()); by != "" {
		t.Errorf("at first the owner is %q", by)
	}
	said(t, owner, standby, Word{}, standby.Taken())
	if by := standby.Owner(t.Context()); by != "engine b" {
		t.Errorf("the owner is %q", by)
	}
	need.Eventually(t, "a silent owner's lease ends", func() bool { return standby.Owner(t.Context()) == "" })
	if node := standby.Gone(); node != "" {
		t.Errorf("an owner that answers is gone: %q", node)
	}
	said(t, owner, standby, Word{}, standby.Taken())
	nc.Close()
	need.Eventually(t, "the owner is found to be gone", func() bool { return standby.Owner(t.Context()) == "" && standby.Gone() == "b" })
	if cause := took(t, standby); cause != wire.TakeoverSilent {
		t.Errorf("it went by %s", cause)
	}
}

// An engine that does not know pulses is not asked for one.
func TestGoneWithoutPulse(t *testing.T) {
	srv := server(t)
	standby, nc := listen(t, srv, "a")
	old := []byte(`{"owner":"old","node":"b"}`)
	if err := nc.Publish(wire.Default.Lease(0), old); err != nil {
		t.Fatal(err)
	}
	need.Eventually(t, "it is heard", func() bool { return standby.Owner(t.Context()) == "old" })
	need.Eventually(t, "its lease ends", func() bool { return standby.Owner(t.Context()) == "" })
	if node := standby.Gone(); node != "" {
		t.Errorf("%q is gone", node)
	}
}

// A lease that is given away is the heir's first, and then anyone's.
func TestReleased(t *testing.T) {
	srv := server(t)
	heir, _ := listen(t, srv, "a")
	other, _ := listen(t, srv, "b")
	owner, _ := listen(t, srv, "c")
	said(t, owner, heir, Word{Released: true, Heir: "engine a"}, heir.Changed())
	if by := heir.Owner(t.Context()); by != "" {
		t.Errorf("the heir finds it held by %q", by)
	}
	need.Eventually(t, "the other hears it", func() bool { return other.Owner(t.Context()) == "engine c" })
	need.Eventually(t, "the heir does not come", func() bool { return other.Owner(t.Context()) == "" })
	if cause := took(t, other); cause != wire.TakeoverHandedOver {
		t.Errorf("it went by %s", cause)
	}
}

// took is the cause that an engine gives once it owns the log.
func took(t *testing.T, b *Beat) wire.TakeoverCause {
	t.Helper()
	if err := b.Own(1); err != nil {
		t.Fatal(err)
	}
	return b.Because(b.cfg.Owner)
}

// Who asks the owner to hand the log on gets its answer, also from itself; nobody else answers.
func TestAsk(t *testing.T) {
	srv := server(t)
	owner, _ := listen(t, srv, "a")
	standby, _ := listen(t, srv, "b")
	refused := errors.New("there is no room")
	for _, by := range []*Beat{standby, owner} {
		for _, want := range []error{nil, refused} {
			asked := make(chan error, 1)
			go func() { asked <- by.Ask(t.Context(), "c", wire.TakeoverMoved) }()
			a := <-owner.Asked()
			<-standby.Asked()
			if a.To != "c" || a.Because != wire.TakeoverMoved {
				t.Errorf("asked for %+v", a)
			}
			a.Answer(want)
			if err := <-asked; (err == nil) != (want == nil) || err != nil && err.Error() != want.Error() {
				t.Errorf("answered %v, want %v", err, want)
			}
		}
	}
	if by := standby.Owner(t.Context()); by != "" {
		t.Errorf("who asks is taken for the owner: %q", by)
	}
}

// Of two that say that they own the log, each hears the other's epoch, as often as that says so,
// until it has given the log away.
func TestHeard(t *testing.T) {
	srv := server(t)
	first, _ := listen(t, srv, "a")
	second, _ := listen(t, srv, "b")
	hears := func(b *Beat, epoch events.Epoch) {
		t.Helper()
		<-b.Heard()
		if got := b.Epoch(); got != epoch {
			t.Errorf("it has heard of epoch %d, want %d", got, epoch)
		}
	}
	if err := errors.Join(first.Own(1), second.Own(2)); err != nil {
		t.Fatal(err)
	}
	hears(second, 1)
	hears(first, 2)
	if err := errors.Join(first.Here(), second.Here()); err != nil {
		t.Fatal(err)
	}
	hears(second, 1)
	hears(first, 2)
	if err := second.Release("", ""); err != nil {
		t.Fatal(err)
	}
	<-first.Changed()
	if got := first.Epoch(); got != 0 {
		t.Errorf("the other has given the log away, and has epoch %d", got)
	}
}

// How an owner came to the log is known to all who hear it.
func TestBecause(t *testing.T) {
	srv := server(t)
	a, _ := listen(t, srv, "a")
	b, _ := listen(t, srv, "b")
	said(t, a, b, Word{}, b.Taken())
	if cause := b.Because("engine a"); cause != "" {
		t.Errorf("the first owner took over by %s", cause)
	}
	said(t, a, b, Word{Released: true, Heir: "engine b", Because: wire.TakeoverBalanced}, b.Changed())
	if cause := took(t, b); cause != wire.TakeoverBalanced {
		t.Errorf("b took over by %s", cause)
	}
	need.Eventually(t, "a hears why", func() bool { return a.Because("engine b") == wire.TakeoverBalanced })
}
