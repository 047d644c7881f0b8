package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/internal/cli"
)

// ofTheWhole says why commands that concern an engine as a whole take no --namespace.
var ofTheWhole = map[string]string{
	"bench":       "it measures an engine of its own",
	"demo":        "it runs an engine of its own",
	"edge":        "a site submits to the default namespace",
	"mirror":      "a site mirrors the default namespace",
	"namespace":   "it is about all namespaces",
	"permissions": "it prints the accounts of all namespaces",
	"salvage":     "it reads the log of the default namespace",
	"serve":       "the engine runs all its namespaces",
	"version":     "it needs no engine",
}

// checkNamespace refuses --namespace where it has no meaning. Such a command doesn't heed the
// environment's either.
func (a *app) checkNamespace(cmd *cobra.Command, _ []string) error {
	top := cmd
	for top.HasParent() && top.Parent() != cmd.Root() {
		top = top.Parent()
	}
	why, whole := ofTheWhole[top.Name()]
	if cmd.HasParent() && cmd.Parent().Name() == "backup" && cmd.Name() == "verify" {
		why, whole = "a backup has the namespace that it is of", true
	}
	if !whole {
		return nil
	}
	if a.Namespace != "" {
		return cli.Usagef("`%s` takes no --namespace: %s", cmd.CommandPath(), why)
	}
	a.Namespace = string(streamwright.DefaultNamespace)
	return nil
}

// join writes names with sep between them.
func join[T ~string](names []T, sep string) string {
	texts := make([]string, len(names))
	for i, n := range names {
		texts[i] = string(n)
	}
	return strings.Join(texts, sep)
}
