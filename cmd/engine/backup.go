package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/backup"
	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/cli"
)

func backupCommand(a *app) *cobra.Command {
	var full bool
	cmd := &cobra.Command{
		Use:   "backup DIR|FILE.tar|-",
		Short: "Back up what the engine can't derive, while it works",
		Long: `Copy the event log, undecided submissions, items' logs and outputs, and
documents of one namespace, as of one position of its log. The engine goes on
meanwhile; nothing that it accepted before the command began is missing.

Without --namespace that is the namespace default. Each other one has a backup
of its own: ` + "`engine namespace list`" + ` names them.

Into a folder that holds a backup the command adds what is new, and goes on
where an interrupted run ended. A file whose name ends in .tar is written whole,
and must not exist yet; - writes such a file to standard output.

It takes the role operate.`,
		Example: "  engine backup /var/backups/streamwright\n  engine backup --namespace acme /var/backups/acme\n  engine backup today.tar\n  engine backup - | ssh backups 'cat > today.tar'\n  engine backup verify /var/backups/streamwright",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return takeBackup(cmd.Context(), a, args[0], full)
		},
	}
	cmd.Flags().BoolVar(&full, "full", false, "begin anew, and remove what the folder holds of earlier backups")
	cmd.AddCommand(backupVerifyCommand(a))
	return cmd
}

// backedUp is the output of backup.
type backedUp struct {
	Target    string           `json:"target"`
	ID        string           `json:"id"`
	Previous  string           `json:"previous,omitempty"`
	First     events.Seq       `json:"first"`
	Position  events.Seq       `json:"position"`
	Added     map[string]int64 `json:"added"` // messages, by what they hold
	Bytes     int64            `json:"bytes"` // of the whole backup
	Files     int              `json:"files"`
	Resumed   bool             `json:"resumed,omitempty"`
	ElapsedMS int64            `json:"elapsed_ms"`
}

func takeBackup(ctx context.Context, a *app, target string, full bool) error {
	if target == backup.Stdout && console.OnTerminal(a.Out) {
		return cli.Usagef("standard output is a terminal: send it to a file or a program, or name a folder or a file")
	}
	var done backup.Taken
	err := a.with(ctx, func(c *streamwright.Client) (err error) {
		progress, end := stages(a)
		defer end()
		names := connect.NewFinder(c.Conn(), c.Names()).Names(ctx)
		done, err = backup.Take(ctx, backup.Options{
			Conn: c.Conn(), Names: names, Target: target, Out: a.Out, Full: full, Program: embedded.Version, Progress: progress,
			Engine: func(ctx context.Context) (backup.Source, error) {
				info, err := c.Engine().Info(ctx)
				if err != nil {
					return backup.Source{}, err
				}
				at, err := info.Position.Seq()
				return backup.Source{Position: at, Durability: info.Durability}, err
			},
		})
		return err
	})
	if err != nil {
		return err
	}
	m := done.Manifest
	out := backedUp{
		Target: target, ID: m.ID, Previous: m.Previous, First: m.First, Position: m.Last, Added: done.Added,
		Files: 1, Resumed: done.Resumed, ElapsedMS: done.Elapsed.Milliseconds(),
	}
	for _, s := range m.Streams {
		out.Bytes += s.Size()
		out.Files += len(s.Segments)
	}
	if target == backup.Stdout { // which has the backup
		a.Notef("%s", out.text())
		return nil
	}
	return a.show(out, nil, func() { a.Printf("%s\n", out.text()) })
}

func (b *backedUp) text() string {
	into := "in all"
	if b.Resumed {
		into = "with what an interrupted run had copied"
	}
	return fmt.Sprintf("backed up %s: positions %d to %d\nnew: %s of the log, %s\n%s: %s in %s, in %s",
		b.Target, b.First, b.Position, console.Plural(b.Added[backup.Events], "message"),
		besideLog(b.Added[backup.Intake], b.Added[backup.Logs], b.Added[backup.Output], b.Added[backup.Documents]),
		into, bytesText(b.Bytes), console.Plural(b.Files, "file"), millis(b.ElapsedMS))
}

