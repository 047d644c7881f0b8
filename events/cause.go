package events

import "time"

// Cause is what items have died of: those whose type, reason, code and error
// text, with its numbers and ids left out, are the same.
type Cause struct {
	Type    Type      `json:"type"`
	Reason  string    `json:"reason"`
	Code    string    `json:"code,omitempty"`
	Error   string    `json:"error,omitempty"` // of the example
	Count   int64     `json:"count"`           // deaths, in all
	Dead    int64     `json:"dead"`            // of these items, how many are dead now
	First   time.Time `json:"first"`
	Last    time.Time `json:"last"`
	Example ID        `json:"example"` // the last one
	// The window in which fast growth is noticed.
	WindowAt time.Time `json:"window_at,omitzero"`
	Window   int64     `json:"window,omitempty"`
	Noted    int64     `json:"noted,omitempty"` // the window's count when that was last noted
}

// dead is the end of an item that has failed for good, and what that says of
// its cause.
func (d *decider) dead(it *Item, b *Dead) []Event {
	return []Event{d.runEvent(it, b)}
}
