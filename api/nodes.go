package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

const (
	// gatherFor bounds how long a node waits for the words of the others, and
	// gatherQuiet how long after the last of them where it does not know how many
	// there are.
	gatherFor   = 500 * time.Millisecond
	gatherQuiet = 150 * time.Millisecond
	// maxNodes bounds the nodes that are shown.
	maxNodes = 64
	// lateEvents is the lag at which a standby is called behind.
	lateEvents = MaxReadyLag
)

// Cluster describes the servers that hold the log, as far as a node knows them.
type Cluster struct {
	Name     string   // empty: an existing NATS
	Nodes    []string // all that should be there; empty: not known
	Streams  []wire.StreamReplicas
	Warnings []string
}

// standbyRole returns the role of a process that is not the owner.
func (s *Service) standbyRole() wire.NodeRole {
	if s.Mirror != nil {
		return wire.RoleMirror
	}
	return wire.RoleStandby
}

// node says how this node is.
func (s *Service) node() wire.Node {
	s.mu.Lock()
	n := wire.Node{Node: s.Info.Node, Role: wire.RoleOwner, Online: true, Owner: s.Info.Node, Epoch: uint64(s.Core.Epoch()), Version: s.Info.Version, HTTP: s.Info.HTTP, NATS: s.Info.NATS}
	s.mu.Unlock()
	pos, applied := s.Core.Position(), s.Queries.Applied()
	n.Position, n.Projected, n.LagEvents = wire.PositionOf(pos), wire.PositionOf(applied), s.lag()
	if n.LagEvents > 0 {
		n.Lag = events.DurationOf(s.Metrics.behind.since(time.Now()).Truncate(time.Millisecond))
	}
	n.Since, n.TookOverFrom = s.Metrics.role.is()
	if f := s.Full(); f != nil && f.Status != wire.AlarmLog { // which is so on all nodes
		n.Full = f.Status
	}
	if st := s.standsBy(); st != nil {
		n.Role, n.Owner = s.standbyRole(), st.owner
		if st.cutOff != nil {
			n.CutOff = st.cutOff.Error()
		}
	} else {
		n.Recovering = !s.Metrics.owned.Load()
	}
	if s.Node != nil {
		s.Node(&n)
	}
	return n
}

// passTo has another node answer a request, straight to who made it.
func (s *Service) passTo(c *call, node string) {
	online, err := gather(s.ctx, s.Conn, s.Names, nil)
	switch {
	case err != nil:
	case !slices.ContainsFunc(online, func(n wire.Node) bool { return n.Node == node && n.Role != wire.RoleStarting }):
		err = events.Refuse(events.CodeNotFound, "no node %q answers: `engine cluster` shows those that do", events.Clip(node, 64))
	case c.replyTo == "":
		err = events.Refuse(events.CodeBadRequest, "the request has no reply subject: send it as a request")
	}
	var ask []byte
	if err == nil {
		ask, err = json.Marshal(wire.NodeAsk{Node: node, Endpoint: c.endpoint, Reply: c.replyTo})
	}
	if err == nil {
		err = s.Conn.Publish(s.Names.Nodes(), ask)
	}
	if err != nil {
		c.reply(nil, err)
		return
	}
	s.pending.Done()
}

// answerAsk answers what another node has been asked of this one, and has authorised.
func (s *Service) answerAsk(m *nats.Msg) {
	ask, err := decode[wire.NodeAsk](m.Data)
	if err != nil || ask.Node != s.Info.Node || ask.Endpoint != wire.APIVerify || ask.Reply == "" || !s.begin() {
		return
	}
	c := &call{s: s, endpoint: ask.Endpoint, start: time.Now()}
	c.respond = func(data []byte, err *wire.Error) { c.publish(ask.Reply, data, err) }
	s.direct[ask.Endpoint].serve(c)
}

