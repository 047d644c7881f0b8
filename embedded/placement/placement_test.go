package placement

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/streamwright/streamwright/wire"
)

func names(prefix string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("%s%d", prefix, i))
	}
	return all
}

func TestHeirIsTheSameInEveryRelease(t *testing.T) {
	for log, want := range map[string]string{"default": "n1", "acme": "n1", "beta": "n1", "gamma": "n2", "delta": "n1", "epsilon": "n2", "lambda": "n3"} {
		nodes := []string{"n1", "n2", "n3"}
		if got := Heir(log, nodes); got != want {
			t.Errorf("heir of %s is %s, not %s", log, got, want)
		}
		slices.Reverse(nodes)
		if got := Heir(log, nodes); got != want {
			t.Errorf("heir of %s is %s, not %s, with the nodes the other way round", log, got, want)
		}
	}
	if got := Heir("acme", nil); got != "" {
		t.Errorf("heir without nodes is %q", got)
	}
}

// A node's logs spread over the nodes that are left, and no other log's heir changes.
func TestHeirOfANodeThatGoes(t *testing.T) {
	for _, size := range [][2]int{{3, 1000}, {10, 1000}, {50, 10_000}} {
		nodes, logs := names("node", size[0]), names("log", size[1])
		by := map[string]int{}
		for _, l := range logs {
			by[Heir(l, nodes)]++
		}
		got := map[string]int{}
		for _, l := range logs {
			before, after := Heir(l, nodes), Heir(l, nodes[1:])
			if before == nodes[0] {
				got[after]++
			} else if before != after {
				t.Errorf("%d nodes: the heir of %s changes from %s to %s, though %s is left", size[0], l, before, after, before)
			}
		}
		share := float64(by[nodes[0]]) / float64(len(nodes)-1)
		for n, logs := range got {
			if float64(logs) > 1.3*share+4 {
				t.Errorf("%d nodes: %s gets %d, of a share of %.1f", size[0], n, logs, share)
			}
		}
		for n, logs := range by {
			if even := float64(size[1]) / float64(size[0]); float64(logs) > 1.5*even || float64(logs) < even/1.5 {
				t.Errorf("%d nodes: %s is heir of %d logs, of %.0f", size[0], n, logs, even)
			}
		}
	}
}

func TestPinnedMoveThatFails(t *testing.T) {
	p := NewPlanner()
	nodes := []Node{{"n1", true}, {"n2", true}, {"n3", true}}
	logs := []Log{{Name: "acme", Owner: "n1", Node: "n2"}}
	now := epoch
	ask := func() (Move, time.Duration) {
		t.Helper()
		for begun := now; ; now = now.Add(time.Second) {
			if m, ok := p.Next(now, nodes, logs); ok {
				return m, now.Sub(begun)
			}
			if now.Sub(begun) > time.Hour {
				t.Fatal("no move within an hour")
			}
		}
	}
	want := Move{Log: "acme", From: "n1", To: "n2", Because: wire.TakeoverMoved}
	for i, wait := range []time.Duration{0, 1, 2, 4, 8, 16, 32, 60, 60} {
		m, waited := ask()
		if m != want || waited != wait*time.Second {
			t.Errorf("try %d: %+v after %v, not %+v after %v", i, m, waited, want, wait*time.Second)
		}
		p.Done(now, m, false)
	}
	logs[0].Node = "n3"
	want.To = "n3"
	m, waited := ask()
	if m != want || waited != 0 {
		t.Errorf("pinned to another node: %+v after %v", m, waited)
	}
	p.Done(now, Move{Log: "other"}, true)
	if m, ok := p.Next(now.Add(time.Hour), nodes, logs); ok {
		t.Errorf("%+v, though another is under way", m)
	}
	p.Done(now, m, true)
	if m, ok := p.Next(now.Add(time.Second), nodes, logs); ok {
		t.Errorf("%+v, though the log is there", m)
	}
}

// What nobody can hand over is left alone, and a pin to a node that isn't fit waits.
func TestLeftAlone(t *testing.T) {
	for name, logs := range map[string][]Log{
		"fixed":             {{Name: "a", Owner: "n1", Node: "n2", Fixed: true}},
		"without an owner":  {{Name: "a", Node: "n2"}},
		"owner unknown":     {{Name: "a", Owner: "n9"}, {Name: "b", Owner: "n9"}},
		"pin is not fit":    {{Name: "a", Owner: "n1", Node: "n3"}, {Name: "b", Owner: "n1", Node: "n3"}, {Name: "c", Owner: "n1", Node: "n3"}},
		"pin is unknown":    {{Name: "a", Owner: "n1", Node: "n9"}, {Name: "b", Owner: "n1", Node: "n9"}},
		"owner is not fit":  {{Name: "a", Owner: "n3"}, {Name: "b", Owner: "n3"}, {Name: "c", Owner: "n3"}},
		"as even as can be": {{Name: "a", Owner: "n1", Load: 1000}, {Name: "b", Owner: "n2"}},
	} {
		p := NewPlanner()
		for i := range 100 {
			if m, ok := p.Next(epoch.Add(time.Duration(i)*time.Second), []Node{{"n1", true}, {"n2", true}, {"n3", false}}, logs); ok {
				t.Errorf("%s: %+v", name, m)
			}
		}
	}
}

// A few events in the log that can't be moved do not keep two nodes from giving to its own.
func TestAlmostIdle(t *testing.T) {
	p := NewPlanner()
	logs := []Log{{Name: "default", Owner: "n1", Load: 0.05, Fixed: true}}
	for i := range 6 {
		logs = append(logs, Log{Name: fmt.Sprint(i), Owner: []string{"n2", "n3"}[i%2]})
	}
	for i := range 100 {
		if m, ok := p.Next(epoch.Add(time.Duration(i)*time.Second), []Node{{"n1", true}, {"n2", true}, {"n3", true}}, logs); ok {
			if m.To != "n1" {
				t.Errorf("%+v", m)
			}
			return
		}
	}
	t.Error("n1 owns one log, the others three each")
}

func TestForgets(t *testing.T) {
	p := NewPlanner()
	p.Next(epoch, []Node{{"n1", true}, {"n2", true}}, []Log{{Name: "a", Owner: "n1", Node: "n2"}, {Name: "b"}})
	p.Next(epoch, []Node{{"n3", true}}, []Log{{Name: "c"}})
	if len(p.nodes) != 1 || len(p.logs) != 1 {
		t.Errorf("%d nodes and %d logs are remembered", len(p.nodes), len(p.logs))
	}
	p.Done(epoch, Move{Log: "a", From: "n1", To: "n2", Because: wire.TakeoverMoved}, false) // which is gone
}
