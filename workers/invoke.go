package workers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"time"
	"unicode/utf8"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// FailBadResult is the code of a run whose result can't be recorded.
const FailBadResult = "bad_result"

// Outcome is the outcome of one call of a handler.
type Outcome struct {
	Result     json.RawMessage // of a success; nil for none
	Err        error           // nil for a success
	Code       string          // of a failure
	Retryable  bool            // of a failure
	RetryAfter time.Duration   // of a failure; 0: the type's backoff
	Spawn      *Spawned        // of a run that ends in children
	Snooze     *Snoozed        // of a run that puts its item off
	Wait       *Waits          // of a run that ends in a wait

	report *wire.Report // of a spawn, a snooze or a wait
}

// Invoke calls h once and returns the outcome: a panic, a result that is no
// JSON or too large, and an error after the context's timeout are failures
// with a code of their own. The item's output is stored before it returns. A [Spawned], a
// [Snoozed] and a [Waits] are no results but ends of their own.
func Invoke(ctx context.Context, h Handler, item *RawItem) (out Outcome) {
	item.output = newOutput(ctx, item)
	defer func() { out = closeOutput(out, item.output) }() // also of a handler that ends its goroutine
	return invoke(ctx, h, item)
}

func invoke(ctx context.Context, h Handler, item *RawItem) Outcome {
	result, err := call(context.WithValue(ctx, itemKey{}, item), ending(h), item)
	if err == nil {
		var out Outcome
		if out, err = success(result, item.maxResult()); err == nil {
			return out
		}
	} else if errors.Is(context.Cause(ctx), ErrTimeout) {
		return Outcome{Err: timedOut(err), Code: events.FailTimeout, Retryable: true}
	}
	out := Outcome{Err: err}
	out.Code, out.Retryable, out.RetryAfter = verdictOf(err)
	if out.Code == "" {
		out.Code = events.FailError
	}
	return out
}

// timedOut returns the error of an attempt that has run out of time, after which the handler
// returned err. It does not repeat what err says already.
func timedOut(err error) error {
	switch {
	case errors.Is(err, ErrTimeout):
		return err
	case err == context.DeadlineExceeded, err == context.Canceled:
		return ErrTimeout
	}
	return fmt.Errorf("%w; the handler returned: %w", ErrTimeout, err)
}

// success is the outcome of a handler that returned no error; most bounds its
// result, in bytes.
func success(result any, most int) (Outcome, error) {
	if end, ok := result.(end); ok {
		if v := reflect.ValueOf(end); v.Kind() == reflect.Pointer && v.IsNil() {
			return Outcome{}, fmt.Errorf("the handler returned a nil %T", end)
		}
		return end.outcome()
	}
	doc, err := encodeResult(result, most)
	return Outcome{Result: doc}, err
}

// call runs the handler; a panic becomes an error.
func call(ctx context.Context, h Handler, item *RawItem) (result any, err error) {
	defer func() {
		if p := recover(); p != nil {
			stack := debug.Stack()
			result, err = nil, WithCode(fmt.Errorf("the handler panicked: %v\n\n%s", p, stack[:min(len(stack), MaxStackBytes)]), events.FailPanic)
		}
	}()
	return h(ctx, item)
}

// encodeResult returns a result's JSON. It does not escape <, > and &, which would
// make them six times as long.
func encodeResult(result any, most int) (json.RawMessage, error) {
	if result == nil {
		return nil, nil
	}
	doc, err := encodeDocument("result", result)
	if err != nil {
		return nil, badResult("%w", err)
	}
	if len(doc) > most {
		return nil, badResult("the result has %d bytes: at most %d can be recorded; store it elsewhere and return a reference", len(doc), most)
	}
	if !utf8.Valid(doc) {
		return nil, badResult("the result has bytes that are no UTF-8: encode them, for instance in base64")
	}
	return doc, nil
}

// encodeDocument writes v as JSON; what names it in the error.
func encodeDocument(what string, v any) (json.RawMessage, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("the %s can't be written as JSON: %w", what, err)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

func badResult(format string, args ...any) error {
	return Permanent(WithCode(fmt.Errorf(format, args...), FailBadResult))
}
