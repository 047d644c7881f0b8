package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	*base
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
func (x *execs) end(ctx context.Context) error {
	if x.ended == nil {
		return nil
	}
	select {
	case <-x.ended:
	case <-ctx.Done():
		x.log.Warn("children of commands do not end in time: stopping without them")
	}
	return nil
}

// wait waits for the children that were too slow, without an engine to report to.
func (x *execs) wait(context.Context) error {
	if x.ended == nil {
		return nil
	}
	for _, w := range x.all {
		w.nc.Close() // nobody answers any more
	}
	<-x.ended
	return errors.Join(x.errs...)
}

// start starts the workers of the types that have a command.
func (x *execs) start(ctx context.Context) error {
	connect := x.outside.connectExec
	if x.srv != nil {
		connect = func(opts ...nats.Option) (*nats.Conn, error) { return x.srv.connect(false, opts...) }
	}
	for _, name := range x.cfg.TypeNames() {
		c := x.cfg.Types[name].Exec
		if c == nil {
			continue
		}
		nc, err := connect(nats.Name("streamwright exec "+string(name)), nats.MaxReconnects(-1))
		if err == nil {
			worker := workers.Config{
				Concurrency: cmp.Or(c.Concurrency, x.cfg.Settings(name).Capacity), Capabilities: c.Capabilities, Names: x.clientNames(), Logger: x.log,
				Version: Version, ChildrenOnly: true,
			}
			var started *execWorker
			if started, err = startExec(ctx, nc, name, c, worker); started != nil {
				x.all = append(x.all, started)
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
