package embedded

import (
	"context"
	"fmt"

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

// startExecs starts the workers of the types that have a command.
func (e *Engine) startExecs(ctx context.Context) error {
	for _, name := range e.cfg.TypeNames() {
		if x := e.cfg.Types[name].Exec; x != nil {
			if err := e.startExec(ctx, name, x); err != nil {
				return fmt.Errorf("start the command of type %s: %w", name, err)
			}
		}
	}
	return nil
}

func (e *Engine) startExec(ctx context.Context, typ events.Type, x *config.Exec) error {
	nc, err := e.connectExec(nats.Name("streamwright exec "+string(typ)), nats.MaxReconnects(-1))
	if err != nil {
		return err
	}
	slots := x.Concurrency
	if slots == 0 {
		slots = e.cfg.Settings(typ).Capacity
	}
	w, err := workers.New(nc, workers.Config{
		Concurrency: slots, Capabilities: x.Capabilities, Names: e.clientNames(), Logger: e.log, NoPrefetch: true, Version: Version, ChildrenOnly: true,
	})
	if err != nil {
		nc.Close()
		return err
	}
	workers.HandleRaw(w, string(typ), process.Handler(x.Command, process.Grace(x.Grace), process.Restricted(), process.Env(x.Env...)))
	e.execs = append(e.execs, &execWorker{nc: nc, w: w})
	return w.Start(ctx)
}

func (x *execWorker) stop(ctx context.Context) error {
	defer x.nc.Close()
	return x.w.Stop(ctx)
}
