package config

import (
	"errors"
	"maps"
	"slices"

	"github.com/streamwright/streamwright/events"
)

// Namespace holds the settings of one namespace in the file; its name is the table's.
type Namespace struct {
	Paused            bool
	MaxQueued         int
	MaxLogBytes       int64
	MaxDocumentBytes  int64
	RequestsPerSecond int
	Node              string
	Weight            int
	Accept            events.NamespaceList
}

// FileNamespaces are the namespaces as the engine takes them, by name.
func (c Config) FileNamespaces() []events.NamespaceInfo {
	list := make([]events.NamespaceInfo, 0, len(c.Namespaces))
	for _, name := range slices.Sorted(maps.Keys(c.Namespaces)) {
		n := c.Namespaces[name]
		list = append(list, events.NamespaceInfo{
			Name: name, Paused: n.Paused, Node: n.Node, Weight: n.Weight, Accept: n.Accept, Source: events.SourceFile,
			Limits: events.NamespaceLimits{
				MaxQueued: n.MaxQueued, MaxLogBytes: n.MaxLogBytes, MaxDocumentBytes: n.MaxDocumentBytes,
				RequestsPerSecond: n.RequestsPerSecond,
			},
		})
	}
	return list
}

// parseNamespace reads the name of a namespace that the file may set.
func parseNamespace(s string) (events.Namespace, error) {
	name := events.Namespace(s)
	var refused *events.Error
	if errors.As(events.CheckOtherNamespace(name), &refused) {
		return "", errors.New(refused.Message)
	}
	return name, nil
}
