package main

import (
	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright/internal/cli"
)

// noun returns the command of one kind of things, such as types. Commands read NOUN
// VERB, as in `engine types set`; only items need no noun. A noun alone lists: cmd has
// its words, and runs list, which is below it too, like verbs.
func noun(a *app, cmd *cobra.Command, list func(*app) *cobra.Command, verbs ...func(*app) *cobra.Command) *cobra.Command {
	l := list(a)
	cmd.Args, cmd.RunE = l.Args, l.RunE
	cmd.Flags().AddFlagSet(l.Flags())
	cmd.AddCommand(list(a))
	for _, verb := range verbs {
		cmd.AddCommand(verb(a))
	}
	return cmd
}

// oldCommands are commands of version 0.1 by the names that they had before. They go
// with the release after it; the help does not list them. The nouns of version 0.1
// have their old names as aliases.
func oldCommands(a *app) []*cobra.Command {
	old := []*cobra.Command{typesPauseCommand(a), typesResumeCommand(a), workersDrainCommand(a), workersUndrainCommand(a), circuitCommand(a)}
	for _, cmd := range old {
		cmd.Hidden = true
	}
	return old
}

// circuitCommand is both `types reset` and `workers reset`, by their old name.
func circuitCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "circuit", Short: "Close a circuit", Example: "  engine circuit reset email", Args: cobra.NoArgs}
	var worker string
	ofType, ofWorker := typesResetCommand(a), workersResetCommand(a)
	reset := &cobra.Command{
		Use: "reset {TYPE | --worker WORKER}", Short: ofType.Short, Example: cmd.Example, Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case (len(args) == 0) == (worker == ""):
				return cli.Usagef("give a type, or --worker with a worker's id")
			case worker != "":
				return ofWorker.RunE(cmd, []string{worker})
			}
			return ofType.RunE(cmd, args)
		},
	}
	reset.Flags().StringVar(&worker, "worker", "", "the `id` of a worker, in place of a type")
	cmd.AddCommand(reset)
	return cmd
}
