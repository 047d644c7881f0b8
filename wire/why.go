package wire

import (
	"time"

	"github.com/streamwright/streamwright/events"
)

// Why asks why an item is not running now.
type Why struct {
	ID          string   `json:"id"`
	MinPosition Position `json:"min_position,omitempty"`
}

// WhyReply answers a Why. Reasons come with the most telling one first; an item
// may have several at once.
type WhyReply struct {
	ID       string            `json:"id"`
	Type     string            `json:"type"`
	State    events.ItemState  `json:"state"`
	At       time.Time         `json:"at"` // when this was so
	Reasons  []events.Obstacle `json:"reasons"`
	Position Position          `json:"position,omitempty"`
}
