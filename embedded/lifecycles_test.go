package embedded

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

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

// holderEnv has the test program hold the data folder that it names: see hold.
const holderEnv = "STREAMWRIGHT_LIFECYCLE_HOLDER"

// Engines, mirrors, sites, clients and workers are started and stopped at random moments, by
// several at once, with contexts that end on the way, while connections break, NATS servers
// restart and holders of the folder are killed. After each round nothing of them runs, no
// file is open, and the data folder is free.
func TestLifecycles(t *testing.T) {
	rounds, first := 12, rand.Uint64()
	if n, err := strconv.Atoi(os.Getenv(lifecyclesEnv)); err == nil {
		rounds = n
	}
	if n, err := strconv.ParseUint(os.Getenv(lifecycleSeedEnv), 10, 64); err == nil {
		first = n
	}
	kept, tmp := t.TempDir(), t.TempDir() // kept is a folder with the data of earlier rounds
	t.Setenv("TMPDIR", tmp)               // of servers in memory
	for i := range rounds {
		seed := first + uint64(i)
		r := &lifecycles{t: t, rng: rand.New(rand.NewPCG(seed, 0)), dir: kept, tmp: filepath.Join(kept+"-round", strconv.Itoa(i))}
		if r.rng.IntN(3) == 0 {
			r.dir = r.folder("data")
		}
		check := leaks.Since(t)
		r.round()
		check()
		d, err := openDataDir(r.dir)
		if err == nil {
			err = d.Close()
		}
		left, _ := os.ReadDir(tmp)
		if err != nil || len(left) > 0 {
			t.Errorf("after a round the folder: %v; temporary files: %v", err, left)
		}
		if t.Failed() {
			t.Fatalf("%s=%d replays it", lifecycleSeedEnv, seed)
		}
		if err := os.RemoveAll(r.tmp); err != nil {
			t.Error(err)
		}
	}
}

// lifecycles is a round of TestLifecycles.
type lifecycles struct {
	t   *testing.T
	rng *rand.Rand
	dir string
	tmp string // folders of the round

	others sync.WaitGroup
	engine context.Context // ends when the engines have stopped
}

func (r *lifecycles) folder(name string) string { return filepath.Join(r.tmp, name) }

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
	engine, stopped := context.WithCancel(context.Background())
	r.engine = engine
	switch r.rng.IntN(8) {
	case 0:
		r.killed()
	case 1:
		r.shared()
	case 2:
		r.sites()
	default:
		r.alone()
	}
	stopped()
	r.others.Wait()
}

// start starts an engine, with others to use it; nil if its context has ended first.
func (r *lifecycles) start(o Options) *Engine {
	ctx, cancel := r.some(300 * time.Millisecond)
	defer cancel()
	e, err := Start(ctx, o)
	if err != nil {
		if ctx.Err() == nil {
			r.t.Errorf("start: %v", err)
		}
		return nil
	}
	for range r.rng.IntN(4) {
		r.client(e)
		r.worker(e)
		r.browser(e)
	}
	return e
}

// alone has an engine of its own server.
func (r *lifecycles) alone() {
	o := r.options()
	if o.Memory = r.rng.IntN(4) == 0; o.Memory {
		o.Dir = ""
	}
	e := r.start(o)
	if e == nil {
		return
	}
	if r.rng.IntN(2) == 0 {
		r.fault(e)
	}
	if r.rng.IntN(2) == 0 {
		r.pause(100 * time.Millisecond)
	}
	if o.Memory {
		r.stopTwice(e)
		return
	}
	r.stop(e)
}

// fault breaks connections of an engine, or restarts its server, beside all else.
func (r *lifecycles) fault(e *Engine) {
	what, wait := r.rng.IntN(3), time.Duration(r.rng.Int64N(int64(100*time.Millisecond)))
	r.others.Go(func() {
		time.Sleep(wait)
		switch what {
		case 0:
			list, err := e.srv.ns().Connz(nil)
			if err != nil {
				r.t.Error(err)
				return
			}
			for _, c := range list.Conns {
				_ = e.srv.ns().DisconnectClientByID(c.Cid) // or it has gone by itself
			}
		case 1:
			if e.o.Memory { // a restart would lose the log
				return
			}
			if err := e.srv.restartAfter(func() error { return nil }); err != nil && !errors.Is(err, errServerStopped) {
				r.t.Errorf("restart: %v", err)
			}
		case 2:
			e.decider.dispatcher.Reload()
		}
	})
}

