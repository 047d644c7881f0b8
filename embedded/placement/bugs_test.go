package placement

import (
	"math"
	"testing"
	"time"

	"github.com/streamwright/streamwright/internal/need"
)

// A bug is planted in a [Planner] by other rules, or by other words to it.
type bug struct {
	name  string
	rules func(*rules)
	hide  func([]Node, []Log) // changes what the planner is told
	many  bool                // it forgets that a move is under way
	finds string              // a fault that it leads to
}

var bugs = []bug{
	{name: "ignores whether nodes are fit", hide: func(nodes []Node, _ []Log) {
		for i := range nodes {
			nodes[i].Fit = true
		}
	}, finds: "unfit"},
	{name: "ignores pins", hide: func(_ []Node, logs []Log) {
		for i := range logs {
			logs[i].Node = ""
		}
	}, finds: "pin"},
	{name: "does not meet pins", hide: func(_ []Node, logs []Log) {
		for i := range logs {
			if logs[i].Node != "" {
				logs[i].Node = "nowhere"
			}
		}
	}, finds: "unmet"},
	{name: "moves what is fixed", hide: func(_ []Node, logs []Log) { logs[0].Fixed = false }, finds: "fixed"},
	{name: "ignores idle logs", hide: func(_ []Node, logs []Log) {
		for i := range logs {
			logs[i].Fixed = logs[i].Fixed || logs[i].Load == 0
		}
	}, finds: "uneven"},
	{name: "ignores loads", hide: func(_ []Node, logs []Log) {
		for i := range logs {
			logs[i].Load = 0
		}
	}, finds: "uneven"},
	{name: "several at once", many: true, finds: "second"},
	{name: "no rest", rules: func(r *rules) { r.rest = 0 }, finds: "again"},
	{name: "no settling", rules: func(r *rules) { r.settle = 0 }, finds: "unsettled"},
	{name: "no bound", rules: func(r *rules) { r.moves = 1000 }, finds: "rate"},
	{name: "bound without the burst", rules: func(r *rules) { r.moves, r.burst = 30+5, 5 }, finds: "rate"},
	{name: "too slow", rules: func(r *rules) { r.moves = r.burst + 1 }, finds: "uneven"},
	{name: "no wait after failures", rules: func(r *rules) { r.retry, r.longest = 1, 1 }, finds: "impatient"},
	{name: "waits that don't grow", rules: func(r *rules) { r.longest = r.retry }, finds: "impatient"},
	{name: "believes old owners", rules: func(r *rules) { r.believe = 0 }, finds: "stale"},
	{name: "too much slack", rules: func(r *rules) { r.slack = 1 }, finds: "uneven"},
	{name: "no slack", rules: func(r *rules) { r.slack = 0 }, finds: "jitter"},
	{name: "no average", rules: func(r *rules) { r.average = 1 }, finds: "swing"},
	{name: "short average", rules: func(r *rules) { r.average = 10 * time.Second }, finds: "swing"},
}

// buggy is a planner with a bug.
type buggy struct {
	*Planner
	bug
}

func (b bug) plan() decider {
	p := NewPlanner()
	if b.rules != nil {
		b.rules(&p.rules)
	}
	return buggy{p, b}
}

func (b buggy) Next(now time.Time, nodes []Node, logs []Log) (Move, bool) {
	if b.many {
		b.moving = Move{}
	}
	if b.hide != nil {
		b.hide(nodes, logs)
	}
	return b.Planner.Next(now, nodes, logs)
}

func TestPlantedBugs(t *testing.T) {
	need.Seconds(t)
	need.NoRace(t, noGoroutines)
	t.Parallel()
	for _, b := range bugs {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(seeds) {
				fault := flaps(seed, b.plan)[b.finds]
				if b.finds != "jitter" && b.finds != "swing" {
					fault = chaos(seed, b.plan)[b.finds]
				}
				if fault != "" {
					t.Logf("seed %d: %s: %s", seed, b.finds, fault)
					return
				}
			}
			t.Errorf("the simulation has not found it in %d seeds", seeds)
		})
	}
}

func TestLoadsOutOfBounds(t *testing.T) {
	s := newSim(1, standardPlan, 3, 12)
	for i, l := range s.logs[:4] {
		l.load = []float64{math.NaN(), math.Inf(1), math.Inf(-1), -5}[i]
	}
	s.run(10 * time.Minute)
	s.failing = 0
	for _, l := range s.logs {
		l.load = 100
	}
	s.run(2 * time.Hour)
	s.even()
	for kind, fault := range s.faults {
		t.Errorf("%s: %s", kind, fault)
	}
}
