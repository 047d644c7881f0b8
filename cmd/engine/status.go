package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/cli"
	"github.com/streamwright/streamwright/wire"
)

func statusCommand(a *app) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the engine at a glance",
		Long: `Show the engine at a glance: one namespace, or with --all every one of them, a
line for each.`,
		Example: "  engine status\n  engine status --json\n  engine status --all",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !all {
				return a.ask(cmd.Context(), a.status)
			}
			if a.Namespace != "" {
				return cli.Usagef("--all shows every namespace, --namespace one: give one of them")
			}
			a.Namespace = string(streamwright.DefaultNamespace)
			return a.with(cmd.Context(), func(c *streamwright.Client) error { return a.statusOfAll(cmd.Context(), c) })
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "show every namespace, a line for each; takes the role */read")
	return cmd
}

// status shows one namespace.
func (a *app) status(ctx context.Context, c *streamwright.Client) error {
	info, err := c.Engine().Info(ctx)
	if err != nil {
		return err
	}
	nodes := otherNodes(ctx, c)
	stats, err := c.Engine().Stats(ctx)
	if events.CodeOf(err) == events.CodeUnavailable && nodes != nil && nodes.Owner == "" {
		if !a.JSON {
			a.printAnswer(info, nodes)
		}
		err = events.Refuse(events.CodeUnavailable, "no node owns the log just now: nothing is decided until one does, within seconds if most of the nodes run; `engine cluster` shows them")
	}
	return a.show(struct {
		Info  streamwright.Info   `json:"info"`
		Stats streamwright.Stats  `json:"stats"`
		Nodes *streamwright.Nodes `json:"nodes,omitempty"`
	}{info, stats, nodes}, err, func() { a.printStatus(info, stats, nodes) })
}

// otherNodes returns the nodes if there are several; else nil.
func otherNodes(ctx context.Context, c *streamwright.Client) *streamwright.Nodes {
	nodes, err := c.Engine().Nodes(ctx)
	if err != nil || len(nodes.Nodes) < 2 {
		return nil
	}
	return &nodes
}

// printAnswer prints which node has answered, and what the others are.
func (a *app) printAnswer(info streamwright.Info, nodes *streamwright.Nodes) {
	owner := fmt.Sprintf("owner %s (epoch %d)", console.Clean(info.Owner), info.Epoch)
	if info.Role == wire.RoleStandby {
		owner = "standby, owner " + cmp.Or(console.Clean(info.Owner), "unknown")
	}
	if info.Role == wire.RoleMirror {
		owner = "mirror of " + console.Clean(info.Owner)
	}
	name := "engine"
	if nodes != nil {
		name = "node " + console.Clean(info.Node)
	}
	a.Printf("%s %s  %s  durability %s  position %s\n", name, info.Version, owner, info.Durability, cmp.Or(info.Position, "0"))
	if nodes != nil {
		a.printNodes(*nodes, info.Node)
	}
}

func (a *app) printStatus(info streamwright.Info, stats streamwright.Stats, nodes *streamwright.Nodes) {
	a.printAlarms(stats.Alarms)
	a.printAttention(stats.Attention)
	a.printAnswer(info, nodes)
	if info.Projected != info.Position && info.Projected != "" {
		a.Printf("projected up to %s\n", info.Projected)
	}
	a.Printf("workers %d  rejected submissions %s", stats.Workers, console.Count(stats.Rejected))
	if stats.MaxQueued > 0 {
		a.Printf("  queue limit %s", console.Count(stats.MaxQueued))
	}
	a.Printf("\n")
	a.printRetention(info.Retention)
	a.printRecoveries(stats)
	a.Printf("\n")
	if len(stats.Types) == 0 {
		a.Printf("no types yet: the first submission of a type makes it\n")
		printSites(a, stats.Sites)
		return
	}
	head := []string{"TYPE", "QUEUED", "WAITING", "RUNNING", "COMPLETED", "DEAD", "CANCELLED", "MERGED", "IN FLIGHT", "WORKERS", "OLDEST QUEUED"}
	table(a, stats.Types, head, func(t wire.TypeStats) []string {
		n := countOf(t.States)
		oldest := "-"
		if t.Oldest.Duration > 0 {
			oldest = console.Span(t.Oldest.Duration)
		}
		return []string{
			t.Type, n(events.StateQueued, events.StateCreated, events.StateFailed), n(events.StateWaiting), n(events.StateClaimed, events.StateRunning),
			n(events.StateCompleted), n(events.StateDead), n(events.StateCancelled), n(events.StateMerged),
			fmt.Sprintf("%d of %d", t.InFlight, t.Capacity), fmt.Sprint(t.Workers), oldest,
		}
	})
	for _, t := range stats.Types {
		waiting := t.States[events.StateQueued.String()] + t.States[events.StateWaiting.String()]
		if of := ofMost(waiting, t.MaxQueued); of != console.Count(waiting) {
			a.Printf("%s: %s queued or waiting\n", t.Type, of)
		}
		if why := console.HeldBack(t.Paused, t.Circuit, time.Now()); why != "-" {
			a.Printf("%s: %s\n", t.Type, why)
		}
	}
	printSites(a, stats.Sites)
	for _, c := range stats.Circuits {
		a.Printf("worker %s: %s\n", console.Clean(c.Worker), console.CircuitText(&c, time.Now()))
	}
}

// countOf returns a function that adds up the items in some states, for people.
func countOf(items map[string]int64) func(...events.ItemState) string {
	return func(states ...events.ItemState) string { return console.Count(console.InStates(items, states...)) }
}

