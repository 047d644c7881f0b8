package workers

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

// events are those of an item's reports.
func (f *fakeEngine) told(id string) (out []string) {
	for _, r := range f.item(id).reports {
		out = append(out, r.Event)
	}
	return out
}

func TestSpawnAndSnoozeAreReported(t *testing.T) {
	r := newRig(t)
	w := r.worker(Config{})
	HandleRaw(w, "parent", func(context.Context, *RawItem) (any, error) {
		high := wire.Priority(8)
		return Spawn(
			Child{Type: "a", Params: map[string]int{"n": 1}},
			Child{Type: "b", Params: json.RawMessage(`[2]`), With: wire.Submit{Type: "ignored", Priority: &high}},
			Child{Type: "c"},
		).Then("join").OnFailure(ChildContinue), nil
	})
	HandleRaw(w, "later", func(context.Context, *RawItem) (any, error) {
		return Snooze(1500 * time.Microsecond).Because("not yet"), nil
	})
	r.start(w)
	rep := r.outcome(r.submit("parent", `{}`), 1)
	if rep.Event != wire.ReportSpawn || rep.Continuation == nil || rep.Continuation.Name != "join" || rep.ChildPolicy != events.ChildContinue || len(rep.Children) != 3 {
		t.Fatalf("got %+v", rep)
	}
	if a, b, c := rep.Children[0], rep.Children[1], rep.Children[2]; a.Type != "a" || string(a.Params) != `{"n":1}` || b.Type != "b" || *b.Priority != 8 || string(b.Params) != "[2]" || c.Params != nil {
		t.Errorf("children %+v", rep.Children)
	}
	rep = r.outcome(r.submit("later", `{}`), 1)
	if rep.Event != wire.ReportSnooze || rep.Delay != events.Millis(2) || rep.Reason != "not yet" {
		t.Errorf("got %+v", rep)
	}
	r.untilIdle()
	need.Eventually(t, "the counts", func() bool { s := w.Stats(); return s.Spawned == 1 && s.Snoozed == 1 && s.Settling == 0 })
	if s := w.Stats(); s.Failed != 0 || s.Completed != 0 {
		t.Errorf("stats %+v", s)
	}
}

// What can't be recorded fails the item for good, with a code of its own.
func TestBadEndsFailTheItem(t *testing.T) {
	item := &RawItem{ID: events.ID{1}, Type: "x"}
	child := Child{Type: "a"}
	big := Child{Type: "a", Params: strings.Repeat("x", wire.MaxSpawnBytes/20)}
	for name, result := range map[string]any{
		"no children":    Spawn(),
		"too many":       Spawn(slices.Repeat([]Child{child}, events.MaxChildren+1)...),
		"bad type":       Spawn(child, Child{Type: "A"}),
		"bad params":     Spawn(Child{Type: "a", Params: func() {}}),
		"too large":      Spawn(slices.Repeat([]Child{big}, 20)...),
		"policy":         Spawn(child).OnFailure("never"),
		"no delay":       Snoozed{},
		"a pointer":      &Snoozed{},
		"delay too long": Snooze(events.MaxDelay + time.Hour),
		"long name":      Spawn(child).Then(strings.Repeat("x", 300)),
	} {
		out := Invoke(t.Context(), func(context.Context, *RawItem) (any, error) { return result, nil }, item)
		if out.Err == nil || out.Code != FailBadSpawn || out.Retryable || out.Spawn != nil || out.Snooze != nil {
			t.Errorf("%s: %+v", name, out)
		}
	}
}

// A nil pointer is a failure of the attempt.
func TestNilEnd(t *testing.T) {
	for _, result := range []any{(*Snoozed)(nil), (*Spawned)(nil), (*Waits)(nil)} {
		out := Invoke(t.Context(), func(context.Context, *RawItem) (any, error) { return result, nil }, &RawItem{ID: events.ID{1}, Type: "x"})
		if out.Err == nil || !strings.Contains(out.Err.Error(), "nil") {
			t.Errorf("%T: %+v", result, out)
		}
	}
}

