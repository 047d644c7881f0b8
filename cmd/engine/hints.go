package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright/internal/cli"
)

// otherNames lists, for each command, other names that people try for it.
var otherNames = map[string][]string{
	"serve": {"server", "start", "run", "up", "daemon"}, "status": {"stats", "info", "health", "stat"}, "list": {"items", "item", "ls", "ps", "jobs", "queue", "find", "search"},
	"show": {"get", "describe", "inspect"}, "history": {"events"}, "logs": {"log"}, "why": {"explain"}, "tail": {"follow"}, "top": {"htop", "monitor", "dashboard"},
	"replay": {"retry", "requeue", "rerun"}, "purge": {"delete", "remove", "rm", "forget"}, "cancel": {"stop", "kill", "abort"}, "dead": {"failed", "dlq", "deadletters", "causes"},
	"schedules": {"schedule", "cron", "crons"}, "batches": {"batch"}, "types": {"type", "queues"}, "workers": {"worker"}, "submit": {"add", "push", "enqueue", "publish", "new"},
	"permissions": {"users", "accounts", "permission"}, "rejected": {"rejections"}, "remove": {"delete", "rm"}, "set": {"add", "create", "new", "update", "edit"}, "fire": {"run", "trigger"},
}

// meant are, below nouns and (below "") without one, the names that stand for a command elsewhere.
var meant = map[string]map[string]string{
	"":        {"pause": "types pause", "resume": "types resume", "reset": "types reset", "drain": "workers drain", "undrain": "workers undrain"},
	"dead":    {"replay": "replay --dead", "purge": "purge", "causes": "dead --causes", "show": "show"},
	"workers": {"show": "workers"},
	"batches": {"cancel": "cancel"},
}

// hint tells the commands what is meant by names that are none.
func hint(root *cobra.Command) {
	suggest(root)
	for name, below := range meant {
		cmd, _, _ := root.Find(strings.Fields(name))
		cli.Meant(cmd, below)
	}
}

// suggest tells cobra the words for each command that the help lists.
func suggest(cmd *cobra.Command) {
	if !cmd.Hidden {
		cmd.SuggestFor = otherNames[cmd.Name()]
	}
	for _, c := range cmd.Commands() {
		suggest(c)
	}
}
