package api

import (
	"maps"
	"slices"
	"testing"

	"github.com/streamwright/streamwright/wire"
)

// Each row of the table of endpoints has a handler that reads its request, and each
// handler a row.
func TestEachEndpointHasItsHandler(t *testing.T) {
	r := newRig(t, nil)
	handlers := maps.Clone(r.svc.direct)
	for _, e := range wire.Endpoints() {
		h, ok := handlers[e.Name]
		if !ok {
			t.Errorf("%s is in the table and has no handler", e.Name)
			continue
		}
		if h.request != e.Request {
			t.Errorf("%s: the handler reads a %s, the table says %s", e.Name, h.request, e.Request)
		}
		delete(handlers, e.Name)
	}
	if len(handlers) > 0 {
		t.Errorf("handlers without a row in the table: %q", slices.Sorted(maps.Keys(handlers)))
	}
}
