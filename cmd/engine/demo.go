package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/internal/bench"
	"github.com/streamwright/streamwright/internal/demo"
)

func demoCommand(a *app) *cobra.Command {
	cluster, guard := false, ""
	cmd := &cobra.Command{
		Use:   "demo [DIR]",
		Short: "Run the whole engine on real input, with nothing to set up",
		Long: `Start an engine in a temporary folder, submit one work item for each file
under DIR (default: the current folder), hash and count them with real
workers, and then prove the outcome: the results against a second computation,
one completion for each item in the log, and the store against a rebuild.

With --cluster, three nodes on this machine do it. Meanwhile the one that owns
the log is killed, and then another, and each is started again.`,
		Example: "  engine demo\n  engine demo /usr/share/doc --json\n  engine demo --cluster",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if guard != "" {
				return demo.Guard(a.In, guard)
			}
			program, err := os.Executable()
			if err != nil && cluster { // one node needs it only to have its folder removed if it is killed
				return fmt.Errorf("find this program, to start more of it: %w", err)
			}
			o := demo.Options{Dir: ".", Out: a.Out, Program: program, Cluster: cluster}
			if len(args) == 1 {
				o.Dir = args[0]
			}
			if console.OnTerminal(a.Err) {
				o.Progress = a.Err
			}
			if !a.JSON {
				return demo.Run(cmd.Context(), o)
			}
			o.Out, o.Report = a.Err, new(demo.Report)
			if err := demo.Run(cmd.Context(), o); err != nil {
				return err
			}
			return a.PrintJSON(o.Report)
		},
	}
	cmd.Flags().BoolVar(&cluster, "cluster", false, "on three nodes, of which two are killed meanwhile")
	cmd.Flags().StringVar(&guard, "guard", "", "only remove this `folder` when the standard input ends")
	_ = cmd.Flags().MarkHidden("guard") // it is there
	return cmd
}

func benchCommand(a *app) *cobra.Command {
	o := bench.Options{}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure the engine on this machine",
		Long: `Measure, for each durability, on an embedded server in a temporary folder:
the floor (a raw JetStream memory work queue), items end to end, the burn-down
of a backlog, bulk submission, the time from publish to handler start, a
rebuild, what idle workers send, the memory that a large backlog takes, the disk
that an item takes, and an ordinary JetStream consumer as worker beside one that
items are sent to (ack). Ratios are to the floor of the same run. At the end
stands a table of goals: what was measured, what is wanted, and by how much it
is missed.`,
		Example: "  engine bench\n  engine bench --durability interval --items 20000\n  engine bench --nodes 3 --only flow,burndown,latency",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Out, o.JSON = a.Out, a.JSON
			return bench.Run(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.Func("durability", "`durability` to measure: always or interval (default both)", console.Choices(&o.Durabilities, config.Always, config.Interval))
	f.Func("only", "`parts` to measure: "+strings.Join(bench.Parts(), ", "), console.Choices(&o.Only, bench.Parts()...))
	f.IntVar(&o.Items, "items", 0, "items of each throughput part (default 100000; a third of it with durability always)")
	f.IntVar(&o.Backlog, "backlog", 0, "items of the memory part (default 1000000)")
	f.BoolVar(&o.Users, "users", false, "with users on the embedded server, so that clients are in an account of their own (not with the part ack)")
	f.BoolVar(&o.DedupKeys, "dedup-keys", false, "give each item of the backlog a dedup key")
	f.IntVar(&o.Nodes, "nodes", 1, "engines in this process that form a cluster: 1 (none), 3 or 5")
	f.DurationVar(&o.LatencyFor, "latency-for", 0, "how long to publish at each rate (default 10s)")
	f.DurationVar(&o.IdleFor, "idle-for", 0, "how long to watch the idle engine (default 1m)")
	f.StringVar(&o.CPUProfile, "cpuprofile", "", "write a CPU profile to `file`")
	return cmd
}
