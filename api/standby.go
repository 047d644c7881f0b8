package api

import (
	"encoding/json"
	"net/http"

	"github.com/streamwright/streamwright/events"
)

// AnswerStandby answers an HTTP request to an engine that stands by for another,
// the owner: /healthz says so, with 200, since nothing is wrong that a restart
// would help; /readyz is 503, and everything else is refused.
func AnswerStandby(w http.ResponseWriter, r *http.Request, owner string) {
	why := "standing by: " + owner + " owns the log"
	var body any
	code := http.StatusServiceUnavailable
	switch r.URL.Path {
	case "/healthz":
		code, body = http.StatusOK, Health{Status: "standby", Owner: owner}
	case "/readyz":
		body = Readiness{Checks: []Check{{Check: "owner", Why: why}}}
	default:
		body = map[string]any{"error": events.Refuse(events.CodeNotOwner, "%s: ask that one, or again later", why)}
		w.Header().Set("Retry-After", "1")
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // who has gone needs no answer
}
