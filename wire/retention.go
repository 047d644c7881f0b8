package wire

import "time"

// Retention is what the engine keeps, in the info reply and in that to cut.
type Retention struct {
	LogFirst Position  `json:"log_first"` // the first event that the log holds
	LogLast  Position  `json:"log_last"`
	Retained int64     `json:"retained"`          // items
	Held     int       `json:"held,omitempty"`    // of them, past their time, but with a key or an item that refers to them
	Pruned   int64     `json:"pruned"`            // in all
	LastCut  time.Time `json:"last_cut,omitzero"` // when the last round of snapshots ended
	Round    string    `json:"round,omitempty"`   // how far the one under way has come: begun, carrying, syncing, cutting
}
