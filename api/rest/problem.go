package rest

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Problem is the body of a refused request: a problem document (RFC 9457) with
// the engine's code.
type Problem struct {
	Type         string      `json:"type" doc:"A URI of the kind of problem; about:blank where the status says it all."`
	Title        string      `json:"title" doc:"The status in words."`
	Status       int         `json:"status"`
	Detail       string      `json:"detail" doc:"What is wrong, and what to do."`
	Code         events.Code `json:"code" doc:"The engine's stable code: see docs/ERRORS.md."`
	RetryAfterMS int64       `json:"retry_after_ms,omitempty" doc:"When trying again may help."`
}

// Error implements error.
func (p *Problem) Error() string { return p.Detail }

// GetStatus implements huma.StatusError.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType implements huma.ContentTypeFilter.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// statuses are the HTTP statuses of the codes; what is not listed is 400.
var statuses = map[events.Code]int{
	events.CodeUnauthenticated: http.StatusUnauthorized,
	events.CodeForbidden:       http.StatusForbidden,
	events.CodeNotFound:        http.StatusNotFound,
	events.CodeTooLarge:        http.StatusRequestEntityTooLarge,
	events.CodeQueueFull:       http.StatusTooManyRequests,
	events.CodeRateLimited:     http.StatusTooManyRequests,
	events.CodeAtCapacity:      http.StatusTooManyRequests,
	events.CodeUnavailable:     http.StatusServiceUnavailable,
	events.CodeTimeout:         http.StatusServiceUnavailable,
	events.CodeInternal:        http.StatusInternalServerError,
	events.CodeIDConflict:      http.StatusConflict,
	events.CodeWrongState:      http.StatusConflict,
	events.CodeStaleToken:      http.StatusConflict,
	events.CodeWrongAttempt:    http.StatusConflict,
	events.CodeWrongWorker:     http.StatusConflict,
	events.CodeWorkerIDInUse:   http.StatusConflict,
	events.CodeUnknownWorker:   http.StatusNotFound,
	events.CodeDraining:        http.StatusConflict,
	events.CodeUnhealthy:       http.StatusConflict,
	events.CodeTooManyTypes:    http.StatusConflict,
	events.CodeSetInFile:       http.StatusConflict,
	events.CodePaused:          http.StatusConflict,
	events.CodeCircuitOpen:     http.StatusConflict,
}

// problemOf is the problem document of an error.
func problemOf(err error) *Problem {
	e := wire.FromError(err)
	status, ok := statuses[e.Code]
	if !ok {
		status = http.StatusBadRequest
	}
	return &Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: e.Message, Code: e.Code, RetryAfterMS: e.RetryAfterMS}
}

// headers of a refusal: when to come again, and how to prove who one is.
func (p *Problem) headers(h http.Header) {
	if p.RetryAfterMS > 0 || p.Status == http.StatusTooManyRequests {
		h.Set("Retry-After", strconv.FormatInt(max((p.RetryAfterMS+999)/1000, 1), 10))
	}
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="streamwright"`)
	}
}

func writeProblem(w http.ResponseWriter, err error) {
	p := problemOf(err)
	p.headers(w.Header())
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the caller has gone: nobody to tell
}