// answerNodes answers another node that asks how this one is.
func (s *Service) answerNodes(m *nats.Msg) {
	if len(m.Data) > 0 {
		s.answerAsk(m)
		return
	}
	data, err := json.Marshal(s.node())
	if err == nil && m.Reply != "" {
		err = s.Conn.Publish(m.Reply, data)
	}
	if err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		s.Logger.Warn("a reply could not be sent", "endpoint", wire.APINodes, "error", err)
	}
}

// nodes asks all nodes how they are.
func (s *Service) nodes(ctx context.Context, _ *call, _ wire.StatsRequest) (any, error) {
	var c Cluster
	if s.Cluster != nil {
		c = s.Cluster(ctx)
	}
	var others []wire.Node
	var err error
	if s.Cluster != nil { // else nobody else can reach the log
		others, err = gather(ctx, s.Conn, s.Names, c.Nodes)
	}
	reply := nodesReply(c, s.node(), others, err)
	s.seen.gathered(&reply, s.Info.Node, s.Logger)
	return reply, nil
}

// nodesReply makes the reply of a node from what it knows, and the words of the others; err is
// why they could not be asked.
func nodesReply(c Cluster, me wire.Node, others []wire.Node, err error) wire.NodesReply {
	reply := wire.NodesReply{Cluster: c.Name, Answered: me.Node, Streams: c.Streams, Warnings: c.Warnings, Nodes: []wire.Node{me}}
	if err != nil {
		reply.Warnings = append(reply.Warnings, fmt.Sprintf("the other nodes could not be asked: %v", err))
	}
	for _, n := range others {
		if !slices.ContainsFunc(reply.Nodes, func(o wire.Node) bool { return o.Node == n.Node }) {
			reply.Nodes = append(reply.Nodes, n)
		}
	}
	for _, name := range c.Nodes {
		if !slices.ContainsFunc(reply.Nodes, func(o wire.Node) bool { return o.Node == name }) {
			reply.Nodes = append(reply.Nodes, wire.Node{Node: name})
		}
	}
	slices.SortFunc(reply.Nodes, func(a, b wire.Node) int { return cmp.Compare(a.Node, b.Node) })
	judgeNodes(&reply)
	return reply
}

// gather collects the words of the nodes, this one's among them.
func gather(ctx context.Context, nc *nats.Conn, names wire.Names, expected []string) (all []wire.Node, err error) {
	ctx, cancel := context.WithTimeout(ctx, gatherFor)
	defer cancel()
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := nc.PublishRequest(names.Nodes(), inbox, nil); err != nil {
		return nil, err
	}
	for len(all) < maxNodes && (len(expected) == 0 || len(all) < len(expected)) {
		next, done := ctx, context.CancelFunc(func() {})
		if len(expected) == 0 && len(all) > 0 {
			next, done = context.WithTimeout(ctx, gatherQuiet)
		}
		m, err := sub.NextMsgWithContext(next)
		done()
		if err != nil {
			return all, nil // those that are silent are shown as such
		}
		var n wire.Node
		if json.Unmarshal(m.Data, &n) == nil && n.Node != "" {
			all = append(all, n)
		}
	}
	return all, nil
}

