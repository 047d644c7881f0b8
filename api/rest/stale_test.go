package rest

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/streamwright/streamwright/events"
)

// One type or schedule that a list lacks is not said not to be there where the list may
// lack it.
func TestOneOfAStaleListIsUnavailable(t *testing.T) {
	for _, c := range []struct {
		stale  string
		status int
		code   events.Code
	}{{"", http.StatusNotFound, events.CodeNotFound}, {"as of position 7", http.StatusServiceUnavailable, events.CodeUnavailable}} {
		s := listening(t, Config{Engine: fakeEngine(func(context.Context, string, []byte) ([]byte, error) {
			return json.Marshal(map[string]any{"types": []any{}, "schedules": []any{}, "stale": c.stale})
		})}, nil)
		for _, path := range []string{"/api/v1/types/email", "/api/v1/schedules/nightly"} {
			res := get(t, s, path)
			var p Problem
			err := json.NewDecoder(res.Body).Decode(&p)
			res.Body.Close()
			if err != nil || res.StatusCode != c.status || p.Code != c.code {
				t.Errorf("%s, stale %q: status %d, %+v, %v", path, c.stale, res.StatusCode, p, err)
			}
		}
	}
}
