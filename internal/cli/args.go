package cli

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// checked makes check an argument check whose error says how the command is
// used.
func checked(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		switch {
		case err == nil:
			return nil
		case errors.As(err, new(*usageError)):
			return err
		case len(args) > 0 && (cmd.HasAvailableSubCommands() || meant(cmd, args[0]) != ""):
			return unknownCommand(cmd, args[0])
		case wantsMore(cmd, check, args):
			return Usagef("an argument is missing: write it as %s", usageLine(cmd))
		}
		return Usagef("%q is one argument too many: write it as %s", args[len(args)-1], usageLine(cmd))
	}
}

// wantsMore reports whether the arguments are too few, rather than too many.
func wantsMore(cmd *cobra.Command, check cobra.PositionalArgs, args []string) bool {
	const most = 3 // that a command wants
	for range most {
		if args = append(args[:len(args):len(args)], "x"); check(cmd, args) == nil {
			return true
		}
	}
	return false
}

// usageLine returns the usage of a command, in backquotes.
func usageLine(cmd *cobra.Command) string {
	line := cmd.CommandPath()
	if _, rest, ok := strings.Cut(cmd.Use, " "); ok {
		line += " " + rest
	}
	return "`" + line + "`"
}

// meantKey begins the annotations of a command that say what is meant by names which
// are not commands below it.
const meantKey = "streamwright meant: "

// Meant annotates a command: what stands for each name that people try below it.
// Commands are written without the program's name, such as "workers".
func Meant(cmd *cobra.Command, instead map[string]string) {
	cmd.Annotations = map[string]string{}
	for name, use := range instead {
		cmd.Annotations[meantKey+name] = use
	}
}

// meant is the command that stands for a name below another, empty if none does.
func meant(cmd *cobra.Command, name string) string { return cmd.Annotations[meantKey+name] }

// mostListed bounds the commands that are listed where one is unknown.
const mostListed = 8

// unknownCommand says that there is no such command below one, and what was
// probably meant.
func unknownCommand(cmd *cobra.Command, name string) error {
	if use := meant(cmd, name); use != "" {
		return Usagef("there is no command %q: use `%s %s`", name, cmd.Root().Name(), use)
	}
	if s := suggested(cmd, name); s != "" {
		return Usagef("there is no command %q: did you mean %s?", name, s)
	}
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	if len(names) > mostListed {
		return Usagef("there is no command %q", name)
	}
	return Usagef("there is no command %q: use %s", name, strings.Join(names, ", "))
}

// suggested is the command that is otherwise called name, or whose name is near.
func suggested(cmd *cobra.Command, name string) string {
	for _, c := range cmd.Commands() {
		if slices.Contains(c.SuggestFor, name) {
			return c.Name()
		}
	}
	if s := cmd.SuggestionsFor(name); len(s) > 0 {
		return s[0]
	}
	return ""
}

// flagError says what is wrong with a flag, and what to write. If there is no such command
// either, it says that.
func flagError(cmd *cobra.Command, err error) error {
	var value *pflag.InvalidValueError
	var missing *pflag.ValueRequiredError
	var unknown *pflag.NotExistError
	given := cmd.Flags().Args()
	switch {
	case errors.As(err, &unknown) && cmd.HasSubCommands() && len(given) > 0:
		return unknownCommand(cmd, given[0])
	case errors.As(err, &value) && value.GetFlag().Value.Type() == "func": // which says what to write
		return Usagef("invalid --%s %q: %v", value.GetFlag().Name, value.GetValue(), value.Unwrap())
	case errors.As(err, &value):
		return Usagef("invalid --%s %q: use %s", value.GetFlag().Name, value.GetValue(), valueOf(value.GetFlag()))
	case errors.As(err, &missing):
		return Usagef("--%s has no value: give %s", missing.GetFlag().Name, valueOf(missing.GetFlag()))
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		return Usagef("there is no flag --%s", unknown.GetSpecifiedName())
	case errors.As(err, &unknown):
		return Usagef("there is no flag -%.1s", unknown.GetSpecifiedName())
	}
	return Usage(err)
}

// valueOf says what a flag takes.
func valueOf(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "bool":
		return "true or false"
	case "int", "int64":
		return "a whole number"
	case "uint", "uint64":
		return "a whole number, 0 or more"
	case "duration":
		return "a duration such as 500ms, 90s, 5m or 1h30m"
	}
	name, _ := pflag.UnquoteUsage(f)
	switch {
	case name == "" || name == "string" || name == "strings" || name == "stringArray":
		return "one"
	case strings.ToUpper(name) == name || strings.ContainsAny(name, "=[|"):
		return name
	}
	return "a " + name
}
