package main

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright/internal/cli"
)

// otherNames lists, for each command, other names that people try for it.
var otherNames = map[string][]string{
	"serve": {"server", "start", "run", "up", "daemon"}, "status": {"stats", "info", "health", "stat"}, "list": {"items", "item", "ls", "ps", "jobs", "queue", "find", "search"},
	"show": {"get", "describe", "inspect"}, "history": {"events"}, "logs": {"log"}, "why": {"explain"}, "tail": {"watch", "follow"},
	"replay": {"retry", "requeue", "rerun"}, "purge": {"delete", "remove", "rm", "forget"}, "cancel": {"stop", "kill", "abort"}, "dead": {"failed", "dlq", "deadletters", "causes"},
	"schedules": {"crons"}, "schedule": {"cron"}, "types": {"type", "queues"}, "workers": {"worker"}, "submit": {"add", "push", "enqueue", "publish", "new"},
	"permissions": {"users", "accounts", "permission"}, "rejected": {"rejections"}, "remove": {"delete", "rm"}, "set": {"add", "create", "new", "update", "edit"}, "fire": {"run", "trigger"},
}

// listings are the commands that list by themselves, and what is meant by names
// below them.
var listings = map[string]map[string]string{
	"workers": {"drain": "drain", "undrain": "undrain", "reset": "circuit reset --worker"},
	"types":   {"pause": "pause", "resume": "resume", "reset": "circuit reset"},
	"dead":    {"replay": "replay --dead", "purge": "purge", "causes": "dead --causes"},
}

// hint tells the commands what is meant by names that are none.
func hint(root *cobra.Command) {
	suggest(root)
	of := func(name string) *cobra.Command { cmd, _, _ := root.Find([]string{name}); return cmd }
	for name, below := range listings {
		meant := maps.Clone(below)
		for _, verb := range []string{"list", "ls", "show", "get"} {
			meant[verb] = name
		}
		cli.Meant(of(name), meant)
	}
	// The list of schedules is a command, and what changes one another.
	schedule, schedules := map[string]string{}, map[string]string{}
	for _, verb := range []string{"list", "ls", "show", "get"} {
		schedule[verb], schedules[verb] = "schedules", "schedules"
	}
	for _, cmd := range of("schedule").Commands() {
		for _, verb := range slices.Concat([]string{cmd.Name()}, otherNames[cmd.Name()]) {
			schedules[verb] = "schedule " + cmd.Name()
		}
	}
	cli.Meant(of("schedule"), schedule)
	cli.Meant(of("schedules"), schedules)
}

// suggest tells cobra the words for each command.
func suggest(cmd *cobra.Command) {
	cmd.SuggestFor = otherNames[cmd.Name()]
	for _, c := range cmd.Commands() {
		if !strings.HasPrefix(c.Name(), "__") {
			suggest(c)
		}
	}
}
