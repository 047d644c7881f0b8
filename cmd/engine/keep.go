package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/cli"
	"github.com/streamwright/streamwright/wire"
)

func verifyCommand(a *app) *cobra.Command {
	var node string
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Replay the log and compare the outcome with the live store",
		Long: `Replay the whole log into a second store and compare it with the live one. Exit
with 1 if they differ. Of several nodes each has a store of its own: --node says
whose; without it whichever is asked answers.`,
		Example: "  engine verify\n  engine verify --node n2\n  engine verify --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := a.prove(cmd.Context(), "verifying", func(e streamwright.Engine, ctx context.Context, progress func(streamwright.Proof)) (streamwright.Proof, error) {
				return e.VerifyNode(ctx, node, progress)
			})
			err = a.show(p, err, func() { a.printVerified(p) })
			switch {
			case err != nil || p.Equal:
				return err
			case a.JSON:
				return console.ErrTold
			}
			return errors.New("the live store is not what the log says: run `engine rebuild`, and keep a copy of the data folder for the report")
		},
	}
	cmd.Flags().StringVar(&node, "node", "", "the `node` whose store is verified")
	return cmd
}

func rebuildCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "rebuild",
		Short:   "Rebuild the engine's store from the log",
		Example: "  engine rebuild",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := a.prove(cmd.Context(), "rebuilding", streamwright.Engine.Rebuild)
			return a.show(p, err, func() { a.Printf("rebuilt from %s; `engine verify` compares it with another replay\n", replayed(p)) })
		},
	}
}

type proving func(streamwright.Engine, context.Context, func(streamwright.Proof)) (streamwright.Proof, error)

// prove runs verify or rebuild under a progress bar.
func (a *app) prove(ctx context.Context, doing string, prove proving) (p streamwright.Proof, err error) {
	err = a.with(ctx, func(c *streamwright.Client) error {
		show, end := a.bar(doing, "events")
		defer end()
		p, err = prove(c.Engine(), ctx, func(p streamwright.Proof) { show(int64(p.Events), int64(p.Total)) })
		return err
	})
	return p, err
}

func (a *app) printVerified(p streamwright.Proof) {
	if p.Equal {
		a.Printf("equal: %s, give the live store; digest %s\n", replayed(p), p.Digest)
		return
	}
	a.Printf("DIFFERENT: %s, give digest %s, the live store has %s\n", replayed(p), p.Digest, p.Live)
	for _, d := range p.Diff {
		a.Printf("  %s\n", console.Clean(d))
	}
}

func replayed(p streamwright.Proof) string {
	return fmt.Sprintf("%s, replayed in %s", console.Plural(p.Events, "event"), console.Span(p.Elapsed.Duration))
}

func cutCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "cut",
		Short:   "Cut the event log now, in front of what is kept",
		Example: "  engine cut",
		Long: `Cut the event log now. The engine does so by itself when the log has grown
([retention] in engine.toml). It re-states every item that it keeps, with its
history, and then drops the log in front of that. Time travel (--at) reaches
back to the cut. The command returns at once: engine status shows the rest.`,
		Args: cobra.NoArgs,
		RunE: a.asks(func(ctx context.Context, c *streamwright.Client, _ []string) error {
			r, err := c.Engine().Cut(ctx)
			return a.show(r, err, func() { a.printRetention(&r) })
		}),
	}
}

// cutPatience bounds how long a command waits for the log to be cut.
const cutPatience = 10 * time.Minute

// cutPast has the log cut past the position at which items were purged, and waits for that.
// If it can't be, it says so, with the reason.
func (a *app) cutPast(ctx context.Context, c *streamwright.Client, p wire.Position, what string) error {
	show, end := a.bar("cutting the log", "")
	within, cancel := context.WithTimeout(ctx, cutPatience)
	defer cancel()
	held := false
	r, err := c.Engine().CutPast(within, p, func(r streamwright.Retention) {
		show(0, -1)
		if clock, err := c.Engine().Clock(within); err == nil && len(clock.Held) > 0 {
			held = true
			cancel() // it would not end
		}
	})
	end()
	if err == nil {
		return a.show(r, nil, func() { a.Printf("the log is cut: it begins at %s and no longer holds them\n", r.LogFirst) })
	}
	why := err.Error()
	switch {
	case held:
		why = "the NATS server's clock is implausible, and until it is plausible or accepted nothing is cut: see engine clock"
	case r.Round != "":
		why = "a cut is under way (" + r.Round + ") and goes on: see engine status"
	}
	return fmt.Errorf("the log still holds the contents of %s: it begins at %s, they were purged at up to %s; %s", what, cmp.Or(r.LogFirst, "?"), p, why)
}

