// Package weight estimates the bytes that commands and events take, for the bounds of
// queues and batches.
package weight

import (
	"github.com/streamwright/streamwright/dispatcher/retention"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// Overhead is roughly the size of a command or an event without its documents.
const Overhead = 512

// idBytes is the size of an id in an event's JSON.
const idBytes = 29

// Commands returns roughly the memory that commands take.
func Commands(cmds []core.Command) (n int) {
	for _, c := range cmds {
		n += Overhead
		switch c := c.(type) {
		case core.Submit:
			n += len(c.Params)
		case core.Complete:
			n += len(c.Result)
		case core.SaveCheckpoint:
			n += len(c.Checkpoint)
		case core.Spawn:
			n += children(c.Children)
		case core.SpawnPart:
			n += children(c.Children)
		case core.SetSchedule:
			n += len(c.Schedule.Params)
		}
	}
	return n
}

func children(cs []core.Submit) (n int) {
	for i := range cs {
		n += Overhead + len(cs[i].Params)
	}
	return n
}

// Event returns roughly the length of an event's JSON.
func Event(ev *events.Event) int {
	switch b := ev.Body.(type) {
	case *events.Created:
		return Overhead + len(b.Params)
	case *events.Completed:
		return Overhead + len(b.Result)
	case *events.ScheduleSet:
		return Overhead + len(b.Schedule.Params)
	case *events.Failed:
		return Overhead + len(b.Error)
	case *events.Queued:
		return Overhead + len(b.Outcomes)
	case *events.Checkpointed:
		return Overhead + len(b.Checkpoint)
	case *events.Waiting:
		return Overhead + idBytes*len(b.For)
	case *events.Spawned:
		return Overhead + idBytes*len(b.Children)
	case *events.Rejected:
		return Overhead + len(b.Text) + 4*len(b.Bytes)/3 + Headers(b.Headers)
	}
	return Overhead + retention.Bytes(ev)
}

// Headers returns the size of a message's headers: a publisher may send long ones that mean
// nothing here.
func Headers(h map[string][]string) (n int) {
	for name, values := range h {
		for _, v := range values {
			n += len(name) + len(v)
		}
	}
	return n
}
