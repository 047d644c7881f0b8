package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/streamwright/streamwright/internal/measure"
)

// asynqSystem is Asynq on a Redis of its own.
type asynqSystem struct{ d Durability }

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

func (s asynqSystem) fsync() string {
	if s.d == Fsync {
		return "always"
	}
	return "everysec"
}

func (s asynqSystem) About() About {
	return About{
		ID: "asynq-" + s.fsync(), Product: "Asynq", Name: "Asynq, " + s.fsync(), Durability: s.d,
		Versions: []string{"Asynq " + version("github.com/hibiken/asynq"), "go-redis " + version("github.com/redis/go-redis/v9")},
		Settings: []string{
			fmt.Sprintf("Redis: `appendonly yes`, `appendfsync %s`, `save \"\"`", s.fsync()),
			fmt.Sprintf("`TaskCheckInterval` %s (default 1 s): the latency of a task that comes to an empty queue, at the price of CPU while idle", asynqCheck),
			fmt.Sprintf("`PoolSize` %d; the slots as `Concurrency`", asynqConns),
			fmt.Sprintf("submits by `EnqueueContext`; it has no call for many, so bulk is %d of these at once for each batch", asynqSenders),
			"ended tasks are deleted, as by default",
		},
	}
}

func (s asynqSystem) Start(ctx context.Context, h *Host, addr string) error {
	_, port, _ := strings.Cut(addr, ":")
	if err := h.Run(nil, h.Tools.Redis, "--bind", "127.0.0.1", "--port", port, "--dir", h.Dir, "--save", "", "--appendonly", "yes", "--appendfsync", s.fsync()); err != nil {
		return err
	}
	c := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1})
	defer c.Close()
	return h.Ready(ctx, func(ctx context.Context) error { return c.Ping(ctx).Err() })
}

func (s asynqSystem) Dial(_ context.Context, addr string, slots int) (measure.Queue, error) {
	opt := asynq.RedisClientOpt{Addr: addr, PoolSize: asynqConns}
	return &asynqQueue{
		client: asynq.NewClient(opt), rdb: redis.NewClient(&redis.Options{Addr: addr}),
		server: asynq.NewServer(opt, asynq.Config{Concurrency: slots, TaskCheckInterval: asynqCheck, LogLevel: asynq.FatalLevel}),
	}, nil
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
