package acceptance

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
)

// outside is an engine on a NATS server of its own, which this process is.
func outside(t *testing.T, toml string) *served {
	t.Helper()
	ns := must(natsserver.NewServer(&natsserver.Options{
		Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), MaxPayload: 4 << 20, NoSigs: true, NoLog: true,
	}))(t)
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(patience) {
		t.Fatal("the NATS server does not start")
	}
	s := &served{rig: rig{t: t, ctx: testContext(t), log: &logBook{}}, dir: filepath.Join(t.TempDir(), "data"), nats: ns.ClientURL()}
	s.toml = filepath.Join(t.TempDir(), "engine.toml")
	if err := os.WriteFile(s.toml, []byte("[server]\nhttp = \"off\"\n"+toml), 0o600); err != nil {
		t.Fatal(err)
	}
	s.begin()
	s.connect()
	return s
}

// TestAckWorkersAndAKilledEngine kills the engine again and again while
// workers that know nothing of it go on: with the NATS server in it, and on one
// that lives on.
func TestAckWorkersAndAKilledEngine(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T, string) *served{"embedded": serve, "outside": outside} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kills := kills(2)
			if name == "outside" {
				kills /= 2 // the next one waits until the last one's mark has gone
			}
			s := start(t, ackToml)
			c := newCrowd(t)
			c.join(s.url())
			l := s.load("thumb", 3*time.Millisecond)
			for range kills {
				c.moves(60)
				time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond) // any moment
				s.p.kill()
				if s.nats == "" {
					c.dies()
				}
				s.begin()
				if s.nats == "" {
					c.join(s.url())
				}
			}
			c.moves(60)
			c.end()
			c.check(&s.rig, l.end(t), kills)
			cli(t, s.url(), "verify").wants(t, 0, "equal")
		})
	}
}

// An engine that stands still for longer than a lease, and then goes on.
func TestAckWorkersAndAStoppedEngine(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T, string) *served{"embedded": serve, "outside": outside} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, ackToml)
			c := newCrowd(t)
			c.join(s.url())
			l := s.load("thumb", 3*time.Millisecond)
			for range 2 {
				c.moves(60)
				s.p.signal(syscall.SIGSTOP)
				time.Sleep(ackLease + ackLease/2)
				s.p.signal(syscall.SIGCONT)
			}
			c.moves(60)
			c.end()
			c.check(&s.rig, l.end(t), 0)
			cli(t, s.url(), "verify").wants(t, 0, "equal")
		})
	}
}
