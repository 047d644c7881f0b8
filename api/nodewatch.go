package api

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/streamwright/streamwright/internal/sleep"
	"github.com/streamwright/streamwright/wire"
)

const (
	// nodesEvery is the time between two looks at all nodes, for alarms and metrics.
	nodesEvery = 10 * time.Second
	// nodesFor is the time for which a look counts.
	nodesFor = 3 * nodesEvery
)

// role says since when this process has been what it is.
type role struct {
	mu    sync.Mutex // guards what follows
	since time.Time
	of    string // whom it stands by for
	from  string // whom it took over from; empty: it did not stand by
	stood bool   // it stands by
}

// owns notes that this process owns the log. It reports whether it stood by before.
func (r *role) owns(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	stood := r.stood
	if stood || r.since.IsZero() {
		r.since, r.from, r.stood = now, r.of, false
	}
	return stood
}

// standsBy notes that this process stands by for an owner, empty if that is not known.
func (r *role) standsBy(owner string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.stood {
		r.since, r.of = now, ""
	}
	r.stood, r.from = true, ""
	if owner != "" {
		r.of = owner
	}
}

func (r *role) is() (since time.Time, tookOverFrom string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.since.UTC().Truncate(time.Millisecond), r.from
}

// seenNodes holds the last look at all nodes.
type seenNodes struct {
	mu   sync.Mutex // guards what follows
	last *wire.NodesReply
	at   time.Time
	told string // of the settings that differ
}

// now returns the last look; nil if there is no other node, or it is too old.
func (s *seenNodes) now() *wire.NodesReply {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil || len(s.last.Nodes) < 2 || time.Since(s.at) > nodesFor {
		return nil
	}
	return s.last
}

// looked returns when the last look was; zero if there was none.
func (s *seenNodes) looked() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at.UTC()
}

// gathered keeps a look, and logs once for each owner that this node's settings are
// others.
func (s *seenNodes) gathered(r *wire.NodesReply, me string, log *slog.Logger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := *r
	s.last, s.at = &kept, time.Now()
	i := slices.IndexFunc(r.Nodes, func(n wire.Node) bool { return n.Node == me })
	if i < 0 || r.Owner == "" {
		return
	}
	n, tell := r.Nodes[i], ""
	if n.SettingsDiffer {
		tell = r.Owner + " " + n.Settings
	}
	if tell != "" && tell != s.told {
		log.Warn("the settings of this node are not those of the log's owner: give both the same engine.toml, and restart the one that is wrong", "node", me, "owner", r.Owner, "settings", n.Settings)
	}
	s.told = tell
}

// watchNodes looks at all nodes now and then, until the service stops.
func (s *Service) watchNodes() {
	for sleep.For(s.ctx, nodesEvery) == nil {
		_, _ = s.nodes(s.ctx, nil, wire.StatsRequest{}) // it does not fail, and is kept
	}
}

// nodeAlarms adds what is wrong among several nodes. r may be nil.
func nodeAlarms(r *wire.NodesReply, add func(sev wire.AlarmSeverity, code, message, action string)) {
	if r == nil {
		return
	}
	var differ, missing, behind []string
	for _, n := range r.Nodes {
		if n.SettingsDiffer {
			differ = append(differ, n.Node)
		}
		if !n.Online {
			missing = append(missing, n.Node+" does not answer")
		}
		if len(n.Copying) > 0 {
			missing = append(missing, n.Node+" has not caught up yet with "+streamList(n.Copying))
		}
		if n.Full != "" && n.Role == wire.RoleStandby { // an owner raises an alarm of its own
			missing = append(missing, n.Node+" has no room for new work ("+n.Full+")")
		}
	}
	for _, st := range r.Streams {
		switch {
		case st.Spare < 0:
			behind = append(behind, st.Stream+" can't be written")
		case len(st.Behind) > 0:
			behind = append(behind, st.Stream+" lacks "+strings.Join(st.Behind, ", "))
		}
	}
	if risk := slices.Concat(missing, behind); len(risk) > 0 {
		add(wire.AlarmWarning, wire.AlarmCluster, "The loss of another machine may stop the work: "+strings.Join(risk, "; ")+".", "Start what is missing, make room where there is none, and wait until nodes have caught up; `engine cluster` shows all nodes and replicas.")
	}
	if len(differ) > 0 {
		add(wire.AlarmWarning, wire.AlarmSettings, "The settings of "+strings.Join(differ, ", ")+" are not those of the owner "+r.Owner+": a takeover would change how work is done.", "Give all nodes the same engine.toml, and restart those that differ.")
	}
}

// replicaAlarms adds the replicas that are damaged: this node's as they are, those of the others
// as they were seen last.
func (c condition) replicaAlarms(add func(sev wire.AlarmSeverity, code, message, action string)) {
	sev := wire.AlarmWarning
	if c.replicas.Alone {
		sev = wire.AlarmCritical
	}
	found := []wire.Node{{Node: c.me, Damaged: c.replicas.Damaged}}
	if c.nodes != nil {
		found = append(found, slices.DeleteFunc(slices.Clone(c.nodes.Nodes), func(n wire.Node) bool { return n.Node == c.me })...)
	}
	var damaged, do []string
	for _, n := range found {
		for _, d := range n.Damaged {
			damaged = append(damaged, sentence(damageText(n.Node, d)))
			if text := sentence(d.Repair); !slices.Contains(do, text) {
				do = append(do, text)
			}
		}
	}
	if len(damaged) > 0 {
		add(sev, wire.AlarmReplica, strings.Join(damaged, " "), strings.Join(do, " "))
	}
}

// damageText says that a replica is damaged.
func damageText(node string, d wire.DamagedReplica) string {
	return fmt.Sprintf("the replica of %s on %s is damaged: %s", d.Stream, node, d.Damage)
}

// nodes shows the roles, and how the nodes were when they were last asked.
func (c collector) nodes(out gauge, now condition) {
	for _, r := range []wire.NodeRole{wire.RoleOwner, wire.RoleStandby} {
		out(descRole, boolean(now.owned && r == wire.RoleOwner || now.standby != nil && r == wire.RoleStandby), string(r))
	}
	me := c.s.node()
	if !me.Since.IsZero() {
		out(descSince, float64(me.Since.UnixMilli())/1000)
	}
	for _, because := range wire.TakeoverCauses {
		out(descTookOver, boolean(me.TookOverBecause == because), string(because))
	}
	out(descCutOff, boolean(now.apart != nil || now.standby != nil && now.standby.cutOff != nil))
	if !now.replicas.At.IsZero() {
		out(descRead, float64(now.replicas.At.UnixMilli())/1000)
	}
	for _, stream := range now.replicas.Streams {
		out(descDamaged, boolean(slices.ContainsFunc(now.replicas.Damaged, func(d wire.DamagedReplica) bool { return d.Stream == stream })), stream)
	}
	if now.nodes == nil {
		out(descOnline, 1)
		out(descExpected, 1)
		out(descDiffer, 0)
		return
	}
	online, differ := 0, 0
	for _, n := range now.nodes.Nodes {
		online += int(boolean(n.Online))
		differ += int(boolean(n.SettingsDiffer))
	}
	out(descOnline, float64(online))
	out(descExpected, float64(len(now.nodes.Nodes)))
	out(descDiffer, float64(differ))
	for _, st := range now.nodes.Streams {
		out(descReplicas, float64(len(st.Behind)), st.Stream)
		out(descSpare, float64(st.Spare), st.Stream)
	}
}
