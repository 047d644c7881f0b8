package cli

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/connect"
)

// The groups of flags beside a command's own; see inGroup.
const (
	groupCommon     = "common"     // of all commands
	groupConnection = "connection" // how NATS is reached, told by `help connection`
)

// groupKey is the annotation of a flag that names its group.
const groupKey = "streamwright group"

// Common puts flags into the group of flags that all commands have.
func Common(fs *pflag.FlagSet, names ...string) { inGroup(fs, groupCommon, names...) }

// inGroup puts flags into a group of the help. A flag may be in several.
func inGroup(fs *pflag.FlagSet, group string, names ...string) {
	for _, name := range names {
		f := fs.Lookup(name)
		f.Annotations = map[string][]string{groupKey: append(f.Annotations[groupKey], group)}
	}
}

func isIn(f *pflag.Flag, group string) bool { return slices.Contains(f.Annotations[groupKey], group) }

// The kinds of flags that the help tells apart.
func isOwn(f *pflag.Flag) bool        { return len(f.Annotations[groupKey]) == 0 }
func isCommon(f *pflag.Flag) bool     { return isIn(f, groupCommon) }
func isConnection(f *pflag.Flag) bool { return isIn(f, groupConnection) }

// flagsOf are the visible flags of a command that are of a kind.
func flagsOf(cmd *cobra.Command, of func(*pflag.Flag) bool) *pflag.FlagSet {
	out := pflag.NewFlagSet("", pflag.ContinueOnError)
	add := func(f *pflag.Flag) {
		if !f.Hidden && of(f) && out.Lookup(f.Name) == nil {
			out.AddFlag(f)
		}
	}
	cmd.LocalFlags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	return out
}

// usage prints how a command is used: what cobra's own template prints, but with
// the flags in groups. Those of the connection have a topic of the help, or, in a
// program without commands, a section.
func usage(cmd *cobra.Command, out io.Writer) error {
	var b strings.Builder
	section := func(title, text string) {
		if text = strings.TrimRight(text, "\n"); text != "" {
			fmt.Fprintf(&b, "\n%s:\n%s\n", title, text)
		}
	}
	b.WriteString("Usage:\n")
	if cmd.Runnable() {
		fmt.Fprintf(&b, "  %s\n", cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s COMMAND\n", cmd.CommandPath())
	}
	section("Examples", cmd.Example)
	for _, g := range cmd.Groups() {
		section(g.Title, commandsOf(cmd, g.ID))
	}
	rest := "Commands"
	if len(cmd.Groups()) > 0 {
		rest = "More"
	}
	section(rest, commandsOf(cmd, ""))
	if root := cmd.Root(); root.HasAvailableSubCommands() {
		section("Flags", flagUsages(cmd, out, isOwn))
		section("Flags of all commands", flagUsages(cmd, out, isCommon))
		fmt.Fprintf(&b, "\nSee `%s help %s` for how NATS is reached and who logs in.\n", root.Name(), connectionTopic)
	} else {
		section("Flags", flagUsages(cmd, out, func(f *pflag.Flag) bool { return !isConnection(f) }))
		section("Connection flags", flagUsages(cmd, out, isConnection))
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "See `%s COMMAND --help` for more about a command.\n", cmd.CommandPath())
	}
	_, err := fmt.Fprint(cmd.OutOrStderr(), b.String())
	return err
}

// commandsOf lists the commands below one that are in a group.
func commandsOf(cmd *cobra.Command, group string) string {
	var b strings.Builder
	for _, c := range cmd.Commands() {
		if (c.IsAvailableCommand() || c.Name() == "help") && c.GroupID == group {
			fmt.Fprintf(&b, "  %-*s  %s\n", cmd.NamePadding(), c.Name(), c.Short)
		}
	}
	return b.String()
}

// helpWidth is the width of the help where no terminal has another.
const helpWidth = 80

// flagUsages lists the flags of a kind, wrapped to the width of a terminal.
func flagUsages(cmd *cobra.Command, out io.Writer, of func(*pflag.Flag) bool) string {
	width := 0
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		width, _, _ = term.GetSize(int(f.Fd())) // 0 where it is not known
	}
	return flagsOf(cmd, of).FlagUsagesWrapped(cmp.Or(width, helpWidth))
}

// connectionTopic is the topic of the help that tells the flags of the connection.
const connectionTopic = "connection"

