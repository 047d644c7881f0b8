package main

import "github.com/spf13/cobra"

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
