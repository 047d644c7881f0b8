package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/blobs"
	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// maxDocument bounds one line of --lines, in bytes: more than goes without the
// object store, less than would hurt.
const maxDocument = 4 << 20

// maxParams bounds what is read for the params of one item, in bytes: what the
// object store takes.
const maxParams = int(blobs.DefaultMaxBytes)

// submitFlags are the flags of submit.
type submitFlags struct {
	item     streamwright.Item
	priority string
	at       string
	labels   []string
	flow     flowFlags
	wait     bool
	lines    string
}

func submitCommand(a *app) *cobra.Command {
	var f submitFlags
	cmd := &cobra.Command{
		Use:   "submit TYPE [JSON | - | @file]",
		Short: "Submit one item, or one for each line of a file",
		Long: "Submit an item of TYPE whose params are the JSON argument, standard input (-) or a file (@file).\n\n" +
			"With --lines FILE (- is standard input), submit one item for each line of JSON: the line is the params, or,\n" +
			"without TYPE, the whole submission with its type: {\"type\":\"email\",\"params\":{…},\"priority\":8}.\n" +
			"Rejected lines are reported by line number; the others go on.",
		Example: "  engine submit email '{\"to\":\"ada@example.org\"}' --priority high --wait\n" +
			"  engine submit email --lines mails.jsonl",
		Args: console.Args(cobra.MaximumNArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.parse(); err != nil {
				return err
			}
			if f.lines != "" {
				return a.submitLines(cmd, &f, args)
			}
			return a.submitOne(cmd.Context(), &f, args)
		},
	}
	f.define(cmd)
	return cmd
}

func (f *submitFlags) define(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.item.ID, "id", "", "a `ULID` of your own, so that repeating the command makes no second item")
	fs.StringVar(&f.priority, "priority", "", "the `priority`, 0 to 9, higher first, or low, medium, high (default 5)")
	fs.StringVar(&f.item.DedupKey, "dedup-key", "", "the `key` that two unfinished items of a type can't both have: see --dedup-policy")
	fs.StringVar(&f.item.IdempotencyKey, "idempotency-key", "", "the `key` that gives the same item again within 24 hours")
	fs.DurationVar(&f.item.Delay, "delay", 0, "make it available so much later, such as 90s")
	fs.StringVar(&f.at, "at", "", "make it available from this `time` on (RFC 3339)")
	fs.IntVar(&f.item.MaxAttempts, "max-attempts", 0, "how many attempts it has before it is dead (default: the type's)")
	fs.DurationVar(&f.item.Timeout, "timeout", 0, "how long an attempt may take (default: the type's)")
	fs.StringSliceVar(&f.item.Capabilities, "capability", nil, "a `capability` that the worker must have (repeatable)")
	fs.StringVar(&f.item.Source, "source", "", "the `name` of who asks")
	fs.StringVar(&f.item.Trigger, "trigger", "", "the `reason` why it is asked for")
	fs.StringVar(&f.item.Tenant, "tenant", "", "the `tenant` for whom it is")
	fs.StringArrayVar(&f.labels, "label", nil, "a label, `key=value` (repeatable)")
	f.flow.define(fs)
	fs.BoolVar(&f.wait, "wait", false, "wait for the outcome; exit 1 unless it is completed")
	fs.StringVar(&f.lines, "lines", "", "submit one item for each JSON line of this `file`")
}

// parse checks what needs no engine to be checked.
func (f *submitFlags) parse() error {
	if f.priority != "" {
		p, err := events.ParsePriority(f.priority)
		if err != nil {
			return console.Usagef("--priority: %v", err)
		}
		f.item.Priority = streamwright.Priority(int(p))
	}
	if f.at != "" {
		t, err := parseTime("--at", f.at)
		if err != nil {
			return err
		}
		f.item.AvailableAt = t
	}
	if f.at != "" && f.item.Delay != 0 {
		return console.Usagef("--at and --delay both say when: give one of them")
	}
	labels, err := parseLabels(f.labels)
	if f.item.Labels = labels; err != nil {
		return err
	}
	return f.flow.into(&f.item)
}

func parseTime(flag, s string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return t, console.Usagef("invalid %s %q: use a time such as 2030-01-31T08:00:00Z", flag, s)
	}
	return t, nil
}

// parseLabels reads labels given one a flag; their values may have commas.
func parseLabels(flags []string) (map[string]string, error) {
	var out map[string]string
	for _, l := range flags {
		k, v, ok := strings.Cut(l, "=")
		if !ok || k == "" {
			return nil, console.Usagef("invalid --label %q: use key=value", l)
		}
		if out == nil {
			out = map[string]string{}
		}
		out[k] = v
	}
	return out, nil
}

// params reads the item's params from where the argument says.
func (a *app) params(arg string) (json.RawMessage, error) { return a.json("params are", arg) }

