package placement_test

import (
	"fmt"
	"time"

	"github.com/streamwright/streamwright/embedded/placement"
)

// A node joins, and gets a log once it has been fit for a while.
func ExamplePlanner() {
	p := placement.NewPlanner()
	nodes := []placement.Node{{Name: "n1", Fit: true}, {Name: "n2", Fit: true}}
	logs := []placement.Log{
		{Name: "default", Owner: "n1", Fixed: true},
		{Name: "acme", Owner: "n1", Load: 250},
		{Name: "beta", Owner: "n1", Load: 200},
	}
	for now := time.Now(); ; now = now.Add(time.Second) {
		if m, ok := p.Next(now, nodes, logs); ok {
			fmt.Println(m.Log, m.From, m.To, m.Because)
			p.Done(now, m, true)
			return
		}
	}
	// Output: acme n1 n2 balanced
}
