package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/blobs"
	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/cli"
	"github.com/streamwright/streamwright/wire"
)

const (
	// maxDocument bounds one line of --lines, in bytes: more than goes without the
	// object store, less than would hurt.
	maxDocument = 4 << 20

	// maxParams bounds the params of one item, in bytes: what the object store takes.
	maxParams = int(blobs.DefaultMaxBytes)
)

// submitFlags are the flags of submit.
type submitFlags struct {
	item    streamwright.Item
	signal  streamwright.Signal
	payload string // of the signal
	wait    bool
	lines   string
}

func submitCommand(a *app) *cobra.Command {
	var f submitFlags
	cmd := &cobra.Command{
		Use:   "submit TYPE [JSON | - | @file]",
		Short: "Submit one item, or one for each line of a file",
		Long: `Submit an item of TYPE. Its params are the JSON argument, standard input (-) or
a file (@file).

With --lines FILE (- is standard input), submit one item for each line of JSON:
the line is the params, or, without TYPE, the whole submission with its type:
{"type":"email","params":{…},"priority":8}. Rejected lines are reported by line
number; the others go on.`,
		Example: "  engine submit email '{\"to\":\"ada@example.org\"}' --priority high --wait\n" +
			"  engine submit email --lines mails.jsonl",
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case !f.item.AvailableAt.IsZero() && f.item.Delay != 0:
				return cli.Usagef("--at and --delay both say when: give one of them")
			case f.item.Namespace != "" && f.wait:
				return cli.Usagef("--wait can't wait for what is handed to another namespace: whoever has a role there can, with `engine show ID --namespace %s`", f.item.Namespace)
			}
			if err := f.addSignal(a); err != nil {
				return err
			}
			if f.lines != "" {
				return a.submitLines(cmd.Context(), &f, args)
			}
			return a.submitOne(cmd.Context(), &f, args)
		},
	}
	f.define(cmd.Flags())
	return cmd
}

// addSignal gives the item the signal of the flags.
func (f *submitFlags) addSignal(a *app) error {
	if f.signal.Name == "" {
		if f.payload != "" || f.signal.MsgID != "" {
			return cli.Usagef("--signal-payload and --signal-msg-id belong to a signal: name it with --signal")
		}
		return nil
	}
	if f.payload != "" {
		doc, err := a.json("payload is", f.payload)
		if err != nil {
			return err
		}
		f.signal.Payload = doc
	}
	f.item.Signal = &f.signal
	return nil
}

func (f *submitFlags) define(fs *pflag.FlagSet) {
	it := &f.item
	fs.StringVar(&it.ID, "id", "", "a `ULID` of your own, so that repeating the command makes no second item")
	fs.Func("priority", priorityUsage+" (default 5)", console.Priority(&it.Priority))
	fs.StringVar(&it.DedupKey, "dedup-key", "", "the `key` that two unfinished items of a type can't both have: see --dedup-policy")
	fs.Func("dedup-policy", "the `policy` if the dedup key is taken: merge (the default), distinct, supersede or defer",
		console.Choice(&it.DedupPolicy, events.DedupMerge, events.DedupDistinct, events.DedupSupersede, events.DedupDefer))
	fs.Func("dedup-window", "the `duration` for which the dedup key stays taken after completion, such as 1h (default: the type's)", dedupWindow(&it.DedupWindow))
	fs.StringVar(&it.IdempotencyKey, "idempotency-key", "", "the `key` that gives the same item again within 24 hours")
	fs.DurationVar(&it.Delay, "delay", 0, "make it available so much later, such as 90s")
	fs.Func("at", "make it available from this `time` on (RFC 3339)", console.Time(&it.AvailableAt))
	fs.Func("expires-at", "cancel it if it has not started by this `time` (RFC 3339)", console.Time(&it.ExpiresAt))
	fs.Func("max-attempts", "how many attempts it has before it is dead, a `number` (default: the type's)", console.Positive(&it.MaxAttempts))
	fs.Func("timeout", "how long an attempt may take, a `duration` (default: the type's)", console.Duration(&it.Timeout))
	fs.Func("estimated-duration", "how long a run is likely to take, a `duration` such as 90s: the waits of the items behind it are estimated by it", console.Duration(&it.EstimatedDuration))
	fs.StringSliceVar(&it.Capabilities, "capability", nil, "a `capability` that the worker must have (repeatable)")
	fs.StringVar(&it.Source, "source", "", "the `name` of who asks")
	fs.StringVar(&it.Trigger, "trigger", "", "the `reason` for it")
	fs.StringVar(&it.Tenant, "tenant", "", "the `tenant` that it is for")
	fs.Func("label", "a label, `key=value` (repeatable)", console.Pairs(&it.Labels, "key=value"))
	fs.Func("after", "run after the item with this `id` has ended (repeatable)", console.IDs(&it.After))
	fs.Func("after-policy", "the `policy` if an item of --after ends dead or cancelled: cancel (the default), dead or run",
		console.Choice(&it.AfterPolicy, events.AfterCancel, events.AfterDead, events.AfterRun))
	fs.StringVar(&f.signal.Name, "signal", "", "send it the signal of this `name`, or send it to the item that this repeats or is merged into")
	fs.StringVar(&f.payload, "signal-payload", "", "what that signal carries, as `JSON` (- for standard input, @file)")
	fs.StringVar(&f.signal.MsgID, "signal-msg-id", "", "an `id` of your own, so that repeating the command sends no second signal")
	fs.Func("batch", "make it an item of the batch with this `id`", console.ID(&it.Batch))
	fs.StringVar(&it.Namespace, "to", "", "hand it to another `namespace`, which must accept that")
	fs.BoolVar(&f.wait, "wait", false, "wait for the outcome; exit 1 unless it is completed")
	fs.StringVar(&f.lines, "lines", "", "submit one item for each JSON line of this `file`")
}

