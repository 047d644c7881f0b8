package workers

import (
	"cmp"
	"errors"
	"log/slog"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
)

// A worker of several namespaces is a worker of each of them. The first has the others, and
// does with them what is done with it.

// common is what the workers of one process share.
type common struct {
	slots      *slots
	goroutines *goroutines
	checks     *checker
	telling    *sync.Mutex
	several    bool
}

// log returns the logger of one namespace's worker.
func (c common) log(cfg Config) *slog.Logger {
	log := cfg.Logger.With("worker", string(cfg.ID))
	if c.several {
		log = log.With("namespace", string(cfg.Names.InNamespace()))
	}
	return log
}

// newWorkers makes a worker of each of the configuration's namespaces, and returns the first.
func newWorkers(nc *nats.Conn, cfg Config) (*Worker, error) {
	namespaces := cfg.Namespaces
	if len(namespaces) == 0 {
		namespaces = []events.Namespace{cfg.Names.InNamespace()}
	}
	shared := common{
		slots: &slots{size: cfg.Concurrency}, goroutines: newGoroutines(), checks: newChecker(cfg.Checks, cfg.CheckTimeout), telling: new(sync.Mutex), several: len(namespaces) > 1,
	}
	var first *Worker
	for _, ns := range namespaces {
		cfg.Names = cfg.Names.Namespace(ns)
		w, err := newWorker(nc, cfg, shared)
		switch {
		case err != nil:
			return nil, err
		case first == nil:
			first = w
		default:
			first.others = append(first.others, w)
		}
	}
	if shared.several {
		first.allDone = make(chan struct{})
	}
	return first, nil
}

// each calls fn with each worker, all at once, and returns the error, or several joined.
func each(ws []*Worker, fn func(*Worker) error) error {
	if len(ws) == 1 {
		return fn(ws[0])
	}
	errs := make([]error, len(ws))
	var calls sync.WaitGroup
	for i, w := range ws {
		calls.Go(func() { errs[i] = fn(w) })
	}
	calls.Wait()
	return errors.Join(errs...)
}

// awaitDrained closes allDone once the workers of all namespaces are drained.
func (w *Worker) awaitDrained() {
	defer w.loops.Done()
	for _, of := range append([]*Worker{w}, w.others...) {
		select {
		case <-of.drained:
		case <-w.life.Done():
			return
		}
	}
	close(w.allDone)
}

// offerAnew has the engine told how many slots the worker offers now.
func (w *Worker) offerAnew() {
	w.mu.Lock()
	defer w.unlock()
	w.session.Ask()
	w.session.wake()
}

// add adds the counts of another namespace.
func (s *Stats) add(o Stats) {
	s.Registered = s.Registered && o.Registered
	s.Unhealthy = cmp.Or(s.Unhealthy, o.Unhealthy)
	s.Running += o.Running
	s.Settling += o.Settling
	s.Completed += o.Completed
	s.Failed += o.Failed
	s.Released += o.Released
	s.Spawned += o.Spawned
	s.Snoozed += o.Snoozed
	s.Waited += o.Waited
	s.LeasesLost += o.LeasesLost
}
