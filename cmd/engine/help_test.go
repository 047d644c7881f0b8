package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/streamwright/streamwright/internal/cli"
)

// everyCommand calls fn with each command, but for those that cobra adds.
func everyCommand(t *testing.T, fn func(t *testing.T, cmd *cobra.Command)) {
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		t.Run(strings.ReplaceAll(cmd.CommandPath(), " ", "_"), func(t *testing.T) { fn(t, cmd) })
		for _, c := range cmd.Commands() {
			walk(c)
		}
	}
	walk(rootCommand(&app{}))
}

// Every command is in a group, has an example that can be run as it is pasted, and
// says in one way what it does.
func TestCommandsAreDescribedAlike(t *testing.T) {
	const mostShort = 65 // characters: the list of commands has 80 columns
	everyCommand(t, func(t *testing.T, cmd *cobra.Command) {
		if root := cmd.Root(); cmd.Parent() == root && cmd.GroupID == "" && !cmd.Hidden {
			t.Error("it is in no group: add it to groups")
		}
		if cmd.Example == "" {
			t.Error("it has no example")
		}
		verb, _, _ := strings.Cut(cmd.Short, " ")
		if verb = strings.TrimRight(verb, ",:;"); verb == "" || !unicode.IsUpper(rune(verb[0])) || strings.HasSuffix(verb, "s") || slices.Contains([]string{"A", "An", "The"}, verb) {
			t.Errorf("Short does not begin with a verb in the imperative: %q", cmd.Short)
		}
		if strings.HasSuffix(cmd.Short, ".") || len(cmd.Short) > mostShort {
			t.Errorf("Short ends with a period, or has more than %d characters: %q", mostShort, cmd.Short)
		}
		for line := range strings.Lines(cmd.Example) {
			if !strings.HasPrefix(line, "  engine ") {
				t.Errorf("a line of the example is not \"  engine …\": %q", line)
				continue
			}
			checkExample(t, line)
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) { checkFlag(t, f) })
	})
}

var acronym = regexp.MustCompile(`^[A-Z]{2,}\b`)

// checkFlag checks the help of a flag: it goes on from the flag's name, so it begins
// in lower case, and is no sentence.
func checkFlag(t *testing.T, f *pflag.Flag) {
	t.Helper()
	_, usage := pflag.UnquoteUsage(f)
	if usage == "" || strings.HasSuffix(usage, ".") || unicode.IsUpper(rune(usage[0])) && !acronym.MatchString(usage) {
		t.Errorf("--%s: the help is empty, ends with a period or begins with a capital: %q", f.Name, usage)
	}
	if name, _ := pflag.UnquoteUsage(f); name == "string" && f.NoOptDefVal == "" {
		t.Errorf("--%s: the help does not name its value: put a word of it into back quotes", f.Name)
	}
}

// shellWords splits a line as a shell does, up to a redirection.
func shellWords(line string) (out []string) {
	for _, m := range regexp.MustCompile(`'[^']*'|"[^"]*"|\S+`).FindAllString(line, -1) {
		if m == ">" || m == "|" {
			break
		}
		out = append(out, strings.Trim(m, `'"`))
	}
	return out
}

// checkExample checks that the command of an example takes its flags and arguments.
func checkExample(t *testing.T, line string) {
	t.Helper()
	args := shellWords(line)[1:]
	cmd, rest, err := rootCommand(&app{}).Find(args)
	if err == nil {
		err = cmd.ParseFlags(rest)
	}
	if err == nil {
		err = cmd.ValidateArgs(cmd.Flags().Args())
	}
	if err != nil {
		t.Errorf("the example %q: %v", strings.TrimSpace(line), err)
	}
}

// The help of each command fits a terminal of 80 columns.
func TestHelpHas80Columns(t *testing.T) {
	everyCommand(t, func(t *testing.T, cmd *cobra.Command) {
		args := append(strings.Fields(cmd.CommandPath())[1:], "--help")
		for _, line := range lines(engine(t, "", args...).wants(t, 0).out) {
			if n := utf8.RuneCountInString(line); n > 80 {
				t.Errorf("a line has %d columns: %s", n, line)
			}
		}
	})
}

// The flags of the connection are in one place of the help.
func TestConnectionFlagsHaveATopic(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"list", "--help"}, {"help", "list"}, {"schedules", "set", "--help"}} {
		r := engine(t, "", args...).wants(t, 0, "\nFlags:\n", "\nFlags of all commands:\n", "--server URL", "engine help connection")
		for _, flag := range []string{"--tlscert", "--nkey", "--creds", "--js-domain"} {
			if strings.Contains(r.out, flag) {
				t.Errorf("%q shows %s", args, flag)
			}
		}
	}
	for _, args := range [][]string{{"help", "connection"}, {"connection", "--help"}, {"connection"}} {
		engine(t, "", args...).wants(t, 0, "Connection flags:\n", "--server URL", "--tlscert file", "--nkey file", "--creds file", "--js-domain domain", "--prefix word")
	}
	r := engine(t, "", "--help").wants(t, 0, "Exit codes: 0 done;")
	last := -1
	for _, g := range groups {
		at := strings.Index(r.out, "\n"+g.title+":\n")
		if at <= last {
			t.Errorf("the help does not have the group %q, in its place:\n%s", g.title, r.out)
		}
		last = at
	}
}

