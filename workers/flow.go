package workers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// FailBadSpawn is the code of a run whose children, whose snooze or whose wait can't be
// recorded.
const FailBadSpawn = "bad_spawn"

// Spawned, returned as a handler's result or as its error, ends the run in children; see
// [Spawn].
type Spawned struct {
	// Children are 1 to events.MaxChildren items, with at most
	// wire.MaxSpawnBytes of JSON together. Up to events.MaxWholeSpawn of them are
	// made at once; more are made in parts behind the end of the run, none twice
	// and none left out. Those that set no priority, tenant or
	// trace have their parent's.
	Children []Child
	// Continues says that the item runs again once they have ended, and Continuation what
	// for; see Then.
	Continues    bool
	Continuation string
	// Policy decides what a dead or cancelled child does; empty: ChildFail.
	Policy ChildPolicy
}

// Spawn ends the run in children: items that are made together with the end of the run, or
// not at all. The item waits for them, and completes when the last has ended, unless it runs
// again then: see Then.
//
//	return workers.Spawn(pages...).Then("bind"), nil
func Spawn(children ...Child) Spawned { return Spawned{Children: children} }

// Then has the item run again once the children have ended, with their outcomes in the order
// of the children (see [RawItem].Continuation and [Results]). The continuation is a name of at most
// 256 bytes that tells it what to do; it may be empty.
func (s Spawned) Then(continuation string) Spawned {
	s.Continues, s.Continuation = true, continuation
	return s
}

// OnFailure sets what a dead or cancelled child does to the item.
func (s Spawned) OnFailure(p ChildPolicy) Spawned {
	s.Policy = p
	return s
}

// ChildPolicy says what a dead or cancelled child does to its parent.
type ChildPolicy = events.ChildPolicy

// The values of a [ChildPolicy].
const (
	ChildFail     = events.ChildFail     // the parent is dead at once, its other children are cancelled; the default
	ChildContinue = events.ChildContinue // it is left to the continuation
)

// Child is an item to spawn.
type Child struct {
	Type   string
	Params any // as JSON; a json.RawMessage as it is; nil is null
	// With is everything else that a submission may say, such as a priority
	// or a dedup key; its Type and Params are not used.
	With wire.Submit
}

// Snoozed, returned as a handler's result or as its error, puts the item off; see [Snooze].
type Snoozed struct {
	Delay  time.Duration
	Reason string // at most 256 bytes
}

// Snooze, returned as a handler's result or as its error, puts the item back into the
// queue until d has passed (1 ms to ten years), with no attempt used: not yet, but
// nothing has failed.
//
//	return nil, workers.Snooze(time.Minute).Because("the upload has not ended")
func Snooze(d time.Duration) Snoozed { return Snoozed{Delay: max(d, time.Millisecond)} }

// Because gives the reason, which is shown with the item.
func (s Snoozed) Because(reason string) Snoozed {
	s.Reason = reason
	return s
}

// Error makes a Snoozed an error, so that a handler with a result of its own type can
// return it.
func (s Snoozed) Error() string {
	text := fmt.Sprintf("the handler puts the item off for %s", s.Delay)
	if s.Reason != "" {
		text += ": " + s.Reason
	}
	return text
}

// Error makes a Spawned an error, so that a handler with a result of its own type can
// return it.
func (s Spawned) Error() string {
	return fmt.Sprintf("the handler ends the run in %d children", len(s.Children))
}

// end is what a handler returns, as its result or as its error, to end the run otherwise than
// with a result or a failure: a [Spawned], a [Snoozed] or a [Waits].
type end interface {
	error
	outcome() (Outcome, error)
}

// ending makes an end that h returns as its error its result: it is no failure.
func ending(h Handler) Handler {
	return func(ctx context.Context, item *RawItem) (any, error) {
		result, err := h(ctx, item)
		if end, ok := errors.AsType[end](err); ok {
			return end, nil
		}
		return result, err
	}
}

func (s Snoozed) outcome() (Outcome, error) {
	if s.Delay <= 0 || s.Delay > events.MaxDelay {
		return Outcome{}, badSpawn("the snooze of %v is outside 1 ms to ten years", s.Delay)
	}
	return Outcome{Snooze: &s, report: &wire.Report{
		Event: wire.ReportSnooze, Reason: events.CutText(s.Reason, events.MaxNameLen),
		ReportFlow: wire.ReportFlow{Delay: events.DurationOf(s.Delay)},
	}}, nil
}

