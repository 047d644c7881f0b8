package main

import (
	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/internal/cli"
)

// tailProgram is the name of the program that is the command tail alone.
const tailProgram = "streamwright-tail"

// manCommand writes the manual pages that packages hold (deploy/release.sh).
func manCommand(*app) *cobra.Command {
	return &cobra.Command{
		Use:     "man FOLDER",
		Short:   "Write the manual pages of the programs into a folder",
		Example: "  engine man /usr/local/share/man/man1",
		Hidden:  true,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.WriteManual(cmd.Root(), args[0]); err != nil {
				return err
			}
			// In place of the page of the command tail, which does the same.
			alone := &console.App{}
			tail := console.TailCommand(alone, tailProgram)
			tail.Version = embedded.Version
			alone.Flags(tail)
			return cli.WriteManual(tail, args[0])
		},
	}
}
