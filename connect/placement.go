package connect

import "github.com/nats-io/nats.go/jetstream"

// Placement returns the placement of a stream on servers with all of some tags; nil for
// no tags.
func Placement(tags []string) *jetstream.Placement {
	if len(tags) == 0 {
		return nil
	}
	return &jetstream.Placement{Tags: tags}
}

// NodeTag returns the tag that the embedded server of a cluster's node carries.
func NodeTag(node string) string { return "node:" + node }
