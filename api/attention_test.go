package api

import (
	"fmt"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Many types without a worker hide no death: kinds are grouped, deaths come first, and
// what is left out is counted.
func TestAttentionIsGroupedWithDeathsFirst(t *testing.T) {
	var r wire.StatsReply
	for i := range 200 {
		r.Types = append(r.Types, wire.TypeStats{Type: fmt.Sprintf("t%03d", i), States: map[string]int64{"queued": int64(1 + i%7)}, Oldest: events.Millis(5)})
	}
	r.Types = append(r.Types, wire.TypeStats{Type: "charge", States: map[string]int64{"dead": 30}, Workers: 1}, wire.TypeStats{Type: "refund", States: map[string]int64{"dead": 20}, Workers: 1})
	got := attention(&r, nil, func(typ string) int64 {
		if typ == "charge" || typ == "refund" || typ == "t003" { // of t003 none is dead any more
			return 9
		}
		return 0
	})
	if len(got) != 2 || got[0].Kind != wire.AttentionDead || got[1].Kind != wire.AttentionNoWorker {
		t.Fatalf("%+v", got)
	}
	if d := got[0]; d.Count != 2 || d.Items != 50 || len(d.First) != 2 || d.First[0] != (wire.AttentionOf{Type: "charge", Items: 30, Recent: 9}) || d.Severity != wire.AlarmCritical {
		t.Errorf("deaths: %+v", d)
	}
	if n := got[1]; n.Count != 200 || len(n.First) != wire.MaxAttention || n.First[0].Items != 7 || n.First[0].Type != "t006" || n.First[0].Oldest != events.Millis(5) {
		t.Errorf("no worker: %+v", n)
	}
}

func TestAttentionEndsWithItsCause(t *testing.T) {
	at := time.Date(2030, 1, 1, 10, 0, 0, 0, time.UTC)
	one := func(t wire.TypeStats) *wire.StatsReply {
		t.Type = "a"
		return &wire.StatsReply{Types: []wire.TypeStats{t}}
	}
	queued := func(n int64) map[string]int64 { return map[string]int64{"queued": n} }
	dead := wire.WorkerInfo{Worker: "w1", Types: []string{"a", "b"}, Status: wire.WorkerDead, LastSeen: at}
	alive := func(registered time.Time) wire.WorkerInfo {
		return wire.WorkerInfo{Worker: "w2", Types: []string{"b", "a"}, Status: wire.WorkerActive, RegisteredAt: registered}
	}
	for name, c := range map[string]struct {
		r       *wire.StatsReply
		workers []wire.WorkerInfo
		want    string
	}{
		"nothing":                  {one(wire.TypeStats{States: queued(2), Workers: 1}), nil, ""},
		"not due yet":              {one(wire.TypeStats{States: queued(2), Scheduled: 2}), nil, ""},
		"no worker":                {one(wire.TypeStats{States: queued(2)}), nil, "no_worker"},
		"paused":                   {one(wire.TypeStats{States: queued(2), Paused: &events.Pause{Reason: "x"}}), nil, "paused"},
		"circuit":                  {one(wire.TypeStats{Circuit: &wire.Circuit{State: "open"}}), nil, "circuit"},
		"near the limit":           {one(wire.TypeStats{States: map[string]int64{"queued": 4, "waiting": 4}, MaxQueued: 10, Workers: 1}), nil, "queue"},
		"far from it":              {one(wire.TypeStats{States: queued(7), MaxQueued: 10, Workers: 1}), nil, ""},
		"starving":                 {one(wire.TypeStats{States: queued(2), Starving: 1, Workers: 1}), nil, "starving"},
		"a worker's circuit":       {&wire.StatsReply{Circuits: []wire.Circuit{{Worker: "w1", State: "half_open"}}}, nil, "worker_circuit"},
		"unhealthy":                {&wire.StatsReply{}, []wire.WorkerInfo{{Worker: "w1", Status: wire.WorkerUnhealthy}}, "worker_unhealthy"},
		"a worker died":            {&wire.StatsReply{}, []wire.WorkerInfo{dead}, "worker_dead"},
		"another has come":         {&wire.StatsReply{}, []wire.WorkerInfo{dead, alive(at.Add(time.Second))}, ""},
		"another was there before": {&wire.StatsReply{}, []wire.WorkerInfo{dead, alive(at.Add(-time.Second))}, "worker_dead"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			for _, a := range attention(c.r, c.workers, func(string) int64 { return 0 }) {
				got += a.Kind
			}
			if got != c.want {
				t.Errorf("it is %q, want %q", got, c.want)
			}
		})
	}
}
