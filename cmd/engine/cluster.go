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
	"github.com/streamwright/streamwright/wire"
)

func clusterCommand(a *app) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Show the nodes, which of them owns the log, and what is at risk",
		Long: `Show every engine of the log: which of them owns it, how far the standbys are
behind, where the streams are, and what is at risk now. Any node answers.
With --all it also shows which node owns the log of each namespace, and why;
that takes the role read in every one.`,
		Example: "  engine cluster\n  engine cluster --all --json",
		Args:    cobra.NoArgs,
		RunE: a.asks(func(ctx context.Context, c *streamwright.Client, _ []string) error {
			var is clusterState
			var err error
			if is.Nodes, err = c.Engine().Nodes(ctx); err == nil && all {
				is.Namespaces, err = c.Namespaces().List(ctx)
				err = a.noteLacking(len(is.Namespaces), err)
			}
			return a.show(is, err, func() { a.printCluster(is) })
		}),
	}
	cmd.Flags().BoolVar(&all, "all", false, "show who owns the log of each namespace, too")
	cmd.AddCommand(clusterRemoveCommand(a))
	return cmd
}

func clusterRemoveCommand(a *app) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "remove NODE",
		Short: "Take a dead node out of the cluster for good",
		Long: `Take a node that will not come back out of the cluster. The others no longer
count it, so fewer of them are a majority, and they make its copies of the
streams themselves. It must not be online. Its data folder is of no use after
that: a new node starts with an empty one.`,
		Example: "  engine cluster remove n3\n  engine cluster remove n3 --yes",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			node := args[0]
			if !yes { // before the request, whose time is short
				a.Notef("node %s leaves the cluster for good, and what only it holds is lost", console.Clean(node))
				if !confirmed(cmd.Context(), a.stdin, a.Err, "Go on?") {
					a.Notef("nothing was changed")
					return console.ErrTold
				}
			}
			return a.ask(cmd.Context(), func(ctx context.Context, c *streamwright.Client) error {
				err := c.Engine().RemoveNode(ctx, node)
				return a.show(map[string]string{"removed": node}, err, func() { a.Printf("removed %s\n", console.Clean(node)) })
			})
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "go on without asking")
	return cmd
}

// clusterState is the cluster of the default namespace's log, and where the others are.
type clusterState struct {
	streamwright.Nodes
	Namespaces []streamwright.NamespaceInfo `json:"namespaces,omitempty"`
}

func (a *app) printCluster(is clusterState) {
	r, now := is.Nodes, time.Now()
	switch {
	case r.Owner == "":
		a.Printf("%s\n", a.Style().Alarm(true, "no node owns the log"))
	case r.Cluster != "":
		a.Printf("cluster %s, owned by %s\n", console.Clean(r.Cluster), console.Clean(r.Owner))
	default:
		a.Printf("the log is owned by %s\n", console.Clean(r.Owner))
	}
	if last := lastFailOver(r, now); last != "" {
		a.Printf("%s\n", last)
	}
	a.Printf("\n")
	table(a, r.Nodes, []string{"NODE", "ROLE", "SINCE", "LAG", "LEADS LOG", "VERSION", "SETTINGS", "NATS", "HTTP"}, func(n wire.Node) []string {
		leads, since := "", ""
		if n.LeadsLog {
			leads = "yes"
		}
		if !n.Since.IsZero() {
			since = console.Ago(n.Since, now)
		}
		return []string{console.Clean(n.Node), roleText(n), since, lagText(n), leads, console.Clean(n.Version), n.Settings, console.Clean(n.NATS), console.Clean(n.HTTP)}
	})
	if len(r.Streams) > 0 {
		a.Printf("\n")
		table(a, r.Streams, []string{"STREAM", "LEADER", "REPLICAS", "BEHIND", "MAY LOSE"}, func(s wire.StreamReplicas) []string {
			lose := "can't be written"
			if s.Spare >= 0 {
				lose = fmt.Sprint(s.Spare)
			}
			return []string{s.Stream, cmp.Or(s.Leader, "none"), fmt.Sprint(s.Replicas), cmp.Or(strings.Join(s.Behind, ", "), "-"), lose}
		})
	}
	if len(is.Namespaces) > 0 {
		a.Printf("\n")
		table(a, is.Namespaces, []string{"NAMESPACE", "OWNER", "WHY", "STATE"}, func(n streamwright.NamespaceInfo) []string {
			owner, why := "-", "-"
			if n.State != nil {
				owner, why = cmp.Or(console.Clean(n.State.Owner), "-"), ownsBecause(n)
			}
			return []string{string(n.Name), owner, why, stateOf(n)}
		})
	}
	for i, w := range r.Warnings {
		if i == 0 {
			a.Printf("\n")
		}
		a.Printf("%s %s\n", a.Style().Alarm(false, "AT RISK:"), console.Clean(w))
	}
}

