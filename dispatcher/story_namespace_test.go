package dispatcher

import (
	"fmt"
	"strings"

	"github.com/cockroachdb/datadriven"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// namespaceVerb runs what stories say of namespaces:
//
//	namespace NAME [paused=BOOL] [queued=N] [node=NAME] [existing]
//	remove-namespace NAME
//	forget-namespace NAME    what it held is destroyed
//	namespace-file   the process ends, and another starts with a file of namespaces: a name and a max_queued a line
//	namespaces       where they are
func (st *story) namespaceVerb(td *datadriven.TestData) string {
	switch td.Cmd {
	case "namespace":
		c := core.SetNamespace{Name: events.Namespace(td.CmdArgs[0].Key), Source: events.SourceAPI, Existing: td.HasArg("existing")}
		scan(st, td, "paused", &c.Change.Paused)
		scan(st, td, "queued", &c.Change.Limits.MaxQueued)
		scan(st, td, "node", &c.Change.Node)
		return st.outcome(st.do(c))
	case "remove-namespace":
		return st.outcome(st.do(core.RemoveNamespace{Name: events.Namespace(td.CmdArgs[0].Key), By: "ops"}))
	case "forget-namespace":
		c := core.ForgetNamespace{Name: events.Namespace(td.CmdArgs[0].Key)}
		list, err := st.cfg.Store.Namespaces()
		st.ok(err)
		for _, n := range list {
			if n.Name == c.Name {
				c.CreatedAt = n.CreatedAt
			}
		}
		return st.outcome(st.do(c))
	case "namespace-file":
		st.cfg.FileNamespaces = nil
		for line := range strings.Lines(td.Input) {
			var n events.NamespaceInfo
			_, err := fmt.Sscan(line, &n.Name, &n.Limits.MaxQueued)
			st.ok(err)
			st.cfg.FileNamespaces = append(st.cfg.FileNamespaces, n)
		}
		st.sim.crash()
	case "namespaces":
		list, err := st.cfg.Store.Namespaces()
		st.ok(err)
		var b strings.Builder
		for _, n := range list {
			fmt.Fprintf(&b, "%s\n", namespaceText(n))
		}
		return b.String()
	}
	return ""
}

// scan reads an argument, if it is there.
func scan[T any](st *story, td *datadriven.TestData, name string, to **T) {
	if td.HasArg(name) {
		*to = new(T)
		td.ScanArgs(st.t, name, *to)
	}
}

func namespaceText(n events.NamespaceInfo) string {
	out := fmt.Sprintf("%s of the %s", n.Name, n.Source)
	if n.Removing {
		out += ", being removed for " + n.RemovedBy
	}
	if n.Paused {
		out += ", paused"
	}
	if n.Limits.MaxQueued > 0 {
		out += fmt.Sprintf(", at most %d queued", n.Limits.MaxQueued)
	}
	if n.Node != "" {
		out += ", on " + n.Node
	}
	return out + fmt.Sprintf(", added at %s", n.CreatedAt.Sub(simStart))
}

func describeNamespace(b events.Body) string {
	switch b := b.(type) {
	case *events.NamespaceSet:
		return " " + namespaceText(b.Namespace)
	case *events.NamespaceRemoved:
		return fmt.Sprintf(" %s by %s", b.Name, b.By)
	}
	return ""
}