// json reads a JSON document that an argument is, or says where to read. In errors it
// is what, a noun with its verb.
func (a *app) json(what, arg string) (json.RawMessage, error) {
	var data []byte
	var err error
	switch {
	case arg == "-":
		data, err = readAll(a.In, "standard input")
	case strings.HasPrefix(arg, "@"):
		var file *os.File
		if file, err = os.Open(arg[1:]); err != nil {
			return nil, fmt.Errorf("read the %s: %w", strings.Fields(what)[0], err)
		}
		defer file.Close()
		data, err = readAll(file, arg[1:])
	default:
		data = []byte(arg)
	}
	if err != nil {
		return nil, err
	}
	if !json.Valid(data) {
		return nil, badJSON(what, arg, data)
	}
	return data, nil
}

// checkType checks a type that the command line names.
func checkType(name string) error {
	if _, err := events.ParseType(name); err != nil {
		return events.Refuse(events.CodeBadType, "%v", err)
	}
	return nil
}

// badJSON says what is wrong with a document that is not JSON. One on the command line
// makes it a wrong one.
func badJSON(what, arg string, data []byte) error {
	err := json.Unmarshal(data, new(any))
	noun, verb, _ := strings.Cut(what, " ")
	if arg == "-" || strings.HasPrefix(arg, "@") {
		return events.Refuse(events.CodeBadParams, "the %s in %s %s not JSON: %s", noun, source(arg), verb, wire.JSONFault(err))
	}
	return console.Usage(events.Refuse(events.CodeBadParams, "the %s %s %s not JSON: %s; in a shell, put them in single quotes: '{\"to\":\"ada\"}'", noun, console.Clip(arg, 60), verb, wire.JSONFault(err)))
}

// source names where an argument has the params read from.
func source(arg string) string {
	if arg == "-" {
		return "standard input"
	}
	return arg[1:]
}

func readAll(r io.Reader, name string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, int64(maxParams)+1))
	if err != nil {
		return nil, fmt.Errorf("read the params from %s: %w", name, err)
	}
	if len(data) > maxParams {
		return nil, events.Refuse(events.CodeTooLarge, "the params in %s have more than %d bytes: keep them elsewhere and submit a reference to them", name, maxParams)
	}
	return data, nil
}

func (a *app) submitOne(ctx context.Context, f *submitFlags, args []string) error {
	if len(args) == 0 {
		return console.Usagef("give the TYPE of the item, or --lines")
	}
	item := f.item
	item.Type = args[0]
	if err := checkType(item.Type); err != nil {
		return err
	}
	if len(args) == 2 {
		p, err := a.params(args[1])
		if err != nil {
			return err
		}
		item.Params = p
	}
	c, err := a.connectPatiently(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	within, cancel := a.Within(ctx)
	sub, err := c.Submit(within, item)
	cancel()
	if err != nil {
		return err
	}
	if !f.wait {
		return a.printSubmitted(item.Type, sub)
	}
	if !a.JSON {
		a.Notef("%s", submittedLine(item.Type, sub))
	}
	done, err := c.Wait(ctx, sub.ID)
	if err != nil {
		return err
	}
	return a.printOutcome(done)
}

// connectPatiently connects, and tells on standard error why a request is
// taking its time.
func (a *app) connectPatiently(ctx context.Context) (*streamwright.Client, error) {
	told := false
	return a.Connect(ctx, streamwright.OnRetry(func(_ string, err error) {
		if !told {
			told = true
			a.Notef("%v; trying again for %v", console.Clean(wire.FromError(err).Message), a.Timeout)
		}
	}))
}

func (a *app) printSubmitted(typ string, s streamwright.Submitted) error {
	if a.JSON {
		return a.PrintJSON(s)
	}
	a.Printf("%s\n", submittedLine(typ, s))
	return nil
}

func submittedLine(typ string, s streamwright.Submitted) string {
	line := fmt.Sprintf("%s  %s  %s", s.ID, typ, s.State)
	if s.MergedInto != "" {
		line += " into " + s.MergedInto
	}
	if s.Repeat {
		line += " (it was already there)"
	}
	return line
}

// printOutcome shows how an item has ended; it errs unless it is completed.
func (a *app) printOutcome(it streamwright.WorkItem) error {
	if a.JSON {
		if err := a.PrintJSON(it); err != nil {
			return err
		}
	} else if it.State == events.StateCompleted {
		a.Printf("completed in %s", console.Span(it.FinishedAt.Sub(it.CreatedAt)))
		if len(it.Result) > 0 {
			a.Printf(": %s", console.Clean(string(it.Result)))
		}
		a.Printf("\n")
	}
	switch {
	case it.State == events.StateCompleted:
		return nil
	case a.JSON:
		return console.ErrTold
	}
	return &streamwright.OutcomeError{Item: it}
}
