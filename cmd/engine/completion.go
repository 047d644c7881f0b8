package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/events"
)

// offering lists the words that complete one place of a command line.
type offering struct {
	list  func(ctx context.Context, c *streamwright.Client, cmd *cobra.Command) ([]cobra.Completion, error)
	local bool // it asks no engine: the client is nil
	whole bool // it is about all namespaces, so that the default one is asked
	more  bool // the word goes on: the shell adds no space
}

// Completion waits for an engine no longer than a person at a prompt would, and offers the
// items that were touched last.
const (
	completionWithin = time.Second
	completedItems   = 50
)

var (
	offeredTypes = offering{list: func(ctx context.Context, c *streamwright.Client, _ *cobra.Command) ([]cobra.Completion, error) {
		types, err := c.Types().List(ctx)
		return completions(types, func(t streamwright.TypeInfo) (string, string) { return t.Type, heldOf(t) }), err
	}}
	offeredItems   = offering{list: itemCompletions}
	offeredBatches = offering{list: func(ctx context.Context, c *streamwright.Client, _ *cobra.Command) ([]cobra.Completion, error) {
		return listed(ctx, c, streamwright.Filter{Type: string(events.BatchType)})
	}}
	offeredWorkers = offering{list: func(ctx context.Context, c *streamwright.Client, _ *cobra.Command) ([]cobra.Completion, error) {
		workers, err := c.Workers().List(ctx)
		return completions(workers, func(w streamwright.WorkerInfo) (string, string) {
			return w.Worker, string(w.Status) + " " + strings.Join(w.Types, ",")
		}), err
	}}
	offeredSchedules = offering{list: func(ctx context.Context, c *streamwright.Client, _ *cobra.Command) ([]cobra.Completion, error) {
		schedules, err := c.Schedules().List(ctx)
		return completions(schedules, func(s streamwright.ScheduleInfo) (string, string) { return s.Name, s.Type }), err
	}}
	offeredNodes = offering{list: func(ctx context.Context, c *streamwright.Client, _ *cobra.Command) ([]cobra.Completion, error) {
		nodes, err := c.Engine().Nodes(ctx)
		return completions(nodes.Nodes, func(n streamwright.Node) (string, string) { return n.Node, string(n.Role) }), err
	}}
	offeredCodes = offering{list: func(ctx context.Context, c *streamwright.Client, _ *cobra.Command) ([]cobra.Completion, error) {
		return causes(ctx, c, func(cause streamwright.Cause) (string, string) { return cause.Code, cause.Type })
	}}
	offeredCauses = offering{list: func(ctx context.Context, c *streamwright.Client, _ *cobra.Command) ([]cobra.Completion, error) {
		return causes(ctx, c, func(cause streamwright.Cause) (string, string) {
			return cause.Cause, fmt.Sprintf("%s %s: %s", cause.Type, cause.Code, cause.Error)
		})
	}}
	offeredNamespaces = offering{whole: true, list: func(ctx context.Context, c *streamwright.Client, cmd *cobra.Command) ([]cobra.Completion, error) {
		all, err := c.Namespaces().List(ctx)
		out := completions(all, func(n streamwright.NamespaceInfo) (string, string) { return string(n.Name), "" })
		if cmd.Parent() == nil || cmd.Parent().Name() != "namespace" { // the default one is always there, and can't be set or removed
			out = append(out, string(streamwright.DefaultNamespace))
		}
		return out, err
	}}
	offeredStates = offering{local: true, list: func(context.Context, *streamwright.Client, *cobra.Command) ([]cobra.Completion, error) {
		var out []cobra.Completion
		for s := events.StateNone + 1; s < events.NumStates; s++ {
			out = append(out, s.String())
		}
		return out, nil
	}}
	offeredKinds = offering{local: true, list: func(context.Context, *streamwright.Client, *cobra.Command) ([]cobra.Completion, error) {
		var out []cobra.Completion
		for k := range events.Kind(events.NumKinds) {
			out = append(out, k.String())
		}
		return out, nil
	}}
	offeredSettings = offering{local: true, more: true, list: func(context.Context, *streamwright.Client, *cobra.Command) ([]cobra.Completion, error) {
		var out []cobra.Completion
		for _, name := range slices.Sorted(maps.Keys(settings)) {
			out = append(out, name+"=")
		}
		return out, nil
	}}
	offeredAnswers = offering{local: true, list: func(context.Context, *streamwright.Client, *cobra.Command) ([]cobra.Completion, error) {
		return []cobra.Completion{"approve", "reject", "edit", "answer"}, nil
	}}
)

// offeredArgs has the completions of arguments, by the word for each in its command's usage.
var offeredArgs = map[string]offering{
	"TYPE": offeredTypes, "ID": offeredItems, "WORKER": offeredWorkers, "NODE": offeredNodes, "KEY=VALUE": offeredSettings, "approve|reject|edit|answer": offeredAnswers,
	"schedules NAME": offeredSchedules, "namespace NAME": offeredNamespaces, // of the nouns
}

// offeredFlags has the completions of flags' values, by the flag's name and the word for its value.
var offeredFlags = map[string]offering{
	"type type": offeredTypes, "state state": offeredStates, "id id": offeredItems, "after id": offeredItems, "batch id": offeredBatches, "worker worker": offeredWorkers,
	"schedule name": offeredSchedules, "namespace namespace": offeredNamespaces, "to namespace": offeredNamespaces, "to node": offeredNodes, "node node": offeredNodes,
	"code code": offeredCodes, "cause cause": offeredCauses, "kind kind": offeredKinds, "callback type": offeredTypes,
}

