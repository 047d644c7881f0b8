package embedded

import (
	"fmt"
	"testing"

	"github.com/streamwright/streamwright/wire"
)

// The heir of a log follows it, has room, the owner's settings and a replica of the log, and is
// least behind, in this order.
func TestHeirOf(t *testing.T) {
	node := func(name string, change ...func(*wire.Node)) wire.Node {
		n := wire.Node{Node: name, Online: true, Role: wire.RoleStandby}
		for _, c := range change {
			c(&n)
		}
		return n
	}
	differs := func(n *wire.Node) { n.SettingsDiffer = true }
	behind := func(n *wire.Node) { n.LagEvents = 1 }
	full := func(n *wire.Node) { n.Full = wire.AlarmDiskLow }
	keep := []NodeState{{Name: "a"}, {Name: "b"}}
	for name, c := range map[string]struct {
		nodes   []wire.Node
		servers []NodeState
		heir    string
	}{
		"none":                         {[]wire.Node{node("a", full), {Node: "b"}}, keep, ""},
		"with a replica":               {[]wire.Node{node("a"), node("c"), node("d"), node("e"), node("f")}, keep, "a"},
		"also if it is behind":         {[]wire.Node{node("a", behind), node("c")}, keep, "a"},
		"without, if no other has":     {[]wire.Node{node("a", full), node("c"), node("d", behind)}, keep, "c"},
		"without, for its settings":    {[]wire.Node{node("a", differs), node("c")}, keep, "c"},
		"replicas are not known":       {[]wire.Node{node("a", behind), node("c")}, nil, "c"},
		"of those that differ the one": {[]wire.Node{node("b", differs), node("c", differs)}, keep, "b"},
	} {
		for i := range 20 { // whichever log it is
			if got := heirOf(fmt.Sprint("log", i), c.nodes, c.servers); got != c.heir {
				t.Errorf("%s: %q, want %q", name, got, c.heir)
			}
		}
	}
}
