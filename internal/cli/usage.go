package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// The exit codes.
const (
	ExitDone   = 0
	ExitFailed = 1 // the operation failed, or the engine refused it
	ExitUsage  = 2 // the command line is wrong: the program says so, or the engine
)

// usageError is a wrong command line.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// Usage makes err the error of a wrong command line; nil stays nil.
func Usage(err error) error {
	if err == nil {
		return nil
	}
	return &usageError{err}
}

// Usagef makes the error of a wrong command line.
func Usagef(format string, args ...any) error { return Usage(fmt.Errorf(format, args...)) }

// IsUsage reports whether an error is about a wrong command line.
func IsUsage(err error) bool { return errors.As(err, new(*usageError)) }

// Prepare makes a tree of commands ready to run: it adds the help, and turns whatever
// cobra finds wrong into an error of the command line. The caller prints errors. Help
// is written to out. It returns the function that runs the tree.
func Prepare(root *cobra.Command, args []string, out io.Writer) (execute func(context.Context) (*cobra.Command, error)) {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetFlagErrorFunc(flagError)
	addHelp(root, out)
	root.InitDefaultCompletionCmd(args...)
	strict(root)
	// Cobra shows the help of the last command that it knows, and no help can fail.
	var wrong error
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if given := cmd.Flags().Args(); cmd.HasSubCommands() && len(given) > 0 {
			wrong = unknownCommand(cmd, given[0])
			return
		}
		help(cmd, args)
	})
	return func(ctx context.Context) (*cobra.Command, error) {
		cmd, err := root.ExecuteContextC(ctx)
		if err == nil {
			err = wrong
		}
		return cmd, err
	}
}

// strict turns every wrong argument into an error of the command line, also where a
// command, such as one of cobra's own, checks its arguments itself or not at all.
func strict(cmd *cobra.Command) {
	if cmd.HasSubCommands() && !cmd.Runnable() {
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	if cmd.Args != nil {
		cmd.Args = checked(cmd.Args)
	}
	for _, c := range cmd.Commands() {
		strict(c)
	}
}
