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
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

func typesCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "types",
		Short:   "List the types and their settings, change or remove them",
		Example: "  engine types\n  engine types set email capacity=20\n  engine types remove emial",
		Args:    console.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, ctx, done, err := a.client(cmd.Context())
			if err != nil {
				return err
			}
			defer done()
			types, err := c.Types(ctx)
			if err != nil {
				return err
			}
			return a.printTypes(types)
		},
	}
	cmd.AddCommand(typesSetCommand(a), typesRemoveCommand(a))
	return cmd
}

func (a *app) printTypes(types []streamwright.TypeInfo) error {
	rows := [][]string{{"TYPE", "CAPACITY", "LEASE", "TIMEOUT", "ATTEMPTS", "BACKOFF", "AGE STEP", "MAX PARAMS", "LIMITS", "SET BY", "HELD BACK"}}
	now := time.Now()
	ms := func(n int64) string { return console.Span(time.Duration(n) * time.Millisecond) }
	for _, t := range types {
		if a.JSON {
			if err := a.PrintJSON(t); err != nil {
				return err
			}
			continue
		}
		s := t.Settings
		b := s.Backoff
		rows = append(rows, []string{
			t.Type, strconv.Itoa(s.Capacity), ms(s.LeaseMS), ms(s.TimeoutMS), strconv.Itoa(int(s.MaxAttempts)),
			fmt.Sprintf("%s ×%g to %s +%g%%", ms(b.InitialMS), b.Factor, ms(b.MaxMS), b.Jitter*100), ms(s.AgeStepMS), console.Count(s.MaxParams), limitsOf(s), t.Source, heldBack(t.Paused, t.Circuit, now),
		})
	}
	switch {
	case a.JSON:
	case len(types) == 0:
		a.Notef("no types yet: the first submission of a type makes it")
	default:
		console.Table(a.Out, console.StyleFor(a.Out), rows)
	}
	return nil
}

func typesSetCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "set TYPE KEY=VALUE…",
		Short: "Change settings of a type",
		Long: "Change settings of a type; the others stay. Settings that engine.toml names can't be changed here.\n\n" +
			"Keys: " + strings.Join(slices.Sorted(maps.Keys(settingKinds)), ", ") + ".\n" +
			"They are spelled as in engine.toml and in the HTTP API. A duration is a number of milliseconds, or has a\n" +
			"unit: 90s, 5m. per_priority and codes are JSON: '{\"9\":{\"max_attempts\":5}}', '{\"busy\":{\"delay_factor\":4}}';\n" +
			"so are rates and queue_steps, arrays that replace those of before (see docs/guides/LIMITS.md).",
		Example: "  engine types set email capacity=20 timeout_ms=2m backoff.initial_ms=5s",
		Args:    console.Args(cobra.MinimumNArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			patch, err := settingsPatch(args[1:])
			if err != nil {
				return err
			}
			c, ctx, done, err := a.client(cmd.Context())
			if err != nil {
				return err
			}
			defer done()
			t, err := c.Configure(ctx, args[0], patch)
			if err != nil {
				return err
			}
			if err := a.printTypes([]streamwright.TypeInfo{t}); err != nil {
				return err
			}
			if _, set := patch["lease_ms"]; set && !a.JSON {
				a.Notef("%s", leaseNote(t.Settings))
			}
			return nil
		},
	}
}

// leaseNote says from when on a lease holds that has been set.
func leaseNote(s events.TypeSettings) string {
	lease := console.Span(s.Lease())
	if s.Native() {
		return "the lease of " + lease + " is told with what is sent from now on; if it is shorter than before, the server goes by it once what was sent before has ended"
	}
	return "the lease of " + lease + " holds for runs that begin from now on; those under way keep theirs"
}

func typesRemoveCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "remove TYPE",
		Short: "Remove a type that nothing uses",
		Long: "Remove a type that nothing uses, with its settings and its pause. It is refused while the type has\n" +
			"items (those that have ended and are still kept, too), a schedule, a worker, or a table in\n" +
			"engine.toml. Its next submission makes it known again.",
		Example: "  engine types remove emial",
		Args:    console.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.change(cmd.Context(), "type "+args[0]+" is removed", "", func(ctx context.Context, c *streamwright.Client) (bool, error) {
				return true, c.RemoveType(ctx, args[0])
			})
		},
	}
}

