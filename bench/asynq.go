package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/streamwright/streamwright/internal/measure"
)

const (
	// asynqCheck is the pause of a server that has found nothing. The default of 1 s
	// would be the latency; the documentation warns that less loads Redis.
	asynqCheck = 10 * time.Millisecond
	// asynqConns is the size of the pool: more than the default of ten a CPU, so that
	// submitters and handlers do not wait for a connection.
	asynqConns = 64
	// asynqSenders is the number of tasks of one bulk submit that are sent at once:
	// Asynq has no call for many.
	asynqSenders = 16
)

// asynqSystem is Asynq on a Redis of its own.
func asynqSystem(d Durability) System {
	fsync := d.of("always", "everysec")
	return System{
		ID: "asynq-" + fsync, Product: "Asynq", Name: "Asynq, " + fsync, Durability: d,
		Versions: []string{version("Asynq", "github.com/hibiken/asynq"), version("go-redis", "github.com/redis/go-redis/v9")},
		Settings: []string{
			fmt.Sprintf("Redis: `appendonly yes`, `appendfsync %s`, `save \"\"`", fsync),
			fmt.Sprintf("`TaskCheckInterval` %s (default 1 s): the latency of a task that comes to an empty queue, at the price of CPU while idle", asynqCheck),
			fmt.Sprintf("`PoolSize` %d; the slots as `Concurrency`", asynqConns),
			fmt.Sprintf("submits by `EnqueueContext`; it has no call for many, so bulk is %d of these at once for each batch", asynqSenders),
			"ended tasks are deleted, as by default",
		},
		prepare: func(context.Context, *Tools) (string, error) {
			program, err := exec.LookPath("redis-server")
			if err != nil {
				err = fmt.Errorf("%w: install the package redis-server, or choose others with --only", err)
			}
			return program, err
		},
		start: func(_ context.Context, h *Host, addr string) error {
			_, port, _ := strings.Cut(addr, ":")
			return h.Run(nil, h.Servers["Asynq"], "--bind", "127.0.0.1", "--port", port, "--dir", h.Dir, "--save", "", "--appendonly", "yes", "--appendfsync", fsync)
		},
		ready: func(ctx context.Context, addr string) error {
			c := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1})
			defer c.Close()
			return c.Ping(ctx).Err()
		},
		dial: func(_ context.Context, addr string, slots int) (measure.Queue, error) {
			opt := asynq.RedisClientOpt{Addr: addr, PoolSize: asynqConns}
			return &asynqQueue{
				client: asynq.NewClient(opt), rdb: redis.NewClient(&redis.Options{Addr: addr}),
				server: asynq.NewServer(opt, asynq.Config{Concurrency: slots, TaskCheckInterval: asynqCheck, LogLevel: asynq.FatalLevel}),
			}, nil
		},
	}
}

type asynqQueue struct {
	client *asynq.Client
	server *asynq.Server
	rdb    *redis.Client
}

func (p *asynqQueue) Submit(ctx context.Context, v measure.Payload) error {
	_, err := p.client.EnqueueContext(ctx, asynq.NewTask("bench", v.JSON()))
	return err
}

func (p *asynqQueue) SubmitMany(ctx context.Context, vs []measure.Payload) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(asynqSenders)
	for _, v := range vs {
		g.Go(func() error { return p.Submit(ctx, v) })
	}
	return g.Wait()
}

func (p *asynqQueue) Work(_ context.Context, handle func(measure.Payload)) (func() error, error) {
	err := p.server.Start(asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error {
		var v measure.Payload
		if err := json.Unmarshal(t.Payload(), &v); err != nil {
			return err
		}
		handle(v)
		return nil
	}))
	if err != nil {
		return nil, err
	}
	return func() error { p.server.Shutdown(); return nil }, nil
}

// Drained looks at the lists of the queue: Asynq's inspector samples memory too, which
// costs more than what is measured.
func (p *asynqQueue) Drained(ctx context.Context, _ int) (bool, error) {
	pipe := p.rdb.Pipeline()
	pending, active := pipe.LLen(ctx, "asynq:{default}:pending"), pipe.LLen(ctx, "asynq:{default}:active")
	retry := pipe.ZCard(ctx, "asynq:{default}:retry")
	_, err := pipe.Exec(ctx)
	return pending.Val()+active.Val()+retry.Val() == 0, err
}

func (p *asynqQueue) Close() error { return errors.Join(p.client.Close(), p.rdb.Close()) }
