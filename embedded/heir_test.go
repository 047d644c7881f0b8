package embedded

import (
	"fmt"
	"testing"

	"github.com/streamwright/streamwright/wire"
)

// The heir of a log follows it and has room. Of those it has the owner's settings, a replica, and
// the least lag, in this order; of a full owner's log, a replica first.
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
	keep := []NodeState{{Name: "a", Online: true, Current: true}, {Name: "b", Online: true, Current: true}, {Name: "g", Online: true}}
	for name, c := range map[string]struct {
		nodes   []wire.Node
		servers []NodeState
		heir    string
		full    bool
	}{
		"none":                         {[]wire.Node{node("a", full), {Node: "b"}}, keep, "", false},
		"with a replica":               {[]wire.Node{node("a"), node("c"), node("d"), node("e"), node("f")}, keep, "a", false},
		"also if it is behind":         {[]wire.Node{node("a", behind), node("c")}, keep, "a", false},
		"without, if no other has":     {[]wire.Node{node("a", full), node("c"), node("d", behind)}, keep, "c", false},
		"without, for its settings":    {[]wire.Node{node("a", differs), node("c")}, keep, "c", false},
		"with, if the owner is full":   {[]wire.Node{node("a", differs), node("c")}, keep, "a", true},
		"not one that copies":          {[]wire.Node{node("g"), node("b", behind)}, keep, "b", false},
		"replicas are not known":       {[]wire.Node{node("a", behind), node("c")}, nil, "c", false},
		"of those that differ the one": {[]wire.Node{node("b", differs), node("c", differs)}, keep, "b", false},
	} {
		for i := range 20 { // whichever log it is
			if got := heirOf(fmt.Sprint("log", i), c.full, c.nodes, c.servers); got != c.heir {
				t.Errorf("%s: %q, want %q", name, got, c.heir)
			}
		}
	}
}
