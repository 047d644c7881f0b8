package api

import (
	"maps"
	"slices"
	"testing"

	"github.com/streamwright/streamwright/access"
)

// Each endpoint has been decided about: who may use it is said in package
// access, if only that it is the operators'.
func TestEachEndpointHasItsRoles(t *testing.T) {
	s := new(Service)
	if got, want := slices.Sorted(maps.Keys(s.endpoints())), access.Endpoints(); !slices.Equal(got, want) {
		t.Errorf("the service answers  %q\npackage access knows %q", got, want)
	}
}