// What people type by mistake, how each program answers, and with which exit code.
func TestWrongCalls(t *testing.T) {
	url := start(t).URL
	for line, says := range map[string]string{
		// names of commands
		"list items":          "`engine list`",
		"workers show":        "use `engine workers`",
		"types ls":            "did you mean list?",
		"schedules delete n":  "did you mean remove?",
		"schedules nonsense":  `no command "nonsense"`,
		"batches nonsense":    "use list, show, open, seal",
		"dead replay":         "use `engine replay --dead`",
		"rejected nonsense":   "use list, show, replay, purge",
		"pause email":         "use `engine types pause`",
		"schedule x --cron x": "did you mean schedules?",
		"items":               "did you mean list?",
		"retry":               "did you mean replay?",
		"worker":              "did you mean workers?",
		"stats":               "did you mean status?",
		"help nonsense":       `no command "nonsense"`,
		"completion nonsense": "use bash, zsh, fish, powershell",
		// arguments
		"history":         "an argument is missing: write it as `engine history ID`",
		"types set":       "`engine types set TYPE KEY=VALUE…`",
		"types pause a b": `"b" is one argument too many: write it as ` + "`engine types pause TYPE`",
		"status now":      `"now" is one argument too many`,
		"state":           "--at is missing: give a position",
		"submit":          "give the TYPE",
		"submit email x":  "'x' at byte 1: expected a value",
		"submit E":        "no type name",
		// flags
		"list --limit x":                                  `invalid --limit "x": use a whole number`,
		"list --limit 99999999999999999999":               "use a whole number",
		"list --all=perhaps":                              "use true or false",
		"list --colour":                                   "there is no flag --colour",
		"list -x":                                         "there is no flag -x",
		"list --limit":                                    "--limit has no value: give a number",
		"list --state":                                    "--state has no value: give a state",
		"list --request-timeout 5":                        "use a duration such as 500ms, 90s, 5m or 1h30m",
		"list --created-after noon":                       "use 10m (ago), 2h or a time",
		"show --intake x":                                 "use a whole number, 0 or more",
		"submit email --delay 5":                          `invalid --delay "5": use a duration`,
		"submit email --label x":                          `invalid --label "x": use key=value`,
		"tail --from-seq -1":                              "use a whole number, 0 or more",
		"tail --since 5":                                  `invalid --since "5": use 10m`,
		"types pause email --for x":                       "use a duration",
		"types pause email --for -5s":                     "use a duration above 0",
		"types set email capacity=x":                      `capacity is "x": it must be a whole number`,
		"types set email lease=5x":                        "it must be a duration such as",
		"types set email circuit.ratio=x":                 "it must be a number",
		"types set email circuit.count_no_retry=x":        "it must be true or false",
		`types set email codes={"a":{},"a":{}}`:           "the field \"a\" occurs twice",
		`types set email rates=[]{}`:                      "something follows the JSON document",
		"types set email rates=x":                         "'x' at byte 1: expected a value",
		"types set email per_priority={x}":                "expected the name of a field, in double quotes",
		`types set email codes={"busy":1}`:                "it must be a table",
		"serve --durability perhaps":                      `invalid --durability "perhaps": use always or interval`,
		"serve --http nonsense":                           `invalid --http "nonsense": use host:port`,
		"bench --only nonsense":                           "use floor, flow",
		"work email --concurrency 5000 -- cat":            "use 1 to 1000",
		"schedules next --cron x":                         "has 1 field: it must have 5",
		"replay " + anID + " --max-attempts -1":           `invalid --max-attempts "-1": use a whole number, 1 or more`,
		"list --limit 0":                                  `invalid --limit "0": use a whole number, 1 or more`,
		"submit email --max-attempts 0":                   "use a whole number, 1 or more",
		"submit email --timeout 0s":                       "use a duration above 0",
		"submit email --estimated-duration 0s":            "use a duration above 0",
		"replay " + anID + " --max-attempts 0":            "use a whole number, 1 or more",
		"schedules set n --max-attempts 0":                "use a whole number, 1 or more",
		"schedules set n --timeout 0s":                    "use a duration above 0",
		"schedules set n --every 0s":                      "use a duration above 0",
		"batches open --count 0":                          "use a whole number, 1 or more",
		"work email --concurrency 0 -- cat":               "use a whole number, 1 or more",
		"reschedule " + anID + " --delay 0s":              "use a duration above 0",
		"replay " + anID + " --params {":                  "it ends too soon",
		"list --server %%%":                               "is no server URL",
		"reschedule " + anID + " --priority 99 --at noon": "0 to 9",
	} {
		t.Run(strings.ReplaceAll(line, "/", "_"), func(t *testing.T) {
			t.Setenv("NATS_URL", url)
			r := engine(t, "", strings.Fields(line)...).wants(t, cli.ExitUsage, says, "--help`.")
			for _, raw := range []string{"strconv", "time: ", "invalid character", "looking for", "json: ", "arg(s)", "unknown command", "accepts "} {
				if strings.Contains(r.errs, raw) {
					t.Errorf("it says %q, as the library does: %s", raw, r.errs)
				}
			}
		})
	}
}

// Commands of commands show their help, and are no mistake.
// Help for a command that does not exist is an error, not another command's help.
func TestHelpForAnUnknownCommand(t *testing.T) {
	for _, args := range []string{"beacon --help", "beacon -h", "beacon x --help", "types nope --help", "schedule nope -h", "--json beacon --help", "help beacon"} {
		engine(t, "", strings.Fields(args)...).wants(t, 2, "there is no command")
	}
	for _, args := range []string{"--help", "types --help", "types set --help", "submit x --help", "help types", "help connection"} {
		engine(t, "", strings.Fields(args)...).wants(t, 0, "lags:\n")
	}
}

func TestACommandOfCommandsShowsItsHelp(t *testing.T) {
	engine(t, "", "completion").wants(t, 0, "Commands:\n")
}
