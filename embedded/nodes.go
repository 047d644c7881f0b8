package embedded

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/events"
)

// Cluster moves the leadership of the streams that the engine uses, and knows what holds them.
// Its methods may be called at once from several goroutines.
type Cluster struct{ b *base }

// NodeState is a server as a leader knows it: that of the cluster's metadata, or of a stream.
type NodeState struct {
	Name    string
	Leader  bool // it is that leader
	Online  bool
	Current bool   // it has what the leader has
	peer    string // its name among the servers
}

// StreamState is how a stream's replicas are.
type StreamState struct {
	Stream   string
	Leader   string // empty: there is none
	Wanted   int    // replicas
	Replicas []NodeState
	Error    string // why nothing is known of the stream
}

const (
	// metaGroup is the name of the raft group that knows the cluster's streams.
	metaGroup = "_meta_"
	// seenWithin is how long ago a node may have been heard of last, and still counts
	// as reached: leaders send a heartbeat each second.
	seenWithin = 3500 * time.Millisecond
	// askCluster bounds one question to the cluster, and removeWithin the removal of
	// a node.
	askCluster   = 2 * time.Second
	removeWithin = 10 * time.Second
	// handWithin bounds the time to hand a leadership on, handAgain is the time between
	// two requests, and handLook that between two looks at who has it. A new leader drops
	// what it is asked first, so a look gets handTry.
	handWithin = 5 * time.Second
	handTry    = 100 * time.Millisecond
	handAgain  = 300 * time.Millisecond
	handLook   = 10 * time.Millisecond
)

// ErrNoQuorum is wrapped by the error of a node that does not reach most of the others.
var ErrNoQuorum = errors.New("this node does not reach most of the others")

// group returns what this node's server knows of a raft group that it is part of.
func (s *server) group(name string) (natsserver.RaftzGroup, bool) {
	all := s.ns().Raftz(&natsserver.RaftzOptions{AccountFilter: systemAccount, GroupFilter: name})
	if all == nil {
		return natsserver.RaftzGroup{}, false
	}
	g, ok := (*all)[systemAccount][name]
	return g, ok
}

// Quorum returns an error that wraps ErrNoQuorum if this node is cut off from most of
// the others. A node notices within some four seconds, by the heartbeats that it
// misses. An embedded server answers from memory; an existing NATS is asked for the
// leader of the event stream.
func (c *Cluster) Quorum(ctx context.Context) error {
	if c.b.srv == nil {
		return c.streamQuorum(ctx)
	}
	m := c.b.srv.member()
	if m == nil {
		return nil
	}
	g, ok := c.b.srv.group(metaGroup)
	if !ok || g.Leader == "" {
		return fmt.Errorf("%w: the cluster %s has no leader here", ErrNoQuorum, m.cluster)
	}
	reached := 1
	for id, p := range g.Peers {
		if seen, err := time.ParseDuration(p.LastSeen); err != nil || seen > seenWithin {
			continue
		}
		if id == g.Leader {
			return nil // it leads most of them, or will notice that it does not
		}
		reached++
	}
	switch {
	case g.Leader != g.ID:
		return fmt.Errorf("%w: the leader of the cluster %s is silent", ErrNoQuorum, m.cluster)
	case reached < g.QuorumNeeded:
		return fmt.Errorf("%w: %d of %d nodes of the cluster %s are reached", ErrNoQuorum, reached, g.Size, m.cluster)
	}
	return nil
}

// reached returns what says whether an owner of a shared log reaches most of the servers; nil if
// the log is this process's alone.
func (l *lease) reached() func(context.Context) error {
	if !l.shared() {
		return nil
	}
	return l.cluster().Quorum
}

// streamQuorum asks an existing NATS for the leader of the event stream.
func (c *Cluster) streamQuorum(ctx context.Context) error {
	s := c.stream(ctx, c.b.names().EventStream(0))
	if s.Error != "" {
		return fmt.Errorf("%w: %s", ErrNoQuorum, s.Error)
	}
	if c.b.copies.several && s.Leader == "" {
		return fmt.Errorf("%w: the event stream has no leader", ErrNoQuorum)
	}
	return nil
}

// HandLog hands the leadership of the event stream to a node, and returns once that
// node has it. Nothing can be appended meanwhile, for some 20 to 200 ms.
func (c *Cluster) HandLog(ctx context.Context, node string) error {
	return c.Hand(ctx, c.b.names().EventStream(0), node)
}

// Hand hands the leadership of a stream to a node, and returns once that node has it.
// The server may give it to another, if the node was a little behind: then Hand asks
// again.
func (c *Cluster) Hand(ctx context.Context, stream, node string) error {
	ctx, cancel := context.WithTimeout(ctx, handWithin)
	defer cancel()
	next := time.NewTicker(handLook)
	defer next.Stop()
	leader, asked := "", time.Time{}
	for {
		look, cancel := context.WithTimeout(ctx, handTry)
		s := c.stream(look, stream)
		cancel()
		if s.Leader == node {
			return nil
		}
		if leader = cmp.Or(s.Leader, leader); s.Leader != "" && time.Since(asked) > handAgain {
			if err := c.stepDown(ctx, stream, node); err != nil {
				return fmt.Errorf("hand the stream %s to node %s: %w", stream, node, err)
			}
			asked = time.Now()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("hand the stream %s to node %s: %q has it: see that the node is there and has caught up: %w", stream, node, leader, ctx.Err())
		case <-next.C:
		}
	}
}

