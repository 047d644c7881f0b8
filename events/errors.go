package events

import (
	"errors"
	"fmt"
	"time"
)

// Code is the stable name of an error, the same in Go, NATS replies, HTTP and
// rejected events.
type Code string

// The codes of refused commands.
const (
	CodeBadRequest       Code = "bad_request"       // malformed in a way that no other code names
	CodeBadParams        Code = "bad_params"        // params are no JSON
	CodeTooLarge         Code = "too_large"         // a field past its bound
	CodeBadType          Code = "bad_type"          // type name off the pattern
	CodeBadPriority      Code = "bad_priority"      // outside 0 to 9
	CodeBadID            Code = "bad_id"            // no ULID
	CodeBadTime          Code = "bad_time"          // unreadable, or beyond ten years
	CodeBadHeader        Code = "bad_header"        // unknown or unreadable Work- header
	CodeIDConflict       Code = "id_conflict"       // the id is taken by other content
	CodeDuplicate        Code = "duplicate"         // a repeat of what was accepted (in rejected events)
	CodeNotFound         Code = "not_found"         // no such item, worker or type
	CodeWrongState       Code = "wrong_state"       // the item's state does not allow it
	CodeEnded            Code = "ended"             // the item has ended: no signal reaches it
	CodeMailboxFull      Code = "mailbox_full"      // too many signals wait for the item
	CodeAlreadyCompleted Code = "already_completed" // the token has had another answer
	CodeUnreadSignals    Code = "unread_signals"    // a strict completion while signals have come that no run was given
	CodeStaleToken       Code = "stale_token"       // not the item's current token: stop running it
	CodeWrongAttempt     Code = "wrong_attempt"     // the attempt is not the current one
	CodeWrongWorker      Code = "wrong_worker"      // the token belongs to another worker
	CodeWorkerIDInUse    Code = "worker_id_in_use"  // the worker id is alive in another session
	CodeUnknownWorker    Code = "unknown_worker"    // the worker has not registered
	CodeTooManyTypes     Code = "too_many_types"    // MaxTypes reached
	CodeTypeNotAllowed   Code = "type_not_allowed"  // the configuration lists the types, and not this one
	CodeSetInFile        Code = "set_in_file"       // the setting is owned by engine.toml
	CodePaused           Code = "paused"            // the type is paused: claim refused
	CodeCircuitOpen      Code = "circuit_open"      // the circuit of the type or of the worker is open: claim refused
	CodeQueueFull        Code = "queue_full"        // too many items wait
	CodeRateLimited      Code = "rate_limited"      // a rate limit is reached
	CodeQuotaExceeded    Code = "quota_exceeded"    // the user has taken what its quota allows
	CodeAtCapacity       Code = "at_capacity"       // a type, a group or a pool has no room: claim refused
	CodeUnavailable      Code = "unavailable"       // not now: no owner, shutting down, storage full
	CodeNotOwner         Code = "not_owner"         // this engine stands by for another
	CodeUnauthenticated  Code = "unauthenticated"   // no proof of who asks, or one that is not known, over HTTP or to the NATS server
	CodeForbidden        Code = "forbidden"         // who asks may not do that
	CodeInternal         Code = "internal"
	CodeTimeout          Code = "timeout"
	CodePositionAhead    Code = "position_ahead" // min_position is beyond the log's end
)

// The codes of an engine that does not start.
const (
	CodeBadConfig    Code = "bad_config"    // a setting that is unknown, unreadable or out of bounds
	CodeCannotListen Code = "cannot_listen" // an address that is in use, or not this machine's
	CodeFolderInUse  Code = "folder_in_use" // another process has the data folder
	CodeLogLost      Code = "log_lost"      // the event log is gone, or does not belong to the store
	CodeNewerFormat  Code = "newer_format"  // a newer program has written the data folder, or raised the log's format level
)

// Failure codes that the engine itself records in failed events.
const (
	FailLeaseExpired = "lease_expired"
	FailTerminated   = "terminated" // an ack worker's +TERM
	FailTimeout      = "timeout"
	FailPanic        = "panic"
	FailKilled       = "killed"
	FailError        = "error"
)

// Error is a refused command. The message says what is wrong and what to do.
type Error struct {
	Code       Code          `json:"code"`
	Message    string        `json:"message"`
	RetryAfter time.Duration `json:"-"` // when it may be worth trying again; 0: not said
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Is matches errors of the same code, so errors.Is(err, &Error{Code: c}) works.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && (t.Message == "" || t.Message == e.Message)
}

// Refuse makes an *Error.
func Refuse(c Code, format string, args ...any) *Error {
	return &Error{Code: c, Message: fmt.Sprintf(format, args...)}
}

// WithCode gives an error a code. Its text, and what it wraps, stay as they
// are; nil stays nil.
func WithCode(c Code, err error) error {
	if err == nil {
		return nil
	}
	return &coded{&Error{Code: c, Message: err.Error()}, err}
}

type coded struct {
	code  *Error
	cause error
}

func (e *coded) Error() string   { return e.cause.Error() }
func (e *coded) Unwrap() []error { return []error{e.code, e.cause} }

// CodeOf returns the code of the *Error in err's chain, or CodeInternal if there is
// none.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return CodeInternal
}

// ErrCorrupt is wrapped by every error of [core.State.Apply] and of decoding: the
// log holds what can't have been decided. It stops the partition.
var ErrCorrupt = errors.New("the event log is corrupt")

// ErrNewer is wrapped by the decoding of an event that a newer program wrote.
var ErrNewer = errors.New("the event is of a newer format: use a newer program")

// ErrShuttingDown answers requests that come, or still wait, while the engine stops. The
// heir of its log may answer in a moment.
var ErrShuttingDown = &Error{Code: CodeUnavailable, Message: "the engine is shutting down: ask again, another engine or this one after its restart", RetryAfter: 25 * time.Millisecond}