// settingKind says how a setting's value is read.
type settingKind int

const (
	number settingKind = iota
	duration
	fraction
	document
	codeDocument
	truth
	words
	list
)

// settingKinds are the keys of `types set`: those of the JSON of
// events.TypeSettings, a dot for each level.
var settingKinds = map[string]settingKind{
	"capacity": number, "lease_ms": duration, "timeout_ms": duration, "max_attempts": number, "age_step_ms": duration,
	"max_params_bytes": number, "backoff.initial_ms": duration, "backoff.max_ms": duration, "backoff.factor": fraction,
	"backoff.jitter": fraction, "per_priority": document,
	"poison_after": number, "codes": codeDocument, "circuit.consecutive": number, "circuit.ratio": fraction, "circuit.window_ms": duration,
	"circuit.min_runs": number, "circuit.cooldown_ms": duration, "circuit.max_cooldown_ms": duration, "circuit.probes": number, "circuit.count_no_retry": truth,
	"max_queued": number, "queue_steps": list, "rates": list, "pool": words, "pool_weight": number, "group_by": words, "group_capacity": number, "protocol": words,
	"dedup_policy": words, "dedup_window_ms": duration,
	"retain.completed_ms": duration, "retain.dead_ms": duration, "retain.cancelled_ms": duration, "retain.merged_ms": duration,
}

// settingsPatch is the JSON object that KEY=VALUE arguments stand for.
func settingsPatch(args []string) (map[string]any, error) {
	patch := map[string]any{}
	for _, arg := range args {
		key, text, ok := strings.Cut(arg, "=")
		kind, known := settingKinds[key]
		if other := meant(key); ok && !known && other != "" {
			return nil, console.Usagef("unknown setting %q: did you mean %s?", key, other)
		}
		if !ok || !known {
			return nil, console.Usagef("invalid setting %q: use KEY=VALUE with a key of %s", arg, strings.Join(slices.Sorted(maps.Keys(settingKinds)), ", "))
		}
		value, err := kind.parse(text)
		if err != nil {
			return nil, console.Usagef("invalid %s %q: %v", key, text, err)
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

// meant is the setting whose name lacks its unit, or its table, in key; empty: none.
func meant(key string) string {
	for _, other := range []string{key + "_ms", key + "_bytes", "per_" + key} {
		if _, known := settingKinds[other]; known {
			return other
		}
	}
	return ""
}

func (k settingKind) parse(text string) (any, error) {
	switch k {
	case duration:
		if ms, err := strconv.ParseInt(text, 10, 64); err == nil && ms >= 0 {
			return ms, nil
		}
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 || d%time.Millisecond != 0 {
			return nil, errors.New("use a duration in whole milliseconds, such as 500, 500ms, 90s or 5m")
		}
		return d.Milliseconds(), nil
	case fraction:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, errors.New("use a number")
		}
		return f, nil
	case words, list:
		return k.parseLimit(text)
	case document:
		var overrides map[events.Priority]events.PriorityOverride
		if err := json.Unmarshal([]byte(text), &overrides); err != nil {
			return nil, fmt.Errorf("%s; use a JSON object by priority, such as '{\"9\":{\"max_attempts\":5}}'", wire.JSONFault(err))
		}
		return json.RawMessage(text), nil
	case codeDocument:
		var codes map[string]events.CodePolicy
		if err := json.Unmarshal([]byte(text), &codes); err != nil {
			return nil, fmt.Errorf("%s; use a JSON object by failure code, such as '{\"busy\":{\"delay_factor\":4}}'", wire.JSONFault(err))
		}
		return json.RawMessage(text), nil
	case truth:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return nil, errors.New("use true or false")
		}
		return b, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return nil, errors.New("use a whole number")
	}
	return n, nil
}
