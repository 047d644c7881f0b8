package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/internal/bench"
	"github.com/streamwright/streamwright/internal/demo"
)

func demoCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "demo [DIR]",
		Short: "Run the whole engine on real input, with nothing to set up",
		Long: `Starts an engine in a temporary folder, submits one work item for each file
under DIR (default: the current folder), hashes and counts them with real
workers, and then proves the outcome: the results against a second computation,
one completion for each item in the log, and the store against a rebuild.`,
		Args: console.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			o := demo.Options{Dir: ".", Out: a.Out}
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
}

func benchCommand(a *app) *cobra.Command {
	o := bench.Options{}
	var durabilities []string
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure the engine against a floor, in one run on this machine",
		Long: `Measures, for each durability, on an embedded server in a temporary folder:
the floor (a raw JetStream memory work queue), items end to end, the burn-down
of a backlog, bulk submission, the time from publish to handler start, a
rebuild, what an idle engine sends, the memory that a large backlog takes, and
an ordinary JetStream consumer as worker beside the claim protocol (native).
Ratios are to the floor of the same run.`,
		Args: console.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, d := range durabilities {
				if d != string(config.Always) && d != string(config.Interval) {
					return console.Usagef("--durability %q: use always, interval, or both with a comma", d)
				}
				o.Durabilities = append(o.Durabilities, config.Durability(d))
			}
			o.Out, o.JSON = a.Out, a.JSON
			return bench.Run(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&durabilities, "durability", nil, "always, interval (default both)")
	f.StringSliceVar(&o.Only, "only", nil, "parts to measure: "+strings.Join(bench.Parts, ", "))
	f.IntVar(&o.Items, "items", 0, "items of each throughput part (default 100000; a third of it with durability always)")
	f.IntVar(&o.Backlog, "backlog", 0, "items of the memory part (default 1000000)")
	f.BoolVar(&o.DedupKeys, "dedup-keys", false, "give each item of the backlog a dedup key")
	f.IntVar(&o.Slots, "slots", 0, "slots of the worker (default 200; 500 with durability always)")
	f.DurationVar(&o.LatencyFor, "latency-for", 0, "how long to publish at each rate (default 10s)")
	f.DurationVar(&o.IdleFor, "idle-for", 0, "how long to watch the idle engine (default 1m)")
	f.StringVar(&o.CPUProfile, "cpuprofile", "", "write a CPU profile to `file`")
	f.StringVar(&o.MemProfile, "memprofile", "", "write a profile of all allocations to `file`")
	f.StringVar(&o.Dir, "tmp", "", "`folder` in which data folders are made (default the system's)")
	return cmd
}