// besideLog counts what a backup holds beside the log.
func besideLog(intake, logs, output, parts int64) string {
	return fmt.Sprintf("%s, %s, %s of output, %s of documents", console.Plural(intake, "undecided submission"), console.Plural(logs, "log record"), console.Plural(output, "chunk"), console.Plural(parts, "part"))
}

// stages returns functions that show work that goes through several stages, each with a
// bar of its own, and end that.
func stages(a *app) (show func(what string, done, total int64), end func()) {
	stage := ""
	bar, stop := func(int64, int64) {}, func() {}
	return func(what string, done, total int64) {
		if what != stage {
			stop()
			stage = what
			bar, stop = a.bar(what, "")
		}
		bar(done, total)
	}, func() { stop() }
}

func backupVerifyCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "verify DIR|FILE.tar",
		Short: "Check that a backup is whole",
		Long: `Read all of a backup: every file must have its checksum, every message its
place, the log no hole, and its events must decode. It needs no engine.`,
		Example: "  engine backup verify /var/backups/streamwright",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := backup.Open(args[0])
			if err != nil {
				return err
			}
			defer b.Close()
			progress, end := stages(a)
			got, err := b.Verify(cmd.Context(), progress)
			end()
			return a.show(got, err, func() {
				a.Printf("whole: %s, %s; positions %d to %d, the last of %s\n", console.Plural(got.Files, "file"), bytesText(got.Bytes), got.First, got.Last, got.LastAt.UTC().Format(time.RFC3339Nano))
				a.Printf("%s, %s\n", console.Plural(got.Events, "event"), besideLog(got.Intake, got.Logs, got.Output, got.Documents))
				if got.Foreign > 0 {
					a.Printf("%s in the log that no engine wrote\n", console.Plural(got.Foreign, "message"))
				}
				if got.Stale > 0 {
					a.Printf("%s in the log of engines that had been succeeded, which readers pass over\n", console.Plural(got.Stale, "frame"))
				}
			})
		},
	}
}

func restoreCommand(a *app) *cobra.Command {
	var file string
	var o embedded.RestoreOptions
	var at streamwright.PointInTime
	cmd := &cobra.Command{
		Use:   "restore BACKUP (--dir DIR | --nats-url URL)",
		Short: "Fill an empty data folder, or an existing NATS, from a backup",
		Long: `Restore the streams of a backup, a folder or a file, with the same positions
and times. Everything is read back and compared, and the log is replayed.
Nothing is restored over what exists. What was running counts as lost, and is
tried again when an engine starts.

With --to or --at the log ends at an earlier moment, and the state is that of
then. Undecided submissions are not restored then; logs and outputs are, up to
that time.

With --namespace NAME the backup of any namespace becomes that one, in the
folder of an engine that is stopped, or on its NATS server. There must be
nothing of it yet. The rest of the folder is not touched. Then start the engine,
and add it with ` + "`engine namespace add NAME`" + `.

An interrupted restore is refused by the engine. Run it again: it begins anew.`,
		Example: "  engine restore /var/backups/streamwright --dir data\n  engine restore today.tar --dir data --at 2030-01-31T08:00:00Z\n  engine restore today.tar --nats-url nats://10.0.0.1:4222 --replicas 3\n  engine restore acme.tar --dir data --namespace acme",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			for _, pair := range [][2]string{{"to", "at"}, {"dir", "nats-url"}} {
				if cmd.Flags().Changed(pair[0]) && cmd.Flags().Changed(pair[1]) {
					return cli.Usagef("--%s and --%s exclude each other: leave one out", pair[0], pair[1])
				}
			}
			o.Backup = args[0]
			if o.Options.Config, err = loadConfig(file); err != nil {
				return err
			}
			return restoreBackup(cmd.Context(), a, o, at)
		},
	}
	f := cmd.Flags()
	f.StringVar(&file, "config", "", "the configuration `file` of the engine")
	f.StringVar(&o.Options.Dir, "dir", "", "the data `folder` to fill, which must be empty or not exist; with --namespace, that of an engine")
	f.StringVar(&o.Options.NATSURL, "nats-url", "", "the `URL` of an existing NATS server to restore into")
	f.IntVar(&o.Replicas, "replicas", 1, "the `number` of replicas of each stream, for --nats-url: 1, 3 or 5")
	f.Func("to", "the `position` at which the log ends: the state right after that event", pointInTime(&at))
	f.Func("at", "the `moment` at which the log ends: a time (RFC 3339), how long ago, or a position", pointInTime(&at))
	return cmd
}

