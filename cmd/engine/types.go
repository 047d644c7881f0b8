package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/cli"
	"github.com/streamwright/streamwright/wire"
)

func typesCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "types",
		Short:   "List the types and their settings, change or remove them",
		Example: "  engine types\n  engine types set email capacity=20\n  engine types remove emial",
		Args:    cobra.NoArgs,
		RunE: a.asks(func(ctx context.Context, c *streamwright.Client, _ []string) error {
			return a.showTypes(c.Types().List(ctx))
		}),
	}
	cmd.AddCommand(typesSetCommand(a), typesRemoveCommand(a))
	return cmd
}

func (a *app) showTypes(types []streamwright.TypeInfo, err error) error {
	now := time.Now()
	head := []string{"TYPE", "CAPACITY", "LEASE", "TIMEOUT", "ATTEMPTS", "BACKOFF", "AGE STEP", "MAX PARAMS", "LIMITS", "SET BY", "HELD BACK"}
	return showList(a, types, err, "no types yet: the first submission of a type makes it", head, func(t streamwright.TypeInfo) []string {
		s, b := t.Settings, t.Settings.Backoff
		return []string{
			t.Type, strconv.Itoa(s.Capacity), millis(s.LeaseMS), millis(s.TimeoutMS), strconv.Itoa(int(s.MaxAttempts)),
			fmt.Sprintf("%s ×%g to %s +%g%%", millis(b.InitialMS), b.Factor, millis(b.MaxMS), b.Jitter*100), millis(s.AgeStepMS),
			console.Count(s.MaxParams), limitsOf(s), t.Source, heldBack(t.Paused, t.Circuit, now),
		}
	})
}

func typesSetCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "set TYPE KEY=VALUE…",
		Short: "Change settings of a type",
		Long: "Change settings of a type; the others stay. Settings that engine.toml sets\n" +
			"can't be changed here.\n\n" +
			"The keys, their values and defaults, as in engine.toml and in the HTTP API (see\n" +
			"docs/reference/CONFIG.md):\n" + settingsHelp() + "\n" +
			"A duration is a number of milliseconds, or has a unit: 90s, 5m; a size a number\n" +
			"of bytes, or 256KiB. A table is JSON: '{\"9\":{\"max_attempts\":5}}',\n" +
			"'{\"busy\":{\"delay_factor\":4}}'; so are tables, an array that replaces the old\n" +
			"one.",
		Example: "  engine types set email capacity=20 timeout_ms=2m backoff.initial_ms=5s",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			patch, err := settingsPatch(args[1:])
			if err != nil {
				return err
			}
			return a.ask(cmd.Context(), func(ctx context.Context, c *streamwright.Client) error {
				t, err := c.Types().Configure(ctx, args[0], patch)
				err = a.showTypes([]streamwright.TypeInfo{t}, err)
				if _, set := patch["lease_ms"]; set && err == nil && !a.JSON {
					a.Notef("%s", leaseNote(t.Settings))
				}
				return err
			})
		},
	}
}

// leaseNote tells from when on a new lease holds.
func leaseNote(s events.TypeSettings) string {
	lease := console.Span(s.Lease())
	if s.Native() {
		return "the lease of " + lease + " is told with what is sent from now on; if it is shorter than before, the server goes by it once what was sent before has ended"
	}
	return "the lease of " + lease + " holds for runs that begin from now on; those under way keep theirs"
}

func typesRemoveCommand(a *app) *cobra.Command {
	return a.changing(&cobra.Command{
		Use:   "remove TYPE",
		Short: "Remove a type that nothing uses",
		Long: `Remove a type that nothing uses, with its settings and its pause. The engine
refuses this while the type has items (ended items that are still kept count), a
schedule, a worker, or a table in engine.toml. The next submission of the type
makes it known again.`,
		Example: "  engine types remove emial",
	}, "type %s is removed", "", func(ctx context.Context, c *streamwright.Client, typ string) (bool, error) {
		return true, c.Types().Remove(ctx, typ)
	})
}

// settings holds the settings of a type by name.
var settings = func() map[string]config.Setting {
	m := map[string]config.Setting{}
	for _, s := range config.TypeSettings() {
		m[s.Name] = s
	}
	return m
}()