// killed has another process hold the folder, and kills it at any moment: the next engine has
// it at once.
func (r *lifecycles) killed() {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), holderEnv+"="+r.dir)
	out, err := c.StdoutPipe()
	in, err2 := c.StdinPipe() // it ends with this process
	if err := errors.Join(err, err2, c.Start()); err != nil {
		r.t.Fatal(err)
	}
	if r.rng.IntN(3) > 0 {
		line, _ := bufio.NewReader(out).ReadString('\n')
		if line != holds {
			r.t.Errorf("the holder says %q", line)
		} else if _, err := Start(r.engine, r.options()); !errors.Is(err, ErrInUse) {
			r.t.Errorf("a start in a folder that another process has: %v", err)
		}
	} else {
		r.pause(300 * time.Millisecond)
	}
	_ = c.Process.Kill() // fails if it has ended, which Wait tells
	if err := c.Wait(); err == nil {
		r.t.Error("the holder has ended by itself")
	}
	_ = in.Close() // closed by Wait
	r.alone()
}

const holds = "holds\n"

// hold is the process of killed.
func hold(dir string) {
	if _, err := Start(context.Background(), quiet(dir)); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Print(holds)
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(1)
}

// shared has two engines on an existing NATS, which ends at last, or at any moment.
func (r *lifecycles) shared() {
	srv, err := natsserver.NewServer(&natsserver.Options{Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, JetStream: true, StoreDir: r.folder("nats"), MaxPayload: MaxPayload, NoSigs: true, NoLog: true})
	if err != nil {
		r.t.Fatal(err)
	}
	srv.Start()
	end := func() { srv.Shutdown(); srv.WaitForShutdown() }
	defer end()
	var engines sync.WaitGroup
	for _, node := range []string{"n1", "n2"} {
		o := quiet(r.folder(node))
		o.NATSURL, o.NATSListen, o.Cluster.Node = srv.ClientURL(), "", node
		if r.rng.IntN(2) == 0 {
			o.HTTP = "127.0.0.1:0"
		}
		one := &lifecycles{t: r.t, rng: rand.New(rand.NewPCG(r.rng.Uint64(), 0)), dir: o.Dir, tmp: r.tmp, engine: r.engine}
		engines.Go(func() {
			if e := one.start(o); e != nil {
				one.pause(100 * time.Millisecond)
				one.stopTwice(e)
			}
		})
		defer r.others.Go(one.others.Wait) // they end once the engines have
	}
	engines.Wait()
}

// sites has a hub with a mirror and a site at the edge, which stop in any order.
func (r *lifecycles) sites() {
	o := secured(r.t, hubOptions(r.folder("hub"), "127.0.0.1:0"))
	o.Config.Leaf.Sites[0].Mirror = true
	hub := r.start(o)
	if hub == nil {
		return
	}
	var all sync.WaitGroup
	run := func(start func(context.Context) (interface{ Stop(context.Context) error }, error)) {
		ctx, cancel := r.some(300 * time.Millisecond)
		stop, cancelStop := r.some(2 * time.Second)
		wait := time.Duration(r.rng.Int64N(int64(100 * time.Millisecond)))
		all.Go(func() {
			defer cancel()
			defer cancelStop()
			s, err := start(ctx)
			if err != nil {
				if ctx.Err() == nil {
					r.t.Errorf("start: %v", err)
				}
				return
			}
			time.Sleep(wait)
			if err := s.Stop(stop); !stoppedWell(err, stop) {
				r.t.Errorf("stop: %v", err)
			}
		})
	}
	at := hub.LeafURL()
	run(func(ctx context.Context) (interface{ Stop(context.Context) error }, error) {
		return StartMirror(ctx, mirrorOptions(r.folder("mirror"), at))
	})
	run(func(ctx context.Context) (interface{ Stop(context.Context) error }, error) {
		return StartEdge(ctx, EdgeOptions{Site: "van", Hub: at, Token: "van-0123456789", Dir: r.folder("edge"), NATSListen: "127.0.0.1:0"})
	})
	r.pause(200 * time.Millisecond)
	r.stopTwice(hub)
	all.Wait()
}

// stopTwice stops an engine, up to three times at once.
func (r *lifecycles) stopTwice(e *Engine) {
	var stops sync.WaitGroup
	var given []context.Context
	for range 1 + r.rng.IntN(3) {
		ctx, cancel := r.some(2 * time.Second)
		defer cancel()
		given = append(given, ctx)
	}
	for _, ctx := range given {
		stops.Go(func() {
			if err := e.Stop(ctx); !stoppedWell(err, given...) {
				r.t.Errorf("stop: %v", err)
			}
			if e.srv != nil && e.srv.ns().Running() || e.dir != nil && e.dir.lock != nil {
				r.t.Error("Stop has returned, and the NATS server runs or the folder is locked")
			}
		})
	}
	stops.Wait()
}

