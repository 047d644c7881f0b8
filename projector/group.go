package projector

import "github.com/streamwright/streamwright/events"

// Group is a run of whole decisions.
type Group struct {
	Events   []events.Event
	Through  events.Seq
	Skipped  int
	Checksum uint64
}
