package query

import (
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// LastEvents is History with another bound.
func (s Reader) LastEvents(id events.ID, most int) (wire.HistoryReply, error) {
	return s.lastEvents(id, most)
}
