package workers

import (
	"context"
	"encoding/json"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// RawItem is one work item as its handler sees it. It is safe for concurrent
// use and must not be changed, apart from what middleware puts in its place.
type RawItem struct {
	ID        events.ID
	Namespace events.Namespace // that the item belongs to; empty in a test without a runtime
	Type      events.Type
	Attempt   events.Attempt // this run's number, from 1
	Raw       json.RawMessage
	Labels    map[string]string
	Deadline  time.Time // when the context ends with ErrTimeout; zero: never
	Trace     string    // the traceparent of its attempt, or of its submission; see package tracing
	// MaxResult bounds the result's JSON, in bytes; 0: events.MaxResultBytes. A
	// larger one than that goes to the object store. The runtime sets it.
	MaxResult int

	// Checkpoint is the last one that an earlier attempt has saved; nil: none. See
	// LoadCheckpoint.
	Checkpoint json.RawMessage
	// Continuation is set if the item has spawned children, which have ended.
	Continuation *Continuation
	// Waited is set if an earlier run has ended in a wait, which has ended.
	Waited *Waited

	// OnProgress and OnCheckpoint take what the handler reports by Progress and
	// Checkpoint; nil drops it. The runtime sets them.
	OnProgress   func(percent int, message string)
	OnCheckpoint func(ctx context.Context, doc json.RawMessage) error

	// OnToken records the hash of a token that the handler makes by Token; nil drops it. The
	// runtime sets it.
	OnToken func(ctx context.Context, t wire.WaitToken) error

	// OnMeasure takes what the handler measures by Measure; nil drops it. The
	// runtime sets it.
	OnMeasure func(read func() Usage) (done func())

	// OnOutput takes the chunks of the item's output, one at a time, and returns what is
	// stored; nil drops them. The runtime sets it.
	OnOutput func(ctx context.Context, offset int, chunk []byte) (OutputSummary, error)

	// Sink takes the item's log records; nil drops them. The runtime sets it.
	Sink func(at time.Time, level, message string)

	output *Output // of the run; set by Invoke
}

func (it *RawItem) maxResult() int {
	if it.MaxResult <= 0 {
		return events.MaxResultBytes
	}
	return it.MaxResult
}

// Item is a work item whose params have been decoded.
type Item[T any] struct {
	*RawItem
	Params T
}

// The levels of log records.
const (
	LevelDebug = "debug"
	LevelInfo  = "info"
	LevelWarn  = "warn"
	LevelError = "error"
)

// Log adds a record to the item's log, which anyone can follow. Level is one
// of debug, info, warn, error (anything else becomes info); a message over
// [MaxLogText] bytes is cut. Logging is best effort: it never fails or blocks
// on the engine, and what is logged before the handler returns is sent before
// its outcome.
func (it *RawItem) Log(level, message string) {
	if it.Sink == nil {
		return
	}
	switch level {
	case LevelDebug, LevelInfo, LevelWarn, LevelError:
	default:
		level = LevelInfo
	}
	it.Sink(time.Now(), level, events.CutText(message, MaxLogText))
}
