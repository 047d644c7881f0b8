package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
)

func historyCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "history ID",
		Short:   "Show the events of an item, with its waits and run times",
		Example: "  engine history 01JD3V6YB2M4C9W8ZK5T7QXRNE",
		Args:    cobra.ExactArgs(1),
		RunE: a.asks(func(ctx context.Context, c *streamwright.Client, args []string) error {
			evs, sum, err := c.Account(ctx, args[0])
			return a.showHistory(evs, sum, err)
		}),
	}
}

func (a *app) showHistory(evs []streamwright.Event, sum streamwright.StateDurations, err error) error {
	rows := historyRows{style: a.Style(), named: slices.ContainsFunc(evs, func(ev streamwright.Event) bool { return ev.By != "" })}
	if err := showList(a, evs, err, "", rows.head(), rows.row); err != nil {
		return err
	}
	return a.showTotals(sum)
}

// showTotals shows how long the states of an item have taken.
func (a *app) showTotals(sum streamwright.StateDurations) error {
	return a.show(map[string]streamwright.StateDurations{"totals": sum}, nil, func() {
		if text := console.Took(&sum); text != "" {
			a.Printf("in all: %s\n", text)
		}
	})
}

// historyRows makes rows of an item's events, one after the other.
type historyRows struct {
	style  console.Style
	named  bool // there is a column of who asked for it
	before time.Time
}

// byAt is the column of who asked for it.
const byAt = 6

func (h *historyRows) head() []string {
	head := []string{"SEQ", "AT", "AFTER", "EVENT", "ATTEMPT", "WORKER", "TOOK", "DETAIL"}
	if h.named {
		head = slices.Insert(head, byAt, "BY")
	}
	return head
}

func (h *historyRows) row(ev streamwright.Event) []string {
	after, attempt := "", ""
	if !h.before.IsZero() {
		after = "+" + console.Span(ev.At.Sub(h.before))
	}
	if ev.Attempt > 0 {
		attempt = strconv.Itoa(ev.Attempt)
	}
	h.before = ev.At
	row := []string{
		ev.Seq.String(), ev.At.Local().Format("2006-01-02 15:04:05.000"), after, ev.Kind.String(),
		attempt, console.Clean(ev.Worker), console.Took(ev.StateDurations), console.Summary(ev, h.style),
	}
	if h.named {
		row = slices.Insert(row, byAt, console.Clean(ev.By))
	}
	return row
}

func logsCommand(a *app) *cobra.Command {
	var follow bool
	var limit int
	cmd := &cobra.Command{
		Use:   "logs ID",
		Short: "Show the log of an item",
		Long: `Show what the handlers of an item have logged. With --follow, continue until
the item is finished.`,
		Example: "  engine logs 01JD3V6YB2M4C9W8ZK5T7QXRNE --limit 100\n  engine logs 01JD3V6YB2M4C9W8ZK5T7QXRNE --follow",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), func(c *streamwright.Client) error {
				if follow {
					return c.FollowLogs(cmd.Context(), args[0], a.showRecord)
				}
				ctx, cancel := a.Within(cmd.Context())
				defer cancel()
				records, err := c.Logs(ctx, args[0], limit)
				for _, r := range records {
					if err := a.showRecord(r); err != nil {
						return err
					}
				}
				if err == nil && len(records) == 0 && !a.JSON {
					a.Notef("its handlers have logged nothing")
				}
				return err
			})
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "continue with new records until the item is finished")
	limitFlag(cmd.Flags(), &limit, 1000, "how many records to show, the last ones, at most 10000; not with --follow")
	return cmd
}

func (a *app) showRecord(r streamwright.LogRecord) error {
	if a.JSON {
		return a.PrintJSON(r)
	}
	style := a.Style()
	_, err := fmt.Fprintf(a.Out, "%s  %s  #%d  %s\n", style.Faint(r.At.Local().Format("15:04:05.000")), style.Level(r.Level), r.Attempt, console.Clean(r.Message))
	return err
}

func whyCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "why ID",
		Short: "Explain why an item is not running now",
		Long: `Explain why an item is not running now: show all reasons at once, each with its
code and, if it passes by itself, when.`,
		Example: "  engine why 01JD3V6YB2M4C9W8ZK5T7QXRNE",
		Args:    cobra.ExactArgs(1),
		RunE: a.asks(func(ctx context.Context, c *streamwright.Client, args []string) error {
			w, err := c.Why(ctx, args[0])
			return a.show(w, err, func() { a.printWhy(w) })
		}),
	}
}

func (a *app) printWhy(w streamwright.Explanation) {
	style := a.Style()
	a.Printf("%s  %s  %s\n", w.ID, w.Type, style.State(w.State))
	now := time.Now()
	for _, r := range w.Reasons {
		until := ""
		if !r.Until.IsZero() {
			until = ", passes " + console.Ago(r.Until, now)
		}
		a.Printf("  %s%s: %s\n", r.Code, until, a.Calls(console.Clean(r.Message)))
		for _, id := range r.Items {
			a.Printf("    %s\n", id)
		}
	}
}

func heldCommand(a *app) *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use:   "held TYPE KEY",
		Short: "Show the item that holds a dedup key",
		Long: `Show the live item that holds a dedup key: a submission with this key would be
a duplicate of it. A free key is an error, not_found.

With --watch, show the holder and every change, until interrupted. A free key
shows as "free", in JSON as an object without id.

The holder may have changed by the time it is read: only a submission decides.`,
		Example: "  engine held check project-17\n  engine held check project-17 --watch --json",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if watch {
				ctx := cmd.Context()
				return a.with(ctx, func(c *streamwright.Client) error {
					err := c.DedupKeys().Watch(ctx, args[0], args[1], a.showHolder)
					if errors.Is(ctx.Err(), context.Canceled) {
						return nil // interrupted: a watch ends this way
					}
					return err
				})
			}
			return a.ask(cmd.Context(), func(ctx context.Context, c *streamwright.Client) error {
				info, err := c.Engine().Info(ctx)
				if err != nil {
					return err
				}
				c.ObservePosition(info.Position) // show what any command before this one has done
				h, err := c.DedupKeys().Holder(ctx, args[0], args[1])
				if err != nil {
					return err
				}
				return a.showHolder(h)
			})
		},
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "show every change, until interrupted")
	return cmd
}

func (a *app) showHolder(h streamwright.Holder) error {
	switch {
	case a.JSON && h.ID == "":
		return a.PrintJSON(struct{}{})
	case a.JSON:
		return a.PrintJSON(h)
	case h.ID == "":
		a.Printf("free\n")
	default:
		a.Printf("%s  %s\n", h.ID, a.Style().State(h.State))
	}
	return nil
}
