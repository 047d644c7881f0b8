// Command outbox runs the relay of a transactional outbox, for programs that
// write to it and do not run one themselves.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/internal/cli"
	"github.com/streamwright/streamwright/outbox"
)

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

// run is the whole program, and returns its exit code: 0 done, 1 the operation
// failed, 2 the command line is wrong.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	root := command()
	cli.Prepare(root, args, out)
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errs)
	ran, err := root.ExecuteContextC(ctx)
	switch {
	case err == nil:
		return cli.ExitDone
	case cli.IsUsage(err):
		fmt.Fprintf(errs, "%s: %v\nSee `%s --help`.\n", ran.CommandPath(), err, ran.CommandPath())
		return cli.ExitUsage
	}
	fmt.Fprintf(errs, "%s: %v\n", ran.CommandPath(), err)
	return cli.ExitFailed
}

// command is the command line.
func command() *cobra.Command {
	f := new(flags)
	root := &cobra.Command{
		Use: "outbox", Short: "Publish work items that applications have written into a table of their PostgreSQL database",
		Long: "Publish work items that applications have written into a table of their PostgreSQL database.\n\n" +
			"Exit codes: 0 done; 1 the operation failed; 2 the command line is wrong.",
		Example:           "  outbox create\n  outbox relay\n  outbox status",
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Args:              cli.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			return cli.Usagef("a command is missing: use schema, create, relay, status or retry")
		},
	}
	cobra.EnableCommandSorting = false
	set := root.PersistentFlags()
	set.StringVar(&f.db, "database-url", "", "the `URL` of the database (default: DATABASE_URL, else the PG variables)")
	set.StringVar(&f.box.Table, "table", outbox.DefaultTable, "the `name` of the table")
	cli.ConnectFlags(root, &f.nats, &f.prefix)
	cli.Common(set, "database-url", "table")

	add := func(use, short, example string, args cobra.PositionalArgs, run func(context.Context, *flags, []string, io.Writer, io.Writer) error) *cobra.Command {
		cmd := &cobra.Command{
			Use: use, Short: short, Example: "  " + example, Args: cli.Args(args),
			RunE: func(cmd *cobra.Command, args []string) error {
				return run(cmd.Context(), f, args, cmd.OutOrStdout(), cmd.ErrOrStderr())
			},
		}
		root.AddCommand(cmd)
		return cmd
	}
	add("schema", "Print the SQL that creates the table", "outbox schema > outbox.sql", cobra.NoArgs, schema)
	add("create", "Create the table", "outbox create --table jobs", cobra.NoArgs, create)
	add("relay", "Publish what is in the table, until interrupted", "outbox relay --server nats://127.0.0.1:4222", cobra.NoArgs, relay).
		Flags().IntVar(&f.batch, "batch", outbox.DefaultBatch, "how many items to publish in one transaction")
	add("status", "Print how much is in the table, as JSON", "outbox status", cobra.NoArgs, status)
	add("retry [ID…]", "Try refused items again: those given, or all", "outbox retry 01JD3V6YB2M4C9W8ZK5T7QXRNE", cobra.ArbitraryArgs, retry)
	return root
}

func (f *flags) open(ctx context.Context) (*pgxpool.Pool, error) {
	db, err := pgxpool.New(ctx, cmp.Or(f.db, os.Getenv("DATABASE_URL")))
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

func schema(_ context.Context, f *flags, _ []string, out, _ io.Writer) error {
	text, err := f.box.Schema()
	if err == nil {
		_, err = io.WriteString(out, text)
	}
	return err
}

func create(ctx context.Context, f *flags, _ []string, _, _ io.Writer) error {
	db, err := f.open(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	return f.box.Create(ctx, db)
}

func relay(ctx context.Context, f *flags, _ []string, out, errs io.Writer) error {
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

func status(ctx context.Context, f *flags, _ []string, out, _ io.Writer) error {
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

func retry(ctx context.Context, f *flags, ids []string, out, _ io.Writer) error {
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
		items := "items"
		if n == 1 {
			items = "item"
		}
		fmt.Fprintf(out, "%d %s will be tried again\n", n, items)
	}
	return err
}