// ownsBecause says why a namespace's log is where it is.
func ownsBecause(n streamwright.NamespaceInfo) string {
	why := map[wire.TakeoverCause]string{
		wire.TakeoverHandedOver: "the owner before it stopped",
		wire.TakeoverFull:       "the owner before it had no room",
		wire.TakeoverMoved:      "moved here",
		wire.TakeoverBalanced:   "the owner before it had more work",
		wire.TakeoverSilent:     "the owner before it fell silent",
	}[n.State.Because]
	switch {
	case n.Node == "":
		return cmp.Or(why, "no owner before it is known")
	case n.Node == n.State.Owner:
		return "an operator named it"
	}
	return cmp.Or(why, "-") + "; it should be " + console.Clean(n.Node)
}

// lastFailOver says who took over from whom, when and why; empty if the owner has not
// taken over.
func lastFailOver(r streamwright.Nodes, now time.Time) string {
	i := slices.IndexFunc(r.Nodes, func(n wire.Node) bool { return n.Node == r.Owner && n.TookOverFrom != "" })
	if i < 0 {
		return ""
	}
	why := "fell silent"
	switch r.Nodes[i].TookOverBecause {
	case wire.TakeoverHandedOver:
		why = "handed the log over"
	case wire.TakeoverFull:
		why = "handed the log over since it had no room"
	case wire.TakeoverMoved:
		why = "handed the log over to the node that an operator named"
	case wire.TakeoverBalanced:
		why = "handed the log over since it had more work"
	}
	return fmt.Sprintf("last fail-over: %s took over from %s, which %s, %s", console.Clean(r.Owner), console.Clean(r.Nodes[i].TookOverFrom), why, console.Ago(r.Nodes[i].Since, now))
}

// roleText says what a node is.
func roleText(n wire.Node) string {
	switch {
	case !n.Online:
		return "no answer"
	case n.Role == wire.RoleStarting:
		return string(n.Role)
	case n.CutOff != "":
		return string(n.Role) + ", cut off"
	case n.Recovering:
		return string(n.Role) + ", recovering"
	case n.Full != "":
		return string(n.Role) + ", no room"
	case n.Epoch > 0:
		return fmt.Sprintf("%s (epoch %d)", n.Role, n.Epoch)
	}
	return string(n.Role)
}

// lagText says how far a node's own store is behind the log.
func lagText(n wire.Node) string {
	switch {
	case !n.Online || n.Role == wire.RoleStarting:
		return "-"
	case n.LagEvents == 0:
		return "0"
	}
	text := console.Count(int64(n.LagEvents)) + " events"
	if n.Lag.Duration > 0 {
		text += ", " + console.Span(n.Lag.Duration)
	}
	return text
}

// printNodes prints a line for each node but the one that answered, and the last
// fail-over.
func (a *app) printNodes(r streamwright.Nodes, answered string) {
	for _, n := range r.Nodes {
		if n.Node == answered {
			continue
		}
		text := roleText(n)
		if n.Online && n.Role == wire.RoleStandby && n.CutOff == "" {
			text += ", " + lagText(n) + " behind"
		}
		a.Printf("  node %s: %s\n", console.Clean(n.Node), text)
	}
	if last := lastFailOver(r, time.Now()); last != "" {
		a.Printf("  %s\n", last)
	}
}