// settingsHelp lists the settings of a type with their kinds and defaults.
func settingsHelp() string {
	var b strings.Builder
	for _, s := range config.TypeSettings() {
		fmt.Fprintf(&b, "  %-23s %-9s", s.Name, s.Kind)
		if s.Default != "" {
			b.WriteString(" " + s.Default)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// settingsPatch returns the JSON object that KEY=VALUE arguments stand for.
func settingsPatch(args []string) (map[string]any, error) {
	patch := map[string]any{}
	for _, arg := range args {
		key, text, ok := strings.Cut(arg, "=")
		s, known := settings[key]
		if other := meant(key); ok && !known && other != "" {
			return nil, cli.Usagef("unknown setting %q: did you mean %s?", key, other)
		}
		if !ok || !known {
			return nil, cli.Usagef("invalid setting %q: use KEY=VALUE with a key of %s", arg, strings.Join(slices.Sorted(maps.Keys(settings)), ", "))
		}
		value, err := parseSetting(s, text)
		if err != nil {
			return nil, cli.Usagef("invalid %s %q: %v", key, text, err)
		}
		outer, inner, nested := strings.Cut(key, ".")
		if !nested {
			patch[key] = value
			continue
		}
		if patch[outer] == nil {
			patch[outer] = map[string]any{}
		}
		patch[outer].(map[string]any)[inner] = value
	}
	return patch, nil
}

// meant returns the setting that key names without its unit or table, if any.
func meant(key string) string {
	for _, other := range []string{key + "_ms", key + "_bytes", "per_" + key} {
		if _, known := settings[other]; known {
			return other
		}
	}
	return ""
}

// parseSetting reads a value of the command line as the APIs' JSON has it. The
// engine checks its bounds.
func parseSetting(s config.Setting, text string) (v any, err error) {
	switch s.Kind {
	case "integer":
		if v, err = strconv.Atoi(text); err != nil {
			err = errors.New("use a whole number")
		}
	case "number":
		if v, err = strconv.ParseFloat(text, 64); err != nil {
			err = errors.New("use a number")
		}
	case "boolean":
		if v, err = strconv.ParseBool(text); err != nil {
			err = errors.New("use true or false")
		}
	case "size":
		return config.ParseSize(text)
	case "duration":
		return parseMillis(text)
	case "tables":
		return jsonSetting(text, new([]any), "use a JSON array")
	case "table":
		if s.Name == "codes" {
			return jsonSetting(text, new(map[string]events.CodePolicy), "use a JSON object by failure code, such as '{\"busy\":{\"delay_factor\":4}}'")
		}
		return jsonSetting(text, new(map[events.Priority]events.PriorityOverride), "use a JSON object by priority, such as '{\"9\":{\"max_attempts\":5}}'")
	default:
		v = text
	}
	return v, err
}

// jsonSetting checks that text can be read into one, and returns it as it is.
func jsonSetting(text string, into any, hint string) (any, error) {
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return nil, fmt.Errorf("%s; %s", wire.JSONFault(err), hint)
	}
	return json.RawMessage(text), nil
}

func parseMillis(text string) (int64, error) {
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil && ms >= 0 {
		return ms, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d%time.Millisecond != 0 {
		return 0, errors.New("use a duration in whole milliseconds, such as 500, 500ms, 90s or 5m")
	}
	return d.Milliseconds(), nil
}

// limitsOf describes the limits of a type beyond its capacity, and a protocol and a
// choice of workers other than the default.
func limitsOf(s events.TypeSettings) string {
	var parts []string
	if s.Native() {
		parts = append(parts, "protocol "+string(s.Protocol))
	}
	if s.AssignBy != "" && s.AssignBy != events.AssignMostFree {
		parts = append(parts, "assigned by "+console.Clean(s.AssignBy))
	}
	if s.MaxQueued > 0 && s.MaxQueued != events.DefaultMaxQueued {
		parts = append(parts, "queue "+console.Count(s.MaxQueued))
	}
	if n := len(s.QueueSteps); n > 0 {
		parts = append(parts, fmt.Sprintf("queue steps %d", n))
	}
	for _, r := range s.Rates {
		parts = append(parts, fmt.Sprintf("%d in %s per %s at %s", r.N, millis(r.IntervalMS), console.Clean(r.Per), r.At))
	}
	if s.GroupBy != "" && s.GroupBy != events.PerTenant {
		parts = append(parts, "turns by "+console.Clean(s.GroupBy))
	}
	if s.GroupCapacity > 0 {
		parts = append(parts, fmt.Sprintf("%d per %s", s.GroupCapacity, console.Clean(s.GroupKey())))
	}
	if s.Pool != "" {
		parts = append(parts, fmt.Sprintf("pool %s (weight %d)", s.Pool, s.Weight()))
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, ", ")
}

// ofMost returns a queue's length, with its bound if there is one. The default bound
// is worth a word only when it is near.
func ofMost(n int64, most int) string {
	if most == 0 || most == events.DefaultMaxQueued && n < int64(most)/2 {
		return console.Count(n)
	}
	return console.Count(n) + " of " + console.Count(most)
}

// heldBack tells in a few words what holds a type back, or - for nothing.
func heldBack(p *streamwright.Pause, c *streamwright.Circuit, now time.Time) string {
	switch {
	case p != nil:
		text := "paused " + console.Ago(p.At, now)
		if p.By != "" {
			text += " by " + p.By
		}
		if wait := p.Until.Sub(now); !p.Until.IsZero() {
			text += " until " + p.Until.Format(time.RFC3339)
			if wait > 0 {
				text += " (in " + console.Span(wait) + ")"
			}
		}
		if p.Reason != "" {
			text += ": " + p.Reason
		}
		return console.Clean(text)
	case c != nil:
		return circuitText(c, now)
	}
	return "-"
}

func circuitText(c *streamwright.Circuit, now time.Time) string {
	text := fmt.Sprintf("circuit open since %s (%s)", console.Ago(c.Since, now), c.Reason)
	if c.Until.IsZero() {
		return fmt.Sprintf("circuit half open, %d try it", c.Probing)
	}
	if wait := c.Until.Sub(now); wait > 0 {
		text += ", tried in " + console.Span(wait)
	}
	return text
}
