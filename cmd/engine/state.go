package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/wire"
)

// parseAt reads a moment of the past: a position, a time, or how long ago.
func parseAt(s string, now time.Time) (m streamwright.PointInTime, err error) {
	if n, err := strconv.ParseUint(s, 10, 64); err == nil && n > 0 {
		m.Position = wire.Position(s)
		return m, nil
	}
	if m.Time, err = parseMoment("--at", s, now); err != nil {
		return m, console.Usagef("invalid --at %q: use a position (1042), a time (2030-01-31T08:00:00Z), or how long ago (10m)", s)
	}
	return m, nil
}

func stateCommand(a *app) *cobra.Command {
	var at string
	cmd := &cobra.Command{
		Use:     "state --at POSITION|TIME",
		Short:   "Show the whole engine at an earlier moment",
		Long:    "Show queues, runs, pauses, circuits and schedules as they were. The engine replays its log up to the moment:\na position (1042), a time (RFC 3339), or how long ago (10m).",
		Example: "  engine state --at 10m\n  engine state --at 1042 --json",
		Args:    console.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if at == "" {
				return console.Usagef("--at is missing: give a position (1042), a time (2030-01-31T08:00:00Z), or how long ago (10m)")
			}
			m, err := parseAt(at, time.Now())
			if err != nil {
				return err
			}
			c, err := a.Connect(cmd.Context())
			if err != nil {
				return err
			}
			defer c.Close()
			show, end := a.bar("replaying", "")
			st, err := c.Engine().StateAt(cmd.Context(), m, func(r streamwright.StateProgress) { show(int64(r.Events), int64(r.Total)) })
			end()
			return a.show(st, err, func() { a.printState(st) })
		},
	}
	cmd.Flags().StringVar(&at, "at", "", "the `moment` to show: a position, a time, or how long ago")
	return cmd
}

func (a *app) printState(st streamwright.State) {
	style := console.StyleFor(a.Out)
	a.Printf("as of position %s, %s (%s)\n", st.Position, st.At.Format(time.RFC3339Nano), console.Ago(st.At, time.Now()))
	a.Printf("owner %s, epoch %d; %s of death, %s\n\n", orDash(st.Owner), st.Epoch, console.Plural(st.Causes, "cause"), console.Plural(st.Rejected, "rejected submission"))
	rows := [][]string{{"TYPE", "QUEUED", "BY PRIORITY", "RUNNING", "CAPACITY", "WAITING", "DONE", "DEAD", "CANCELLED", "HELD BACK"}}
	for _, t := range st.Types {
		n := func(states ...string) string {
			sum := int64(0)
			for _, s := range states {
				sum += t.States[s]
			}
			return console.Count(sum)
		}
		rows = append(rows, []string{t.Type, n("queued"), byPriority(t.Queued), n("claimed", "running"), strconv.Itoa(t.Capacity), n("waiting"),
			n("completed", "merged"), n("dead"), n("cancelled"), heldBack(t.Paused, t.Circuit, st.At)})
	}
	console.Table(a.Out, style, rows)
	for _, w := range slices.Sorted(maps.Keys(st.Workers)) {
		a.Printf("worker %s: circuit %s\n", console.Clean(w), st.Workers[w].State)
	}
	for _, d := range st.Drains {
		a.Printf("worker %s: %s\n", console.Clean(d.Worker), drainText(d, st.At))
	}
	for _, s := range st.Schedules {
		a.Printf("schedule %s of %s: next %s\n", console.Clean(s.Name), s.Type, s.Next.Format(time.RFC3339))
	}
}

func byPriority(queued map[int]int64) string {
	var parts []string
	for _, p := range slices.Backward(slices.Sorted(maps.Keys(queued))) {
		parts = append(parts, fmt.Sprintf("%d:%s", p, console.Count(queued[p])))
	}
	return strings.Join(parts, " ")
}
