package core

import "github.com/streamwright/streamwright/events"

// newBody returns an empty payload for k, or nil for a kind without one.
func newBody(k events.Kind) events.Body {
	b, _ := events.DecodeBody(k, nil)
	return b
}
