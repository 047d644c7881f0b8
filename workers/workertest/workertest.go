package workertest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/workers"
)

// Result is the outcome of a run.
type Result struct {
	Result     json.RawMessage // of a success; nil for none
	Err        error           // nil for a success
	Code       string          // of a failure
	Retryable  bool            // of a failure
	RetryAfter time.Duration   // of a failure; 0: the type's backoff
	Logs       []Record        // all logged, in order
	Output     []byte          // all written to the item's output

	Spawn       *workers.Spawned  // of a run that ended in children
	Snooze      *workers.Snoozed  // of a run that put its item off
	Wait        *workers.Waits    // of a run that ended in a wait
	Progress    []Progress        // all reported, in order; a worker sends one a second
	Checkpoints []json.RawMessage // all saved, in order
}

// Progress is one report of a handler's progress.
type Progress struct {
	Percent int
	Message string
}

// Record is one record of the item's log.
type Record struct {
	At      time.Time
	Level   string
	Message string
}

// Decode reads the result into v, and fails the test if it can't.
func (r Result) Decode(t testing.TB, v any) {
	t.Helper()
	if r.Err != nil {
		t.Fatalf("the handler failed: %v", r.Err)
	}
	if err := json.Unmarshal(r.Result, v); err != nil {
		t.Fatalf("decode the result %s: %v", r.Result, err)
	}
}

type config struct {
	ctx     context.Context
	timeout time.Duration
	item    workers.RawItem
	saveErr error
	errs    []error // of the options
}

// Option changes the item or its run.
type Option func(*config)

// Context runs the handler under ctx; the default is the test's context. Cancel
// it with one of the causes of package workers to try how a handler stops.
func Context(ctx context.Context) Option { return func(c *config) { c.ctx = ctx } }

// Timeout ends the run's context with workers.ErrTimeout after d.
func Timeout(d time.Duration) Option { return func(c *config) { c.timeout = d } }

// Attempt sets the item's attempt; 1 by default.
func Attempt(n events.Attempt) Option { return func(c *config) { c.item.Attempt = n } }

// Type sets the item's type; "test" by default.
func Type(t events.Type) Option { return func(c *config) { c.item.Type = t } }

// ID sets the item's id; a fresh one by default.
func ID(id events.ID) Option { return func(c *config) { c.item.ID = id } }

// Labels sets the item's labels.
func Labels(l map[string]string) Option { return func(c *config) { c.item.Labels = l } }

// Checkpoint sets what an earlier attempt has saved, as JSON; a json.RawMessage is
// taken as it is.
func Checkpoint(v any) Option {
	return func(c *config) {
		doc, err := json.Marshal(v)
		c.errs = append(c.errs, err)
		c.item.Checkpoint = doc
	}
}

// Continuation makes the run a continuation: the children have ended.
func Continuation(name string, children ...workers.ChildOutcome) Option {
	return func(c *config) { c.item.Continuation = &workers.Continuation{Name: name, Children: children} }
}

// Waited makes the run one that follows a wait, which has taken these signals, or (timedOut)
// has come to its deadline.
func Waited(timedOut bool, signals ...workers.Signal) Option {
	return func(c *config) { c.item.Waited = &workers.Waited{TimedOut: timedOut, Signals: signals} }
}

// Answered makes the run one that follows a question of a name, which somebody has answered. The
// answer's Value becomes JSON; a json.RawMessage is taken as it is, and nil is none.
func Answered(name string, a workers.Answer[any]) Option {
	return func(c *config) {
		doc := events.Answer{Choice: a.Choice, By: a.By, Comment: a.Comment}
		if a.Value != nil {
			value, err := json.Marshal(a.Value)
			c.errs = append(c.errs, err)
			doc.Value = value
		}
		payload, err := json.Marshal(doc)
		c.errs = append(c.errs, err)
		Waited(false, workers.Signal{Name: name, Answer: 1, At: a.At, Payload: payload})(c)
	}
}

