package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/streamwright/streamwright/cmd/internal/console"
)

// complete runs the program as a shell does that completes a command line, but with all the
// time in the world.
func complete(t *testing.T, args ...string) ran {
	t.Helper()
	var out, errs strings.Builder
	a := &app{App: console.App{Out: &out, Err: &errs}, completing: time.Minute}
	code := a.Run(t.Context(), rootCommand(a), append([]string{"__complete"}, args...))
	return ran{code, out.String(), errs.String()}.wants(t, 0)
}

// offered returns what is offered for the last word of a command line.
func offered(t *testing.T, args ...string) (words []string) {
	t.Helper()
	for _, l := range lines(complete(t, args...).out) {
		if word, _, _ := strings.Cut(l, "\t"); !strings.HasPrefix(l, ":") {
			words = append(words, word)
		}
	}
	return words
}

func TestCompletion(t *testing.T) {
	e := start(t)
	e.work("mailer-1", "failing", fails("no_mailbox", "no such mailbox"))
	submit := func(args ...string) string {
		return strings.Fields(engine(t, "", append([]string{"submit"}, args...)...).wants(t, 0).out)[0]
	}
	queued, other := submit("email"), submit("email")
	dead := submit("failing")
	engine(t, "", "wait", dead).wants(t, 1)
	batch := strings.Fields(engine(t, "", "batches", "open", "--name", "nightly").wants(t, 0).out)[0]
	engine(t, "", "schedules", "set", "sweep", "--type", "email", "--every", "1h").wants(t, 0)
	for line, want := range map[string][]string{
		"show ":                     {batch, dead, other, queued},
		"show 01":                   {batch, dead, other, queued},
		"show x":                    nil,
		"show " + queued + " ":      nil,
		"wait " + queued + " ":      {batch, dead, other},
		"watch ":                    {batch, dead, other, queued},
		"replay ":                   {dead},
		"batches show ":             {batch},
		"list --batch ":             {batch},
		"types pause ":              {"email", "failing"},
		"types pause em":            {"email"},
		"submit ":                   {"email", "failing"},
		"list --type f":             {"failing"},
		"tail --id ":                {batch, dead, other, queued},
		"tail --kind comp":          {"completed"},
		"list --state d":            {"dead"},
		"list --state=ca":           {"cancelled"},
		"workers drain ":            {"mailer-1"},
		"work email --id ":          nil,
		"list --worker m":           {"mailer-1"},
		"schedules remove ":         {"sweep"},
		"schedules set s":           {"sweep"},
		"list --schedule ":          {"sweep"},
		"replay --code ":            {"no_mailbox"},
		"rejected list --code ":     nil,
		"status --namespace ":       {"default"},
		"namespaces remove ":        nil,
		"types set email backoff.m": {"backoff.max="},
		"answer " + queued + " a":   {"approve", "answer"},
	} {
		got := offered(t, strings.Split(line, " ")...)
		if want != nil && slices.Contains(want, dead) && len(want) > 1 { // the worker may change the order
			slices.Sort(got)
			slices.Sort(want)
		}
		got = slices.DeleteFunc(got, func(w string) bool { return w == "batch" }) // the type of batches
		if !slices.Equal(got, want) {
			t.Errorf("%q offers %q, want %q", line, got, want)
		}
	}
	if cause := offered(t, "dead", "--cause", ""); len(cause) != 1 || len(cause[0]) != 16 {
		t.Errorf("the causes are %q", cause)
	}
	r := complete(t, "show", dead[:20]).wants(t, 0, dead+"\tfailing dead\n")
	if said := strings.TrimSpace(r.errs); strings.Contains(said, "\n") || !strings.HasPrefix(said, "Completion ended") {
		t.Errorf("it says %q", said)
	}
}

// Where no engine answers, nothing is offered, and nothing is said.
func TestCompletionWithoutAnEngine(t *testing.T) {
	t.Setenv("NATS_URL", "nats://127.0.0.1:1")
	for _, args := range [][]string{{"show", ""}, {"list", "--type", ""}, {"status", "--tlscert", "x", "--namespace", ""}, {"bench", "--namespace", ""}} {
		r := complete(t, args...)
		if out := lines(r.out); len(out) != 1 || out[0][0] != ':' || strings.Count(r.errs, "\n") != 1 {
			t.Errorf("%q: %q %q", args, r.out, r.errs)
		}
	}
	if got := offered(t, "list", "--state", "que"); !slices.Equal(got, []string{"queued"}) {
		t.Errorf("states need no engine: %q", got)
	}
}

// Each offering is of a command or flag that there is.
func TestOfferingsAreUsed(t *testing.T) {
	used := map[string]bool{}
	everyCommand(t, func(t *testing.T, cmd *cobra.Command) {
		for _, word := range offeredWords(cmd) {
			used[strings.TrimSuffix(word, "…")] = true
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			value, _ := pflag.UnquoteUsage(f)
			if _, offers := offersFor(cmd, f); offers {
				used[f.Name+" "+value] = true
			}
		})
		cmd.PersistentFlags().VisitAll(func(f *pflag.Flag) {
			value, _ := pflag.UnquoteUsage(f)
			used[f.Name+" "+value] = true
		})
	})
	for of := range offeredArgs {
		if !used[of] {
			t.Errorf("no command has an argument %s", of)
		}
	}
	for of := range offeredFlags {
		if !used[of] {
			t.Errorf("no command has a flag --%s", of)
		}
	}
}

// The scripts are for the program by the name that it has.
func TestCompletionScripts(t *testing.T) {
	for shell, registers := range map[string]string{"bash": "complete -o default -F __start_engine engine", "zsh": "#compdef engine", "fish": "complete -c engine", "powershell": "-CommandName 'engine'"} {
		engine(t, "", "completion", shell).wants(t, 0, registers)
	}
	a := &app{}
	a.Program = "streamwright"
	var out, errs strings.Builder
	a.Out, a.Err = &out, &errs
	if code := a.Run(t.Context(), rootCommand(a), []string{"completion", "bash"}); code != 0 || !strings.Contains(out.String(), "__start_streamwright streamwright") {
		t.Errorf("exit code %d: %s", code, errs.String())
	}
}
