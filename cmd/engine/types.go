package main

import (
	"encoding/json"
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
)

func typesCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "types",
		Short: "List the types and their settings, or change them",
		Args:  console.Args(cobra.NoArgs),
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
	cmd.AddCommand(typesSetCommand(a))
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
		Long: "Changes settings of a type; the others stay. Settings that engine.toml names can't be changed here.\n\n" +
			"Keys: " + strings.Join(slices.Sorted(maps.Keys(settingKinds)), ", ") + ".\n" +
			"Durations are written as 90s or 5m, per_priority and codes as JSON: '{\"9\":{\"max_attempts\":5}}', '{\"busy\":{\"delay_factor\":4}}';\n" +
			"rates and queue_steps as JSON arrays (see docs/LIMITS.md), which replace those of before.",
		Example: "  engine types set email capacity=20 timeout=2m backoff.initial=5s",
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
			return a.printTypes([]streamwright.TypeInfo{t})
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

// settingKinds are the keys of `types set`; a dot is a level of the JSON of
// events.TypeSettings, where durations have the suffix _ms.
var settingKinds = map[string]settingKind{
	"capacity": number, "lease": duration, "timeout": duration, "max_attempts": number, "age_step": duration,
	"max_params_bytes": number, "backoff.initial": duration, "backoff.max": duration, "backoff.factor": fraction,
	"backoff.jitter": fraction, "per_priority": document,
	"poison_after": number, "codes": codeDocument, "circuit.consecutive": number, "circuit.ratio": fraction, "circuit.window": duration,
	"circuit.min_runs": number, "circuit.cooldown": duration, "circuit.max_cooldown": duration, "circuit.probes": number, "circuit.count_no_retry": truth,
	"max_queued": number, "queue_steps": list, "rates": list, "pool": words, "pool_weight": number, "group_by": words, "group_capacity": number, "protocol": words,
}

// settingsPatch is the JSON object that KEY=VALUE arguments stand for.
func settingsPatch(args []string) (map[string]any, error) {
	patch := map[string]any{}
	for _, arg := range args {
		key, text, ok := strings.Cut(arg, "=")
		kind, known := settingKinds[key]
		if !ok || !known {
			return nil, console.Usagef("%q sets nothing: write KEY=VALUE with a key of %s", arg, strings.Join(slices.Sorted(maps.Keys(settingKinds)), ", "))
		}
		value, err := kind.parse(text)
		if err != nil {
			return nil, console.Usagef("%s: %v", arg, err)
		}
		if kind == duration {
			key += "_ms"
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

func (k settingKind) parse(text string) (any, error) {
	switch k {
	case duration:
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 || d%time.Millisecond != 0 {
			return nil, fmt.Errorf("%q is no duration in whole milliseconds: write it as 500ms, 90s or 5m", text)
		}
		return d.Milliseconds(), nil
	case fraction:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("%q is no number", text)
		}
		return f, nil
	case words, list:
		return k.parseLimit(text)
	case document:
		var overrides map[events.Priority]events.PriorityOverride
		if err := json.Unmarshal([]byte(text), &overrides); err != nil {
			return nil, fmt.Errorf("it is no JSON object by priority: %v", err)
		}
		return json.RawMessage(text), nil
	case codeDocument:
		var codes map[string]events.CodePolicy
		if err := json.Unmarshal([]byte(text), &codes); err != nil {
			return nil, fmt.Errorf("it is no JSON object by failure code: %v", err)
		}
		return json.RawMessage(text), nil
	case truth:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return nil, fmt.Errorf("%q is neither true nor false", text)
		}
		return b, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return nil, fmt.Errorf("%q is no whole number", text)
	}
	return n, nil
}
