// Command outbox runs the relay of a transactional outbox, for programs that
// write to it and do not run one themselves.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/outbox"
)

const usage = `outbox publishes work items that applications have written into a table of
their PostgreSQL database.

  outbox schema                 print the SQL that creates the table
  outbox create                 create the table
  outbox relay                  publish what is in it, until interrupted
  outbox status                 how much is in it, as JSON
  outbox retry [ID…]            try again what was refused

Flags, before the command:
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// flags are what the command line sets.
type flags struct {
	db, prefix string
	nats       connect.Settings
	box        outbox.Outbox
	batch      int
}

// run is the whole program: 0 done, 1 the operation failed, 2 usage.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	var f flags
	set := flag.NewFlagSet("outbox", flag.ContinueOnError)
	set.SetOutput(errs)
	set.StringVar(&f.db, "database-url", os.Getenv("DATABASE_URL"), "the database, as a `URL`; by default DATABASE_URL, else the PG variables")
	connectFlags(set, &f.nats)
	set.StringVar(&f.prefix, "prefix", "work", "the engine's subject `prefix`")
	set.StringVar(&f.box.Table, "table", outbox.DefaultTable, "the table's `name`")
	set.IntVar(&f.batch, "batch", outbox.DefaultBatch, "items published in one `transaction`")
	set.Usage = func() { fmt.Fprint(errs, usage); set.PrintDefaults() }
	if err := set.Parse(args); err != nil {
		return 2
	}
	commands := map[string]func(context.Context, flags, []string, io.Writer, io.Writer) error{
		"schema": schema, "create": create, "relay": relay, "status": status, "retry": retry,
	}
	cmd := commands[set.Arg(0)]
	if cmd == nil || set.NArg() > 1 && set.Arg(0) != "retry" {
		set.Usage()
		return 2
	}
	if err := cmd(ctx, f, set.Args()[1:], out, errs); err != nil {
		fmt.Fprintf(errs, "outbox %s: %v\n", set.Arg(0), err)
		return 1
	}
	return 0
}

func (f flags) open(ctx context.Context) (*pgxpool.Pool, error) {
	db, err := pgxpool.New(ctx, f.db)
	if err == nil {
		if err = db.Ping(ctx); err != nil {
			db.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL: %w: check --database-url (DATABASE_URL)", err)
	}
	return db, nil
}

func schema(_ context.Context, f flags, _ []string, out, _ io.Writer) error {
	text, err := f.box.Schema()
	if err == nil {
		_, err = io.WriteString(out, text)
	}
	return err
}

func create(ctx context.Context, f flags, _ []string, _, _ io.Writer) error {
	db, err := f.open(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	return f.box.Create(ctx, db)
}

func relay(ctx context.Context, f flags, _ []string, out, errs io.Writer) error {
	db, err := f.open(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	nc, domain, err := f.connect(errs)
	if err != nil {
		return err
	}
	defer nc.Close()
	r, err := outbox.NewRelay(outbox.Config{Outbox: f.box, DB: db, NATS: nc, Prefix: f.prefix, Domain: domain, Batch: f.batch, Logger: slog.New(slog.NewTextHandler(errs, nil))})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "relaying %s to %s; Ctrl-C ends it\n", f.box.Table, strings.Join(nc.Servers(), ","))
	return r.Run(ctx)
}

func status(ctx context.Context, f flags, _ []string, out, _ io.Writer) error {
	db, err := f.open(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	s, err := f.box.Status(ctx, db)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(map[string]int64{"waiting": s.Waiting, "refused": s.Refused, "oldest_ms": s.Oldest.Milliseconds()})
}

func retry(ctx context.Context, f flags, ids []string, out, _ io.Writer) error {
	db, err := f.open(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	if len(ids) == 0 {
		ids = nil
	}
	n, err := f.box.Retry(ctx, db, ids...)
	if err == nil {
		fmt.Fprintf(out, "%d items will be tried again\n", n)
	}
	return err
}
