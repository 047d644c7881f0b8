package rest

import (
	"reflect"
	"slices"
	"testing"

	"github.com/streamwright/streamwright/wire"
)

// A worker over HTTP can report all that one over NATS can.
func TestReportsAreWhole(t *testing.T) {
	names := func(of reflect.Type) (all []string) {
		for _, f := range requestFields(of) {
			all = append(all, fieldName(f))
		}
		return all
	}
	over := names(typeOf[workReport]())
	for _, name := range names(typeOf[wire.Report]()) {
		// The path and the body beside the reports say which session; children in an object are
		// put there by the engine.
		if name != "session" && name != "children_ref" && !slices.Contains(over, name) {
			t.Errorf("a report over HTTP has no %s", name)
		}
	}
}