// A spawn that the engine refuses for what it says fails the item; one that is
// refused because the run does not count is given up.
func TestRefusedSpawns(t *testing.T) {
	t.Parallel()
	for code, want := range map[events.Code][]string{
		events.CodeBadRequest:  {wire.ReportFail},
		events.CodeBadID:       {wire.ReportFail},
		events.CodeIDConflict:  {wire.ReportFail},
		events.CodeNotFound:    {wire.ReportFail}, // what a child is to come after
		events.CodeStaleToken:  nil,
		events.CodeQueueFull:   {wire.ReportSpawn}, // once there is room
		events.CodeRateLimited: {wire.ReportSpawn},
	} {
		r := newRig(t)
		var refused atomic.Bool
		passes := len(want) > 0 && want[0] == wire.ReportSpawn
		r.refuse = func(rep wire.Report) *wire.Error {
			if rep.Event == wire.ReportSpawn && !(passes && refused.Load()) {
				refused.Store(true)
				return &wire.Error{Code: code, Message: "no"}
			}
			return nil
		}
		w := r.worker(Config{})
		HandleRaw(w, "parent", func(context.Context, *RawItem) (any, error) { return Spawn(Child{Type: "a"}), nil })
		r.start(w)
		id := r.submit("parent", `{}`)
		need.Eventually(t, "the refusal", refused.Load)
		r.untilIdle()
		if got := r.told(id); !slices.Equal(got, want) {
			t.Errorf("%s: reports %v, want %v", code, got, want)
		} else if len(want) > 0 && !passes && (r.item(id).reports[0].Code != FailBadSpawn || *r.item(id).reports[0].Retryable) {
			t.Errorf("%s: %+v", code, r.item(id).reports[0])
		}
	}
}

func TestAGrantBringsAlongWhatIsContinued(t *testing.T) {
	r := newRig(t)
	w := r.worker(Config{})
	type page struct{ Lines int }
	got := make(chan *Item[page], 1)
	Handle(w, "book", func(_ context.Context, it *Item[page]) (any, error) {
		got <- it
		return nil, nil
	})
	id := r.submit("book", `{}`) // before there is a worker
	r.mu.Lock()
	r.items[id].checkpoint = json.RawMessage(`{"Lines":7}`)
	r.items[id].continuation = &wire.Continuation{Name: "bind", Children: json.RawMessage(`[{"id":"01JD3V6YB2M4C9W8ZK5T7QXRNE","type":"page","state":"completed","result":{"Lines":3}},{"id":"01JD3V6YB2M4C9W8ZK5T7QXRNF","type":"page","state":"dead","error":"torn"}]`)}
	r.mu.Unlock()
	r.start(w)
	it := recv(t, "the run", got)
	var at page
	if found, err := it.LoadCheckpoint(&at); !found || err != nil || at.Lines != 7 {
		t.Errorf("checkpoint %v %v %+v", found, err, at)
	}
	if c := it.Continuation; c == nil || c.Name != "bind" || len(c.Children) != 2 || len(c.Failed()) != 1 {
		t.Fatalf("continuation %+v", it.Continuation)
	}
	pages, err := Results[page](it.Continuation)
	var dead *ChildError
	if !errors.As(err, &dead) || !strings.Contains(err.Error(), "torn") || len(pages) != 2 || pages[0].Lines != 3 {
		t.Errorf("results %+v, %v", pages, err)
	}
}

func TestProgressIsThrottledAndLatestWins(t *testing.T) {
	r := newRig(t)
	w := r.worker(Config{})
	step := make(chan struct{})
	HandleRaw(w, "slow", func(ctx context.Context, _ *RawItem) (any, error) {
		for p := range 1000 {
			Progress(ctx, p/20, "counting")
		}
		<-step
		Progress(ctx, 250, "all") // cut to 100, which is told at once
		<-step
		Progress(ctx, 30, "again") // held back: the end brings it along
		return nil, errors.New("broke")
	})
	r.start(w)
	began := time.Now()
	id := r.submit("slow", `{}`)
	if rep := r.outcome(id, 1); rep.Event != wire.ReportProgress || rep.Percent != 0 {
		t.Errorf("the first is %+v", rep)
	}
	step <- struct{}{}
	last := func() wire.Report { reps := r.item(id).reports; return reps[len(reps)-1] }
	need.Eventually(t, "100 percent", func() bool { return last().Percent == 100 })
	step <- struct{}{}
	need.Eventually(t, "the end", func() bool { return last().Event == wire.ReportFail })
	reps := r.item(id).reports
	if before := reps[len(reps)-2]; before.Event != wire.ReportProgress || before.Percent != 30 {
		t.Errorf("before the end came %+v", before)
	}
	if most := 5 + int(time.Since(began)/ProgressEvery); len(reps) > most {
		t.Errorf("%d reports: they were not throttled", len(reps))
	}
}

