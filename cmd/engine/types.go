package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
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
	return noun(a, &cobra.Command{
		Use:     "types",
		Short:   "List types, show, set or remove them, pause and resume them",
		Example: "  engine types\n  engine types set email capacity=20\n  engine types pause email",
	}, typesListCommand, typesShowCommand, typesSetCommand, typesRemoveCommand, typesPauseCommand, typesResumeCommand, typesResetCommand)
}

func typesListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the types and their settings",
		Example: "  engine types list\n  engine types list --json",
		Args:    cobra.NoArgs,
		RunE: a.asks(func(ctx context.Context, c *streamwright.Client, _ []string) error {
			types, err := c.Types().List(ctx)
			return a.showTypes(types, a.noteLacking(len(types), err))
		}),
	}
}

func (a *app) showTypes(types []streamwright.TypeInfo, err error) error {
	now := time.Now()
	head := []string{"TYPE", "CAPACITY", "LEASE", "TIMEOUT", "ATTEMPTS", "BACKOFF", "AGE STEP", "MAX PARAMS", "LIMITS", "SET BY", "HELD BACK"}
	return showList(a, types, err, "no types yet: the first submission of a type makes it", head, func(t streamwright.TypeInfo) []string {
		s, b := t.Settings, t.Settings.Backoff
		return []string{
			t.Type, strconv.Itoa(s.Capacity), written(s.Lease), written(s.Timeout), strconv.Itoa(int(s.MaxAttempts)),
			fmt.Sprintf("%s ×%g to %s +%g%%", written(b.Initial), b.Factor, written(b.Max), b.Jitter*100), written(s.AgeStep),
			config.FormatSize(int64(s.MaxParams)), limitsOf(s), t.Source, console.HeldBack(t.Paused, t.Circuit, now),
		}
	})
}

// written renders a duration as `types set` takes them.
func written(d events.Duration) string { return config.FormatDuration(d.Duration) }

func typesShowCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "show TYPE",
		Short:   "Show all settings of a type, as types set takes them",
		Example: "  engine types show email",
		Args:    cobra.ExactArgs(1),
		RunE: a.asks(func(ctx context.Context, c *streamwright.Client, args []string) error {
			t, err := oneType(ctx, c, args[0])
			return a.show(t, err, func() { a.printSettings(t) })
		}),
	}
}

// oneType returns a type by its name.
func oneType(ctx context.Context, c *streamwright.Client, name string) (streamwright.TypeInfo, error) {
	if _, err := events.ParseType(name); err != nil {
		return streamwright.TypeInfo{}, events.Refuse(events.CodeBadType, "%v", err)
	}
	types, err := c.Types().List(ctx)
	return named(types, err, "type", name, func(t streamwright.TypeInfo) string { return t.Type })
}

// named returns the entry of a list that has a name. The error is the list's: with it the
// list may lack the entry.
func named[T any](list []T, err error, noun, name string, of func(T) string) (T, error) {
	if i := slices.IndexFunc(list, func(e T) bool { return of(e) == name }); i >= 0 {
		return list[i], nil
	}
	var none T
	if err == nil {
		err = events.Refuse(events.CodeNotFound, "there is no %s %q: `engine %ss` lists them", noun, name, noun)
	}
	return none, err
}

// printSettings prints the settings of a type, and what is set by engine.toml.
func (a *app) printSettings(t streamwright.TypeInfo) {
	var api map[string]any
	data, err := json.Marshal(t.Settings)
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		err = d.Decode(&api)
	}
	if err != nil {
		a.Notef("the settings can't be read: %v", err)
		return
	}
	settings, _ := config.Written(api).(map[string]any)
	rows := [][]string{{"SETTING", "VALUE", "SET BY"}}
	for _, s := range config.TypeSettings() {
		v := any(settings)
		for key := range strings.SplitSeq(s.Name, ".") {
			table, _ := v.(map[string]any)
			v = table[key]
		}
		by := "-"
		if slices.ContainsFunc(t.SetInFile, func(name string) bool { return name == s.Name || strings.HasPrefix(name, s.Name+".") }) {
			by = "engine.toml"
		}
		rows = append(rows, []string{s.Name, settingText(v, s), by})
	}
	console.Table(a.Out, a.Style(), rows)
	if held := console.HeldBack(t.Paused, t.Circuit, time.Now()); held != "-" {
		a.Printf("%s\n", held)
	}
}

// settingText renders a setting, or the default that an unset one has.
func settingText(v any, s config.Setting) string {
	switch v := v.(type) {
	case nil:
		return cmp.Or(s.Default, "none")
	case string:
		return console.Clean(v)
	case map[string]any, []any:
		data, err := json.Marshal(v)
		if err != nil {
			return err.Error()
		}
		return console.Clean(string(data))
	}
	return fmt.Sprint(v)
}

func typesSetCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "set TYPE KEY=VALUE…",
		Short: "Change settings of a type",
		Long: "Change settings of a type; the others stay. Settings that engine.toml sets\n" +
			"can't be changed here.\n\n" +
			"The keys, their values and defaults, as in engine.toml (see\n" +
			"docs/reference/CONFIG.md):\n" + settingsHelp() + "\n" +
			"Durations and sizes have units: 90s, 5m, 7d; 512B, 256KiB. A table is JSON:\n" +
			"'{\"9\":{\"timeout\":\"1m\"}}', '{\"busy\":{\"delay_factor\":4}}'; so are tables, an array\n" +
			"that replaces the old one. KEY= takes a setting back to its default, if it has\n" +
			"one.",
		Example: "  engine types set email capacity=20 timeout=2m backoff.initial=5s",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			patch, err := settingsPatch(args[1:])
			if err != nil {
				return err
			}
			return a.ask(cmd.Context(), func(ctx context.Context, c *streamwright.Client) error {
				doc, err := json.Marshal(patch)
				if err != nil {
					return err
				}
				t, err := c.Types().ConfigureJSON(ctx, args[0], doc)
				err = a.showTypes([]streamwright.TypeInfo{t}, spelled(err))
				if _, set := patch["lease_ms"]; set && err == nil && !a.JSON { // as the API calls it
					a.Notef("%s", leaseNote(t.Settings))
				}
				return err
			})
		},
	}
}

// spelled returns a refusal of settings in the spelling of the command line.
func spelled(err error) error {
	var e *events.Error
	if !errors.As(err, &e) {
		return err
	}
	said := *e
	said.Message = config.Spell(e.Message)
	return &said
}

// leaseNote tells from when on a new lease holds.
func leaseNote(s events.TypeSettings) string {
	lease := console.Span(s.Lease.Duration)
	if s.Ack() {
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
	written := map[string]any{}
	for _, arg := range args {
		key, text, ok := strings.Cut(arg, "=")
		if !ok || key == "" {
			return nil, cli.Usagef("invalid setting %q: use KEY=VALUE, such as lease=30s", arg)
		}
		value, err := writtenValue(settings[key], text)
		if err != nil {
			return nil, cli.Usagef("invalid %s %q: %v", key, text, err)
		}
		outer, inner, nested := strings.Cut(key, ".")
		if !nested {
			written[key] = value
			continue
		}
		if _, is := written[outer].(map[string]any); !is {
			written[outer] = map[string]any{}
		}
		written[outer].(map[string]any)[inner] = value
	}
	patch, err := config.Request(written)
	if err != nil {
		return nil, cli.Usagef("%v", err)
	}
	return patch, nil
}

// writtenValue returns the value that engine.toml would have for the text of an
// argument. What is no value of the setting stays text: the table of settings says
// what is wrong with it.
func writtenValue(s config.Setting, text string) (any, error) {
	switch s.Kind {
	case "integer":
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n, nil
		}
	case "number":
		if x, err := strconv.ParseFloat(text, 64); err == nil {
			return x, nil
		}
	case "boolean":
		if b, err := strconv.ParseBool(text); err == nil {
			return b, nil
		}
	case "tables", "table":
		if text != "" {
			return jsonValue(text)
		}
	}
	return text, nil
}

// jsonValue decodes JSON as engine.toml would have it.
func jsonValue(text string) (any, error) {
	var v any
	if err := wire.ReadStrict([]byte(text), &v); err != nil {
		return nil, fmt.Errorf("%s; use JSON, such as '{\"busy\":{\"delay_factor\":4}}' or '[{\"per\":\"type\",\"at\":\"submit\",\"n\":10,\"interval\":\"1s\"}]'", wire.JSONFault(err))
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber() // a float64 would round
	if err := d.Decode(&v); err != nil {
		return nil, err // never: it was read before
	}
	return numbers(v), nil
}

// numbers gives the numbers in decoded JSON the types of engine.toml's.
func numbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, x := range v {
			v[key] = numbers(x)
		}
	case []any:
		for i, x := range v {
			v[i] = numbers(x)
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		x, _ := v.Float64() // it was read before
		if n := int64(x); float64(n) == x && math.Abs(x) < 1<<53 {
			return n
		}
		return x
	}
	return v
}

// limitsOf describes the limits of a type beyond its capacity, and a protocol and a
// choice of workers other than the default.
func limitsOf(s events.TypeSettings) string {
	var parts []string
	if s.Ack() {
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
		parts = append(parts, fmt.Sprintf("%d in %s per %s at %s", r.N, written(r.Interval), console.Clean(r.Per), r.At))
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
