package itemspans

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/tracing"
	"github.com/streamwright/streamwright/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const submitted = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

var (
	noon   = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)
	parent = events.ID{15: 1} // the item that others wait for
	child  = events.ID{15: 2}
)

// engine decides commands, and has a Recorder told of them.
type engine struct {
	t       *testing.T
	at      time.Time
	state   *core.State
	out     *tracetest.InMemoryExporter
	r       *Recorder
	history map[events.ID][]wire.HistoryEvent
	tokens  uint64
	every   bool // each decision is a batch
	lost    error
}

func newEngine(t *testing.T, every bool, s sdktrace.Sampler) *engine {
	t.Helper()
	state, err := core.NewState(core.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	set := events.DefaultTypeSettings()
	set.Backoff.Jitter = 0
	state.SetDefaults(set)
	e := &engine{t: t, at: noon, state: state, out: tracetest.NewInMemoryExporter(), history: map[events.ID][]wire.HistoryEvent{}, every: every}
	tp := sdktrace.NewTracerProvider(sdktrace.WithSyncer(e.out), sdktrace.WithIDGenerator(IDs{}), sdktrace.WithSampler(s))
	t.Cleanup(func() { _ = tp.Shutdown(context.Background()) })
	if e.r, err = New(tp, "acme", func(id events.ID) ([]wire.HistoryEvent, error) { return e.history[id], e.lost }); err != nil {
		t.Fatal(err)
	}
	return e
}

// do decides a command, a second after the one before.
func (e *engine) do(c core.Command) {
	e.t.Helper()
	e.at = e.at.Add(time.Second)
	d, err := core.Decide(e.state, c, e.at)
	if err != nil {
		e.t.Fatalf("%T: %v", c, err)
	}
	for i, ev := range d.Events {
		if ev.Seq = e.state.Meta().Applied + 1; i == 0 {
			ev.Seq = events.SeqOf(e.state.Meta().Applied.Frame()+1, 0)
		}
		if err := e.state.Apply(ev); err != nil {
			e.t.Fatal(err)
		}
	}
	for _, id := range e.state.TakeFollowUps() {
		e.do(core.FollowUp{ID: id})
	}
	if e.every {
		e.project()
	}
}

func (e *engine) project() {
	c := e.state.TakeChanges()
	if c == nil {
		return
	}
	for _, ev := range c.History {
		e.history[ev.ID] = append(e.history[ev.ID], wire.HistoryEvent{Seq: ev.Seq, Kind: ev.Kind, At: ev.At})
	}
	e.r.Projected(c)
}

func (e *engine) claim(id events.ID) core.Run {
	e.t.Helper()
	e.tokens++
	run := core.Run{ID: id, Token: events.NewToken(1, e.tokens), Worker: "w"}
	e.do(core.Claim{ID: id, Token: run.Token, Worker: "w"})
	e.do(core.Start{Run: run})
	return run
}

// drawn are the spans of a trace, each with its times in seconds since noon and what hangs
// below it; and all spans, by their ids.
func (e *engine) drawn(id trace.TraceID) string {
	spans := e.out.GetSpans()
	slices.SortStableFunc(spans, func(a, b tracetest.SpanStub) int {
		if c := a.StartTime.Compare(b.StartTime); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	var b strings.Builder
	var below func(trace.SpanID, int)
	below = func(parent trace.SpanID, depth int) {
		for _, s := range spans {
			if s.SpanContext.TraceID() != id || s.Parent.SpanID() != parent {
				continue
			}
			fmt.Fprintf(&b, "%s%s %g-%g", strings.Repeat(" ", depth), s.Name, s.StartTime.Sub(noon).Seconds(), s.EndTime.Sub(noon).Seconds())
			for _, a := range s.Attributes {
				if a.Key == attrOutcome || a.Key == attrState || a.Key == attrReason || a.Key == attrCode || a.Key == attrAttempt {
					fmt.Fprintf(&b, " %s", a.Value.String())
				}
			}
			if s.Status.Code == codes.Error {
				fmt.Fprintf(&b, " (%s)", s.Status.Description)
			}
			b.WriteByte('\n')
			below(s.SpanContext.SpanID(), depth+1)
		}
	}
	below(tracing.Parse(submitted).SpanID(), 0)
	if b.Len() == 0 {
		below(trace.SpanID{}, 0)
	}
	return b.String()
}

// live has an item wait, fail, wait for its backoff, and die; then it is replayed, spawns a
// child and waits for that, and completes.
func (e *engine) live() {
	e.do(core.Own{Owner: "me"}) // at 1
	e.do(core.Submit{Type: "first", NewID: parent})
	e.do(core.Submit{Type: "email", NewID: child, After: []events.ID{parent}, Trace: submitted, MaxAttempts: 2, Tenant: "t"}) // at 3
	e.do(core.Complete{Run: e.claim(parent)})
	e.do(core.Fail{Run: e.claim(child), Error: "broken", Code: "io", Retryable: true})
	e.at = e.at.Add(time.Minute)
	e.do(core.Fail{Run: e.claim(child), Error: "broken for good", Code: "io"})
	e.at = e.at.Add(time.Minute)
	e.do(core.Replay{ID: child})
	kid := events.ID{15: 3}
	e.do(core.Spawn{Run: e.claim(child), Continues: true, Children: []core.Submit{{Type: "kid", NewID: kid}}})
	e.do(core.Complete{Run: e.claim(kid)})
	e.do(core.Complete{Run: e.claim(child), Result: json.RawMessage(`1`)})
	e.project()
}

// The spans are those of the item's life, whatever the batches in which it is told, with the
// ids that were given out before.
func TestSpansOfALife(t *testing.T) {
	at := tracing.Parse(submitted).TraceID()
	var drawn string
	ids := map[trace.SpanID]string{}
	for _, every := range []bool{true, false} {
		e := newEngine(t, every, sdktrace.AlwaysSample())
		e.live()
		got := e.drawn(at)
		for _, s := range e.out.GetSpans() {
			if !slices.Contains(s.Attributes, attrNS.String("acme")) {
				t.Errorf("the span %s does not name its namespace", s.Name)
			}
			if s.SpanContext.TraceID() == at && (s.Name == "attempt" || s.Name == "email") {
				if id := s.SpanContext.SpanID(); !every && ids[id] != s.Name {
					t.Errorf("the %s at %s has another id in other batches", s.Name, s.StartTime)
				} else {
					ids[id] = s.Name
				}
			}
		}
		if !every && got != drawn {
			t.Errorf("in one batch:\n%s\nin many:\n%s", got, drawn)
		}
		drawn = got
	}
	for _, want := range []string{
		"email 3-", " waiting 3-", " delayed ", " queued ", " attempt ", "1 failed io (broken)", "2 failed io (broken for good)", "dead not_retryable io (broken for good)", " completed", "spawned",
	} {
		if !strings.Contains(drawn, want) {
			t.Errorf("there is no %q in\n%s", want, drawn)
		}
	}
	if n := strings.Count(drawn, "\nemail ") + 1; n != 2 {
		t.Errorf("%d lives in\n%s", n, drawn)
	}
	if n := strings.Count(drawn, " waiting "); n != 2 {
		t.Errorf("it waits %d times in\n%s", n, drawn)
	}
}

// A dispatch names the span of the attempt that it becomes.
func TestTraceparent(t *testing.T) {
	e := newEngine(t, true, sdktrace.AlwaysSample())
	e.do(core.Own{Owner: "me"})
	e.do(core.Submit{Type: "email", NewID: child})
	it, err := e.state.Item(child)
	if err != nil {
		t.Fatal(err)
	}
	said := tracing.Parse(e.r.Traceparent(it, events.NewToken(1, 1)))
	if said.TraceID() != trace.TraceID(child) || !said.IsSampled() {
		t.Fatalf("an item without a trace has %v", said)
	}
	e.do(core.Complete{Run: e.claim(child)})
	found := false
	for _, s := range e.out.GetSpans() {
		found = found || s.Name == "attempt" && s.SpanContext.SpanID() == said.SpanID() && s.SpanContext.TraceID() == said.TraceID()
	}
	if !found {
		t.Error("the attempt has another span")
	}
	none := newEngine(t, true, sdktrace.NeverSample())
	if tp := none.r.Traceparent(it, 1); tp != "" {
		t.Errorf("a trace that is not sampled: %s", tp)
	}
	none.do(core.Own{Owner: "me"})
	none.do(core.Submit{Type: "email", NewID: child})
	if none.do(core.Cancel{ID: child}); len(none.out.GetSpans()) != 0 {
		t.Error("a trace that is not sampled has spans")
	}
}

// Without the history there is no span of the second wait, and all others.
func TestWithoutHistory(t *testing.T) {
	whole, part := newEngine(t, true, sdktrace.AlwaysSample()), newEngine(t, true, sdktrace.AlwaysSample())
	part.lost = errors.New("the store is closed")
	whole.live()
	part.live()
	a, b := whole.drawn(tracing.Parse(submitted).TraceID()), part.drawn(tracing.Parse(submitted).TraceID())
	if strings.Count(a, "\n") != strings.Count(b, "\n")+1 || strings.Count(a, " waiting ") != strings.Count(b, " waiting ")+1 {
		t.Errorf("with the history:\n%s\nwithout:\n%s", a, b)
	}
}

func TestNewNeedsTheGenerator(t *testing.T) {
	tp := sdktrace.NewTracerProvider()
	t.Cleanup(func() { _ = tp.Shutdown(context.Background()) })
	if _, err := New(tp, events.DefaultNamespace, nil); err == nil || !strings.Contains(err.Error(), "WithIDGenerator") {
		t.Errorf("a provider with ids of its own: %v", err)
	}
}

// Spans that nobody has asked an id for have random ones.
func TestIDs(t *testing.T) {
	var g IDs
	at, span := g.NewIDs(context.Background())
	again, other := g.NewIDs(context.Background())
	if !at.IsValid() || !span.IsValid() || at == again || span == other || g.NewSpanID(context.Background(), at) == span {
		t.Errorf("%s %s, %s %s", at, span, again, other)
	}
	want := wanted{trace: trace.TraceID{1}, span: trace.SpanID{2}}
	if at, span := g.NewIDs(with(context.Background(), want)); at != want.trace || span != want.span || g.NewSpanID(with(context.Background(), want), at) != span {
		t.Errorf("%s %s, want %+v", at, span, want)
	}
	if itemSpan(child, 0) == itemSpan(child, 1) || itemSpan(child, 1) == attemptSpan(child, 1) || itemSpan(child, 0) == itemSpan(parent, 0) {
		t.Error("the ids of an item's spans")
	}
}
