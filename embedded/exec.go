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

// execs are the workers of the types that have a command: each runs a child process for each
// item, on demand, from none up to the type's capacity.
type execs struct {
	*base
	all   []*workers.Worker
	conns []*nats.Conn  // theirs
	ended chan struct{} // closed when all have stopped; nil before finish
	errs  []error       // theirs, then
}

// start starts the workers.
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
			x.conns = append(x.conns, nc)
			err = x.startWorker(ctx, nc, name, c)
		}
		if err != nil {
			return fmt.Errorf("start the command of type %s: %w", name, err)
		}
	}
	return nil
}

func (x *execs) startWorker(ctx context.Context, nc *nats.Conn, typ events.Type, c *config.Exec) error {
	w, err := workers.New(nc, workers.Config{
		Concurrency: cmp.Or(c.Concurrency, x.cfg.Settings(typ).Capacity), Capabilities: c.Capabilities, Names: x.clientNames(), Logger: x.log,
		Version: Version, ChildrenOnly: true,
	})
	if err != nil {
		return err
	}
	x.all = append(x.all, w)
	workers.HandleRaw(w, string(typ), process.Handler(c.Command, process.Grace(c.Grace), process.Restricted(), process.Env(c.Env...)))
	return w.Start(ctx)
}

// finish stops all workers at once: their children may finish until ctx ends, and are ended
// then.
func (x *execs) finish(ctx context.Context) error {
	var stopping sync.WaitGroup
	x.errs, x.ended = make([]error, len(x.all)), make(chan struct{})
	for i, w := range x.all {
		stopping.Go(func() { x.errs[i] = w.Stop(ctx) })
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
	for _, nc := range x.conns {
		nc.Close() // nobody answers any more
	}
	if x.ended != nil {
		<-x.ended
	}
	return errors.Join(x.errs...)
}
