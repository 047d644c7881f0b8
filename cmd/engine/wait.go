package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/events"
)

func waitCommand(a *app) *cobra.Command {
	var first bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "wait ID…",
		Short: "Wait for items to end",
		Long: `Wait until all of the items have ended, or any one of them, and list those that
have: at most 1,000. Exit 1 unless all that are listed are completed, and all
have ended in time (with --any, one).`,
		Example: "  engine wait 01JD3V6YB2M4C9W8ZK5T7QXRNE --timeout 5m\n" +
			"  engine list --type email --json | jq -r .id | xargs engine wait --any",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, ids []string) error {
			ctx := cmd.Context()
			if timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, timeout)
				defer cancel()
			}
			return a.with(ctx, func(c *streamwright.Client) error {
				wait := c.WaitAll
				if first {
					wait = c.WaitAny
				}
				return a.showWaited(wait(ctx, ids))
			})
		},
	}
	cmd.Flags().BoolVar(&first, "any", false, "end once one of them has ended")
	cmd.Flags().Func("timeout", "how long to wait, a `duration` such as 5m (default: until they end)", console.Duration(&timeout))
	return cmd
}

// showWaited shows the items that have ended, also those known when the time was over, and
// fails unless they are completed.
func (a *app) showWaited(w streamwright.Waited, err error) error {
	if err != nil && events.CodeOf(err) != events.CodeTimeout {
		return err
	}
	if a.JSON {
		if werr := a.PrintJSON(w); werr != nil {
			return werr
		}
	} else if werr := a.showItems(w.Ended, nil); werr != nil {
		return werr
	}
	if err != nil {
		return err
	}
	return a.completed(w.Ended...)
}

// completed fails unless the items, which have ended, are completed.
func (a *app) completed(items ...streamwright.WorkItem) error {
	failed := 0
	for _, it := range items {
		if it.State != events.StateCompleted {
			failed++
		}
	}
	switch {
	case failed == 0:
		return nil
	case a.JSON:
		return console.ErrTold
	}
	return fmt.Errorf("not completed: %d of %s", failed, events.Count(len(items), "item"))
}
