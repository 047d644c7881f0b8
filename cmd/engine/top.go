package main

import (
	"context"
	"errors"
	"os"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/engine/internal/top"
	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/internal/cli"
)

// The time between two looks of engine top at the engine: unless told otherwise, and at
// least.
const (
	topInterval      = time.Second
	topIntervalLeast = 200 * time.Millisecond
)

func topCommand(a *app) *cobra.Command {
	interval := topInterval
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch types, workers and items live, and act on them",
		Long: `Watch the engine on a terminal, live: types with their rates, workers, what
needs attention, items and their timelines. Keys pause a type, cancel or replay
an item, and filter; ? lists them. What changes something asks first.

It takes the role read, and operate for changes. NO_COLOR=1 leaves the colours
out. For a program, use engine status --json.`,
		Example: "  engine top\n  engine top --namespace acme --interval 5s",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.canShowTop(); err != nil {
				return err
			}
			return a.top(cmd.Context(), interval)
		},
	}
	cmd.Flags().Func("interval", "the `duration` between two looks, 200ms or more (default 1s)", console.Value(&interval, func(s string) (time.Duration, error) {
		d, err := time.ParseDuration(s)
		if err != nil || d < topIntervalLeast {
			err = errors.New("use a duration of 200ms or more, such as 500ms, 1s or 5s")
		}
		return d, err
	}))
	return cmd
}

// canShowTop refuses a screen where nobody could see it.
func (a *app) canShowTop() error {
	kind := os.Getenv("TERM")
	switch {
	case a.JSON:
		return cli.Usagef("engine top is for people: use `engine status --json`")
	case !console.OnTerminal(a.In) || !console.OnTerminal(a.Out):
		return cli.Usagef("engine top needs a terminal: use `engine status`")
	case kind == "dumb" || kind == "" && runtime.GOOS != "windows":
		return cli.Usagef("engine top needs a terminal that can move its cursor, and TERM is %q: use `engine status`", kind)
	}
	return nil
}

// topTimeout bounds a question to the engine: without a bound, a screen whose engine is
// gone would not say so.
func topTimeout(flag time.Duration) time.Duration {
	if flag <= 0 {
		return 10 * time.Second
	}
	return flag
}

func (a *app) top(ctx context.Context, interval time.Duration) error {
	notes := make(top.Notes, 16)
	quiet := *a // what the connection has to tell goes to the screen, not over it
	quiet.Err = notes
	return quiet.with(ctx, func(c *streamwright.Client) error {
		return top.Run(ctx, &topSource{c: c}, top.Options{
			Program: a.Program, Namespace: string(c.Namespace()), Interval: interval, Timeout: topTimeout(a.Timeout),
			Style: a.Style(), Calls: a.Calls, Notes: notes, Now: time.Now,
		}, a.In, a.Out)
	})
}

// topSource is an engine as engine top asks it. One question is asked at a time.
type topSource struct {
	c *streamwright.Client

	info    streamwright.Info
	nodes   *streamwright.Nodes
	askedAt time.Time // when these two were asked for
}

// topNodesEach is the time between two questions who owns the log, which all nodes answer.
const topNodesEach = 5 * time.Second

// Overview implements top.Source.
func (s *topSource) Overview(ctx context.Context) (top.Overview, error) {
	if time.Since(s.askedAt) > topNodesEach {
		info, err := s.c.Engine().Info(ctx)
		if err != nil {
			return top.Overview{}, err
		}
		s.info, s.nodes, s.askedAt = info, otherNodes(ctx, s.c), time.Now()
	}
	stats, err := s.c.Engine().Stats(ctx)
	if err != nil {
		s.askedAt = time.Time{}
		return top.Overview{}, err
	}
	return top.Overview{Stats: stats, Info: s.info, Nodes: s.nodes}, nil
}

// Workers implements top.Source.
func (s *topSource) Workers(ctx context.Context) ([]streamwright.WorkerInfo, error) {
	return s.c.Workers().List(ctx)
}

// topPages bounds the pages that are read for a list: one may be short of what matches.
const topPages = 5

// Items implements top.Source.
func (s *topSource) Items(ctx context.Context, f streamwright.Filter) (items top.Items, err error) {
	most := f.Limit
	for range topPages {
		page, err := s.c.List(ctx, f)
		if err != nil {
			return top.Items{}, err
		}
		items.Items, items.Stale = append(items.Items, page.Items...), page.Stale
		items.More = page.NextCursor != ""
		if f.Cursor, f.Limit = page.NextCursor, most-len(items.Items); f.Cursor == "" || f.Limit <= 0 {
			break
		}
	}
	return items, nil
}

// Item implements top.Source.
func (s *topSource) Item(ctx context.Context, id string) (it top.Item, err error) {
	if it.WorkItem, err = s.c.Get(ctx, id); err != nil {
		return it, err
	}
	if it.Events, it.Totals, err = s.c.Account(ctx, id); err != nil || it.State.Terminal() {
		return it, err
	}
	why, err := s.c.Why(ctx, id)
	it.Why = why.Reasons
	return it, err
}

// topReason is the reason of changes that are made in engine top, for the history.
const topReason = "in engine top"

// Pause implements top.Source.
func (s *topSource) Pause(ctx context.Context, typ string) (string, error) {
	changed, err := s.c.Types().Pause(ctx, typ, streamwright.PauseOptions{By: userName()})
	if !changed {
		return typ + " was paused already", err
	}
	return typ + " is paused", err
}

// Resume implements top.Source.
func (s *topSource) Resume(ctx context.Context, typ string) (string, error) {
	changed, err := s.c.Types().Resume(ctx, typ)
	if !changed {
		return typ + " was not paused", err
	}
	return typ + " goes on", err
}

// Cancel implements top.Source.
func (s *topSource) Cancel(ctx context.Context, id string) (string, error) {
	state, was, err := s.c.Cancel(ctx, id, topReason)
	text := id + " is " + state.String()
	if was {
		text += ": its worker is being told to stop"
	}
	return text, err
}

// Replay implements top.Source.
func (s *topSource) Replay(ctx context.Context, id string) (string, error) {
	_, err := s.c.Replay(ctx, id, streamwright.ReplayOptions{Reason: topReason})
	return id + " is queued again", err
}