// stepDown asks the leader of a stream to go, in favour of a node.
func (c *Cluster) stepDown(ctx context.Context, stream, node string) error {
	return askJetStream(ctx, c.b.nc, c.b.names().JetStream("STREAM.LEADER.STEPDOWN."+stream), map[string]any{"placement": map[string]string{"preferred": node}})
}

// metaNodes asks the leader of the cluster's metadata for all nodes, those that have been gone for
// long among them.
func metaNodes(ctx context.Context, nc *nats.Conn) ([]NodeState, error) {
	ctx, cancel := context.WithTimeout(ctx, askCluster)
	defer cancel()
	var answer struct {
		Data struct {
			Meta *natsserver.MetaClusterInfo `json:"meta_cluster"`
		} `json:"data"`
	}
	err := askServer(ctx, nc, "$SYS.REQ.SERVER.PING.JSZ", []byte(`{"leader_only":true}`), &answer)
	if err == nil && answer.Data.Meta == nil {
		err = ErrNoQuorum
	}
	if err != nil {
		return nil, fmt.Errorf("ask for the nodes: no leader answers: %w", err)
	}
	meta := answer.Data.Meta
	nodes := []NodeState{{Name: meta.Leader, Leader: true, Online: true, Current: true, peer: meta.Peer}}
	for _, r := range meta.Replicas {
		nodes = append(nodes, NodeState{Name: r.Name, Online: online(r.Offline, r.Current, r.Active), Current: r.Current, peer: r.Peer})
	}
	return nodes, nil
}

// online reports whether a leader has heard of another server lately, active ago. One that it
// has never heard of, since it was dead when this one began to lead, has 0 there, and may be
// without the mark of those that said goodbye.
func online(offline, current bool, active time.Duration) bool {
	return !offline && (active > 0 || current) && active <= seenWithin
}

// stream asks for one stream.
func (c *Cluster) stream(ctx context.Context, name string) StreamState {
	ctx, cancel := context.WithTimeout(ctx, askCluster)
	defer cancel()
	js, err := connect.JetStream(c.b.nc, c.b.names())
	var s jetstream.Stream
	if err == nil {
		s, err = js.Stream(ctx, name)
	}
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return StreamState{Stream: name, Error: jetstream.ErrStreamNotFound.Error()}
	case err != nil:
		return StreamState{Stream: name, Error: fmt.Sprintf("the stream %s does not answer: %v", name, err)}
	}
	return stateOf(s.CachedInfo())
}

func stateOf(info *jetstream.StreamInfo) StreamState {
	st := StreamState{Stream: info.Config.Name, Wanted: max(info.Config.Replicas, 1)}
	if c := info.Cluster; c != nil {
		st.Leader = c.Leader
		if c.Leader != "" {
			st.Replicas = append(st.Replicas, NodeState{Name: c.Leader, Leader: true, Online: true, Current: true})
		}
		for _, r := range c.Replicas {
			st.Replicas = append(st.Replicas, NodeState{Name: r.Name, Online: online(r.Offline, r.Current, r.Active), Current: r.Current})
		}
	}
	return st
}

// Remove takes a node that is dead out of the cluster for good: the streams get
// replicas on the others, and the node may not come back with its old folder. It
// refuses a node that is online. Only embedded servers know it.
func (c *Cluster) Remove(ctx context.Context, node string) error {
	if c.b.srv.member() == nil {
		return events.Refuse(events.CodeWrongState, "there is no cluster of embedded servers here: on an existing NATS remove a server there (nats server cluster peer-remove)")
	}
	ctx, cancel := context.WithTimeout(ctx, removeWithin)
	defer cancel()
	nc, err := c.b.srv.connectAs(c.b.srv.system)
	if err != nil {
		return fmt.Errorf("remove node %s: %w", node, err)
	}
	defer nc.Close()
	nodes, err := metaNodes(ctx, nc)
	if err != nil {
		return fmt.Errorf("remove node %s: %w", node, err)
	}
	at := slices.IndexFunc(nodes, func(n NodeState) bool { return n.Name == node })
	switch {
	case at < 0:
		return events.Refuse(events.CodeNotFound, "the cluster knows no node %s: engine cluster lists them", node)
	case nodes[at].Online:
		return events.Refuse(events.CodeWrongState, "node %s is online: stop it first", node)
	}
	if err := askJetStream(ctx, nc, "$JS.API.SERVER.REMOVE", map[string]any{"peer": node, "peer_id": nodes[at].peer}); err != nil {
		return fmt.Errorf("remove node %s: %w", node, err)
	}
	return nil
}

// askJetStream sends a request whose answer says nothing but whether it was done.
func askJetStream(ctx context.Context, nc *nats.Conn, subject string, question map[string]any) error {
	var answer struct {
		Error *jetstream.APIError `json:"error"`
	}
	body, _ := json.Marshal(question) // strings have JSON
	err := askServer(ctx, nc, subject, body, &answer)
	if err == nil && answer.Error != nil {
		err = answer.Error
	}
	return err
}

// askServer sends a request and decodes its answer.
func askServer(ctx context.Context, nc *nats.Conn, subject string, body []byte, answer any) error {
	m, err := nc.RequestWithContext(ctx, subject, body)
	if err != nil {
		return err
	}
	return json.Unmarshal(m.Data, answer)
}