// offersFor returns the completions of a flag's value; false if there are none, as for a name that
// the user makes up.
func offersFor(cmd *cobra.Command, f *pflag.Flag) (offering, bool) {
	value, _ := pflag.UnquoteUsage(f)
	offers, known := offeredFlags[f.Name+" "+value]
	switch cmd.Name() {
	case "work", "serve": // their ids and nodes are their own
		known = false
	}
	if f.Name == "code" && (cmd.Name() == "rejected" || cmd.Parent() != nil && cmd.Parent().Name() == "rejected") {
		known = false // nothing has died of it
	}
	return offers, known
}

// complete has shells complete the arguments and flags of all commands.
func (a *app) complete(cmd *cobra.Command) {
	if words := offeredWords(cmd); len(words) > 0 {
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
			word := words[min(len(args), len(words)-1)]
			if len(args) >= len(words) && !strings.HasSuffix(word, "…") {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			offers, known := offeredArgs[strings.TrimSuffix(word, "…")]
			if !known {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return a.offer(offers, cmd, args, begun)
		}
	}
	define := func(f *pflag.Flag) {
		offers, known := offersFor(cmd, f)
		if !known {
			return
		}
		_ = cmd.RegisterFlagCompletionFunc(f.Name, func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return a.offer(offers, cmd, nil, begun)
		})
	}
	cmd.LocalNonPersistentFlags().VisitAll(define)
	cmd.PersistentFlags().VisitAll(define)
	for _, c := range cmd.Commands() {
		a.complete(c)
	}
}

// offeredWords returns the words of a command's usage that arguments stand for, as
// offeredArgs has them; none if none of them is there.
func offeredWords(cmd *cobra.Command) (words []string) {
	known := false
	for _, word := range strings.Fields(cmd.Use)[1:] {
		if word = strings.Trim(word, "[]{}"); word == "|" || word == "FLAGS" || word == "flags" || strings.HasPrefix(word, "-") {
			break
		}
		if word == "NAME" && cmd.Parent() != nil {
			word = cmd.Parent().Name() + " NAME"
		}
		_, is := offeredArgs[strings.TrimSuffix(word, "…")]
		known = known || is
		words = append(words, word)
	}
	if !known {
		return nil
	}
	return words
}

// offer asks for completions. Whatever fails, nothing is offered: there is nowhere to say so.
func (a *app) offer(of offering, cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	directive := cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	if of.more {
		directive |= cobra.ShellCompDirectiveNoSpace
	}
	quiet := *a
	quiet.Err = io.Discard
	if of.whole {
		quiet.Namespace = string(streamwright.DefaultNamespace)
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), cmp.Or(a.completing, completionWithin))
	defer cancel()
	var all []cobra.Completion
	list := func(c *streamwright.Client) (err error) {
		all, err = of.list(ctx, c, cmd) // a list beside an error may lack something
		return err
	}
	if of.local {
		_ = list(nil)
	} else if quiet.checkNamespace(cmd, nil) == nil {
		_ = quiet.with(ctx, list)
	}
	return slices.DeleteFunc(all, func(c cobra.Completion) bool {
		word, _, _ := strings.Cut(c, "\t")
		return word == "" || !strings.HasPrefix(strings.ToLower(word), strings.ToLower(begun)) || slices.Contains(args, word)
	}), directive
}

// completions makes completions of words and what describes them.
func completions[T any](all []T, of func(T) (word, about string)) (out []cobra.Completion) {
	for _, e := range all {
		if word, about := of(e); !slices.ContainsFunc(out, func(c cobra.Completion) bool { w, _, _ := strings.Cut(c, "\t"); return w == word }) {
			out = append(out, cobra.CompletionWithDesc(word, console.Clip(about, 60)))
		}
	}
	return out
}

// heldOf says what holds a type back, if anything does.
func heldOf(t streamwright.TypeInfo) string {
	switch {
	case t.Paused != nil:
		return "paused"
	case t.Circuit != nil:
		return "circuit not closed"
	}
	return ""
}

// itemCompletions offers the items that were touched last, of those that the command is for.
func itemCompletions(ctx context.Context, c *streamwright.Client, cmd *cobra.Command) ([]cobra.Completion, error) {
	states := map[string]events.ItemState{"replay": events.StateDead, "reschedule": events.StateQueued, "answer": events.StateWaiting, "approvals": events.StateWaiting}
	f := streamwright.Filter{}
	switch {
	case cmd.Parent() != nil && cmd.Parent().Name() == "batches":
		f.Type = string(events.BatchType)
	case states[cmd.Name()] != events.StateNone:
		f.State = states[cmd.Name()].String()
	}
	return listed(ctx, c, f)
}

// listed offers the items of a list.
func listed(ctx context.Context, c *streamwright.Client, f streamwright.Filter) ([]cobra.Completion, error) {
	f.Limit = completedItems
	page, err := c.List(ctx, f)
	return completions(page.Items, func(it streamwright.WorkItem) (string, string) { return it.ID, it.Type + " " + it.State.String() }), err
}

// causes offers something of the causes of deaths.
func causes(ctx context.Context, c *streamwright.Client, of func(streamwright.Cause) (string, string)) ([]cobra.Completion, error) {
	r, err := c.DeadLetters().Causes(ctx, streamwright.CausesQuery{Limit: completedItems})
	return completions(r.Causes, of), err
}
