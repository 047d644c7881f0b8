package events

import (
	"time"
)

// BlockReason is one reason why an item is not running now, in words and as a
// stable code.
type BlockReason struct {
	Code    string    `json:"code"`
	Message string    `json:"message"`
	Until   time.Time `json:"until,omitzero"`  // when it passes by itself, where that is known
	Items   []ID      `json:"items,omitempty"` // the others that it is about, at most maxObstacleItems
	Ahead   int       `json:"ahead,omitempty"` // items in front of it, for WhyBehind
}

// The codes of block reasons. Those that no item is to blame for (capacity,
// workers, position) are the dispatcher's to find.
const (
	WhyEnded       = "ended"        // it is terminal
	WhyRunning     = "running"      // it is claimed or running
	WhyNotDue      = "not_due"      // delayed, or rescheduled
	WhyBackingOff  = "backing_off"  // after a failed attempt
	WhySnoozed     = "snoozed"      // its handler has put it off
	WhyWaiting     = "waiting_for"  // items that must end first
	WhyChildren    = "children"     // what it has spawned
	WhyPaused      = "paused"       // its type
	WhyCircuit     = "circuit_open" // of its type
	WhyRateLimited = "rate_limited"
	WhyGroupFull   = "group_at_capacity"
	WhyPoolFull    = "pool_at_capacity"
	WhyTypeFull    = "type_at_capacity"
	WhyEngineFull  = "engine_at_capacity"
	WhyNoWorker    = "no_worker"
	WhyNoCapable   = "no_capable_worker"
	WhyLanesFull   = "lanes_at_capacity"  // too many sets of capabilities at once
	WhyUnfit       = "workers_not_taking" // draining, unhealthy, or their circuit is open
	WhyBusy        = "workers_busy"
	WhyOnItsWay    = "dispatched" // on its way to a worker
	WhyBehind      = "behind"     // others go first
	WhyHeld        = "dispatch_held"
	WhyNoRoom      = "no_room" // on the engine's disk
	WhyReady       = "ready"   // nothing stands in its way: it is about to go
)
