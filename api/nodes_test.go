package api

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/wire"
)

func TestJudgeNodes(t *testing.T) {
	owner := wire.Node{Node: "a", Role: wire.RoleOwner, Online: true, Epoch: 4, Settings: "1"}
	standby := wire.Node{Node: "b", Role: wire.RoleStandby, Online: true, Settings: "1"}
	with := func(n wire.Node, change func(*wire.Node)) wire.Node {
		change(&n)
		return n
	}
	for name, tc := range map[string]struct {
		nodes   []wire.Node
		streams []wire.StreamReplicas
		owner   string
		says    []string
		codes   []string
	}{
		"well":                  {nodes: []wire.Node{owner, standby}, owner: "a", streams: []wire.StreamReplicas{{Stream: "S", Leader: "a", Replicas: 3, Spare: 1}}},
		"two owners: the later": {nodes: []wire.Node{with(standby, func(n *wire.Node) { n.Role, n.Epoch = wire.RoleOwner, 5 }), owner}, owner: "b"},
		"no owner":              {nodes: []wire.Node{standby}, says: []string{"no node owns the log"}},
		"one is gone":           {nodes: []wire.Node{owner, {Node: "b"}}, owner: "a", says: []string{"b does not answer"}, codes: []string{wire.AlarmCluster}},
		"cut off":               {nodes: []wire.Node{owner, with(standby, func(n *wire.Node) { n.CutOff = "silence" })}, owner: "a", says: []string{"b is cut off: silence"}},
		"behind":                {nodes: []wire.Node{owner, with(standby, func(n *wire.Node) { n.LagEvents = lateEvents + 1 })}, owner: "a", says: []string{"events behind"}},
		"a full standby":        {nodes: []wire.Node{owner, with(standby, func(n *wire.Node) { n.Full = wire.AlarmDiskLow })}, owner: "a", says: []string{"b has no room for new work (disk_low)"}, codes: []string{wire.AlarmCluster}},
		"a full owner":          {nodes: []wire.Node{with(owner, func(n *wire.Node) { n.Full = wire.AlarmDiskLow }), standby}, owner: "a", says: []string{"a has no room for new work (disk_low)"}},
		"recovering":            {nodes: []wire.Node{with(owner, func(n *wire.Node) { n.Recovering = true }), standby}, owner: "a", says: []string{"a recovers"}},
		"other settings":        {nodes: []wire.Node{owner, with(standby, func(n *wire.Node) { n.Settings = "2" })}, owner: "a", says: []string{"the settings of b are not those of a"}, codes: []string{wire.AlarmSettings}},
		"a replica is missing":  {nodes: []wire.Node{owner, standby}, owner: "a", streams: []wire.StreamReplicas{{Stream: "S", Leader: "a", Replicas: 3, Behind: []string{"c"}}}, says: []string{"S can lose no other server: c behind"}, codes: []string{wire.AlarmCluster}},
		"starting":              {nodes: []wire.Node{owner, with(standby, func(n *wire.Node) { n.Role, n.Starting = wire.RoleStarting, "the log is read" })}, owner: "a", says: []string{"b is starting: the log is read"}},
		"no leader":             {nodes: []wire.Node{owner, standby}, owner: "a", streams: []wire.StreamReplicas{{Stream: "S", Replicas: 3, Spare: -1, LeaderlessSince: time.Unix(1, 0).UTC()}}, says: []string{"S can't be written: it has had no leader since 1970-01-01T00:00:01Z", "start what does not answer"}, codes: []string{wire.AlarmCluster}},
		"a damaged replica": {nodes: []wire.Node{owner, with(standby, func(n *wire.Node) {
			n.Damaged = []wire.DamagedReplica{{Stream: "S", Damage: "block 1", Repair: "wait"}}
		})}, owner: "a", says: []string{"the replica of S on b is damaged: block 1: wait"}, codes: []string{wire.AlarmReplica}},
		"copying": {nodes: []wire.Node{owner, with(standby, func(n *wire.Node) { n.Copying = []string{"S", "T", "U", "V", "W"} })}, owner: "a",
			says: []string{"b has not caught up yet with S, T, U and 2 more: stop no other node until it has"}, codes: []string{wire.AlarmCluster}},
		"no quorum": {nodes: []wire.Node{owner, standby}, owner: "a", streams: []wire.StreamReplicas{{Stream: "S", Replicas: 3, Spare: -1}}, says: []string{"S can't be written"}, codes: []string{wire.AlarmCluster}},
	} {
		t.Run(name, func(t *testing.T) {
			r := wire.NodesReply{Nodes: slices.Clone(tc.nodes), Streams: tc.streams}
			judgeNodes(&r)
			if r.Owner != tc.owner || len(r.Warnings) != len(tc.says) {
				t.Errorf("owner %q, warnings %q", r.Owner, r.Warnings)
			}
			for _, want := range tc.says {
				if !strings.Contains(strings.Join(r.Warnings, "\n"), want) {
					t.Errorf("%q does not say %q", r.Warnings, want)
				}
			}
			if risks := atRisk(&r); len(risks) != len(r.Warnings) && name != "other settings" || len(risks) > 0 && name == "other settings" {
				t.Errorf("at risk: %q", risks)
			}
			var codes []string
			condition{me: "a", nodes: &r}.replicaAlarms(func(_ wire.AlarmSeverity, code, _, _ string) { codes = append(codes, code) })
			nodeAlarms(&r, func(_ wire.AlarmSeverity, code, _, _ string) { codes = append(codes, code) })
			if !slices.Equal(codes, tc.codes) {
				t.Errorf("alarms %q, want %q", codes, tc.codes)
			}
		})
	}
}

// Settings that differ are logged once for each owner, and again if they differ anew.
func TestSettingsThatDifferAreLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	var seen seenNodes
	if seen.now() != nil {
		t.Error("nodes are known before any was seen")
	}
	look := func(owner string, differ bool) int {
		r := wire.NodesReply{Owner: owner, Nodes: []wire.Node{{Node: "a", Online: true}, {Node: "b", Online: true, Settings: "2", SettingsDiffer: differ}}}
		seen.gathered(&r, "b", slog.New(slog.NewTextHandler(&log, nil)))
		return strings.Count(log.String(), "owner="+owner)
	}
	for i, want := range []int{1, 1, 1, 2} { // the third look finds that they agree
		if n := look("a", i != 2); n != want {
			t.Fatalf("look %d: logged %d times, want %d", i, n, want)
		}
	}
	if n := look("c", true); n != 1 {
		t.Errorf("another owner: logged %d times", n)
	}
	if seen.now() == nil {
		t.Error("the last look is not known")
	}
	seen.at = seen.at.Add(-2 * nodesFor)
	if seen.now() != nil {
		t.Error("an old look still counts")
	}
}

func TestRole(t *testing.T) {
	at := time.Unix(1, 0)
	var r role
	if r.owns(at) {
		t.Error("it took over from nobody")
	}
	r.standsBy("a", at.Add(time.Second))
	r.standsBy("b", at.Add(2*time.Second))
	r.standsBy("", at.Add(3*time.Second))
	if since, from := r.is(); !since.Equal(at.Add(time.Second)) || from != "" {
		t.Errorf("it stands by since %v, from %q", since, from)
	}
	if !r.owns(at.Add(4*time.Second)) || r.owns(at.Add(5*time.Second)) {
		t.Error("it took over once")
	}
	if since, from := r.is(); !since.Equal(at.Add(4*time.Second)) || from != "b" {
		t.Errorf("it owns since %v, from %q", since, from)
	}
}