func TestProgressIsToldWhenItsTimeHasCome(t *testing.T) {
	slow(t)
	t.Parallel()
	r := newRig(t)
	w := r.worker(Config{})
	b := newBlocker()
	HandleRaw(w, "slow", func(ctx context.Context, it *RawItem) (any, error) {
		Progress(ctx, 1, "")
		Progress(ctx, 2, "")
		Progress(ctx, 3, "latest")
		Progress(ctx, 3, "latest")
		return b.run(ctx, it)
	})
	r.start(w)
	id := r.submit("slow", `{}`)
	if rep := r.outcome(id, 2); rep.Percent != 3 || rep.Message != "latest" {
		t.Errorf("the second is %+v", rep)
	}
	close(b.release)
	need.Eventually(t, "the end", func() bool { return r.item(id).state == events.StateCompleted })
	if got := r.told(id); !slices.Equal(got, []string{wire.ReportProgress, wire.ReportProgress, wire.ReportComplete}) {
		t.Errorf("reports %v", got)
	}
}

// What earlier runs have left comes with the item.
func TestARunHasWhatEarlierOnesLeft(t *testing.T) {
	r := newRig(t)
	w := r.worker(Config{})
	HandleRaw(w, "steps", func(_ context.Context, it *RawItem) (any, error) {
		if string(it.Checkpoint) != `{"step":7}` || it.Continuation == nil || it.Continuation.Name != "join" || len(it.Continuation.Children) != 1 ||
			it.Waited == nil || !it.Waited.TimedOut || len(it.Waited.Signals) != 1 || it.Waited.Signals[0].Name != "go" {
			t.Errorf("got %s, %+v, %+v", it.Checkpoint, it.Continuation, it.Waited)
		}
		return nil, nil
	})
	r.start(w)
	id := r.submit("steps", `{}`, func(a *wire.Assigned) {
		a.Left = wire.Left{
			Checkpoint: json.RawMessage(`{"step":7}`), Continuation: &wire.Continuation{Name: "join", Children: json.RawMessage(`[{"state":"completed"}]`)},
			Waited: &wire.EndedWait{Ended: events.WaitTimedOut, Signals: json.RawMessage(`[{"name":"go"}]`)},
		}
	})
	if got := r.outcome(id, 1); got.Event != wire.ReportComplete {
		t.Errorf("got %+v", got)
	}
	r.untilIdle()
}

// A checkpoint waits out an engine that is away, and comes before the outcome.
func TestCheckpointIsDurableBeforeItReturns(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var away atomic.Bool
	r.refuse = func(rep wire.Report) *wire.Error {
		if rep.Event == wire.ReportCheckpoint && away.CompareAndSwap(true, false) {
			return &wire.Error{Code: events.CodeUnavailable, Message: "not now"}
		}
		return nil
	}
	away.Store(true)
	w := r.worker(Config{})
	saved := make(chan []string, 1)
	HandleRaw(w, "steps", func(ctx context.Context, it *RawItem) (any, error) {
		if err := Checkpoint(ctx, map[string]int{"step": 7}); err != nil {
			return nil, err
		}
		saved <- r.told(it.ID.String())
		return nil, nil
	})
	r.start(w)
	id := r.submit("steps", `{}`)
	if got := recv(t, "the checkpoint", saved); !slices.Equal(got, []string{wire.ReportCheckpoint}) {
		t.Errorf("when Checkpoint returned the engine had %v", got)
	}
	r.untilIdle()
	if it := r.item(id); string(it.checkpoint) != `{"step":7}` || it.state != events.StateCompleted || away.Load() {
		t.Errorf("got %s, %s", it.checkpoint, it.state)
	}
}

func TestCheckpointErrors(t *testing.T) {
	r := newRig(t)
	w := r.worker(Config{})
	errs := make(chan error, 3)
	HandleRaw(w, "steps", func(ctx context.Context, _ *RawItem) (any, error) {
		errs <- Checkpoint(ctx, strings.Repeat("x", events.MaxCheckpoint))
		errs <- Checkpoint(ctx, func() {})
		gone, cancel := context.WithCancelCause(ctx)
		cancel(errors.New("enough"))
		errs <- Checkpoint(gone, 1)
		return nil, nil
	})
	r.start(w)
	id := r.submit("steps", `{}`)
	r.until("the end", func() bool { return r.items[id].state == events.StateCompleted })
	for _, says := range []string{"at most 65536", "can't be written as JSON", "enough"} {
		if err := recv(t, "an error", errs); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %q", err, says)
		}
	}
	if r.item(id).state != events.StateCompleted {
		t.Error("an error of Checkpoint ended the run")
	}
	if err := Checkpoint(t.Context(), 1); !errors.Is(err, ErrNoItem) {
		t.Errorf("outside a handler: %v", err)
	}
	Progress(t.Context(), 1, "nobody hears") // must not panic
}