// Child returns a child that has completed with a result.
func Child(typ events.Type, result any) workers.ChildOutcome {
	doc, err := json.Marshal(result)
	if err != nil {
		panic(fmt.Sprintf("workertest: encode the result of a child: %v", err))
	}
	return workers.ChildOutcome{Outcome: events.Outcome{ID: events.ID(ulid.Make()), Type: typ, State: events.StateCompleted, Result: doc}}
}

// DeadChild returns a child that is dead.
func DeadChild(typ events.Type, code, message string) workers.ChildOutcome {
	return workers.ChildOutcome{Outcome: events.Outcome{ID: events.ID(ulid.Make()), Type: typ, State: events.StateDead, Code: code, Error: message, Reason: "exhausted"}}
}

// CheckpointFails makes every checkpoint fail with err, as when a lease is lost.
func CheckpointFails(err error) Option { return func(c *config) { c.saveErr = err } }

// Run runs a typed handler, as given to workers.Handle, on params (encoded as
// JSON; a json.RawMessage is taken as it is).
func Run[T any](t testing.TB, h func(context.Context, *workers.Item[T]) (any, error), params any, opts ...Option) Result {
	t.Helper()
	return RunRaw(t, workers.Typed(h), params, opts...)
}

// RunRaw runs a raw handler, as given to workers.HandleRaw or returned by
// process.Handler.
func RunRaw(t testing.TB, h workers.Handler, params any, opts ...Option) Result {
	t.Helper()
	doc, err := json.Marshal(params)
	if err != nil {
		t.Fatalf("encode the params: %v", err)
	}
	c := config{ctx: t.Context(), item: workers.RawItem{ID: events.ID(ulid.Make()), Type: "test", Attempt: 1, Raw: doc}}
	for _, o := range opts {
		o(&c)
	}
	if err := errors.Join(c.errs...); err != nil {
		t.Fatalf("encode the checkpoint: %v", err)
	}
	if c.timeout > 0 {
		c.item.Deadline = time.Now().Add(c.timeout)
		ctx, cancel := context.WithDeadlineCause(c.ctx, c.item.Deadline, workers.ErrTimeout)
		defer cancel()
		c.ctx = ctx
	}
	var log sink
	c.item.Sink = log.add
	c.item.OnOutput = log.wrote
	c.item.OnProgress = log.progressed
	c.item.OnCheckpoint = func(ctx context.Context, doc json.RawMessage) error {
		if err := cmp.Or(c.saveErr, context.Cause(ctx)); err != nil {
			return err
		}
		log.saved(doc)
		return nil
	}
	out := workers.Invoke(c.ctx, h, &c.item)
	r := log.all()
	r.Result, r.Err, r.Code, r.Retryable, r.RetryAfter = out.Result, out.Err, out.Code, out.Retryable, out.RetryAfter
	r.Spawn, r.Snooze, r.Wait = out.Spawn, out.Snooze, out.Wait
	return r
}

// sink keeps what a run tells; handlers may do so from several goroutines.
type sink struct {
	mu  sync.Mutex
	got Result
}

func (s *sink) add(at time.Time, level, message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got.Logs = append(s.got.Logs, Record{at, level, message})
}

func (s *sink) progressed(percent int, message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got.Progress = append(s.got.Progress, Progress{percent, message})
}

func (s *sink) wrote(_ context.Context, _ int, chunk []byte) (workers.OutputSummary, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got.Output = append(s.got.Output, chunk...)
	return workers.OutputSummary{Bytes: len(s.got.Output)}, nil
}

func (s *sink) saved(doc json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got.Checkpoints = append(s.got.Checkpoints, doc)
}

// all returns what was reported so far.
func (s *sink) all() Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.got
	r.Logs, r.Progress, r.Checkpoints = slices.Clone(r.Logs), slices.Clone(r.Progress), slices.Clone(r.Checkpoints)
	return r
}
