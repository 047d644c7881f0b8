package workers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
	"unicode/utf8"

	"github.com/streamwright/streamwright/events"
)

// FailBadResult is the code of a run whose result can't be recorded.
const FailBadResult = "bad_result"

// Outcome is what came of one call of a handler.
type Outcome struct {
	Result     json.RawMessage // of a success; nil for none
	Err        error           // nil for a success
	Code       string          // of a failure
	Retryable  bool            // of a failure
	RetryAfter time.Duration   // of a failure; 0: the type's backoff
}

// Invoke calls h once and says what came of it: a panic, a result that is no
// JSON or too large, and an error after the context's timeout are failures
// with a code of their own.
func Invoke(ctx context.Context, h Handler, item *RawItem) Outcome {
	result, err := call(ctx, h, item)
	if err == nil {
		var doc json.RawMessage
		if doc, err = encodeResult(result, item.maxResult()); err == nil {
			return Outcome{Result: doc}
		}
	} else if errors.Is(context.Cause(ctx), ErrTimeout) {
		return Outcome{Err: fmt.Errorf("%w; the handler returned: %w", ErrTimeout, err), Code: events.FailTimeout, Retryable: true}
	}
	out := Outcome{Err: err}
	out.Code, out.Retryable, out.RetryAfter = verdictOf(err)
	if out.Code == "" {
		out.Code = events.FailError
	}
	return out
}

// call runs the handler; a panic, or a goroutine that it ends, becomes an
// error.
func call(ctx context.Context, h Handler, item *RawItem) (result any, err error) {
	returned := false
	defer func() {
		if returned {
			return
		}
		what := "the handler panicked: "
		if p := recover(); p != nil {
			what += fmt.Sprint(p)
		} else {
			what = "the handler ended its goroutine (runtime.Goexit)"
		}
		stack := debug.Stack()
		result, err = nil, WithCode(fmt.Errorf("%s\n\n%s", what, stack[:min(len(stack), MaxStackBytes)]), events.FailPanic)
	}()
	result, err = h(ctx, item)
	returned = true
	return result, err
}

// encodeResult is a result's JSON. It does not escape <, > and &, which would
// make them six times as long.
func encodeResult(result any, most int) (json.RawMessage, error) {
	if result == nil {
		return nil, nil
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(result); err != nil {
		return nil, badResult("the result can't be written as JSON: %w", err)
	}
	doc := bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
	if len(doc) > most {
		return nil, badResult("the result has %d bytes: at most %d can be recorded; store it elsewhere and return a reference", len(doc), most)
	}
	if !utf8.Valid(doc) {
		return nil, badResult("the result has bytes that are no UTF-8: encode them, for instance in base64")
	}
	return doc, nil
}

func badResult(format string, args ...any) error {
	return Permanent(WithCode(fmt.Errorf(format, args...), FailBadResult))
}