// stop stops an engine while others try to start one in its folder.
func (r *lifecycles) stop(e *Engine) {
	o := r.options()
	ctx, cancel := r.some(2 * time.Second) // it may run an item
	var next sync.WaitGroup
	next.Go(func() {
		defer cancel()
		next, err := Start(context.Background(), o)
		for errors.Is(err, ErrInUse) && e.srv.ns().Running() {
			next, err = Start(context.Background(), o)
		}
		if err == nil {
			err = next.Stop(ctx)
		}
		if !stoppedWell(err, ctx) && !errors.Is(err, ErrInUse) {
			r.t.Errorf("the next engine in the folder: %v", err)
		}
	})
	r.stopTwice(e)
	next.Wait()
}

// stoppedWell reports whether a stop went well, but for the time that it was given by one of
// some contexts: each part of an engine has half of what is left, so that one may have had too
// little before the context itself has ended.
func stoppedWell(err error, given ...context.Context) bool {
	short := slices.ContainsFunc(given, func(ctx context.Context) bool {
		end, _ := ctx.Deadline()
		return ctx.Err() != nil || time.Until(end) < testTimeout/2
	})
	return err == nil || short && slices.ContainsFunc([]error{context.DeadlineExceeded, workers.ErrAbandoned, workers.ErrUnanswered}, func(is error) bool { return errors.Is(err, is) })
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

// browser follows what HTTP streams, beside all else.
func (r *lifecycles) browser(e *Engine) {
	at := e.HTTPURL()
	if at == "" {
		return
	}
	ctx, cancel := r.some(200 * time.Millisecond)
	r.others.Go(func() {
		defer cancel()
		defer context.AfterFunc(r.engine, cancel)()
		transport := &http.Transport{}
		defer transport.CloseIdleConnections()
		q, err := http.NewRequestWithContext(ctx, http.MethodGet, at+"/api/v1/live", nil)
		if err != nil {
			r.t.Error(err)
			return
		}
		resp, err := (&http.Client{Transport: transport}).Do(q)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
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

var errPart = errors.New("this part does not start")

// A start that fails, or whose context ends, at any of its parts leaves nothing: no goroutine,
// no file, no lock. So does a stop whose time is over at any of them.
func TestStartBreaksOffAtAnyPart(t *testing.T) {
	slow(t)
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	o := quiet(t.TempDir())
	o.HTTP, o.PProf = "127.0.0.1:0", "127.0.0.1:0"
	o.Config = configOf(t, "[types.long]\nexec = [\"sleep\", \"3\"]\n")
	o.Config.Leaf = hubOptions("", "127.0.0.1:0").Config.Leaf
	o = secured(t, o)
	for name, how := range map[string]func(*part, context.CancelFunc, context.CancelFunc){
		"its start fails": func(p *part, _, _ context.CancelFunc) {
			p.start = func(context.Context) error { return errPart }
		},
		"the start's context ends before": func(p *part, cancel, _ context.CancelFunc) {
			start := p.start
			p.start = func(ctx context.Context) (err error) {
				if cancel(); start != nil {
					err = start(ctx)
				}
				return err
			}
		},
		"the stop's context ends before": func(p *part, _, cancel context.CancelFunc) {
			stop := p.stop
			p.stop = func(ctx context.Context) (err error) {
				if cancel(); stop != nil {
					err = stop(ctx)
				}
				return err
			}
		},
	} {
		for i, of := range newEngine(o).parts() {
			t.Run(of.name+"/"+name, func(t *testing.T) {
				check := leaks.Since(t)
				e := newEngine(o)
				if err := errors.Join(e.cfg.Validate(), e.resolve(), e.guard.open()); err != nil {
					t.Fatal(err)
				}
				start, cancelStart := context.WithCancel(t.Context())
				stop, cancelStop := context.WithCancel(t.Context())
				defer cancelStart()
				defer cancelStop()
				parts := e.parts()
				how(&parts[i], cancelStart, cancelStop)
				begun := time.Now()
				err := e.life.start(start, parts...)
				if err != nil && start.Err() == nil && !errors.Is(err, errPart) {
					t.Errorf("start: %v", err)
				}
				if err := e.Stop(stop); err != nil && stop.Err() == nil && start.Err() == nil && !errors.Is(err, errPart) {
					t.Errorf("stop: %v", err)
				}
				if took := time.Since(begun); took > undoTimeout/4 { // some part has waited for its time to end
					t.Errorf("took %s", took)
				}
				check()
				d, err := openDataDir(o.Dir)
				if err != nil {
					t.Fatal(err)
				}
				_ = d.Close()
				if left, _ := os.ReadDir(tmp); len(left) > 0 {
					t.Errorf("temporary files: %v", left)
				}
			})
		}
	}
	mustStart(t, o)
}
