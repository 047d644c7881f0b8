package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
)

func auditCommand(a *app) *cobra.Command {
	var f streamwright.AuditFilter
	limit := 1000
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show who did what",
		Long: `Show who did what: cancels, replays, changed orders, pauses, settings, schedules
and the like, oldest first, each with the name of the token, certificate or NATS
user that asked for it (anyone, where the engine is open). It is read from the
log, and reaches back as far as that does.`,
		Example: "  engine audit --since 24h\n  engine audit --by ops --action cancelled --type email\n  engine audit --action created --by feeder --since 10m",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.audit(cmd.Context(), f, limit) },
	}
	fs := cmd.Flags()
	fs.StringVar(&f.By, "by", "", "only what this `name` did")
	fs.StringVar(&f.Action, "action", "", "only events of this `kind`, such as cancelled (default: all but created)")
	fs.StringVar(&f.Type, "type", "", "only what concerns this `type`")
	fs.Func("since", "begin at a `time` (RFC 3339), or so long ago, such as 24h", console.Moment(&f.Since))
	fs.Func("limit", "how many to show at most, a `number` (default 1000)", console.Positive(&limit))
	return cmd
}

// audit shows acts, page after page.
func (a *app) audit(ctx context.Context, f streamwright.AuditFilter, limit int) error {
	return a.with(ctx, func(c *streamwright.Client) error {
		var acts []streamwright.Event
		var from time.Time
		for {
			f.Limit = min(limit-len(acts), 1000)
			within, cancel := a.Within(ctx)
			page, err := c.Engine().Audit(within, f)
			cancel()
			if err != nil {
				return err
			}
			if f.Cursor == "" {
				from = page.From
			}
			acts = append(acts, page.Acts...)
			if f.Cursor = page.NextCursor; f.Cursor == "" || len(acts) >= limit {
				break
			}
		}
		if f.Cursor != "" {
			a.Notef("there is more: --limit, or --since %s", acts[len(acts)-1].At.Format(time.RFC3339))
		}
		if !from.IsZero() {
			a.Notef("the log begins at %s", from.Local().Format(time.DateTime))
		}
		return a.showActs(acts)
	})
}

func (a *app) showActs(acts []streamwright.Event) error {
	style := a.Style()
	return showList(a, acts, nil, "nothing was done, as far as the log knows", []string{"AT", "BY", "ACTION", "TYPE", "ID", "DETAIL"}, func(ev streamwright.Event) []string {
		return []string{ev.At.Local().Format(time.DateTime), console.Clean(ev.By), ev.Kind.String(), ev.Type, ev.ID, console.Summary(ev, style)}
	})
}