// addHelp gives a program with commands its command help, and the topic of the
// connection.
func addHelp(root *cobra.Command, out io.Writer) {
	root.SetUsageFunc(func(cmd *cobra.Command) error { return usage(cmd, out) })
	if !root.HasSubCommands() {
		return
	}
	topic := &cobra.Command{
		Use:   connectionTopic,
		Short: "How NATS is reached, and who logs in",
		Long: "Every command that needs an engine connects to NATS: by its flags, by the\n" +
			"context of the nats program that --context names, or by the environment, in this\n" +
			"order. Without any of these it is the server of this machine,\n" +
			connect.DefaultURL + ".",
	}
	topic.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		fmt.Fprintf(cmd.OutOrStdout(), "%s\n\nConnection flags:\n%s", topic.Long, flagUsages(cmd, out, isConnection))
	})
	help := &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "Show the help of a command, or of the connection",
		Example: "  " + root.Name() + " help " + root.Commands()[0].Name() + "\n  " + root.Name() + " help " + connectionTopic,
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return Usagef("there is no command %q to help with", strings.Join(args, " "))
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	}
	root.AddCommand(topic)
	root.SetHelpCommand(help)
}

// GivenConnection returns the flags of the connection that a command line has, as it
// would be written again, but for some. Passwords and tokens are left out.
func GivenConnection(root *cobra.Command, but ...string) (args []string) {
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) {
		switch {
		case !f.Changed || !isConnection(f) || f.Name == "password" || f.Name == "token" || slices.Contains(but, f.Name):
		case f.Value.Type() == "bool":
			args = append(args, "--"+f.Name+"="+f.Value.String())
		default:
			args = append(args, "--"+f.Name, shellWord(streamwright.Redact(f.Value.String())))
		}
	})
	return args
}

// shellWord quotes a word for a shell if it must be.
func shellWord(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_./:@,+=%", r)
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// ConnectFlags adds the flags that say how NATS is reached, and the flag for the
// engine's prefix. They and the environment variables have the nats program's names.
func ConnectFlags(root *cobra.Command, c *connect.Settings, prefix, namespace *string) {
	f := root.PersistentFlags()
	server := streamwright.Redact(os.Getenv(connect.Env.URL)) // --help shows it
	if server == "" {
		server = connect.DefaultURL
	}
	before := map[string]bool{}
	f.VisitAll(func(f *pflag.Flag) { before[f.Name] = true })
	f.StringVar(&c.URL, "server", "", "the NATS server's `URL`, or several with commas (env NATS_URL)")
	f.Lookup("server").DefValue = server
	f.StringVar(&c.Context, "context", "", "take the rest from a context of the nats program, by its `name` or path (env NATS_CONTEXT)")
	f.StringVar(&c.Creds, "creds", "", "log in with a credentials `file` (env NATS_CREDS)")
	f.StringVar(&c.Nkey, "nkey", "", "log in with the nkey whose seed is in a `file` (env NATS_NKEY)")
	f.StringVar(&c.User, "user", "", "log in with a user's `name` (env NATS_USER)")
	f.StringVar(&c.PasswordFile, "password-file", "", "the `file` whose first line is the user's password (env NATS_PASSWORD_FILE)")
	f.StringVar(&c.Password, "password", "", "the user's `password`, which others on this machine can see here (rather env NATS_PASSWORD)")
	f.StringVar(&c.Token, "token", "", "log in with a `token`, which others on this machine can see here (rather env NATS_TOKEN)")
	f.StringVar(&c.CA, "tlsca", "", "the `file` of the CAs to trust (env NATS_CA)")
	f.StringVar(&c.Cert, "tlscert", "", "the `file` of the client's certificate (env NATS_CERT)")
	f.StringVar(&c.Key, "tlskey", "", "the `file` of the client's key (env NATS_KEY)")
	f.BoolVar(&c.TLSFirst, "tlsfirst", false, "begin with the TLS handshake, as the server must, too (env NATS_TLS_FIRST)")
	f.StringVar(&c.Domain, "js-domain", "", "the JetStream `domain` that has the engine's streams (env NATS_JS_DOMAIN)")
	f.StringVar(&c.InboxPrefix, "inbox-prefix", "", "the `subject` that replies come below (default _INBOX_USER with a user's name, else _INBOX; env NATS_INBOX_PREFIX)")
	f.StringVar(prefix, "prefix", "", "the `word` that the engine's subjects begin with (default \"work\")")
	f.StringVar(namespace, "namespace", "", "the `namespace` to use (env WORK_NAMESPACE)")
	f.Lookup("namespace").DefValue = cmp.Or(os.Getenv(NamespaceEnv), string(streamwright.DefaultNamespace))
	f.VisitAll(func(added *pflag.Flag) {
		if !before[added.Name] {
			inGroup(f, groupConnection, added.Name)
		}
	})
	Common(f, "server", "namespace") // as well
}
