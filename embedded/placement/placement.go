package placement

import (
	"bytes"
	"crypto/sha256"

	"github.com/streamwright/streamwright/wire"
)

// Node is a node of the cluster.
type Node struct {
	Name string // unique
	// Fit reports whether the node can own a log: it is online, follows, and has room.
	Fit bool
}

// Log is a log that one of the nodes owns.
type Log struct {
	Name  string  // unique
	Owner string  // empty if no owner is known; the log is not moved then
	Load  float64 // events a second; 0 for an idle log, whose cost the planner adds
	Node  string  // the node that it is pinned to; empty for any
	Fixed bool    // never moved, but counted in its owner's load
}

// Move asks the owner of a log to hand it over to another node.
type Move struct {
	Log      string
	From, To string
	Because  wire.TakeoverCause // TakeoverMoved: the log is pinned to To; TakeoverBalanced: From has more to do
}

// Heir returns the node that should own a log next, of several that are equally good; empty
// if there are none. Each log has an order of its own of the nodes, which depends on nothing
// but the names. So the logs of a node that goes spread over those that are left, and a node
// that comes or goes changes the choice for its own logs only: rendezvous, or highest random
// weight, hashing (Thaler and Ravishankar, 1998).
func Heir(log string, nodes []string) (heir string) {
	var most [sha256.Size]byte
	for _, n := range nodes {
		// Any hash would do that spreads well and is the same in every release.
		weight := sha256.Sum256([]byte(log + "\x00" + n))
		if bytes.Compare(weight[:], most[:]) > 0 {
			heir, most = n, weight
		}
	}
	return heir
}
