package rest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"

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
	Code         events.Code `json:"code" doc:"The engine's stable code: see docs/reference/ERRORS.md."`
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
	events.CodeUnauthenticated:  http.StatusUnauthorized,
	events.CodeForbidden:        http.StatusForbidden,
	events.CodeNotFound:         http.StatusNotFound,
	events.CodeTooLarge:         http.StatusRequestEntityTooLarge,
	events.CodeQueueFull:        http.StatusTooManyRequests,
	events.CodeRateLimited:      http.StatusTooManyRequests,
	events.CodeQuotaExceeded:    http.StatusTooManyRequests,
	events.CodeAtCapacity:       http.StatusTooManyRequests,
	events.CodeUnavailable:      http.StatusServiceUnavailable,
	events.CodeTimeout:          http.StatusServiceUnavailable,
	events.CodeInternal:         http.StatusInternalServerError,
	events.CodeIDConflict:       http.StatusConflict,
	events.CodeWrongState:       http.StatusConflict,
	events.CodeStaleToken:       http.StatusConflict,
	events.CodeWrongAttempt:     http.StatusConflict,
	events.CodeEnded:            http.StatusConflict,
	events.CodeAlreadyCompleted: http.StatusConflict,
	events.CodeUnreadSignals:    http.StatusConflict,
	events.CodeMailboxFull:      http.StatusTooManyRequests,
	events.CodeWrongWorker:      http.StatusConflict,
	events.CodeWorkerIDInUse:    http.StatusConflict,
	events.CodeUnknownWorker:    http.StatusNotFound,
	events.CodeTooManyTypes:     http.StatusConflict,
	events.CodePositionAhead:    http.StatusConflict,
	events.CodeTypeNotAllowed:   http.StatusUnprocessableEntity,
	events.CodeSetInFile:        http.StatusConflict,
	events.CodePaused:           http.StatusConflict,
	events.CodeCircuitOpen:      http.StatusConflict,
}

// What huma itself refuses (an unknown or unreadable parameter, a body that is
// too long) becomes a problem document as everything else. The hook is the
// library's only one, and is the program's.
func init() {
	huma.NewError = func(status int, msg string, errs ...error) huma.StatusError { return refusedByHuma(status, msg, errs) }
}

// refusedByHuma is the problem document of a request that no handler has seen.
func refusedByHuma(status int, msg string, errs []error) *Problem {
	var tooLong *http.MaxBytesError
	var slow net.Error
	var refused *events.Error
	for _, err := range errs {
		switch {
		case errors.As(err, &refused):
			return problemOf(refused)
		case errors.As(err, &tooLong):
			return problemOf(events.Refuse(events.CodeTooLarge, "the body has more than %d bytes: send less at once", tooLong.Limit))
		case errors.As(err, &slow) && slow.Timeout():
			status = http.StatusRequestTimeout
		}
	}
	code := events.CodeBadRequest
	switch {
	case status == http.StatusRequestTimeout:
		msg = "the body did not come in time: send it again"
	case len(errs) > 0 && status == http.StatusInternalServerError && msg == unreadBody:
		status, msg = http.StatusBadRequest, "the body can't be read to its end" // the caller has broken off
	case status == http.StatusRequestEntityTooLarge:
		code = events.CodeTooLarge
	case status >= http.StatusInternalServerError:
		code = events.CodeInternal
	case status == http.StatusUnprocessableEntity:
		status = http.StatusBadRequest
	}
	text := make([]string, 0, len(errs))
	for _, err := range errs {
		text = append(text, complaint(err))
	}
	slices.Sort(text) // huma finds unknown parameters in no order
	if len(text) > 0 {
		msg = strings.Join(text, "; ")
	}
	return &Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: events.Clip(msg, maxDetail), Code: code}
}

// maxDetail bounds what a problem document quotes of a request, in bytes.
const maxDetail = 1000

// complaint is one thing that huma has against a request. No value is quoted: it may be a
// secret, and what huma calls the value of an unknown field is all that stands beside it.
func complaint(err error) string {
	var d *huma.ErrorDetail
	if !errors.As(err, &d) {
		return err.Error()
	}
	where, name, _ := strings.Cut(d.Location, ".")
	switch {
	case name == "":
		return d.Message
	case where == "body" && d.Message == validation.MsgUnexpectedProperty:
		return fmt.Sprintf("the request has the field %q, which the engine does not know: check its spelling", events.Clip(name, 64))
	case where == "body":
		return fmt.Sprintf("the request's field %s: %s", events.Clip(name, 64), d.Message)
	case where == "header":
		return fmt.Sprintf("the header %s: %s", name, d.Message)
	}
	return fmt.Sprintf("the %s parameter %s: %s", where, name, d.Message)
}

// unreadBody is huma's message for a body that can't be read.
const unreadBody = "cannot read request body"

// problemOf returns the problem document of an error.
func problemOf(err error) *Problem {
	if p := (*Problem)(nil); errors.As(err, &p) {
		return p
	}
	e := wire.FromError(err)
	status, ok := statuses[e.Code]
	if !ok {
		status = http.StatusBadRequest
	}
	return &Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: e.Message, Code: e.Code, RetryAfterMS: e.RetryAfter.Milliseconds()}
}

// headers of a refusal: when to come again, where that helps, and how to prove who one is.
func (p *Problem) headers(h http.Header) {
	passes := p.Status == http.StatusTooManyRequests && p.Code != events.CodeQuotaExceeded || p.Status == http.StatusServiceUnavailable
	if p.RetryAfterMS > 0 || passes {
		h.Set("Retry-After", strconv.FormatInt(max((p.RetryAfterMS+999)/1000, 1), 10))
	}
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="streamwright"`)
	}
}

// GetHeaders implements huma.HeadersError.
func (p *Problem) GetHeaders() http.Header {
	h := http.Header{}
	p.headers(h)
	return h
}

// WriteProblem refuses a request with the problem document of an error, for the
// handlers that are mounted on the server.
func WriteProblem(w http.ResponseWriter, err error) { writeProblem(w, err) }

func writeProblem(w http.ResponseWriter, err error) { problemOf(err).write(w) }

func (p *Problem) write(w http.ResponseWriter) {
	p.headers(w.Header())
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the caller has gone: nobody to tell
}
