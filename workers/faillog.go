package workers

import (
	"log/slog"
	"time"

	"github.com/streamwright/streamwright/internal/lograte"
	"github.com/streamwright/streamwright/wire"
)

// Bounds of what is logged of handlers' failures.
const (
	maxFailureLines = 20  // a second; the number of the others is logged
	maxFailureText  = 500 // bytes of an error's text
)

// HandlerFailed is the message of the line by which a worker logs, at level warn,
// that a handler has failed an item. The line has the fields worker, item, type,
// attempt, code, err and took.
const HandlerFailed = "a handler has failed"

// newFailureLog bounds a worker's lines about its handlers' failures.
func newFailureLog(log *slog.Logger) *lograte.Limiter {
	return lograte.New(maxFailureLines, func(left int) {
		log.Warn("more handlers failed than are logged in a second", "left_out", left)
	})
}

// logFailure logs that a handler has failed an item, if that is what its report
// says. A run that was told to stop, since its item is cancelled or another's, has
// failed nothing.
func (w *Worker) logFailure(r *run, item *RawItem, rep *wire.Report, cause error, took time.Duration) {
	if rep.Event != wire.ReportFail || cause != nil && cause != ErrTimeout || !w.failures.Allow() {
		return
	}
	attrs := []any{"item", r.rawID, "type", string(r.reg.typ), "attempt", int(item.Attempt), "code", rep.Code, "err", cutText(rep.Error, maxFailureText),
		"took", took.Round(time.Millisecond)}
	if rep.Retryable != nil && !*rep.Retryable {
		attrs = append(attrs, "retryable", false)
	}
	w.log.Warn(HandlerFailed, attrs...)
}
