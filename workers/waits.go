package workers

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Waits, returned as a handler's result or as its error, ends the run in a wait for
// signals: the item holds no slot, and runs again, with no attempt used, once they have
// come. See [Wait].
type Waits struct {
	terms  wire.WaitFor
	result any
	ask    *Question // nil: it asks nothing
}

// Wait waits for a signal of a name. Who sends one names the item: engine signal ID NAME.
// One that has come before is not lost: it ends the wait at once. The wait must say how
// long it is:
//
//	return nil, workers.Wait("approved").For(72 * time.Hour)
//
// The run that follows finds in [RawItem].Waited how the wait has ended. What it needs
// besides it saves before by [Checkpoint].
func Wait(name string) Waits { return WaitAny(name) }

// WaitAny waits for one signal, of any of up to 16 names.
func WaitAny(names ...string) Waits { return Waits{terms: wire.WaitFor{Names: names}} }

// WaitAll waits for a signal of each of up to 16 names.
func WaitAll(names ...string) Waits { return Waits{terms: wire.WaitFor{Names: names, All: true}} }

// Sleep has the item run again at a time, with no attempt used, whatever signals come.
func Sleep(until time.Time) Waits { return WaitAny().Until(until) }

// For sets the deadline, d from now on (1 ms to ten years). If the wait has not ended by
// then, the item runs again, and is told so, unless OrFail or OrComplete says otherwise.
func (w Waits) For(d time.Duration) Waits {
	w.terms.For, w.terms.Until, w.terms.Then = events.DurationOf(max(d, time.Millisecond)), time.Time{}, events.WaitContinue
	return w
}

// Until is For with a time.
func (w Waits) Until(t time.Time) Waits {
	w.terms.For, w.terms.Until, w.terms.Then = events.Duration{}, t, events.WaitContinue
	return w
}

// OrFail has the item be dead at the deadline, with a code of its own and a message; both
// may be empty.
func (w Waits) OrFail(code, message string) Waits {
	w.terms.Then, w.terms.Code, w.terms.Error = events.WaitFail, code, message
	return w
}

// OrComplete has the item complete at the deadline, with a result of at most 4 KiB of
// JSON; nil is none.
func (w Waits) OrComplete(result any) Waits {
	w.terms.Then, w.result = events.WaitComplete, result
	return w
}

// Names returns the names of the signals that it is for.
func (w Waits) Names() []string { return w.terms.Names }

// Error makes a Waits an error, so that a handler with a result of its own type can
// return it.
func (w Waits) Error() string {
	if len(w.terms.Names) == 0 {
		return "the handler has the item wait"
	}
	return "the handler has the item wait for " + strings.Join(w.terms.Names, ", ")
}

func (w Waits) outcome() (Outcome, error) {
	terms := w.terms
	switch {
	case terms.Then == "" || terms.For.Duration == 0 && terms.Until.IsZero():
		return Outcome{}, badSpawn("the wait has no end: say how long it is, by For or Until")
	case w.result != nil:
		doc, err := encodeDocument("result of the wait", w.result)
		if err != nil {
			return Outcome{}, badSpawn("%w", err)
		}
		terms.Result = doc
	}
	if w.ask != nil {
		doc, err := w.ask.encode()
		if err != nil {
			return Outcome{}, badSpawn("%w", err)
		}
		terms.Ask = doc
	}
	return Outcome{Wait: &w, report: &wire.Report{Event: wire.ReportWait, ReportFlow: wire.ReportFlow{Wait: &terms}}}, nil
}

// Token makes a token for the running item, to be given to somebody outside: who presents it,
// without a login, sends the item the signal of a name, once, with a result or an error
// (POST /api/v1/tokens/TOKEN). It returns once the engine has the token's hash durably; the token
// itself is nowhere but with those who are given it. It outlives the run: another attempt may
// make another of the same name, and either may be presented. An item has at most 100 that
// nobody has presented (CodeMailboxFull). It waits, and fails, as [Checkpoint] does.
//
// A handler gives it away, and then returns a [Wait] for the name:
//
//	token, err := workers.Token(ctx, "paid")
//	…
//	return nil, workers.Wait("paid").For(72 * time.Hour)
func Token(ctx context.Context, name string) (string, error) {
	return newToken(ctx, wire.WaitToken{Name: name})
}

func newToken(ctx context.Context, t wire.WaitToken) (string, error) {
	item := itemOf(ctx)
	if item == nil {
		return "", fmt.Errorf("make a token: %w", ErrNoItem)
	}
	token, err := wire.NewWaitToken(item.ID), context.Cause(ctx)
	if err == nil && item.OnToken != nil {
		t.Hash = wire.HashWaitToken(token)
		err = item.OnToken(ctx, t)
	}
	if err != nil {
		return "", fmt.Errorf("make a token for item %s: %w", item.ID, err)
	}
	return token, nil
}

// Waited says how the wait has ended that an earlier run of the item ended in. It is
// given to each run until one ends in an outcome: completed, another wait, children. So a
// run that fails or is lost leaves the signals to the next.
type Waited struct {
	TimedOut bool     // the deadline has ended it
	Signals  []Signal // those that it has taken, in the order in which they came: of a wait that timed out, what there was
}

// Signal is a signal to an item.
type Signal = events.Signal

// Signal returns the signal of a name that the item's last wait has taken.
func (it *RawItem) Signal(name string) (s Signal, ok bool) {
	if it.Waited == nil {
		return s, false
	}
	for _, s := range it.Waited.Signals {
		if s.Name == name {
			return s, true
		}
	}
	return s, false
}

// SignalError is what somebody who presents a token says instead of a result.
type SignalError = events.SignalError

// SignalOf is [RawItem.Signal] with the payload decoded: the zero T if it has none. For a
// token that was presented with an error, that is err: a [*SignalError].
func SignalOf[T any](it *RawItem, name string) (payload T, ok bool, err error) {
	s, ok := it.Signal(name)
	if s.Error != nil {
		return payload, ok, s.Error
	}
	if !ok || len(s.Payload) == 0 {
		return payload, ok, nil
	}
	if err := json.Unmarshal(s.Payload, &payload); err != nil {
		return payload, true, fmt.Errorf("read the payload of the signal %s: %w", name, err)
	}
	return payload, true, nil
}

// takeWaited tells an item how its last wait has ended.
func takeWaited(item *RawItem, w *wire.EndedWait) error {
	if w == nil {
		return nil
	}
	item.Waited = &Waited{TimedOut: w.Ended == events.WaitTimedOut}
	if len(w.Signals) == 0 {
		return nil
	}
	if err := json.Unmarshal(w.Signals, &item.Waited.Signals); err != nil {
		return fmt.Errorf("read the signals: %w", err)
	}
	return nil
}
