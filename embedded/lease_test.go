package embedded

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/embedded/room"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

// An engine that holds the lease and can't take the log over gives it to one that can, and
// says so. It stands by for that one, and tries again when there is no other.
func TestLeaseIsPassedOn(t *testing.T) {
	need.Seconds(t)
	t.Parallel()
	const password = "0123456789abcdef"
	denied := []string{"$JS.API.STREAM.CREATE.WORK_INTAKE", "$JS.API.STREAM.UPDATE.WORK_INTAKE"}
	srv, err := natsserver.NewServer(&natsserver.Options{
		Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), MaxPayload: 4 << 20, NoSigs: true, NoLog: true,
		Users: []*natsserver.User{
			{Username: "good", Password: password},
			{Username: "bad", Password: password, Permissions: &natsserver.Permissions{Publish: &natsserver.SubjectPermission{Deny: denied}}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	log := new(need.Log)
	start := func(user string) (e *Engine) {
		o := Options{Dir: t.TempDir(), NATSURL: strings.Replace(srv.ClientURL(), "nats://", "nats://"+user+":"+password+"@", 1), HTTP: config.Off}
		o.Cluster.Node, o.Cluster.Lease = user, config.MinLease
		if user == "bad" {
			o.Logger = slog.New(slog.NewTextHandler(log, nil))
		}
		e, err := Start(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := e.Stop(context.WithoutCancel(ctx)); err != nil {
				t.Error(err)
			}
		})
		return e
	}
	began := make(chan *Engine, 1)
	go func() { began <- start("bad") }()
	need.Eventually(t, "the first has the lease and tries", func() bool { return strings.Contains(log.String(), "could not be taken over") })
	good := start("good")
	need.Eventually(t, "the other owns the log", good.ledger.lease.owns.Load)
	if strings.Count(log.String(), "can't take over: letting another try") != 1 {
		t.Error("the log does not say that the lease is passed on")
	}
	bad := <-began
	need.Eventually(t, "the first stands by for the other", func() bool {
		st, on := bad.decider.dispatcher.StandsBy()
		return on && st.Owner == "good"
	})
	submit(t, good, wire.Submit{Type: "email"})
	if err := good.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	need.Eventually(t, "the first tries again", func() bool {
		bad.ledger.lease.mu.Lock()
		defer bad.ledger.lease.mu.Unlock()
		return bad.ledger.lease.rev != 0
	})
}

// An engine that holds the lease while another owns the log without lets it end, and the owner
// takes it. One that has failed for good leaves the log to others for good.
func TestLeaseGoesToTheOwner(t *testing.T) {
	t.Parallel()
	srv, err := natsserver.NewServer(&natsserver.Options{DontListen: true, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	start := func(node string) *lease {
		nc, err := nats.Connect("", nats.InProcessServer(srv))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		b := &base{log: need.Logger(t), nc: nc, room: new(room.Watch)}
		b.cfg.Server.NATSURL = "in this process"
		b.cfg.Cluster.Node, b.cfg.Cluster.Lease = node, config.MinLease
		l := &lease{base: b}
		if err := l.start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.stop(context.Background()) })
		return l
	}
	holder, owner := start("holder"), start("owner")
	if by, err := holder.Take(t.Context()); by != "" || err != nil || !holder.holds() {
		t.Fatalf("it does not have the lease: %q, %v", by, err)
	}
	owner.owns.Store(true)
	owner.owned(1)
	need.Eventually(t, "the holder stands by", func() bool {
		by, err := holder.Take(t.Context())
		return err == nil && by == "owner"
	})
	if holder.holds() {
		t.Error("it stands by, and holds the lease")
	}
	need.Eventually(t, "the owner has the lease", owner.holds)
	owner.Failed(errors.New("the log can't be read"), true)
	if owner.wants() || owner.holds() {
		t.Error("it has failed for good, and wants the log")
	}
	need.Eventually(t, "the other may take over", func() bool {
		by, err := holder.Take(t.Context())
		return err == nil && by == "" && holder.holds()
	})
	owner.mu.Lock()
	owner.passed = time.Time{} // its pause is over
	owner.mu.Unlock()
	if owner.wants() {
		t.Error("after a pause it wants the log again")
	}
}
