package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/workers"
)

// kills returns how often the engine is killed: CHAOS_KILLS times, or a few.
func kills() int {
	if n, err := strconv.Atoi(os.Getenv("CHAOS_KILLS")); err == nil {
		return n
	}
	return 4
}

// serve is an `engine serve` that is started again each time it was killed.
type serve struct {
	t      *testing.T
	binary string
	dir    string
	listen string
	cmd    *exec.Cmd
	log    *bytes.Buffer
}

func build(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "engine")
	out, err := exec.Command("go", "build", "-o", bin, "github.com/streamwright/streamwright/cmd/engine").CombinedOutput()
	if err != nil {
		t.Fatalf("build the engine: %v\n%s", err, out)
	}
	return bin
}

func newServe(t *testing.T, config string) *serve {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "engine.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &serve{t: t, binary: build(t), dir: dir, listen: need.Address(t).String()}
	t.Cleanup(s.kill)
	return s
}

func (s *serve) start() {
	s.t.Helper()
	s.log = &bytes.Buffer{}
	s.cmd = exec.Command(s.binary, "serve", "--dir", filepath.Join(s.dir, "data"), "--config", filepath.Join(s.dir, "engine.toml"), "--nats-listen", s.listen, "--http", "off")
	s.cmd.Stdout, s.cmd.Stderr = io.Discard, s.log
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
}

// kill is kill -9.
func (s *serve) kill() {
	if s.cmd == nil || s.cmd.Process == nil {
		return
	}
	_ = s.cmd.Process.Signal(syscall.SIGKILL)
	_ = s.cmd.Wait()
	s.cmd = nil
}

func (s *serve) url() string { return "nats://" + s.listen }

func (s *serve) connect(ctx context.Context) *nats.Conn {
	s.t.Helper()
	for {
		nc, err := nats.Connect(s.url(), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.ReconnectJitter(10*time.Millisecond, 10*time.Millisecond))
		if err == nil {
			s.t.Cleanup(nc.Close)
			return nc
		}
		if ctx.Err() != nil {
			s.t.Fatalf("the engine does not start: %v\n%s", err, s.log)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// TestKilledEngineLosesNothing kills `engine serve` at random moments under
// load, workers and submitters carrying on: every accepted item must end
// completed exactly once in the log, and the store must be what the log says.
func TestKilledEngineLosesNothing(t *testing.T) {
	need.Seconds(t)
	for _, durability := range []string{"interval", "always"} {
		t.Run(durability, func(t *testing.T) {
			t.Parallel()
			killEngine(t, durability)
		})
	}
}

func killEngine(t *testing.T, durability string) {
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute)
	defer cancel()
	s := newServe(t, fmt.Sprintf("[server]\ndurability = %q\n[types.chaos]\nlease = \"2s\"\nmax_attempts = 100\nbackoff = {initial = \"10ms\", max = \"100ms\"}\n", durability))
	s.start()
	worker, err := workers.New(s.connect(ctx), workers.Config{ID: "chaos", Concurrency: 16, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	var ran atomic.Int64
	workers.HandleRaw(worker, "chaos", func(ctx context.Context, it *workers.RawItem) (any, error) {
		ran.Add(1)
		select {
		case <-time.After(time.Duration(rand.IntN(5)) * time.Millisecond):
			return "done", nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	})
	if err := worker.Start(ctx); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = worker.Stop(ctx) }()

	sub := &submitters{ctx: ctx, accepted: map[string]bool{}, stop: make(chan struct{})}
	for range 3 {
		client, err := streamwright.New(s.connect(ctx))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		sub.wg.Go(func() { sub.run(client) })
	}
	for i := range kills() {
		// Only an engine that works again is worth killing: some submits are
		// accepted and some handlers run, and then a random moment passes.
		accepted, runs := sub.count(), ran.Load()
		for sub.count() < accepted+50 || ran.Load() < runs+50 {
			if ctx.Err() != nil {
				t.Fatalf("nothing moves after kill %d: %d accepted, %d runs\n%s", i, sub.count(), ran.Load(), s.log)
			}
			time.Sleep(5 * time.Millisecond)
		}
		time.Sleep(time.Duration(rand.IntN(500)) * time.Millisecond)
		t.Logf("kill %d: %d accepted, %d runs", i+1, sub.count(), ran.Load())
		s.kill()
		s.start()
	}
	close(sub.stop)
	sub.wg.Wait()
	if sub.err != nil {
		t.Fatalf("a submit was refused: %v", sub.err)
	}
	client, err := streamwright.New(s.connect(ctx))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	checkAll(ctx, t, client, sub.accepted)
	if t.Failed() {
		t.Logf("the engine's last words:\n%s", s.log)
	}
}

// submitters submit and publish until they are stopped, and remember what was accepted.
type submitters struct {
	ctx  context.Context
	stop chan struct{}
	wg   sync.WaitGroup

	mu       sync.Mutex // guards what follows
	accepted map[string]bool
	err      error
}

func (s *submitters) run(c *streamwright.Client) {
	for n := 0; ; n++ {
		select {
		case <-s.stop:
			return
		default:
		}
		id, err := "", error(nil)
		if item := (streamwright.Item{Type: "chaos", Params: n}); n%2 == 0 {
			var got streamwright.Submitted
			got, err = c.Submit(s.ctx, item)
			id = got.ID
		} else {
			var got streamwright.Published
			got, err = c.Publish(s.ctx, item)
			id = got.ID
		}
		s.mu.Lock()
		if err != nil {
			s.err = errors.Join(s.err, err)
			s.mu.Unlock()
			return
		}
		s.accepted[id] = true
		s.mu.Unlock()
	}
}

func (s *submitters) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.accepted)
}

// checkAll waits for every accepted item, and then reads the log.
func checkAll(ctx context.Context, t *testing.T, c *streamwright.Client, accepted map[string]bool) {
	t.Helper()
	if len(accepted) == 0 {
		t.Fatal("nothing was accepted")
	}
	for id := range accepted {
		it, err := c.Wait(ctx, id)
		if err != nil || it.State != events.StateCompleted {
			h, _ := c.History(ctx, id)
			t.Fatalf("item %s is %s (%v): history %+v", id, it.State, err, h)
		}
	}
	info, err := c.Engine().Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	last, err := info.Position.Seq()
	if err != nil {
		t.Fatal(err)
	}
	completed := map[string]int{}
	end := errors.New("the end of the log")
	err = c.Tail(ctx, streamwright.TailOptions{FromSeq: 1}, func(ev streamwright.Event) error {
		if ev.Kind == events.KindCompleted {
			completed[ev.ID]++
		}
		if ev.Seq >= last {
			return end
		}
		return nil
	})
	if !errors.Is(err, end) {
		t.Fatalf("read the log: %v", err)
	}
	for id := range accepted {
		if completed[id] != 1 {
			t.Errorf("item %s was completed %d times", id, completed[id])
		}
	}
	res, err := c.Engine().Verify(ctx, nil)
	if err != nil || !res.Equal {
		t.Fatalf("verify: %+v %v", res, err)
	}
	stats, err := c.Engine().Stats(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, typ := range stats.Types {
		for state, n := range typ.States {
			if state != "completed" && n > 0 {
				t.Errorf("%d items of type %s are %s", n, typ.Type, state)
			}
		}
	}
	t.Logf("%d accepted items, each completed once", len(accepted))
}
