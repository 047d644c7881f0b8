package events

import (
	"slices"
	"strings"
)

// LaneOf names the consumer lane for a set of capabilities: sorted, joined
// with "_"; the empty set's is "" (the shared lane).
func LaneOf(capabilities []string) string {
	if len(capabilities) == 0 {
		return ""
	}
	c := slices.Clone(capabilities)
	slices.Sort(c)
	return strings.Join(slices.Compact(c), "_")
}
