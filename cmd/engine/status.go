package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/events"
)

func statusCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the engine at a glance",
		Args:  console.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, ctx, done, err := a.client(cmd.Context())
			if err != nil {
				return err
			}
			defer done()
			info, err := c.Info(ctx)
			if err != nil {
				return err
			}
			stats, err := c.Stats(ctx)
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(struct {
					Info  streamwright.Info  `json:"info"`
					Stats streamwright.Stats `json:"stats"`
				}{info, stats})
			}
			a.printStatus(info, stats)
			return nil
		},
	}
}

func (a *app) printStatus(info streamwright.Info, stats streamwright.Stats) {
	style := console.StyleFor(a.Out)
	a.Printf("engine %s  owner %s (epoch %d)  durability %s  position %s\n", info.Version, console.Clean(info.Owner), info.Epoch, info.Durability, orZero(string(info.Position)))
	if info.Projected != info.Position && info.Projected != "" {
		a.Printf("projected up to %s\n", info.Projected)
	}
	a.Printf("workers %d  rejected submissions %s\n", stats.Workers, console.Count(stats.Rejected))
	a.printRetention(info.Retention)
	a.Printf("\n")
	if len(stats.Types) == 0 {
		a.Printf("no types yet: the first submission of a type makes it\n")
		return
	}
	rows := [][]string{{"TYPE", "QUEUED", "RUNNING", "COMPLETED", "DEAD", "CANCELLED", "MERGED", "IN FLIGHT", "WORKERS", "OLDEST QUEUED"}}
	for _, t := range stats.Types {
		n := func(states ...events.ItemState) string {
			var sum int64
			for _, s := range states {
				sum += t.States[s.String()]
			}
			return console.Count(sum)
		}
		oldest := "-"
		if t.OldestMS > 0 {
			oldest = console.Span(time.Duration(t.OldestMS) * time.Millisecond)
		}
		rows = append(rows, []string{
			t.Type, n(events.StateQueued, events.StateCreated, events.StateWaiting, events.StateFailed), n(events.StateClaimed, events.StateRunning),
			n(events.StateCompleted), n(events.StateDead), n(events.StateCancelled), n(events.StateMerged),
			fmt.Sprintf("%d of %d", t.InFlight, t.Capacity), fmt.Sprint(t.Workers), oldest,
		})
	}
	console.Table(a.Out, style, rows)
}

func orZero(s string) string {
	if s == "" {
		return "0"
	}
	return s
}

func workersCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "workers",
		Short: "List the registered workers",
		Args:  console.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, ctx, done, err := a.client(cmd.Context())
			if err != nil {
				return err
			}
			defer done()
			workers, err := c.Workers(ctx)
			if err != nil {
				return err
			}
			return a.printWorkers(workers)
		},
	}
}

func (a *app) printWorkers(workers []streamwright.WorkerInfo) error {
	now, style := time.Now(), console.StyleFor(a.Out)
	rows := [][]string{{"WORKER", "TYPES", "CAPABILITIES", "BUSY", "STATUS", "HOST", "VERSION", "SINCE", "SEEN"}}
	for _, w := range workers {
		if a.JSON {
			if err := a.PrintJSON(w); err != nil {
				return err
			}
			continue
		}
		status := w.Status
		if w.Health != "" && w.Health != "ok" {
			status += ", " + w.Health
		}
		rows = append(rows, []string{
			console.Clean(w.Worker), strings.Join(w.Types, ","), strings.Join(w.Capabilities, ","), fmt.Sprintf("%d of %d", w.InFlight, w.Slots),
			console.Clean(status), console.Clean(w.Host), console.Clean(w.Version), console.Ago(w.RegisteredAt, now), console.Ago(w.LastSeen, now),
		})
	}
	switch {
	case a.JSON:
	case len(workers) == 0:
		a.Notef("no workers: start one with `engine work TYPE -- COMMAND`")
	default:
		console.Table(a.Out, style, rows)
	}
	return nil
}
