// Command outbox runs the relay of a transactional outbox, for programs that
// write to it and do not run one themselves.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/events"
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

// flags holds what the command line sets.
type flags struct {
	db, prefix, namespace string

	nats  connect.Settings
	box   outbox.Outbox
	batch int
}

// run is the whole program, and returns its exit code: 0 done, 1 the operation
// failed, 2 the command line is wrong.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	root := command()
	execute := cli.Prepare(root, args, out)
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errs)
	ran, err := execute(ctx)
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

// command returns the command line.
func command() *cobra.Command {
	f := new(flags)
	root := &cobra.Command{
		Use: "outbox", Short: "Publish work items from a table of a PostgreSQL database",
		Long: "Publish work items that applications have written into a table of their\n" +
			"PostgreSQL database.\n\n" +
			"Exit codes: 0 done; 1 the operation failed; 2 the command line is wrong.",
		Example:           "  outbox create\n  outbox relay\n  outbox status",
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Args:              cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return cli.Usagef("a command is missing: use schema, create, relay, status or retry")
		},
	}
	cobra.EnableCommandSorting = false
	set := root.PersistentFlags()
	set.StringVar(&f.db, "database-url", "", "the `URL` of the database (default: DATABASE_URL, else the PG variables)")
	set.StringVar(&f.box.Table, "table", outbox.DefaultTable, "the `name` of the table")
	cli.ConnectFlags(root, &f.nats, &f.prefix, &f.namespace)
	cli.Common(set, "database-url", "table")

	root.AddCommand(f.commands()...)
	return root
}

// commands returns what the program can do.
func (f *flags) commands() []*cobra.Command {
	relay := &cobra.Command{
		Use: "relay", Short: "Publish what is in the table, until interrupted", Example: "  outbox relay --server nats://127.0.0.1:4222", Args: cobra.NoArgs,
		RunE: f.withDB(f.relay),
	}
	relay.Flags().IntVar(&f.batch, "batch", outbox.DefaultBatch, "how many items to publish in one transaction")
	return []*cobra.Command{{
		Use: "schema", Short: "Print the SQL that creates the table", Example: "  outbox schema > outbox.sql", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := f.box.Schema()
			if err == nil {
				_, err = io.WriteString(cmd.OutOrStdout(), text)
			}
			return err
		},
	}, {
		Use: "create", Short: "Create the table", Example: "  outbox create --table jobs", Args: cobra.NoArgs,
		RunE: f.withDB(func(cmd *cobra.Command, db *pgxpool.Pool, _ []string) error { return f.box.Create(cmd.Context(), db) }),
	}, relay, {
		Use: "status", Short: "Print how much is in the table, as JSON", Example: "  outbox status", Args: cobra.NoArgs,
		RunE: f.withDB(func(cmd *cobra.Command, db *pgxpool.Pool, _ []string) error {
			s, err := f.box.Status(cmd.Context(), db)
			if err != nil {
				return err
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]int64{"waiting": s.Waiting, "refused": s.Refused, "oldest_ms": s.Oldest.Milliseconds()})
		}),
	}, {
		Use: "retry [ID…]", Short: "Try refused items again: those given, or all", Example: "  outbox retry 01JD3V6YB2M4C9W8ZK5T7QXRNE", Args: cobra.ArbitraryArgs,
		RunE: f.withDB(func(cmd *cobra.Command, db *pgxpool.Pool, ids []string) error {
			if len(ids) == 0 {
				ids = nil // all
			}
			n, err := f.box.Retry(cmd.Context(), db, ids...)
			if err == nil {
				fmt.Fprintf(cmd.OutOrStdout(), "%s will be tried again\n", events.Count(n, "item"))
			}
			return err
		}),
	}}
}

// withDB makes the run of a command that needs the database.
func (f *flags) withDB(run func(*cobra.Command, *pgxpool.Pool, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		db, err := pgxpool.New(cmd.Context(), cmp.Or(f.db, os.Getenv("DATABASE_URL")))
		if err == nil {
			defer db.Close()
			err = db.Ping(cmd.Context())
		}
		if err != nil {
			return fmt.Errorf("connect to PostgreSQL: %w: check --database-url (DATABASE_URL)", err)
		}
		return run(cmd, db, args)
	}
}

func (f *flags) relay(cmd *cobra.Command, db *pgxpool.Pool, _ []string) error {
	ns, err := cli.Namespace(f.namespace, os.Getenv)
	if err != nil {
		return err
	}
	nc, domain, err := f.connect(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer nc.Close()
	r, err := outbox.NewRelay(outbox.Config{Outbox: f.box, DB: db, NATS: nc, Prefix: f.prefix, Namespace: ns, Domain: domain, Batch: f.batch, Logger: slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))})
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "relaying %s to %s; Ctrl-C ends it\n", f.box.Table, strings.Join(nc.Servers(), ","))
	return r.Run(cmd.Context())
}

// connect connects to NATS, and returns the JetStream domain of the streams.
func (f *flags) connect(errs io.Writer) (*nats.Conn, string, error) {
	s, err := connect.FromPlaces(f.nats, os.Getenv)
	if err != nil {
		return nil, "", usageIfConflict(err)
	}
	opts, err := s.Options()
	if err != nil {
		return nil, "", usageIfConflict(err)
	}
	url := cmp.Or(s.URL, connect.DefaultURL)
	opts = append(opts, nats.Name("streamwright outbox"), nats.MaxReconnects(-1), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		fmt.Fprintf(errs, "NATS: %v\n", err)
	}))
	nc, err := nats.Connect(url, opts...)
	if errors.Is(err, nats.ErrAuthorization) {
		return nil, "", fmt.Errorf("connect to NATS at %s: it refused the login (%w): give credentials that it knows", streamwright.Redact(url), err)
	}
	if err != nil {
		return nil, "", fmt.Errorf("connect to NATS at %s: %w: check --server (NATS_URL)", streamwright.Redact(url), err)
	}
	return nc, s.Domain, nil
}

// usageIfConflict makes settings that contradict one another a wrong command line.
func usageIfConflict(err error) error {
	if errors.Is(err, connect.ErrConflict) {
		return cli.Usage(err)
	}
	return err
}
