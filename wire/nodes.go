package wire

import (
	"time"

	"github.com/streamwright/streamwright/events"
)

// NodeRole says what a node does for the log.
type NodeRole string

// The roles of nodes.
const (
	RoleOwner   NodeRole = "owner"   // it decides, and appends
	RoleStandby NodeRole = "standby" // it follows the log, and takes over when the owner is gone
	RoleMirror  NodeRole = "mirror"  // it follows a copy of the log at a site, and never owns it
	// RoleStarting is the role of a node that answers no requests yet but those for the nodes.
	RoleStarting NodeRole = "starting"
)

// TakeoverCause says how the log's last owner went.
type TakeoverCause string

// TakeoverCauses are all causes.
var TakeoverCauses = []TakeoverCause{TakeoverHandedOver, TakeoverFull, TakeoverMoved, TakeoverBalanced, TakeoverSilent}

// The causes of takeovers.
const (
	TakeoverHandedOver TakeoverCause = "handed_over" // it stopped in order
	TakeoverFull       TakeoverCause = "full"        // it had no room for new work, and handed the log over
	TakeoverMoved      TakeoverCause = "moved"       // an operator wants the namespace on this node
	TakeoverBalanced   TakeoverCause = "balanced"    // it had more work than this node
	TakeoverSilent     TakeoverCause = "silent"      // it no longer said that it owns the log: killed, paused or cut off
)

// Node says how one node is.
type Node struct {
	Node string   `json:"node"`
	Role NodeRole `json:"role,omitempty"`
	// Online is false for a node of the cluster that has not answered; then only
	// Node is set.
	Online  bool   `json:"online"`
	Owner   string `json:"owner,omitempty"` // who owns the log, as this node knows
	Epoch   uint64 `json:"epoch,omitempty"` // of the ownership, if it is this node's
	Version string `json:"version,omitempty"`
	// Position is the end of the log as the node knows it, Projected that of its
	// own store, and LagEvents the events in between.
	Position  Position `json:"position,omitempty"`
	Projected Position `json:"projected,omitempty"`
	LagEvents uint64   `json:"lag_events"`
	// Lag is how long its store has made no step although there are events to
	// project.
	Lag events.Duration `json:"lag_ms,omitzero"`
	// Since is when the node took its present role, by its own clock, and
	// TookOverFrom who owned the log before an owner that stood by.
	Since        time.Time `json:"since,omitzero"`
	TookOverFrom string    `json:"took_over_from,omitempty"`
	// TookOverBecause says how that one went; empty where TookOverFrom is.
	TookOverBecause TakeoverCause `json:"took_over_because,omitempty"`
	// Starting says what a node that starts does, or waits for; empty: it has started.
	Starting string `json:"starting,omitempty"`
	// Recovering is set while an owner can't decide yet.
	Recovering bool `json:"recovering,omitempty"`
	// CutOff says why a standby knows no more of the log; empty: it follows it.
	CutOff string `json:"cut_off,omitempty"`
	// Full says why the node has no room for new work: disk_low or store_full; empty: it
	// has. As the owner it would refuse new work.
	Full string `json:"full,omitempty"`
	// ReplicasRead is when the node had last read the replicas on its own disk through; zero:
	// it has not yet, or has no NATS server of its own. Damaged are those that it found so.
	ReplicasRead time.Time        `json:"replicas_read,omitzero"`
	Damaged      []DamagedReplica `json:"damaged,omitempty"`
	// Copying lists the streams that its NATS server has not caught up with since it started. It
	// does not count as a whole replica of them.
	Copying []string `json:"copying,omitempty"`
	// LeadsLog is set if the node's own NATS server leads the event stream.
	LeadsLog bool `json:"leads_log,omitempty"`
	// Settings is a digest of the settings that must agree on all nodes.
	Settings string `json:"settings,omitempty"`
	// SettingsDiffer is set if they are others than the owner's.
	SettingsDiffer bool   `json:"settings_differ,omitempty"`
	HTTP           string `json:"http,omitempty"` // address of its HTTP server
	NATS           string `json:"nats,omitempty"` // address of its NATS server
}

// DamagedReplica is a node's replica of a stream that does not hold what it should.
type DamagedReplica struct {
	Stream string    `json:"stream"`
	Damage string    `json:"damage"` // what is wrong, and where
	Since  time.Time `json:"since"`  // when it was found
	// Repair says what becomes of it, or what to do.
	Repair string `json:"repair"`
}

// NodeRemove takes a dead node out of the cluster for good.
type NodeRemove struct {
	Node string `json:"node"` // the node's name
}

// StreamReplicas says where a stream is.
type StreamReplicas struct {
	Stream string `json:"stream"`
	Leader string `json:"leader,omitempty"` // empty: none is known
	// LeaderlessSince is when the node that answers saw first that there is none.
	LeaderlessSince time.Time `json:"leaderless_since,omitzero"`
	// Replicas is the number of servers that should have the stream.
	Replicas int `json:"replicas"`
	// Behind names the servers that have less of it than the leader or can't be
	// reached; empty without a leader.
	Behind []string `json:"behind,omitempty"`
	// Spare is how many more servers may be lost before the stream can't be
	// written; below 0 it can't be now.
	Spare int `json:"spare"`
}

// NodesReply answers nodes.
type NodesReply struct {
	Cluster  string `json:"cluster,omitempty"` // its name; empty on an existing NATS
	Answered string `json:"answered"`          // the node that answers, as it sees the others
	Owner    string `json:"owner,omitempty"`   // of the log; empty: none answers
	Nodes    []Node `json:"nodes"`             // by name
	// Streams are those that hold primary data; empty where it is not known.
	Streams []StreamReplicas `json:"streams,omitempty"`
	// Warnings say what is at risk now; empty: nothing.
	Warnings []string `json:"warnings,omitempty"`
}

// Verify asks a node to verify its store.
type Verify struct {
	Node string `json:"node,omitempty"` // empty: whichever is asked
}

// NodeAsk is sent to all nodes, and asks one of them to answer an endpoint. Without it
// each says how it is.
type NodeAsk struct {
	Node     string `json:"node"`
	Endpoint string `json:"endpoint"`
	// Reply is where who has asked hears the answer. It is not the message's own reply
	// subject: a NATS server lets nobody name one of another account there.
	Reply string `json:"reply"`
}
