package lanes

import (
	"slices"
	"strings"

	"github.com/streamwright/streamwright/events"
)

// Key names a lane.
type Key struct {
	Type events.Type
	Name string // names the capabilities it asks for; empty: the shared lane
}

// Bounds of the lanes with capabilities that are open at once: each takes memory. Beyond
// them a lane waits until an open one has nothing left to run.
const (
	MaxPerType = 100 // of one type
	Max        = 500 // of all types
)

// Offer is the sorted set of a worker's capabilities.
type Offer []string

// Covers reports whether a worker with these capabilities can run the items of a lane.
func (o Offer) Covers(lane string) bool {
	if lane == "" {
		return true
	}
	for c := range strings.SplitSeq(lane, "_") {
		if _, has := slices.BinarySearch(o, c); !has {
			return false
		}
	}
	return true
}

// NextLane returns the first lane at or after a name, in the order of names, that a worker
// with these capabilities serves; empty for none. There are up to 2^16 such lanes; NextLane
// looks only at those on the way to the name.
func (o Offer) NextLane(from string) (next string) {
	var look func(prefix string, rest Offer)
	look = func(prefix string, rest Offer) {
		for i, c := range rest {
			name := prefix + c
			if name >= from {
				if next == "" || name < next {
					next = name
				}
				continue // longer names with this prefix come after it
			}
			if more := name + "_"; more > from || strings.HasPrefix(from, more) {
				look(more, rest[i+1:])
			}
		}
	}
	look("", o)
	return next
}
