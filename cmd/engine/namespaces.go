package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/internal/cli"
)

// checkNamespace refuses --namespace where it has no meaning. Such a command doesn't heed the
// environment's either.
func (a *app) checkNamespace(cmd *cobra.Command, _ []string) error {
	top := cmd
	for top.HasParent() && top.Parent() != cmd.Root() {
		top = top.Parent()
	}
	why, whole := console.OfTheWhole[top.Name()]
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
