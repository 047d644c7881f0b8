package embedded

import (
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
)

// metaGroup is the name of the raft group that knows the cluster's streams.
const metaGroup = "_meta_"

// group returns what this node's server knows of a raft group that it is part of.
func (s *server) group(name string) (natsserver.RaftzGroup, bool) {
	all := s.ns().Raftz(&natsserver.RaftzOptions{AccountFilter: systemAccount, GroupFilter: name})
	if all == nil {
		return natsserver.RaftzGroup{}, false
	}
	g, ok := (*all)[systemAccount][name]
	return g, ok
}

// seenWithin is how long ago a node may have been heard of last, and still counts
// as reached: leaders send a heartbeat each second.
const seenWithin = 3500 * time.Millisecond