// printRetention prints on one line what is kept.
func (a *app) printRetention(r *streamwright.Retention) {
	if r == nil {
		return
	}
	a.Printf("log %s to %s: %s  items kept %s  pruned %s", r.LogFirst, cmp.Or(r.LogLast, "0"), console.Plural(r.Events, "event"), console.Count(r.Retained), console.Count(r.Pruned))
	if r.Held > 0 {
		a.Printf("  past their time, still referred to %s", console.Count(int64(r.Held)))
	}
	if !r.LastCut.IsZero() {
		a.Printf("  last cut %s", console.Ago(r.LastCut, time.Now()))
	}
	if r.Round != "" {
		a.Printf("  a cut is under way (%s)", r.Round)
	}
	a.Printf("\n")
}

// pointInTime decodes a moment of the past: a position, a time, or how long ago.
func pointInTime(dst *streamwright.PointInTime) func(string) error {
	return console.Value(dst, func(s string) (m streamwright.PointInTime, err error) {
		if n, err := strconv.ParseUint(s, 10, 64); err == nil && n > 0 {
			m.Position = wire.Position(s)
			return m, nil
		}
		if m.Time, err = console.ParseMoment(s); err != nil {
			err = errors.New("use a position (53248), a time (2030-01-31T08:00:00Z), or how long ago (10m)")
		}
		return m, err
	})
}

func stateCommand(a *app) *cobra.Command {
	var at streamwright.PointInTime
	cmd := &cobra.Command{
		Use:   "state --at POSITION|TIME",
		Short: "Show the whole engine at an earlier moment",
		Long: `Show queues, runs, pauses, circuits, schedules and namespaces as they were. The
engine replays its log up to the moment: a position (53248), a time (RFC 3339),
or how long ago (10m).`,
		Example: "  engine state --at 10m\n  engine state --at 53248 --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if at == (streamwright.PointInTime{}) {
				return cli.Usagef("--at is missing: give a position (53248), a time (2030-01-31T08:00:00Z), or how long ago (10m)")
			}
			return a.with(cmd.Context(), func(c *streamwright.Client) error {
				show, end := a.bar("replaying", "")
				st, err := c.Engine().StateAt(cmd.Context(), at, func(r streamwright.StateProgress) { show(int64(r.Events), int64(r.Total)) })
				end()
				return a.show(st, err, func() { a.printState(st) })
			})
		},
	}
	cmd.Flags().Func("at", "the `moment` to show: a position, a time, or how long ago", pointInTime(&at))
	return cmd
}

func (a *app) printState(st streamwright.State) {
	a.Printf("as of position %s, %s (%s)\n", st.Position, st.At.Format(time.RFC3339Nano), console.Ago(st.At, time.Now()))
	a.Printf("owner %s, epoch %d; %s of death, %s\n\n", orDash(st.Owner), st.Epoch, console.Plural(st.Causes, "cause"), console.Plural(st.Rejected, "rejected submission"))
	head := []string{"TYPE", "QUEUED", "BY PRIORITY", "RUNNING", "CAPACITY", "WAITING", "DONE", "DEAD", "CANCELLED", "HELD BACK"}
	table(a, st.Types, head, func(t wire.TypeState) []string {
		n := countOf(t.States)
		return []string{
			t.Type, n(events.StateQueued), byPriority(t.Queued), n(events.StateClaimed, events.StateRunning), strconv.Itoa(t.Capacity), n(events.StateWaiting),
			n(events.StateCompleted, events.StateMerged), n(events.StateDead), n(events.StateCancelled), console.HeldBack(t.Paused, t.Circuit, st.At),
		}
	})
	for _, w := range slices.Sorted(maps.Keys(st.Workers)) {
		a.Printf("worker %s: circuit %s\n", console.Clean(w), st.Workers[w].State)
	}
	for _, d := range st.Drains {
		a.Printf("worker %s: %s\n", console.Clean(d.Worker), drainText(d, st.At))
	}
	for _, s := range st.Schedules {
		a.Printf("schedule %s of %s: next %s\n", console.Clean(s.Name), s.Type, s.Next.Format(time.RFC3339))
	}
	for _, n := range st.Namespaces {
		a.Printf("namespace %s: set by %s\n", n.Name, n.Source)
	}
}