func restoreBackup(ctx context.Context, a *app, o embedded.RestoreOptions, at streamwright.PointInTime) (err error) {
	outside := o.Options.NATSURL != "" || o.Options.Config.External()
	switch {
	case o.Options.Dir == "" && o.Options.Config.Server.Dir == "" && !outside:
		return cli.Usagef("it is not said where to: use --dir DIR or --nats-url URL")
	case !outside && o.Replicas != 1:
		return cli.Usagef("--replicas is for --nats-url: a data folder has one of each stream")
	case o.Replicas != 1 && o.Replicas != 3 && o.Replicas != 5:
		return cli.Usagef("invalid --replicas %d: use 1, 3 or 5", o.Replicas)
	}
	if cmp.Or(a.Namespace, os.Getenv(cli.NamespaceEnv)) != "" {
		if o.Namespace, err = cli.Namespace(a.Namespace, os.Getenv); err != nil {
			return err
		}
	}
	if _, err := os.Stat(o.Backup); err != nil {
		return fmt.Errorf("open the backup: %w", err)
	}
	o.At = at.Time
	if at.Position != "" {
		if o.To, err = at.Position.Seq(); err != nil {
			return cli.Usage(err)
		}
	}
	o.Options.Config.Server.Prefix = cmp.Or(o.Options.Config.Server.Prefix, a.Prefix)
	o.Options.Config.Server.LogLevel = cmp.Or(o.Options.Config.Server.LogLevel, "error") // the server warns of every long write
	o.Options.Logger = logger(a.Err, o.Options.Config.WithDefaults().Server)
	if o.Options.Connect, err = a.serveConnection(o.Options); err != nil {
		return err
	}
	progress, end := stages(a)
	o.Progress = progress
	done, err := embedded.Restore(ctx, o)
	end()
	if errors.Is(err, backup.ErrTaken) {
		err = fmt.Errorf("%w: see to it that one restore runs at a time", err)
	}
	return a.show(done, err, func() { printRestored(a, &done) })
}

func printRestored(a *app, r *embedded.Restored) {
	if r.Already {
		a.Printf("nothing to do: the log was restored from this backup before\n")
	}
	a.Printf("restored: positions %d to %d, the last of %s\n", r.First, r.Last, r.At.UTC().Format(time.RFC3339Nano))
	if !r.Already {
		a.Printf("%s of the log, %s: read back and compared\n", console.Plural(r.Events, "message"), besideLog(r.Intake, r.Logs, r.Output, r.Documents))
	}
	a.Printf("replayed: %s; digest %s\n", console.Plural(r.Items, "item"), r.Digest)
	if r.InFlight > 0 {
		a.Printf("%s claimed or running then: lost, and tried again when an engine starts\n", console.Plural(r.InFlight, "item"))
	}
	if !r.End {
		a.Printf("it is an earlier moment than the backup's end: undecided submissions were not restored\n")
	}
	switch {
	case r.Namespace != "":
		a.Printf("start the engine, and add it with `engine namespace add %s`\n", r.Namespace)
	case r.Dir != "":
		a.Printf("start it with `engine serve --dir %s`\n", r.Dir)
	}
}
