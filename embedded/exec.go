package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/workers"
	"github.com/streamwright/streamwright/workers/process"
)

// execWorker runs a type's command: a child process for each item, on demand,
// from none up to the type's capacity.
type execWorker struct {
	nc *nats.Conn
	w  *workers.Worker
}

// execs are the workers of the types that have a command.
type execs struct {
	all   []*execWorker
	ended chan struct{} // closed when all have stopped; nil before finish
	errs  []error       // theirs, then
}

// finish stops all workers at once: their children may finish until ctx ends, and are ended
// then.
func (x *execs) finish(ctx context.Context) error {
	var stopping sync.WaitGroup
	x.errs, x.ended = make([]error, len(x.all)), make(chan struct{})
	for i, w := range x.all {
		stopping.Go(func() { x.errs[i] = w.stop(ctx) })
	}
	go func() {
		defer close(x.ended)
		stopping.Wait()
	}()
	select {
	case <-x.ended:
	case <-ctx.Done():
	}
	return nil
}

// end waits for the ends of the children, with an engine there to which their workers report.
func (x *execs) end(ctx context.Context, log *slog.Logger) error {
	if x.ended == nil {
		return nil
	}
	select {
	case <-x.ended:
	case <-ctx.Done():
		log.Warn("children of commands do not end in time: stopping without them")
	}
	return nil
}

// wait waits for the children that were too slow, without an engine to report to.
func (x *execs) wait() error {
	if x.ended == nil {
		return nil
	}
	for _, w := range x.all {
		w.nc.Close() // nobody answers any more
	}
	<-x.ended
	return errors.Join(x.errs...)
}

// startExecs starts the workers of the types that have a command.
func (e *Engine) startExecs(ctx context.Context) error {
	connect := e.outside.connectExec
	if e.srv != nil {
		connect = func(opts ...nats.Option) (*nats.Conn, error) { return e.srv.connect(false, opts...) }
	}
	for _, name := range e.cfg.TypeNames() {
		x := e.cfg.Types[name].Exec
		if x == nil {
			continue
		}
		nc, err := connect(nats.Name("streamwright exec "+string(name)), nats.MaxReconnects(-1))
		if err == nil {
			worker := workers.Config{
				Concurrency: cmp.Or(x.Concurrency, e.cfg.Settings(name).Capacity), Capabilities: x.Capabilities, Names: e.clientNames(), Logger: e.log,
				Version: Version, ChildrenOnly: true,
			}
			var started *execWorker
			if started, err = startExec(ctx, nc, name, x, worker); started != nil {
				e.execs.all = append(e.execs.all, started)
			}
		}
		if err != nil {
			return fmt.Errorf("start the command of type %s: %w", name, err)
		}
	}
	return nil
}

// startExec starts the worker of a type. It is nil after an error before which
// there is nothing to stop.
func startExec(ctx context.Context, nc *nats.Conn, typ events.Type, x *config.Exec, c workers.Config) (*execWorker, error) {
	w, err := workers.New(nc, c)
	if err != nil {
		nc.Close()
		return nil, err
	}
	workers.HandleRaw(w, string(typ), process.Handler(x.Command, process.Grace(x.Grace), process.Restricted(), process.Env(x.Env...)))
	return &execWorker{nc: nc, w: w}, w.Start(ctx)
}

// stop lets the children that run finish until ctx ends, then ends them.
func (x *execWorker) stop(ctx context.Context) error {
	defer x.nc.Close()
	return x.w.Stop(ctx)
}