// judgeNodes finds the owner, and says what is at risk.
func judgeNodes(r *wire.NodesReply) {
	warn := func(format string, args ...any) { r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...)) }
	settings := ""
	var epoch uint64
	for _, n := range r.Nodes {
		if n.Role == wire.RoleOwner && (r.Owner == "" || n.Epoch > epoch) {
			r.Owner, settings, epoch = n.Node, n.Settings, n.Epoch
		}
		if n.Role == wire.RoleMirror { // alone: it knows its hub by name
			r.Owner, settings = n.Owner, n.Settings
		}
	}
	if r.Owner == "" {
		warn("no node owns the log: nothing is decided until one does")
	}
	for i := range r.Nodes {
		n := &r.Nodes[i]
		n.SettingsDiffer = n.Online && r.Owner != "" && n.Settings != settings
		switch {
		case !n.Online:
			warn("%s does not answer: see that it runs, and that the nodes reach each other", n.Node)
		case n.Role == wire.RoleStarting:
			warn("%s is starting: %s", n.Node, n.Starting)
		case n.Recovering:
			warn("%s recovers: nothing is decided until it has", n.Node)
		case n.CutOff != "":
			warn("%s is cut off: %s", n.Node, n.CutOff)
		case n.LagEvents > lateEvents:
			warn("%s is %d events behind", n.Node, n.LagEvents)
		}
		for _, d := range n.Damaged {
			warn("%s: %s", damageText(n.Node, d), d.Repair)
		}
		if len(n.Copying) > 0 {
			warn("%s has not caught up yet with %s: stop no other node until it has", n.Node, streamList(n.Copying))
		}
		if n.Full != "" {
			warn("%s has no room for new work (%s): make room on its machine", n.Node, n.Full)
		}
	}
	r.Warnings = append(r.Warnings, differing(r)...)
	leaderless := false
	for _, st := range r.Streams {
		switch {
		case st.Spare < 0 && !st.LeaderlessSince.IsZero():
			warn("stream %s can't be written: it has had no leader since %s", st.Stream, st.LeaderlessSince.Format(time.RFC3339))
			leaderless = true
		case st.Spare < 0:
			warn("stream %s can't be written: most of its %d servers are gone, or choose a leader", st.Stream, st.Replicas)
		case st.Replicas == 1 && r.Cluster != "":
			warn("stream %s is on %s alone: with that node it is gone", st.Stream, st.Leader)
		case st.Spare == 0 && st.Replicas > 1:
			warn("stream %s can lose no other server: %s behind", st.Stream, strings.Join(st.Behind, ", "))
		case len(st.Behind) > 0:
			warn("stream %s: %s behind", st.Stream, strings.Join(st.Behind, ", "))
		}
	}
	if leaderless {
		warn("streams choose a leader within seconds where most of their servers run and reach each other: start what does not answer; if this lasts, docs/operate/CLUSTER.md (When no leader comes) says what to do")
	}
}

// streamList names up to three streams, and the number of the others.
func streamList(streams []string) string {
	if n := len(streams) - 3; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(streams[:3], ", "), n)
	}
	return strings.Join(streams, ", ")
}

// differing are the warnings of settings that differ.
func differing(r *wire.NodesReply) (warnings []string) {
	for _, n := range r.Nodes {
		if n.SettingsDiffer {
			warnings = append(warnings, fmt.Sprintf("the settings of %s are not those of %s: give all nodes the same engine.toml, and restart those that differ", n.Node, r.Owner))
		}
	}
	return warnings
}

// atRisk are the warnings because of which no other node should be stopped.
func atRisk(r *wire.NodesReply) []string {
	others := differing(r)
	return slices.DeleteFunc(slices.Clone(r.Warnings), func(w string) bool { return slices.Contains(others, w) })
}

// removeNode takes a dead node out of the cluster.
func (s *Service) removeNode(ctx context.Context, _ *call, req wire.NodeRemove) (any, error) {
	switch {
	case req.Node == "":
		return nil, events.Refuse(events.CodeBadRequest, "the request names no node: engine cluster lists them")
	case s.Names.InNamespace() != events.DefaultNamespace:
		return nil, events.Refuse(events.CodeForbidden, "nodes belong to no namespace: ask in the namespace %s", events.DefaultNamespace)
	case s.RemoveNode == nil:
		return nil, events.Refuse(events.CodeNotFound, "no node %s: this engine has no cluster of its own; on an existing NATS remove the server there (nats server cluster peer-remove)", events.Clip(req.Node, 64))
	}
	if err := s.RemoveNode(ctx, req.Node); err != nil {
		return nil, err
	}
	s.Logger.Warn("a node was removed from the cluster for good", "node", req.Node)
	return wire.Changed{Changed: true}, nil
}