// printRecoveries prints what was repaired in the last day, if anything was.
func (a *app) printRecoveries(stats streamwright.Stats) {
	var hour, day int64
	var causes []string
	for _, cause := range wire.Recoveries {
		if n := stats.RecoveriesDay[cause]; n > 0 {
			hour, day = hour+stats.RecoveriesHour[cause], day+n
			causes = append(causes, fmt.Sprintf("%s %s", cause, console.Count(n)))
		}
	}
	if day > 0 {
		a.Printf("repaired in the last hour %s, in the last day %s: %s\n", console.Count(hour), console.Count(day), strings.Join(causes, ", "))
	}
}

// printSites prints how the sites at the edge are.
func printSites(a *app, sites []wire.SiteState) {
	for _, s := range sites {
		switch {
		case s.Mirror && s.Connected:
			a.Printf("mirror %s: connected, %s behind\n", s.Site, console.Count(int64(s.Waiting)))
		case s.Mirror && !s.HeardAt.IsZero():
			a.Printf("mirror %s: cut off, last heard %s\n", s.Site, console.Ago(s.HeardAt, time.Now()))
		case s.Mirror:
			a.Printf("mirror %s: cut off, and not heard since the engine started\n", s.Site)
		case s.Connected:
			a.Printf("site %s: connected, %s waiting there\n", s.Site, console.Count(int64(s.Waiting)))
		case s.HeardAt.IsZero():
			a.Printf("site %s: cut off, and not heard since the engine started\n", s.Site)
		default:
			a.Printf("site %s: cut off, last heard %s, %s waited there\n", s.Site, console.Ago(s.HeardAt, time.Now()), console.Count(int64(s.Waiting)))
		}
	}
}

// printAlarms prints what keeps the engine from working, and what to do.
func (a *app) printAlarms(alarms []streamwright.Alarm) {
	style := a.Style()
	for _, al := range alarms {
		head := fmt.Sprintf("%s %s", strings.ToUpper(string(al.Severity)), al.Code)
		a.Printf("%s: %s\n  %s\n", style.Alarm(al.Severity == wire.AlarmCritical, head), console.Clean(al.Message), a.Calls(console.Clean(al.Action)))
	}
	if len(alarms) > 0 {
		a.Printf("\n")
	}
}

// printAttention prints what someone should look at, a line for each kind: deaths
// first, and of each kind those that have most.
func (a *app) printAttention(list []wire.Attention) {
	style := a.Style()
	for _, at := range list {
		what, whose, do := console.AttentionText(at)
		a.Printf("%s: %s\n", style.Alarm(at.Severity == wire.AlarmCritical, what), whose)
		if do != "" {
			a.Printf("  %s\n", a.Calls("`"+do+"`"))
		}
	}
	if len(list) > 0 {
		a.Printf("\n")
	}
}

func workersCommand(a *app) *cobra.Command {
	return noun(a, &cobra.Command{
		Use:     "workers",
		Short:   "List workers, drain them, close their circuits",
		Example: "  engine workers\n  engine workers drain host-7",
	}, workersListCommand, workersDrainCommand, workersUndrainCommand, workersResetCommand)
}

func workersListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the workers, with those that died in the last ten minutes",
		Example: "  engine workers list\n  engine workers list --json",
		Args:    cobra.NoArgs,
		RunE: a.asks(func(ctx context.Context, c *streamwright.Client, _ []string) error {
			workers, err := c.Workers().List(ctx)
			if err != nil {
				return err
			}
			drains, err := c.Workers().Drains(ctx)
			if err := a.showWorkers(workers, err); err != nil || a.JSON {
				return err
			}
			a.printDrains(workers, drains)
			return nil
		}),
	}
}

func (a *app) showWorkers(workers []streamwright.WorkerInfo, err error) error {
	now, style := time.Now(), a.Style()
	head := []string{"WORKER", "TYPES", "CAPABILITIES", "BUSY", "STATUS", "CPU", "MEMORY", "HOST", "VERSION", "SINCE", "SEEN", "REASON"}
	return showList(a, workers, err, "no workers: start one with `engine work TYPE -- COMMAND`", head, func(w streamwright.WorkerInfo) []string {
		cpu, memory := console.Usage(w.Health)
		status := string(w.Status)
		if w.Circuit != nil {
			status += ", " + console.CircuitText(w.Circuit, now)
		}
		return []string{
			console.Clean(w.Worker), strings.Join(w.Types, ","), strings.Join(w.Capabilities, ","), fmt.Sprintf("%d of %d", w.InFlight, w.Slots),
			status, cpu, memory, console.Clean(w.Host), console.Clean(w.Version), console.Ago(w.RegisteredAt, now), console.Ago(w.LastSeen, now),
			style.Clip(w.Reason, 100),
		}
	})
}

// printDrains prints which workers are marked to drain, by whom, and which of them
// are not registered.
func (a *app) printDrains(workers []streamwright.WorkerInfo, drains []streamwright.DrainMark) {
	now := time.Now()
	for _, d := range drains {
		text := console.Clean(d.Worker) + ": " + drainText(d, now)
		if !slices.ContainsFunc(workers, func(w streamwright.WorkerInfo) bool { return w.Worker == d.Worker && w.DiedAt.IsZero() }) {
			text += "; it is not registered"
		}
		a.Printf("%s\n", text)
	}
}

// drainText describes the mark of a worker that is to drain.
func drainText(d streamwright.DrainMark, now time.Time) string {
	text := "to drain since " + console.Ago(d.At, now)
	if d.By != "" {
		text += ", by " + d.By
	}
	if d.Reason != "" {
		text += ": " + d.Reason
	}
	return console.Clean(text)
}
