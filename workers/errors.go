package workers

import (
	"context"
	"errors"
	"time"
)

// The causes with which a handler's context ends; see [context.Cause].
var (
	// ErrLeaseLost: the item is no longer this worker's, or may not be, or
	// another worker has registered under this one's id. Stop;
	// nothing this run returns is likely to count. A run that learns of its
	// item's cancel by the refusal of its own report ends with it, too.
	ErrLeaseLost = errors.New("the lease of the work item is lost: another worker may be running it")
	// ErrCancelled: the item was cancelled.
	ErrCancelled = errors.New("the work item was cancelled")
	// ErrTimeout: the attempt took longer than it may. It is recorded as
	// failed with code timeout.
	ErrTimeout = timeoutError{}
	// ErrShutdown: the worker stops and its drain has run out of time. The
	// item goes back to the queue, with no attempt used.
	ErrShutdown = errors.New("the worker is shutting down")
)

// Errors of the worker's own life.
var (
	// ErrNotNew: Start was called a second time, or after Stop; or Handle or Use after
	// either.
	ErrNotNew = errors.New("the worker has been started or stopped before: make a new one with New, add handlers and middleware, then start it")
	// ErrStopped: Stop was called while Start was under way.
	ErrStopped = errors.New("the worker was stopped while it started")
	// ErrConnectionClosed: the NATS connection was closed under the worker.
	ErrConnectionClosed = errors.New("the NATS connection is closed: the worker can't go on")
	// ErrAbandoned: a handler did not return although its context had ended.
	ErrAbandoned = errors.New("handlers did not return after their context ended")
	// ErrUnanswered: the engine did not answer the last reports.
	ErrUnanswered = errors.New("reports got no answer from the engine; the leases of their items will run out")
)

// timeoutError also matches context.DeadlineExceeded, for handlers that know
// nothing of this package.
type timeoutError struct{}

func (timeoutError) Error() string        { return "the attempt took longer than its timeout" }
func (timeoutError) Timeout() bool        { return true }
func (timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// verdict carries what a handler says of its failure. Nil fields are not said.
type verdict struct {
	err        error
	code       string
	retryable  *bool
	retryAfter time.Duration
}

func (v *verdict) Error() string { return v.err.Error() }
func (v *verdict) Unwrap() error { return v.err }

// Permanent marks err as not worth retrying: the item goes to dead. Nil stays
// nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &verdict{err: err, retryable: new(false)}
}

// RetryAfter marks err as worth retrying, after d instead of the type's
// backoff (rounded up to a millisecond). Nil stays nil.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &verdict{err: err, retryable: new(true), retryAfter: max(d, time.Millisecond)}
}

// WithCode gives err the stable name under which the failure is recorded, at
// most 256 bytes. Nil stays nil.
func WithCode(err error, code string) error {
	if err == nil {
		return nil
	}
	return &verdict{err: err, code: code}
}

// verdictOf joins what the marks in err's chain say; the outermost wins.
func verdictOf(err error) (code string, retryable bool, retryAfter time.Duration) {
	retryable = true
	said := false
	for {
		var v *verdict
		if !errors.As(err, &v) {
			return code, retryable, retryAfter
		}
		if code == "" {
			code = v.code
		}
		if v.retryable != nil && !said {
			said, retryable, retryAfter = true, *v.retryable, v.retryAfter
		}
		err = v.err
	}
}
