package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/internal/leaks"
	"github.com/streamwright/streamwright/workers"
)

// lifecyclesEnv sets the rounds of TestLifecycles, and lifecycleSeedEnv the first seed.
const (
	lifecyclesEnv    = "STREAMWRIGHT_LIFECYCLES"
	lifecycleSeedEnv = "STREAMWRIGHT_LIFECYCLE_SEED"
)

// Engines, clients and workers are started and stopped at random moments, by several at once,
// with contexts that end on the way. After each round nothing of them runs, and the data
// folder is free.
func TestLifecycles(t *testing.T) {
	rounds, first := 8, rand.Uint64()
	if n, err := strconv.Atoi(os.Getenv(lifecyclesEnv)); err == nil {
		rounds = n
	}
	if n, err := strconv.ParseUint(os.Getenv(lifecycleSeedEnv), 10, 64); err == nil {
		first = n
	}
	kept := t.TempDir() // a folder with the data of earlier rounds
	for i := range rounds {
		seed := first + uint64(i)
		r := &lifecycles{t: t, rng: rand.New(rand.NewPCG(seed, 0)), dir: kept}
		if r.rng.IntN(3) == 0 {
			r.dir = t.TempDir()
		}
		check := leaks.Since(t)
		r.round()
		check()
		d, err := openDataDir(r.dir)
		if err == nil {
			err = d.Close()
		}
		if err != nil {
			t.Errorf("the folder after a round: %v", err)
		}
		if t.Failed() {
			t.Fatalf("%s=%d replays it", lifecycleSeedEnv, seed)
		}
	}
}

// lifecycles is a round of TestLifecycles.
type lifecycles struct {
	t   *testing.T
	rng *rand.Rand
	dir string

	others sync.WaitGroup
	engine context.Context // ends when the engine has stopped
}

// some returns a context that ends after up to most, and now and then at once or not at all.
func (r *lifecycles) some(most time.Duration) (context.Context, context.CancelFunc) {
	d := time.Duration(r.rng.Int64N(int64(most)))
	switch r.rng.IntN(4) {
	case 0:
		d = 0
	case 1:
		d = testTimeout
	}
	return context.WithTimeout(context.Background(), d)
}

// pause waits for up to most.
func (r *lifecycles) pause(most time.Duration) { time.Sleep(time.Duration(r.rng.Int64N(int64(most)))) }

func (r *lifecycles) options() Options {
	o := quiet(r.dir)
	if r.rng.IntN(2) == 0 {
		o.HTTP, o.NATSListen = "127.0.0.1:0", "127.0.0.1:0"
	}
	if r.rng.IntN(2) == 0 {
		o.Config = configOf(r.t, "[types.long]\nexec = [\"sleep\", \"3\"]\n")
	}
	if r.rng.IntN(4) == 0 {
		o.Durability = config.Interval
	}
	return secured(r.t, o)
}

func (r *lifecycles) round() {
	ctx, cancel := r.some(300 * time.Millisecond)
	defer cancel()
	e, err := Start(ctx, r.options())
	if err != nil {
		if ctx.Err() == nil {
			r.t.Errorf("start: %v", err)
		}
		return
	}
	engine, stopped := context.WithCancel(context.Background())
	r.engine = engine
	for range r.rng.IntN(4) {
		r.client(e)
		r.worker(e)
	}
	if r.rng.IntN(2) == 0 {
		r.pause(100 * time.Millisecond)
	}
	r.stop(e)
	stopped()
	r.others.Wait()
}

// stop stops an engine, several times at once, while others try to start one in its folder.
func (r *lifecycles) stop(e *Engine) {
	var stops sync.WaitGroup
	for range 1 + r.rng.IntN(3) {
		ctx, cancel := r.some(2 * time.Second)
		stops.Go(func() {
			defer cancel()
			if err := e.Stop(ctx); !stoppedWell(err) {
				r.t.Errorf("stop: %v", err)
			}
			if e.srv.ns().Running() || e.dir.lock != nil {
				r.t.Error("Stop has returned, and the NATS server runs or the folder is locked")
			}
		})
	}
	o := r.options()
	ctx, cancel := r.some(2 * time.Second) // it may run an item
	stops.Go(func() {
		defer cancel()
		next, err := Start(context.Background(), o)
		for errors.Is(err, ErrInUse) && e.srv.ns().Running() {
			next, err = Start(context.Background(), o)
		}
		if err == nil {
			err = next.Stop(ctx)
		}
		if !stoppedWell(err) && !errors.Is(err, ErrInUse) {
			r.t.Errorf("the next engine in the folder: %v", err)
		}
	})
	stops.Wait()
}

// stoppedWell reports whether an engine's stop went well, but for the time it was given.
func stoppedWell(err error) bool {
	return err == nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, workers.ErrAbandoned)
}

// client opens a client, uses and closes it, beside all else.
func (r *lifecycles) client(e *Engine) {
	ctx, cancel := r.some(200 * time.Millisecond)
	twice := r.rng.IntN(2) == 0
	r.others.Go(func() {
		defer cancel()
		defer context.AfterFunc(r.engine, cancel)() // asks on and on otherwise
		c, err := e.Client(ctx)
		if err != nil {
			return
		}
		var use sync.WaitGroup
		use.Go(func() {
			_, _ = c.Submit(ctx, streamwright.Item{Type: "long", Params: json.RawMessage(`{}`)})
		})
		use.Go(func() {
			_ = c.Tail(ctx, streamwright.TailOptions{}, func(streamwright.Event) error { return nil })
		})
		if twice {
			use.Go(c.Close)
		}
		use.Wait()
		c.Close()
	})
}

// worker starts a worker and stops it, in any order and at once.
func (r *lifecycles) worker(e *Engine) {
	nc, err := e.Connect()
	if err != nil {
		r.t.Errorf("connect: %v", err)
		return
	}
	w, err := workers.New(nc, workers.Config{Names: e.clientNames(), Concurrency: 2, Probe: true, Logger: slog.New(slog.DiscardHandler), DrainTimeout: 100 * time.Millisecond})
	if err != nil {
		r.t.Error(err)
		return
	}
	workers.HandleRaw(w, "long", func(ctx context.Context, _ *workers.RawItem) (any, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	start, cancelStart := r.some(100 * time.Millisecond)
	stop, cancelStop := r.some(100 * time.Millisecond)
	wait := time.Duration(r.rng.Int64N(int64(50 * time.Millisecond)))
	r.others.Go(func() {
		defer nc.Close()
		var both sync.WaitGroup
		both.Go(func() {
			defer cancelStart()
			_ = w.Start(start)
		})
		both.Go(func() {
			defer cancelStop()
			time.Sleep(wait)
			_ = w.Stop(stop)
		})
		both.Wait()
	})
}
