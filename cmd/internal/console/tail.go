package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/cli"
)

// TailCommand returns `tail`, as a program and as a command; called is its name.
func TailCommand(a *App, called string) *cobra.Command {
	var o streamwright.TailOptions
	var kinds []string
	cmd := &cobra.Command{
		Use:   called[strings.LastIndexByte(called, ' ')+1:],
		Short: "Show the engine's events, live",
		Long: "Show the events of the log as they are decided, until interrupted.\n" +
			"--type and --kind, each of them repeatable, and --id, --tenant and --label\n" +
			"choose which. " +
			"--since and --from-seq show older ones first.",
		Example: "  " + called + " --type email --kind dead --since 1h\n  " + called + " --id 01JD3V6YB2M4C9W8ZK5T7QXRNE --from-seq 1 --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("since") && cmd.Flags().Changed("from-seq") {
				return cli.Usagef("--since and --from-seq both say where to begin: give one of them")
			}
			for _, name := range kinds {
				k, err := events.ParseKind(name)
				if err != nil {
					return cli.Usagef("--kind: %v", err)
				}
				o.Kinds = append(o.Kinds, k)
			}
			err := a.tail(cmd.Context(), o)
			if errors.Is(cmd.Context().Err(), context.Canceled) {
				return nil // interrupted, which is how a tail ends
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.Types, "type", nil, "only events of this `type` (repeatable)")
	f.StringSliceVar(&kinds, "kind", nil, "only events of this `kind`, such as completed (repeatable)")
	f.StringVar(&o.ID, "id", "", "only events of the item with this `id`")
	f.StringVar(&o.Tenant, "tenant", "", "only events of items of this `tenant`")
	f.Func("label", "only events of items with this label, `key=value`", Pair(&o.Label))
	f.Func("since", "begin at a `time` (RFC 3339), or so long ago, such as 10m", Moment(&o.Since))
	f.Uint64Var((*uint64)(&o.FromSeq), "from-seq", 0, "begin with this `position` of the log; 1 is the first")
	return cmd
}

func (a *App) tail(ctx context.Context, o streamwright.TailOptions) error {
	c, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	style := a.Style()
	return c.Tail(ctx, o, func(ev streamwright.Event) error {
		if a.JSON {
			return a.PrintJSON(ev)
		}
		_, err := fmt.Fprintln(a.Out, EventLine(ev, style))
		return err
	})
}

// EventLine shows an event on one line, with its fields in the columns of the lines
// above.
func EventLine(ev streamwright.Event, style Style) string {
	who := ""
	if ev.Attempt > 0 {
		who = fmt.Sprintf("#%d", ev.Attempt)
	}
	if ev.Worker != "" {
		who = strings.TrimSpace(who + " " + Clean(ev.Worker))
	}
	if ev.By != "" {
		who = strings.TrimSpace(who + " by " + Clean(ev.By))
	}
	line := fmt.Sprintf("%s  %8d  %-16s  %s  %-26s  %s", style.Faint(ev.At.Local().Format("15:04:05.000")), ev.Seq,
		style.Clip(typeOrNone(ev.Type), 16), style.Kind(ev.Kind, fmt.Sprintf("%-12s", ev.Kind)), ev.ID,
		strings.TrimSpace(who+"  "+Summary(ev, style)))
	return strings.TrimRight(line, " ")
}

func typeOrNone(t string) string {
	if t == "" {
		return string(events.NoType)
	}
	return t
}

// summaryFields are the payload's fields worth showing in one line, in order.
var summaryFields = []string{
	"name", "tick", "skipped", "error", "code", "message", "reason", "into", "of", "priority", "duration_ms", "available_at", "dedup_key",
	"percent", "children", "existing", "continues", "continuation", "child_policy", "after", "after_policy", "for", "ended", "left", "behind", "by",
	"dedup_policy", "dedup_window_ms", "parent", "expires_at", "estimated_duration_ms",
	"raised", "not_raised", "uncounted", "was_running", "epoch", "owner", "source", "size", "why", "count", "cause", "params_replaced", "paused", "node",
}

// parkedFields are those of a wait. Its error and code are left out: the item gets them only if
// the deadline passes.
var parkedFields = []string{"names", "all", "until", "then"}

// list shows the ids of an event: a few, and how many more there are.
func list(v []any, style Style) string {
	const most = 2
	var texts []string
	for _, e := range v[:min(len(v), most)] {
		s, ok := e.(string)
		if !ok {
			return strconv.Itoa(len(v))
		}
		texts = append(texts, style.Clip(s, 40))
	}
	if more := len(v) - most; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return "[" + strings.Join(texts, " ") + "]"
}

// document shows a document on one line.
func document(v any, style Style) string {
	doc, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	return style.Clip(string(doc), 80)
}

// Summary shows the telling part of an event's payload.
func Summary(ev streamwright.Event, style Style) string {
	var data map[string]any
	if len(ev.Data) == 0 || json.Unmarshal(ev.Data, &data) != nil {
		return ""
	}
	for _, within := range []string{"schedule", "namespace"} {
		if s, ok := data[within].(map[string]any); ok {
			data = s
		}
	}
	var parts []string
	fields := summaryFields
	if ev.Kind == streamwright.KindParked {
		fields = parkedFields
	}
	for _, name := range fields {
		switch v := data[name].(type) {
		case string:
			if v != "" {
				parts = append(parts, name+"="+style.Clip(v, 80))
			}
		case float64:
			parts = append(parts, name+"="+strconv.FormatFloat(v, 'f', -1, 64))
		case bool:
			parts = append(parts, fmt.Sprint(name, "=", v))
		case []any:
			parts = append(parts, name+"="+list(v, style))
		}
	}
	if ask, ok := data["ask"].(map[string]any); ok {
		parts = append(parts, "asks="+document(ask["title"], style))
	}
	if answer, ok := data["payload"].(map[string]any); ok && data["answer"] != nil {
		parts = append(parts, "answer="+document(answer, style))
	}
	if doc, ok := data["checkpoint"]; ok {
		parts = append(parts, "checkpoint="+document(doc, style))
	}
	return strings.Join(parts, " ")
}
