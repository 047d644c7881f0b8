package workertest

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/workers"
)

// Result is what came of a run.
type Result struct {
	Result     json.RawMessage // of a success; nil for none
	Err        error           // nil for a success
	Code       string          // of a failure
	Retryable  bool            // of a failure
	RetryAfter time.Duration   // of a failure; 0: the type's backoff
	Logs       []Record        // what was logged, in order
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
}

// Option changes the item or its run.
type Option func(*config)

// Context runs the handler under ctx; by default, that of the test. Cancel it
// with one of the causes of package workers to try how a handler stops.
func Context(ctx context.Context) Option { return func(c *config) { c.ctx = ctx } }

// Timeout ends the run's context with workers.ErrTimeout after d.
func Timeout(d time.Duration) Option { return func(c *config) { c.timeout = d } }

// Attempt is the item's attempt; 1 by default.
func Attempt(n events.Attempt) Option { return func(c *config) { c.item.Attempt = n } }

// Type is the item's type; "test" by default.
func Type(t events.Type) Option { return func(c *config) { c.item.Type = t } }

// ID is the item's id; a fresh one by default.
func ID(id events.ID) Option { return func(c *config) { c.item.ID = id } }

// Labels are the item's labels.
func Labels(l map[string]string) Option { return func(c *config) { c.item.Labels = l } }

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
	if c.timeout > 0 {
		c.item.Deadline = time.Now().Add(c.timeout)
		ctx, cancel := context.WithDeadlineCause(c.ctx, c.item.Deadline, workers.ErrTimeout)
		defer cancel()
		c.ctx = ctx
	}
	var log sink
	c.item.Sink = log.add
	out := workers.Invoke(c.ctx, h, &c.item)
	return Result{out.Result, out.Err, out.Code, out.Retryable, out.RetryAfter, log.all()}
}

// sink keeps log records; handlers may log from several goroutines.
type sink struct {
	mu      sync.Mutex
	records []Record
}

func (s *sink) add(at time.Time, level, message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records = append(s.records, Record{at, level, message})
}

func (s *sink) all() []Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Record(nil), s.records...)
}
