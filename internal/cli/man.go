package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// WriteManual writes the manual pages of a tree of commands into a folder: one for the program, and one
// for each of its commands, named PROGRAM-COMMAND.1. It says what the help says, and so escapes
// whatever roff would take for markup; the help is no Markdown, which cobra's own generator reads.
func WriteManual(root *cobra.Command, folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	var write func(*cobra.Command) error
	write = func(cmd *cobra.Command) error {
		if err := os.WriteFile(filepath.Join(folder, pageName(cmd)+".1"), []byte(manualPage(cmd)), 0o644); err != nil {
			return err
		}
		for _, c := range cmd.Commands() {
			if !hasPage(c) {
				continue
			}
			if err := write(c); err != nil {
				return err
			}
		}
		return nil
	}
	return write(root)
}

// hasPage reports whether a command is one that people use: cobra's own have help enough.
func hasPage(cmd *cobra.Command) bool {
	return cmd.IsAvailableCommand() && cmd.Name() != "completion" && cmd.Name() != "help"
}

// pageName is the name of a command's page, such as streamwright-types-set.
func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

func manualPage(cmd *cobra.Command) string {
	root := cmd.Root()
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"Streamwright %s\" \"Streamwright\"\n", strings.ToUpper(roff(pageName(cmd))), roff(root.Version))
	section := func(title, text string) {
		if text != "" {
			fmt.Fprintf(&b, ".SH %s\n%s", title, text)
		}
	}
	section("NAME", roff(pageName(cmd))+` \- `+roff(cmd.Short)+"\n")
	section("SYNOPSIS", synopsis(cmd))
	section("DESCRIPTION", prose(cmd.Long))
	for _, g := range cmd.Groups() {
		section(strings.ToUpper(roff(g.Title)), commandPages(cmd, g.ID))
	}
	if len(cmd.Groups()) == 0 {
		section("COMMANDS", commandPages(cmd, ""))
	}
	section("OPTIONS", options(flagsOf(cmd, isOwn)))
	section("OPTIONS OF ALL COMMANDS", options(flagsOf(cmd, isCommon)))
	if cmd == root {
		section("OPTIONS OF THE CONNECTION", options(flagsOf(cmd, isConnection)))
	}
	section("EXAMPLES", verbatim(cmd.Example))
	section("EXIT STATUS", "0 if it is done; 1 if the operation failed, or the engine refused it; 2 if the command line is wrong.\n")
	if up := cmd.Parent(); up != nil {
		of := root.Name()
		also := fmt.Sprintf("\\fB%s\\fR(1), which has the options of the connection\n", roff(of))
		if up != root {
			also = fmt.Sprintf("\\fB%s\\fR(1), ", roff(pageName(up))) + also
		}
		section("SEE ALSO", also)
	}
	return b.String()
}

// synopsis says how a command is called.
func synopsis(cmd *cobra.Command) string {
	var b strings.Builder
	if cmd.Runnable() {
		rest := strings.TrimPrefix(cmd.UseLine(), cmd.CommandPath())
		fmt.Fprintf(&b, "\\fB%s\\fR%s\n", roff(cmd.CommandPath()), roff(rest))
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, ".br\n\\fB%s\\fR \\fICOMMAND\\fR\n", roff(cmd.CommandPath()))
	}
	return b.String()
}

// commandPages lists the commands below one that are in a group, with the names of their pages.
func commandPages(cmd *cobra.Command, group string) string {
	var b strings.Builder
	for _, c := range cmd.Commands() {
		if hasPage(c) && c.GroupID == group {
			fmt.Fprintf(&b, ".TP\n\\fB%s\\fR(1)\n%s\n", roff(pageName(c)), roff(c.Short))
		}
	}
	return b.String()
}

// options lists flags.
func options(flags *pflag.FlagSet) string {
	var b strings.Builder
	// One line a flag, its help three spaces or more behind it.
	for line := range strings.Lines(flags.FlagUsages()) {
		flag, help, _ := strings.Cut(strings.TrimSpace(line), "   ")
		fmt.Fprintf(&b, ".TP\n\\fB%s\\fR\n%s\n", roff(flag), roff(strings.TrimSpace(help)))
	}
	return b.String()
}

// prose renders text of the help: paragraphs, and lines that are indented as they are.
func prose(text string) string {
	var b strings.Builder
	literal := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if indented := strings.HasPrefix(line, " "); indented != literal && line != "" {
			b.WriteString(map[bool]string{true: ".PP\n.nf\n", false: ".fi\n.PP\n"}[indented])
			literal = indented
		}
		switch {
		case line != "":
			b.WriteString(roff(line) + "\n")
		case !literal:
			b.WriteString(".PP\n")
		}
	}
	if literal {
		b.WriteString(".fi\n")
	}
	return strings.ReplaceAll(b.String(), ".PP\n.PP\n", ".PP\n")
}

// verbatim renders lines as they are.
func verbatim(text string) string {
	if text == "" {
		return ""
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(roff(strings.TrimRight(line, "\n")) + "\n")
	}
	return ".nf\n" + b.String() + ".fi\n"
}

// marks are the characters that roff would take for others.
var marks = strings.NewReplacer(`\`, `\e`, "-", `\-`, "`", `\(ga`, "'", `\(aq`, "^", `\(ha`, "~", `\(ti`)

// roff escapes a line of text.
func roff(line string) string {
	if line = marks.Replace(line); strings.HasPrefix(line, ".") {
		line = `\&` + line
	}
	return line
}
