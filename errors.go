package streamwright

import "github.com/streamwright/streamwright/events"

// Errors to compare with by [errors.Is]: each matches every refusal with its
// code. The error that is returned says more, and may carry a RetryAfter: see
// [events.Error]. Codes that are not here are compared in the same way, with
// &events.Error{Code: code}.
var (
	ErrNotFound      error = &events.Error{Code: events.CodeNotFound}
	ErrWrongState    error = &events.Error{Code: events.CodeWrongState}
	ErrIDConflict    error = &events.Error{Code: events.CodeIDConflict}
	ErrQueueFull     error = &events.Error{Code: events.CodeQueueFull}
	ErrQuotaExceeded error = &events.Error{Code: events.CodeQuotaExceeded}
	ErrTooLarge      error = &events.Error{Code: events.CodeTooLarge}
	ErrUnavailable   error = &events.Error{Code: events.CodeUnavailable}
	ErrTimeout       error = &events.Error{Code: events.CodeTimeout}
	ErrUnauthorized  error = &events.Error{Code: events.CodeUnauthenticated}
	ErrForbidden     error = &events.Error{Code: events.CodeForbidden}
)
