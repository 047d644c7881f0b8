// Package weight estimates the bytes that commands and messages take, for the bounds of
// queues.
package weight

import (
	"github.com/streamwright/streamwright/events/core"
)

// Overhead is roughly the size of a command without its documents.
const Overhead = 512

// Commands returns roughly the memory that commands take.
func Commands(cmds []core.Command) (n int) {
	for _, c := range cmds {
		n += Overhead
		if by, ok := c.(core.By); ok {
			c = by.Command
		}
		switch c := c.(type) {
		case core.Submit:
			n += len(c.Params)
			if c.Signal != nil {
				n += len(c.Signal.Payload)
			}
		case core.Complete:
			n += len(c.Result)
		case core.SaveCheckpoint:
			n += len(c.Checkpoint)
		case core.PresentToken:
			n += len(c.Result)
		case core.Signal:
			n += len(c.Payload)
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