func (s Spawned) outcome() (Outcome, error) {
	rep := &wire.Report{Event: wire.ReportSpawn, ReportFlow: wire.ReportFlow{Children: make([]wire.Submit, len(s.Children)), ChildPolicy: s.Policy}}
	if s.Continues || s.Continuation != "" {
		rep.Continuation = &wire.ContinueWith{Name: s.Continuation}
	}
	for i, child := range s.Children {
		sub, err := child.submission()
		if err != nil {
			return Outcome{}, badSpawn("child %d of the spawn: %w", i+1, err)
		}
		rep.Children[i] = sub
	}
	if err := checkSpawn(rep); err != nil {
		return Outcome{}, badSpawn("%w", err)
	}
	return Outcome{Spawn: &s, report: rep}, nil
}

// submission returns the child as it goes over the wire.
func (c *Child) submission() (wire.Submit, error) {
	sub := c.With
	sub.Type, sub.Params = c.Type, nil
	if _, err := events.ParseType(c.Type); err != nil {
		return sub, err
	}
	if c.Params == nil {
		return sub, nil
	}
	doc, err := encodeDocument("params", c.Params)
	sub.Params = doc
	return sub, err
}

// checkSpawn checks the spawn as a whole, and what a request can't carry. What else a child
// says, the engine checks.
func checkSpawn(rep *wire.Report) error {
	if err := rep.CheckSpawn(); err != nil {
		return err
	}
	doc, err := json.Marshal(rep.Children)
	if err != nil {
		return err
	}
	if len(doc) > wire.MaxSpawnBytes {
		return fmt.Errorf("the children have %d bytes of JSON together: at most %d; store what is large elsewhere and give them references", len(doc), wire.MaxSpawnBytes)
	}
	return nil
}

func badSpawn(format string, args ...any) error {
	return Permanent(WithCode(fmt.Errorf(format, args...), FailBadSpawn))
}

// Continuation is set for an item that runs again since its children have ended.
type Continuation struct {
	Name     string         // as the spawn named it
	Children []ChildOutcome // in the order of the spawn
}

// ChildOutcome is the end of a child.
type ChildOutcome struct {
	events.Outcome
}

// Decode reads the result of a completed child into v; one without a result
// leaves v as it is. For a child that is dead or cancelled the error is a
// [*ChildError].
func (o ChildOutcome) Decode(v any) error {
	switch {
	case o.State != events.StateCompleted:
		return &ChildError{o}
	case o.Omitted:
		return fmt.Errorf("the result of child %s was left out, since the results together are over %d bytes: get the item by its id", o.ID, events.MaxOutcomesBytes)
	case len(o.Result) == 0:
		return nil
	}
	if err := json.Unmarshal(o.Result, v); err != nil {
		return fmt.Errorf("read the result of child %s: %w", o.ID, err)
	}
	return nil
}

// ChildError is the error for a child that has not completed.
type ChildError struct{ Outcome ChildOutcome }

func (e *ChildError) Error() string {
	o := e.Outcome
	text := fmt.Sprintf("child %s (%s) is %s", o.ID, o.Type, o.State)
	switch {
	case o.State == events.StateNone:
		return fmt.Sprintf("child %s has been forgotten: it had ended long before", o.ID)
	case o.Error != "":
		return text + ": " + o.Error
	case o.Reason != "":
		return text + ": " + o.Reason
	}
	return text
}

// Results decodes the results of all children, in their order. Its error joins
// the errors of the children that have no result to decode, whose places hold
// the zero T.
func Results[T any](c *Continuation) ([]T, error) {
	if c == nil {
		return nil, errors.New("the run is no continuation: there are no children to read")
	}
	out := make([]T, len(c.Children))
	var errs []error
	for i, child := range c.Children {
		if err := child.Decode(&out[i]); err != nil {
			errs = append(errs, err)
		}
	}
	return out, errors.Join(errs...)
}

// Failed returns the children that have not completed.
func (c *Continuation) Failed() []ChildOutcome {
	var out []ChildOutcome
	for _, child := range c.Children {
		if child.State != events.StateCompleted {
			out = append(out, child)
		}
	}
	return out
}
