package main

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events/eventlog"
)

func salvageCommand(a *app) *cobra.Command {
	var file string
	var yes, dry bool
	var o embedded.SalvageOptions
	cmd := &cobra.Command{
		Use:   "salvage",
		Short: "Write a new event log from the store, when the log is lost",
		Long: `Write a new event log of what the engine's store holds: for when the event
stream is gone, and no backup of it is at hand. The engine must not run. The
store is as of its last flush, up to half a minute before the engine ended.
What happened later is lost, except for published submissions that are still in
the intake. Items, histories, keys, types, pauses, schedules and counters are as
the store has them; what was running counts as lost and is tried again when the
engine starts.

The new log is replayed and compared with the store before it is taken into use.
The store is only read; in the end the store of the data folder gets another
name, and is not removed.`,
		Example: "  engine salvage --dir /var/lib/streamwright --dry-run\n  engine salvage --config engine.toml --yes",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := loadConfig(file)
			if err != nil {
				return err
			}
			o.Options.Config = c
			o.Options.Logger = logger(a.Err, c.WithDefaults().Server)
			if o.Options.Connect, err = a.serveConnection(o.Options); err != nil {
				return err
			}
			o.Confirm = func(s embedded.Salvageable) bool { return a.confirmSalvage(s, yes, dry) }
			bar, end := a.bar("writing", "")
			o.Progress = bar
			done, err := embedded.Salvage(cmd.Context(), o)
			end()
			if errors.Is(err, eventlog.ErrNotEmpty) {
				err = fmt.Errorf("%w: if that log is right, start with `engine serve --set-store-aside`; if it is not, remove its stream first", err)
			}
			return a.showSalvaged(done, err)
		},
	}
	f := cmd.Flags()
	f.StringVar(&file, "config", "", "the configuration `file` of the engine")
	f.StringVar(&o.Options.Dir, "dir", "", "the data `folder` of the engine (default \"data\")")
	f.StringVar(&o.Store, "store", "", "the `folder` of the store to read, such as one that was set aside (default: the store of the data folder)")
	f.StringVar(&o.Options.NATSURL, "nats-url", "", "the `URL` of the existing NATS server on which the engine has its log, if it has no embedded one")
	f.BoolVar(&yes, "yes", false, "go on without asking")
	f.BoolVar(&dry, "dry-run", false, "only show what the store holds")
	return cmd
}

// confirmSalvage shows what the store holds, and asks.
func (a *app) confirmSalvage(s embedded.Salvageable, yes, dry bool) bool {
	if !a.JSON {
		a.Printf("the store %s is as of event %d, %s\n", s.Store, s.Position, s.At.UTC().Format(time.RFC3339))
		a.Printf("it holds %s of %s, %s, %s\n", console.Plural(s.Items, "item"), console.Plural(s.Types, "type"), console.Plural(s.Schedules, "schedule"), console.Plural(s.Rejected, "rejected submission"))
		for _, state := range slices.Sorted(maps.Keys(s.States)) {
			a.Printf("  %-10s %s\n", state, console.Count(s.States[state]))
		}
	}
	if dry || yes {
		return !dry
	}
	a.Notef("write a new event log of this? (yes/no)")
	line, _ := bufio.NewReader(a.In).ReadString('\n')
	return strings.EqualFold(strings.TrimSpace(line), "yes")
}

func (a *app) showSalvaged(done embedded.Salvaged, err error) error {
	return a.show(done, err, func() {
		if !done.Written {
			a.Printf("nothing was written\n")
			return
		}
		a.Printf("written: events %d to %d; replayed, they give the state of the store (digest %s)\n", done.First, done.Last, done.Digest)
		if done.Aside != "" {
			a.Printf("the old store is now %s: remove it when nothing is missed\n", done.Aside)
		}
		a.Printf("start the engine: it goes on from there\n")
	})
}