func byPriority(queued map[int]int64) string {
	var parts []string
	for _, p := range slices.Backward(slices.Sorted(maps.Keys(queued))) {
		parts = append(parts, fmt.Sprintf("%d:%s", p, console.Count(queued[p])))
	}
	return strings.Join(parts, " ")
}

func clockCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "clock",
		Short:   "Show the engine's time, and check the NATS server's",
		Example: "  engine clock\n  engine clock accept --by ada",
		Long: `Show the engine's time, the NATS server's, and whether that is plausible. The
engine does not follow a server time that is far from the last event, from the
time of the previous run, and from the time that has passed since: nothing is
pruned, cut or made due by it until it is plausible, or accepted.`,
		Args: cobra.NoArgs,
		RunE: a.asks(func(ctx context.Context, c *streamwright.Client, _ []string) error {
			return a.showClock(c.Engine().Clock(ctx))
		}),
	}
	var by string
	accept := &cobra.Command{
		Use:   "accept",
		Short: "Confirm that the NATS server's clock is right",
		Long: `Confirm that the NATS server's clock is right: the engine's time is the
server's from then on. Check the machine's clock first. What is due by that
time happens at once: items expire, and ended ones are pruned. If the event log
lies in the future, its clock is set back, and delays, retries and timeouts that
were counted by it move back with it. Idempotency keys, dedup windows and the
retention of ended items keep the end that the wrong clock gave them (engine
purge forgets an item and its keys).`,
		Example: "  engine clock accept --by ada",
		Args:    cobra.NoArgs,
		RunE: a.asks(func(ctx context.Context, c *streamwright.Client, _ []string) error {
			return a.showClock(c.Engine().AcceptClock(ctx, by))
		}),
	}
	accept.Flags().StringVar(&by, "by", "", "the `name` of who confirms it, for the log")
	cmd.AddCommand(accept)
	return cmd
}

func (a *app) showClock(c streamwright.Clock, err error) error {
	return a.show(c, err, func() {
		line := func(name, text string) { a.Printf("%-11s %s\n", name, text) }
		at := func(name string, t time.Time) {
			if !t.IsZero() {
				line(name, t.Local().Format(time.RFC3339))
			}
		}
		at("engine", c.EngineTime)
		at("server", c.ServerTime)
		at("last event", c.LastEvent)
		at("known good", c.KnownGood)
		line("difference", (c.Difference.Duration).String())
		if c.Verdict == wire.ClockPlausible {
			line("verdict", c.Verdict)
			return
		}
		line("verdict", "implausible ("+c.Verdict+"), since "+c.Since.Local().Format(time.RFC3339))
		line("why", c.Why)
		line("held", strings.Join(c.Held, "; "))
	})
}

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
		Example: "  engine salvage --dir /var/lib/streamwright --dry-run\n  engine salvage --config engine.toml --yes\n  engine salvage --dir data --namespace acme",
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
			o.Confirm = func(s embedded.Salvageable) bool { return a.confirmSalvage(cmd.Context(), s, yes, dry) }
			of, err := cli.Namespace(a.Namespace, os.Getenv)
			if err != nil {
				return err
			}
			if of != streamwright.DefaultNamespace {
				o.Namespace = of
			}
			progress, end := stages(a)
			o.Progress = progress
			done, err := embedded.Salvage(cmd.Context(), o)
			end()
			if errors.Is(err, eventlog.ErrNotEmpty) {
				err = fmt.Errorf("%w: if that log is right, start with `engine serve --set-store-aside`; if it is not, remove its stream first", err)
			}
			if err = a.showSalvaged(done, err); err == nil && !done.Written && !dry {
				err = console.ErrTold // somebody said no
			}
			return err
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
func (a *app) confirmSalvage(ctx context.Context, s embedded.Salvageable, yes, dry bool) bool {
	to := a.Out
	if a.JSON {
		to = a.Err
	}
	fmt.Fprintf(to, "the store %s is as of event %d, %s\n", s.Store, s.Position, s.At.UTC().Format(time.RFC3339))
	fmt.Fprintf(to, "it holds %s of %s, %s, %s\n", console.Plural(s.Items, "item"), console.Plural(s.Types, "type"), console.Plural(s.Schedules, "schedule"), console.Plural(s.Rejected, "rejected submission"))
	for _, state := range slices.Sorted(maps.Keys(s.States)) {
		fmt.Fprintf(to, "  %-10s %s\n", state, console.Count(s.States[state]))
	}
	if dry || yes {
		return !dry
	}
	return confirmed(ctx, a.stdin, a.Err, "write a new event log of this?")
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
		a.Printf("start the engine to continue from there\n")
	})
}