// dedupWindow decodes a duration, 0 if it is left to the type.
func dedupWindow(dst *time.Duration) func(string) error {
	return console.Value(dst, func(s string) (time.Duration, error) {
		d, err := time.ParseDuration(s)
		if err != nil || d < 0 {
			return 0, errors.New("use a duration such as 90s, 5m or 1h30m")
		}
		return windowOf(d), nil
	})
}

// windowOf returns a dedup window as the client has it.
func windowOf(d time.Duration) time.Duration { return cmp.Or(d, streamwright.NoWindow) }

// params reads the params of an item from where the argument says.
func (a *app) params(arg string) (json.RawMessage, error) { return a.json("params are", arg) }

// json reads a JSON document: the argument itself, standard input for -, or the
// file for @file. Errors call it what, a noun with its verb.
func (a *app) json(what, arg string) (json.RawMessage, error) {
	noun, verb, _ := strings.Cut(what, " ")
	in, name := a.stdin, "standard input"
	if path, ok := strings.CutPrefix(arg, "@"); ok {
		file, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("read the %s: %w", noun, err)
		}
		defer file.Close()
		in, name = file, path
	} else if arg != "-" {
		data := []byte(arg)
		if err := json.Unmarshal(data, new(any)); err != nil {
			return nil, cli.Usage(events.Refuse(events.CodeBadParams, "the %s %s %s not JSON: %s; in a shell, put them in single quotes: '{\"to\":\"ada\"}'", noun, console.Clip(arg, 60), verb, wire.JSONFault(err)))
		}
		return data, nil
	}
	data, err := io.ReadAll(io.LimitReader(in, int64(maxParams)+1))
	if err != nil {
		return nil, fmt.Errorf("read the %s from %s: %w", noun, name, err)
	}
	if len(data) > maxParams {
		return nil, events.Refuse(events.CodeTooLarge, "the %s in %s have more than %d bytes: keep them elsewhere and submit a reference to them", noun, name, maxParams)
	}
	if err := json.Unmarshal(data, new(any)); err != nil {
		return nil, events.Refuse(events.CodeBadParams, "the %s in %s %s not JSON: %s", noun, name, verb, wire.JSONFault(err))
	}
	return data, nil
}

// checkType refuses a name on the command line that is no type's.
func checkType(name string) error {
	if _, err := events.ParseType(name); err != nil {
		return events.Refuse(events.CodeBadType, "%v", err)
	}
	return nil
}

func (a *app) submitOne(ctx context.Context, f *submitFlags, args []string) error {
	if len(args) == 0 {
		return cli.Usagef("give the TYPE of the item, or --lines")
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
	if err != nil || !f.wait {
		return a.showSubmitted(item.Type, sub, err)
	}
	if !a.JSON {
		a.Notef("%s", submittedLine(item.Type, sub))
	}
	return a.showOutcome(c.Wait(ctx, sub.ID))
}

// connectPatiently connects, and tells on standard error why a request is
// taking its time.
func (a *app) connectPatiently(ctx context.Context) (*streamwright.Client, error) {
	var once sync.Once
	return a.Connect(ctx, streamwright.OnRetry(func(_ string, err error) {
		once.Do(func() { a.Notef("%v; trying again for %v", console.Clean(wire.FromError(err).Message), a.Timeout) })
	}))
}

func (a *app) showSubmitted(typ string, s streamwright.Submitted, err error) error {
	return a.show(s, err, func() { a.Printf("%s\n", submittedLine(typ, s)) })
}

func submittedLine(typ string, s streamwright.Submitted) string {
	line := fmt.Sprintf("%s  %s  %s", s.ID, typ, s.State)
	if s.MergedInto != "" {
		line += " into " + s.MergedInto
	}
	switch {
	case s.Raised:
		line += ", which takes its higher priority"
	case s.NotRaised != events.StateNone:
		line += fmt.Sprintf(", which is %s and keeps its lower priority", s.NotRaised)
	case s.ContentDiffers:
		line += " (it was already there, with other content: use another idempotency key for other work)"
	case s.Repeat:
		line += " (it was already there)"
	}
	return line
}

// showOutcome shows how an item has ended, and fails unless it is completed.
func (a *app) showOutcome(it streamwright.WorkItem, err error) error {
	completed := it.State == events.StateCompleted
	err = a.show(it, err, func() {
		if !completed {
			return
		}
		a.Printf("completed in %s", console.Span(it.FinishedAt.Sub(it.CreatedAt)))
		if len(it.Result) > 0 {
			a.Printf(": %s", console.Clean(string(it.Result)))
		}
		a.Printf("\n")
	})
	switch {
	case err != nil || completed:
		return err
	case a.JSON:
		return console.ErrTold
	}
	return &streamwright.OutcomeError{Item: it}
}