// A run whose report is refused because it does not count is ended, and its end
// is told, so that the engine can let go of its slot.
func TestARefusedReportEndsTheRun(t *testing.T) {
	for _, tt := range []struct {
		code  events.Code
		state events.ItemState
		want  error
		lost  int
	}{
		{events.CodeStaleToken, events.StateNone, ErrLeaseLost, 1},
		{events.CodeWrongState, events.StateNone, ErrLeaseLost, 1},
		{events.CodeWrongState, events.StateCancelled, ErrCancelled, 0},
	} {
		code := tt.code
		r := newRig(t)
		r.refusedAs = tt.state
		r.refuse = func(rep wire.Report) *wire.Error {
			if rep.Event == wire.ReportCheckpoint {
				return &wire.Error{Code: code, Message: "not yours"}
			}
			return nil
		}
		w := r.worker(Config{})
		cause := make(chan error, 2)
		HandleRaw(w, "steps", func(ctx context.Context, _ *RawItem) (any, error) {
			cause <- Checkpoint(ctx, 1)
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return nil, ctx.Err()
		})
		r.start(w)
		id := r.submit("steps", `{}`)
		for range 2 {
			if err := recv(t, "the end of the run", cause); !errors.Is(err, tt.want) {
				t.Errorf("%s, %s: got %v", code, tt.state, err)
			}
		}
		r.untilIdle()
		if got := r.told(id); !slices.Equal(got, []string{wire.ReportRelease}) {
			t.Errorf("%s: reports %v", code, got)
		}
		if n := int(w.Stats().LeasesLost); n != tt.lost {
			t.Errorf("%s, %s: %d leases lost", code, tt.state, n)
		}
	}
}

// Checkpoints of several goroutines keep their order, and a call that is given
// up does not overwrite a later one.
func TestCheckpointsOneAtATime(t *testing.T) {
	r := newRig(t)
	w := r.worker(Config{})
	hold := make(chan struct{})
	var first atomic.Bool
	r.refuse = func(rep wire.Report) *wire.Error {
		if rep.Event == wire.ReportCheckpoint && string(rep.Checkpoint) == `"old"` && first.CompareAndSwap(false, true) {
			close(hold)
			return &wire.Error{Code: events.CodeUnavailable, Message: "not now"}
		}
		return nil
	}
	HandleRaw(w, "steps", func(ctx context.Context, _ *RawItem) (any, error) {
		short, cancel := context.WithCancel(ctx)
		gaveUp := make(chan error, 1)
		go func() { gaveUp <- Checkpoint(short, "old") }()
		<-hold // it is asked again later
		cancel()
		<-gaveUp
		return nil, Checkpoint(ctx, "new")
	})
	r.start(w)
	id := r.submit("steps", `{}`)
	r.until("the end", func() bool { return r.items[id].state == events.StateCompleted })
	if it := r.item(id); string(it.checkpoint) != `"new"` || it.state != events.StateCompleted {
		t.Errorf("got %s, %s, %v", it.checkpoint, it.state, r.told(id))
	}
}

// Middleware sees a spawn and a snooze as results, not as errors.
func TestMiddlewareSeesEnds(t *testing.T) {
	r := newRig(t)
	w := r.worker(Config{})
	type seen struct {
		result any
		err    error
	}
	got := make(chan seen, 1)
	w.Use(func(next Handler) Handler {
		return func(ctx context.Context, it *RawItem) (any, error) {
			result, err := next(ctx, it)
			got <- seen{result, err}
			return result, err
		}
	})
	HandleRaw(w, "parent", func(context.Context, *RawItem) (any, error) { return Snooze(time.Hour), nil })
	r.start(w)
	r.submit("parent", `{}`)
	s := recv(t, "what middleware sees", got)
	if end, ok := s.result.(Snoozed); !ok || s.err != nil || end.Delay != time.Hour {
		t.Errorf("got %+v", s)
	}
	r.untilIdle()
}
