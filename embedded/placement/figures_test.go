package placement

import (
	"fmt"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/streamwright/streamwright/internal/need"
)

// sizes are clusters of nodes and logs.
var sizes = [][2]int{{3, 10}, {10, 100}, {50, 1000}}

// atRest returns a cluster that has come to rest, with loads or idle.
func atRest(seed uint64, plan func() decider, nodes, logs int, idle bool) *sim {
	s := newSim(seed, plan, nodes, logs)
	for _, l := range s.logs {
		if !idle {
			l.load = s.drawLoad()
		}
	}
	s.rest()
	return s
}

// until lets time pass until something is so, but not for longer than a cluster takes to come
// to rest. It returns for how long.
func (s *sim) until(is func() bool) time.Duration {
	begun := s.now
	for s.now.Sub(begun) < converges(len(s.logs)) && !is() {
		s.run(time.Second)
	}
	return s.now.Sub(begun)
}

// spread returns the loads of the lightest and the heaviest node, as parts of the mean.
func (s *sim) spread() (least, most float64) {
	by, mean, least := s.loads()
	for _, v := range by {
		most = max(most, v)
	}
	return least / mean, most / mean
}

// TestFigures measures how fast clusters of several sizes come to rest.
func TestFigures(t *testing.T) {
	need.Seconds(t)
	need.NoRace(t, noGoroutines)
	t.Parallel()
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "nodes x logs\tloads\tall at one node: at rest after\tmoves\tlightest, heaviest\ta node joins: has its share after\tmoves\ta log floods: at rest after\tmoves\ta node dies: heir's most\tat rest after\tmoves")
	for _, size := range sizes {
		for _, idle := range []bool{true, false} {
			nodes, logs := size[0], size[1]
			s := newSim(1, standardPlan, nodes, logs)
			for _, l := range s.logs {
				l.owner.set(s.now, s.nodes[0])
				if !idle {
					l.load = s.drawLoad()
				}
			}
			rest, moves := s.rest()
			s.even()
			least, most := s.spread()
			fmt.Fprintf(w, "%d x %d\t%s\t%v\t%d\t%.2f, %.2f\t", nodes, logs, map[bool]string{true: "idle", false: "mixed"}[idle], rest, moves, least, most)

			joined := s.join()
			before := s.moves
			share := s.until(func() bool {
				by, mean, _ := s.loads()
				return by[joined] >= 0.75*mean || by[joined] >= mean-2*idleCost && idle
			})
			if limit := time.Minute + time.Duration(logs/nodes)*5*time.Second; share > limit {
				s.fault("joined", "it has its share after %v, more than %v", share, limit)
			}
			fmt.Fprintf(w, "%v\t%d\t", share, s.moves-before)
			s.rest()
			s.even()

			_, mean, _ := s.loads()
			s.logs[1].load += mean
			flood, moves := s.rest()
			s.even()
			fmt.Fprintf(w, "%v\t%d\t", flood, moves)

			heirs := s.dies(s.nodes[1])
			rest, moves = s.rest()
			s.even()
			fmt.Fprintf(w, "%s\t%v\t%d\n", heirs, rest, moves)
			for kind, fault := range s.faults {
				t.Errorf("%d x %d: %s: %s", nodes, logs, kind, fault)
			}
		}
	}
	w.Flush()
	t.Log("\n" + out.String())
}

// rest lets time pass until nothing has moved for ten minutes. It returns when the last move
// ended, and how many there were.
func (s *sim) rest() (time.Duration, int) {
	begun, before, moves, last := s.now, s.moves, s.moves, s.now
	s.until(func() bool {
		if s.moves != moves {
			moves, last = s.moves, s.now
		}
		return s.now.Sub(last) > 10*time.Minute
	})
	return last.Sub(begun), s.moves - before
}

// dies loses a node, and gives its logs to their heirs.
func (s *sim) dies(n *simNode) string {
	var left []string
	for _, o := range s.nodes {
		if o != n && o.up {
			left = append(left, o.name)
		}
	}
	s.set(n, false, false)
	got, logs := map[string]int{}, 0
	for _, l := range s.logs {
		if l.owner.is == n {
			heir := Heir(l.name, left)
			l.expiry, l.movedTo = time.Time{}, nil
			l.owner.set(s.heard(), s.node(heir))
			got[heir]++
			logs++
		}
	}
	most := 0
	for _, n := range got {
		most = max(most, n)
	}
	share := float64(logs) / float64(len(left))
	if limit := 3 + 3*share; float64(most) > limit {
		s.fault("heirs", "one of %d heirs of %d logs got %d", len(left), logs, most)
	}
	return fmt.Sprintf("%d of %d", most, logs)
}

// varying are loads that must not make logs move to and fro.
var varying = []struct {
	name  string
	kind  string // of the fault
	part  float64
	shape shape
}{
	{"all ±30 %, drawn each second", "jitter", 1, shape{jitter: 0.3, every: time.Second}},
	{"all ±30 %, drawn each minute", "jitter", 1, shape{jitter: 0.3, every: time.Minute}},
	{"a tenth between nothing and twice, each 30 s", "swing", 0.1, shape{swing: true, every: 30 * time.Second}},
	{"all between nothing and twice, each 30 s", "swing", 1, shape{swing: true, every: 30 * time.Second}},
	{"a tenth between nothing and twice, each 5 min", "slow", 0.1, shape{swing: true, every: 5 * time.Minute}},
}

// vary gives part of the logs a load of a shape, lets the averages follow, and returns the
// moves within half an hour. Those that correct what the draws have shown get fewer with time.
func (s *sim) vary(i int) int {
	v := varying[i]
	for _, l := range s.logs {
		if l.shape = (shape{}); s.rng.Float64() < v.part {
			l.shape = v.shape
			l.shape.phase = time.Duration(s.rng.Int64N(int64(2 * v.shape.every))).Truncate(time.Second)
		}
	}
	s.run(10 * time.Minute)
	before := s.moves
	s.run(30 * time.Minute)
	moves := s.moves - before
	most := 3 + len(s.logs)/25
	if v.kind == "slow" {
		most = len(s.logs)
	}
	if moves > most {
		s.fault(v.kind, "%s: %d moves in half an hour", v.name, moves)
	}
	return moves
}

// flaps has the loads of a small cluster vary, and returns what the planner did wrong.
func flaps(seed uint64, plan func() decider) map[string]string {
	s := atRest(seed, plan, 5, 40, false)
	for i := range varying[:4] {
		s.vary(i)
	}
	return s.faults
}

func TestFlapping(t *testing.T) {
	need.Seconds(t)
	need.NoRace(t, noGoroutines)
	t.Parallel()
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "loads\tnodes x logs\tmoves in half an hour")
	for _, size := range sizes {
		s := atRest(1, standardPlan, size[0], size[1], false)
		for i, v := range varying {
			fmt.Fprintf(w, "%s\t%d x %d\t%d\n", v.name, size[0], size[1], s.vary(i))
		}
		for kind, fault := range s.faults {
			t.Errorf("%v: %s: %s", size, kind, fault)
		}
	}
	w.Flush()
	t.Log("\n" + out.String())
	for seed := range uint64(4) {
		for kind, fault := range flaps(seed, standardPlan) {
			t.Errorf("seed %d: %s: %s", seed, kind, fault)
		}
	}
}
