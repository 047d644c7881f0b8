package acceptance

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/streamwright/streamwright"
)

// trickle submits items at a modest rate, and remembers those that were
// accepted.
type trickle struct {
	stop chan struct{}
	wg   sync.WaitGroup
	ids  []string
	err  error
}

func (r *rig) trickle(typ string) *trickle {
	l := &trickle{stop: make(chan struct{})}
	c := r.c
	l.wg.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-l.stop:
				return
			case <-time.After(3 * time.Millisecond):
			}
			s, err := c.Submit(r.ctx, streamwright.Item{Type: typ, Params: n})
			if err != nil {
				l.err = errors.Join(l.err, err)
				return
			}
			l.ids = append(l.ids, s.ID)
		}
	})
	return l
}

func (l *trickle) end(t *testing.T) []string {
	t.Helper()
	close(l.stop)
	l.wg.Wait()
	if l.err != nil {
		t.Fatal(l.err)
	}
	return l.ids
}

// long gives the rig more time than other tests need.
func (s *served) long(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	t.Cleanup(cancel)
	s.ctx = ctx
}

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

// TestNativeWorkersAndAKilledEngine kills the engine again and again while
// workers that know nothing of it go on: with the NATS server in it, and on one
// that lives on.
func TestNativeWorkersAndAKilledEngine(t *testing.T) {
	for name, start := range map[string]func(*testing.T, string) *served{"embedded": serve, "outside": outside} {
		t.Run(name, func(t *testing.T) {
			kills := 6
			if name == "outside" {
				kills = 3 // the next one waits until the last one's mark has gone
			}
			s := start(t, nativeToml)
			s.long(t)
			c := newCrowd(t)
			c.join(s.url())
			l := s.trickle("thumb")
			for range kills {
				c.moves(60)
				time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond) // any moment
				s.p.kill()
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
func TestNativeWorkersAndAStoppedEngine(t *testing.T) {
	for name, start := range map[string]func(*testing.T, string) *served{"embedded": serve, "outside": outside} {
		t.Run(name, func(t *testing.T) {
			s := start(t, nativeToml)
			s.long(t)
			c := newCrowd(t)
			c.join(s.url())
			l := s.trickle("thumb")
			for range 2 {
				c.moves(60)
				s.p.signal(syscall.SIGSTOP)
				time.Sleep(nativeLease + nativeLease/2)
				s.p.signal(syscall.SIGCONT)
			}
			c.moves(60)
			c.end()
			c.check(&s.rig, l.end(t), 0)
			cli(t, s.url(), "verify").wants(t, 0, "equal")
		})
	}
}
