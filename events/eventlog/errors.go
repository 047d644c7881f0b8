package eventlog

import (
	"errors"
	"fmt"

	"github.com/streamwright/streamwright/events"
)

// The ways in which an append or a read fails. Match them with errors.Is;
// each comes as one of the error types below, which hold the details.
var (
	// ErrFenced: someone else has written to the log, and the append was
	// refused. Of ours nothing is stored, or a prefix, which the next event in
	// the log follows; what that prefix has decided, a replay tells. Nothing
	// more of it can be stored later.
	ErrFenced = errors.New("another writer has appended to the log")

	// ErrAmbiguous: the outcome is not known. Every Append fails with it until
	// Reset; see Settle.
	ErrAmbiguous = errors.New("it is not known whether the append was stored")

	// ErrFull: the stream's byte limit or the server's storage is exhausted, and
	// nothing is stored. If a prefix was, the error is ErrAmbiguous too, and is
	// treated like that.
	ErrFull = errors.New("the event stream is full")

	// ErrTrimmed: the log no longer keeps the position asked for.
	ErrTrimmed = errors.New("the log has been cut behind this position")

	// ErrBehind: the log ends before a position that has been read from it.
	ErrBehind = errors.New("the log ends before what was read from it")

	// ErrUnreachable: the server, or the stream's leader, did not answer, or the
	// connection broke. Nothing but time, or the network, is wrong: try again.
	// An Append does not fail with it but with ErrAmbiguous.
	ErrUnreachable = errors.New("the event stream can't be reached")

	// ErrTooLarge: an event is larger than the server takes. Nothing was sent.
	ErrTooLarge = errors.New("the event is larger than the server's max_payload")

	// ErrClosed: the log has been closed.
	ErrClosed = errors.New("the event log is closed")
)

// errUnsettled makes an Append fail between ErrAmbiguous and Reset.
var errUnsettled = errors.New("an earlier append has not been settled")

// FencedError is an ErrFenced.
type FencedError struct {
	Expected events.Seq // the position that the append was to follow
	Found    events.Seq // the log's last position as the server said it; 0: not said
	Detail   string     // the server's words
}

func (e *FencedError) Error() string {
	return fmt.Sprintf("append behind %d: %v (found %d: %s): read on from %d", e.Expected, ErrFenced, e.Found, e.Detail, e.Expected+1)
}

// Is makes the error an ErrFenced.
func (e *FencedError) Is(target error) bool { return target == ErrFenced }

// interruptedError: the events up to kept are stored and count, whole decisions
// each. Part of the next decision may be stored, too; all readers skip it, and
// nothing more of it can be stored later. Otherwise only foreign messages lie
// behind kept, up to last. Callers that do not know this error see a
// FencedError.
type interruptedError struct {
	FencedError
	kept events.Seq // Expected if none
	last events.Seq
}

// AmbiguousError is an ErrAmbiguous.
type AmbiguousError struct {
	Expected events.Seq // the position that the append was to follow
	Count    int        // its events
	Cause    error
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("append %d events behind %d: %v: reset and settle: %v", e.Count, e.Expected, ErrAmbiguous, e.Cause)
}

// Is makes the error an ErrAmbiguous.
func (e *AmbiguousError) Is(target error) bool { return target == ErrAmbiguous }

// Unwrap gives the cause.
func (e *AmbiguousError) Unwrap() error { return e.Cause }

// FullError is an ErrFull, and an ErrAmbiguous as well if a prefix is stored.
type FullError struct {
	Expected events.Seq // the position that the append was to follow
	Prefix   bool       // a part of it is stored
	Detail   string     // the server's words
}

func (e *FullError) Error() string {
	return fmt.Sprintf("append behind %d: %v (%s): free disk space, raise the limit, or cut the log", e.Expected, ErrFull, e.Detail)
}

// Is makes the error an ErrFull.
func (e *FullError) Is(target error) bool {
	return target == ErrFull || e.Prefix && target == ErrAmbiguous
}

// TrimmedError is an ErrTrimmed.
type TrimmedError struct {
	Asked events.Seq
	First events.Seq // the first position that is kept
}

func (e *TrimmedError) Error() string {
	return fmt.Sprintf("read position %d: %v: it begins at %d", e.Asked, ErrTrimmed, e.First)
}

// Is makes the error an ErrTrimmed.
func (e *TrimmedError) Is(target error) bool { return target == ErrTrimmed }

// BehindError is an ErrBehind.
type BehindError struct {
	Known events.Seq // the position that was read from it once
	Last  events.Seq // where it ends now
}

func (e *BehindError) Error() string {
	return fmt.Sprintf("%v: it ends at %d, %d is known: what was built from it belongs to another log, or the log has lost its end: rebuild it", ErrBehind, e.Last, e.Known)
}

// Is makes the error an ErrBehind.
func (e *BehindError) Is(target error) bool { return target == ErrBehind }

// CorruptError is a message of the log that can't be what an engine wrote. It
// wraps events.ErrCorrupt.
type CorruptError struct {
	Seq    events.Seq
	Reason string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("event at %d: %v: %s", e.Seq, events.ErrCorrupt, e.Reason)
}

// Unwrap gives events.ErrCorrupt.
func (e *CorruptError) Unwrap() error { return events.ErrCorrupt }
