package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/streamwright/streamwright/internal/measure"
)

// What River's own benchmark (cmd/river/riverbench) sets, because "these numbers have an
// outsized effect on results". The defaults are 100 ms and 1 s.
const (
	riverCooldown = 2 * time.Millisecond
	riverPoll     = 20 * time.Millisecond
	riverConns    = 32
)

// postgresSettings are what PostgreSQL's documentation advises for a server with much
// to write: "Resource Consumption" (shared_buffers), "Populating a Database" and
// "WAL Configuration" (max_wal_size, checkpoint_timeout).
var postgresSettings = []string{
	"shared_buffers=1GB", "max_wal_size=8GB", "checkpoint_timeout=15min", "wal_buffers=64MB", "max_connections=64",
}

// riverSystem is River on a PostgreSQL of its own.
func riverSystem(d Durability) System {
	return System{
		ID: d.of("river-fsync", "river-async"), Product: "River", Name: d.of("River, fsync", "River, asynchronous commit"), Durability: d,
		Versions: []string{version("River", "github.com/riverqueue/river"), version("pgx", "github.com/jackc/pgx/v5")},
		Settings: []string{
			d.of("`synchronous_commit = on`, the default", "`synchronous_commit = off`: on disk within 0.6 s (three times `wal_writer_delay`)"),
			"PostgreSQL: `" + strings.Join(postgresSettings, "`, `") + "`; `fsync`, `full_page_writes` and autovacuum as by default",
			fmt.Sprintf("`FetchCooldown` %s and `FetchPollInterval` %s, as River's own benchmark sets them (defaults 100 ms and 1 s)", riverCooldown, riverPoll),
			fmt.Sprintf("a `pgxpool` of %d connections; LISTEN/NOTIFY on; the slots as `MaxWorkers`", riverConns),
			"submits by `Insert`, bulk by `InsertManyFast` (COPY); ended jobs are kept for 24 h, as by default",
		},
		prepare: preparePostgres,
		start: func(ctx context.Context, h *Host, addr string) error {
			data := filepath.Join(h.Dir, "data")
			if _, err := output(ctx, "", "cp", "-a", h.PGData, data); err != nil {
				return err
			}
			_, port, _ := strings.Cut(addr, ":")
			args := []string{"-D", data, "-p", port}
			for _, set := range append([]string{"listen_addresses=127.0.0.1", "unix_socket_directories=", "synchronous_commit=" + d.of("on", "off")}, postgresSettings...) {
				args = append(args, "-c", set)
			}
			return h.Run(h.PGUser, h.Servers["River"], args...)
		},
		ready: func(ctx context.Context, addr string) error {
			pool, err := pgxpool.New(ctx, postgresURL(addr))
			if err != nil {
				return err
			}
			defer pool.Close()
			m, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
			if err == nil {
				_, err = m.Migrate(ctx, rivermigrate.DirectionUp, nil)
			}
			return err
		},
		dial: dialRiver,
	}
}

// preparePostgres finds PostgreSQL and makes a database cluster to copy.
func preparePostgres(ctx context.Context, t *Tools) (server string, err error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres") // the pattern is right
	if len(found) == 0 {
		return "", fmt.Errorf("there is no /usr/lib/postgresql/*/bin/postgres: install the package postgresql, or choose others with --only")
	}
	slices.Sort(found)
	server = found[len(found)-1]
	t.PGData = filepath.Join(t.dir, "pgdata")
	if err := os.Mkdir(t.PGData, 0o700); err != nil {
		return "", err
	}
	if os.Geteuid() == 0 { // as whom it does not run
		u, err := user.Lookup("postgres")
		if err != nil {
			return "", fmt.Errorf("PostgreSQL refuses to run as root: create a user postgres, or run this as another user: %w", err)
		}
		uid, _ := strconv.Atoi(u.Uid) // numbers, on Linux
		gid, _ := strconv.Atoi(u.Gid)
		t.PGUser = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(t.PGData, uid, gid); err != nil {
			return "", err
		}
	}
	cmd := exec.CommandContext(ctx, filepath.Join(filepath.Dir(server), "initdb"), "-D", t.PGData, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
	cmd.Dir, cmd.SysProcAttr = t.PGData, &syscall.SysProcAttr{Credential: t.PGUser}
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("initdb: %w: %s", err, out)
	}
	return server, nil
}

func postgresURL(addr string) string {
	return "postgres://postgres@" + addr + "/postgres?sslmode=disable&connect_timeout=5"
}

// riverArgs are a payload as River wants it.
type riverArgs struct{ measure.Payload }

func (riverArgs) Kind() string { return "bench" }

type riverWorker struct {
	river.WorkerDefaults[riverArgs]
	queue *riverQueue
}

func (w *riverWorker) Work(_ context.Context, job *river.Job[riverArgs]) error {
	w.queue.handle(job.Args.Payload)
	return nil
}

type riverQueue struct {
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx]
	handle func(measure.Payload) // set before the client is started
}

func dialRiver(ctx context.Context, addr string, slots int) (measure.Queue, error) {
	cfg, err := pgxpool.ParseConfig(postgresURL(addr))
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = riverConns
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	p := &riverQueue{pool: pool}
	ws := river.NewWorkers()
	river.AddWorker(ws, &riverWorker{queue: p})
	p.client, err = river.NewClient(riverpgxv5.New(pool), &river.Config{
		FetchCooldown: riverCooldown, FetchPollInterval: riverPoll, Workers: ws, Logger: slog.New(slog.DiscardHandler),
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: slots}},
	})
	if err != nil {
		pool.Close()
		return nil, err
	}
	return p, nil
}

func (p *riverQueue) Submit(ctx context.Context, v measure.Payload) error {
	_, err := p.client.Insert(ctx, riverArgs{v}, nil)
	return err
}

func (p *riverQueue) SubmitMany(ctx context.Context, vs []measure.Payload) error {
	params := make([]river.InsertManyParams, len(vs))
	for i, v := range vs {
		params[i].Args = riverArgs{v}
	}
	_, err := p.client.InsertManyFast(ctx, params)
	return err
}

func (p *riverQueue) Work(ctx context.Context, handle func(measure.Payload)) (func() error, error) {
	p.handle = handle
	// The context of Start is that of the jobs: stop ends them, in order.
	ctx = context.WithoutCancel(ctx)
	if err := p.client.Start(ctx); err != nil {
		return nil, err
	}
	return func() error { return p.client.Stop(ctx) }, nil
}

func (p *riverQueue) Drained(ctx context.Context, _ int) (drained bool, err error) {
	err = p.pool.QueryRow(ctx, `SELECT NOT EXISTS (SELECT FROM river_job WHERE state IN ('available', 'running', 'retryable', 'scheduled', 'pending'))`).Scan(&drained)
	return drained, err
}

func (p *riverQueue) Close() error {
	p.pool.Close()
	return nil
}
