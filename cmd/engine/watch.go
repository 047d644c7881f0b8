package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

func watchCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "watch ID",
		Short: "Show the events of an item as they happen, until it ends",
		Long: `Show the events of an item, those of the past first, in the form of engine
history, until it ends. Exit 1 unless it is completed, as engine wait does. An
item that is merged into another is followed there.

On a terminal its progress is one line that changes. With --json each event is
a JSON object.`,
		Example: "  engine watch 01JD3V6YB2M4C9W8ZK5T7QXRNE",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), func(c *streamwright.Client) error { return a.watch(cmd.Context(), c, args[0]) })
		},
	}
}

// watch follows an item to its end, and fails unless it is completed.
func (a *app) watch(ctx context.Context, c *streamwright.Client, id string) error {
	w := a.newWatching()
	err := w.follow(ctx, c, id)
	w.progress("")
	if err != nil {
		if errors.Is(ctx.Err(), context.Canceled) {
			return fmt.Errorf("stopped watching item %s: it goes on", id)
		}
		return err
	}
	if err := a.showTotals(wire.Measure(w.events)); err != nil {
		return err
	}
	short, cancel := a.Within(ctx)
	defer cancel()
	it, err := c.Get(short, id)
	switch {
	case events.CodeOf(err) == events.CodeNotFound: // it was purged at once
		return a.completed(streamwright.WorkItem{State: w.state})
	case err != nil:
		return err
	case it.State == events.StateMerged && it.MergedInto != "":
		a.Notef("merged into %s, which is shown from here on", it.MergedInto)
		return a.watch(ctx, c, it.MergedInto)
	}
	return a.completed(streamwright.WorkItem{State: w.state})
}

// errEnded ends the tail of an item that has ended.
var errEnded = errors.New("the item has ended")

// watching prints the events of one item.
type watching struct {
	a       *app
	rows    historyRows
	columns *console.Columns
	width   int // of the terminal; 0: there is none, and progress is an event like others

	events []streamwright.Event // but for progress, which changes no state
	state  events.ItemState
}

func (a *app) newWatching() *watching {
	w := &watching{a: a, rows: historyRows{style: a.Style(), named: true}, columns: console.NewColumns(a.Out, a.Style())}
	if f, ok := a.Out.(*os.File); ok && !a.JSON && console.OnTerminal(f) && os.Getenv("TERM") != "dumb" {
		w.width, _, _ = term.GetSize(int(f.Fd()))
	}
	return w
}

// follow prints the events that there are, and then each that happens, until the item has
// ended.
func (w *watching) follow(ctx context.Context, c *streamwright.Client, id string) error {
	short, cancel := w.a.Within(ctx)
	evs, err := c.History(short, id)
	cancel()
	if err != nil {
		return err
	}
	var head [][]string // with the first rows, so that they stand below it
	if !w.a.JSON {
		head = [][]string{w.rows.head()}
	}
	if err := w.show(head, evs...); err != nil || w.state.Terminal() {
		return err
	}
	from := events.Seq(1)
	if n := len(evs); n > 0 {
		from = evs[n-1].Seq + 1
	}
	err = c.Tail(ctx, streamwright.TailOptions{ID: id, FromSeq: from}, func(ev streamwright.Event) error {
		if err := w.show(nil, ev); err != nil {
			return err
		}
		if w.state.Terminal() {
			return errEnded
		}
		return nil
	})
	if errors.Is(err, errEnded) {
		return nil
	}
	return err
}

// show prints rows, and events behind them, oldest first.
func (w *watching) show(rows [][]string, evs ...streamwright.Event) error {
	known := len(w.events)
	for _, ev := range evs {
		if next, ok := events.Next(w.state, ev.Kind); ok {
			w.state = next
		}
		if ev.Kind != events.KindProgressed {
			w.events = append(w.events, ev)
		}
	}
	wire.Measure(w.events) // a live event does not say what the state that it ends has taken
	progress := ""
	for _, ev := range evs {
		if ev.Kind != events.KindProgressed {
			ev = w.events[known]
			known++
		}
		switch {
		case w.a.JSON:
			if err := w.a.PrintJSON(ev); err != nil {
				return err
			}
		case ev.Kind == events.KindProgressed && w.width > 0:
			progress = progressOf(ev)
		default:
			rows, progress = append(rows, w.rows.row(ev)), ""
		}
	}
	w.progress("")
	w.columns.Print(rows...)
	w.progress(progress)
	return nil
}

// progressOf describes the progress that an event reports.
func progressOf(ev streamwright.Event) string {
	var p streamwright.Progress
	if json.Unmarshal(ev.Data, &p) != nil {
		return ""
	}
	return console.ProgressText(&p, 200, console.TerminalStyle) // which cleans it
}

// progress shows a text on a line that the next one replaces, and ends that line if the text
// is empty.
func (w *watching) progress(text string) {
	if w.width > 0 {
		w.a.Printf("\r\x1b[K%s", ansi.TruncateWc(text, w.width-1, "…"))
	}
}
