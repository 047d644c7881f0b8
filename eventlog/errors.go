package eventlog

import (
	"errors"
	"fmt"

	"github.com/streamwright/streamwright/events"
)

// The ways in which an append or a read fails. Match them with errors.Is;
// each comes as one of the error types below, which hold the details.
var (
	// ErrFenced: someone else has written to the stream, an owner or a stranger,
	// and the append was refused. Nothing of it is stored, now or later.
	ErrFenced = errors.New("someone else has written to the log")

	// ErrAmbiguous: the outcome is not known. Every Append fails with it until
	// Reset; see Settle.
	ErrAmbiguous = errors.New("it is not known whether the append was stored")

	// ErrFull: the stream's byte limit or the server's storage is exhausted, and
	// nothing is stored.
	ErrFull = errors.New("the event stream is full")

	// ErrTrimmed: the log no longer keeps the frame asked for.
	ErrTrimmed = errors.New("the log no longer keeps this frame")

	// ErrBehind: the log ends before a frame that has been read from it.
	ErrBehind = errors.New("the log ends before what was read from it")

	// ErrUnreachable: the server, or the stream's leader, did not answer, or the
	// connection broke. Nothing but time, or the network, is wrong: try again.
	// An Append does not fail with it but with ErrAmbiguous.
	ErrUnreachable = errors.New("the event stream can't be reached")

	// ErrTooLarge: the frame is larger than the server takes. Nothing was sent.
	ErrTooLarge = errors.New("the frame exceeds the server's max_payload")

	// ErrClosed: the log has been closed.
	ErrClosed = errors.New("the event log is closed")
)

// errUnsettled makes an Append fail between ErrAmbiguous and Reset.
var errUnsettled = errors.New("an earlier append has not been settled")

// FencedError is an ErrFenced.
type FencedError struct {
	Expected uint64 // the sequence that the append was to follow
	Found    uint64 // the stream's last sequence by the server's answer; 0: it named none
	Detail   string // the server's words
}

func (e *FencedError) Error() string {
	return fmt.Sprintf("append behind frame %d: %v (%s): read on from %d", e.Expected, ErrFenced, e.Detail, e.Expected+1)
}

// Is makes the error an ErrFenced.
func (e *FencedError) Is(target error) bool { return target == ErrFenced }

// AmbiguousError is an ErrAmbiguous.
type AmbiguousError struct {
	Expected uint64 // the sequence that the append was to follow
	Count    int    // its events
	Cause    error
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("append %d events behind frame %d: %v: reset and settle: %v", e.Count, e.Expected, ErrAmbiguous, e.Cause)
}

// Is makes the error an ErrAmbiguous.
func (e *AmbiguousError) Is(target error) bool { return target == ErrAmbiguous }

// Unwrap gives the cause.
func (e *AmbiguousError) Unwrap() error { return e.Cause }

// FullError is an ErrFull.
type FullError struct {
	Expected uint64 // the sequence that the append was to follow
	Detail   string // the server's words
}

func (e *FullError) Error() string {
	return fmt.Sprintf("append behind frame %d: %v (%s): free disk space, raise the limit, or cut the log", e.Expected, ErrFull, e.Detail)
}

// Is makes the error an ErrFull.
func (e *FullError) Is(target error) bool { return target == ErrFull }

// TrimmedError is an ErrTrimmed.
type TrimmedError struct {
	Asked uint64 // a frame's sequence
	First uint64 // of the first frame that is kept
}

func (e *TrimmedError) Error() string {
	return fmt.Sprintf("read frame %d: %v: it begins with frame %d", e.Asked, ErrTrimmed, e.First)
}

// Is makes the error an ErrTrimmed.
func (e *TrimmedError) Is(target error) bool { return target == ErrTrimmed }

// BehindError is an ErrBehind.
type BehindError struct {
	Known uint64 // the frame that was read from it once
	Last  uint64 // the last that it has now
}

func (e *BehindError) Error() string {
	return fmt.Sprintf("%v: it ends with frame %d, and frame %d is known: what was built from it belongs to another log, or the log has lost its end: rebuild it", ErrBehind, e.Last, e.Known)
}

// Is makes the error an ErrBehind.
func (e *BehindError) Is(target error) bool { return target == ErrBehind }

// CorruptError is a frame of the log that can't be what an engine wrote. It
// wraps events.ErrCorrupt.
type CorruptError struct {
	Frame  uint64 // its sequence
	Reason string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("frame %d: %v: %s", e.Frame, events.ErrCorrupt, e.Reason)
}

// Unwrap gives events.ErrCorrupt.
func (e *CorruptError) Unwrap() error { return events.ErrCorrupt }
