package workers_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

func TestSpawnAndSnoozeAreReported(t *testing.T) {
	r := newRig(t)
	w := r.worker(workers.Config{})
	workers.HandleRaw(w, "parent", func(context.Context, *workers.RawItem) (any, error) {
		high := wire.Priority(8)
		return workers.Spawn(
			workers.Child{Type: "a", Params: map[string]int{"n": 1}},
			workers.Child{Type: "b", Params: json.RawMessage(`[2]`), With: wire.Submit{Type: "ignored", Priority: &high}},
			workers.Child{Type: "c"},
		).Then("join").OnFailure(workers.ChildContinue), nil
	})
	workers.HandleRaw(w, "later", func(context.Context, *workers.RawItem) (any, error) {
		return workers.Snooze(1500 * time.Microsecond).Because("not yet"), nil
	})
	r.start(w)
	parent := r.submit("parent", `{}`)
	rep := r.outcome(parent, 1)
	if rep.Event != wire.ReportSpawn || rep.Continuation == nil || rep.Continuation.Name != "join" || rep.ChildPolicy != events.ChildContinue || len(rep.Children) != 3 {
		t.Fatalf("got %+v", rep)
	}
	if a, b, c := rep.Children[0], rep.Children[1], rep.Children[2]; a.Type != "a" || string(a.Params) != `{"n":1}` || b.Type != "b" || *b.Priority != 8 || string(b.Params) != "[2]" || c.Params != nil {
		t.Errorf("children %+v", rep.Children)
	}
	need.Eventually(t, "the spawn", func() bool { return w.Stats().Spawned == 1 })
	if it := r.get(parent); it.State != events.StateWaiting {
		t.Errorf("the parent is %s", it.State)
	}
	rep = r.outcome(r.submit("later", `{}`), 1)
	if rep.Event != wire.ReportSnooze || rep.Delay != events.Millis(2) || rep.Reason != "not yet" {
		t.Errorf("got %+v", rep)
	}
	need.Eventually(t, "the snooze", func() bool { return w.Stats().Snoozed > 0 })
	if s := w.Stats(); s.Failed != 0 || s.Completed != 0 || s.Spawned != 1 {
		t.Errorf("stats %+v", s)
	}
}

// A spawn that the engine refuses for what it says fails the item; one that is
// refused because the run does not count is given up.
func TestRefusedSpawns(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var code atomic.Value
	r.refuse(func(rep *wire.Report) (no *wire.Reported) {
		if c := code.Load().(events.Code); c != "" && rep.Event == wire.ReportSpawn {
			no = refused(c)
			code.Store(events.Code(""))
		}
		return no
	})
	w := r.work(workers.Config{Concurrency: 10}, "parent", func(context.Context, *workers.RawItem) (any, error) {
		return workers.Spawn(workers.Child{Type: "a"}), nil
	})
	for c, want := range map[events.Code][]string{
		events.CodeBadRequest:  {wire.ReportSpawn, wire.ReportFail},
		events.CodeBadID:       {wire.ReportSpawn, wire.ReportFail},
		events.CodeIDConflict:  {wire.ReportSpawn, wire.ReportFail},
		events.CodeNotFound:    {wire.ReportSpawn, wire.ReportFail}, // what a child is to come after
		events.CodeStaleToken:  {wire.ReportSpawn},
		events.CodeQueueFull:   {wire.ReportSpawn, wire.ReportSpawn}, // once there is room
		events.CodeRateLimited: {wire.ReportSpawn, wire.ReportSpawn},
	} {
		code.Store(c)
		id := r.submit("parent", `{}`)
		r.outcome(id, len(want))
		need.Eventually(t, "the last answer", func() bool { s := w.Stats(); return s.Running+s.Settling == 0 })
		if got := eventsOf(r.told(id)); !slices.Equal(got, want) {
			t.Errorf("%s: reports %v, want %v", c, got, want)
		}
		state := map[string]events.ItemState{wire.ReportSpawn: events.StateWaiting, wire.ReportFail: events.StateDead}[want[len(want)-1]]
		if it := r.get(id); c == events.CodeStaleToken {
			continue // it is said to be another's
		} else if it.State != state || state == events.StateDead && it.Error.Code != workers.FailBadSpawn {
			t.Errorf("%s: got %+v", c, it)
		}
	}
}

// What earlier runs have left comes with the item.
func TestARunHasWhatEarlierOnesLeft(t *testing.T) {
	r := newRig(t)
	w := r.worker(workers.Config{})
	type page struct{ Lines int }
	workers.HandleRaw(w, "page", func(_ context.Context, it *workers.RawItem) (any, error) {
		if string(it.Raw) == "1" {
			return page{3}, nil
		}
		return nil, workers.Permanent(errors.New("torn"))
	})
	workers.HandleRaw(w, "book", func(ctx context.Context, it *workers.RawItem) (any, error) {
		var at page
		if found, err := it.LoadCheckpoint(&at); !found {
			return workers.Spawn(workers.Child{Type: "page", Params: 1}, workers.Child{Type: "page", Params: 2}).Then("bind").OnFailure(workers.ChildContinue),
				errors.Join(err, workers.Checkpoint(ctx, page{7}))
		} else if err != nil || at.Lines != 7 {
			t.Errorf("checkpoint %v %+v", err, at)
		}
		if c := it.Continuation; c == nil || c.Name != "bind" || len(c.Children) != 2 || len(c.Failed()) != 1 {
			t.Errorf("continuation %+v", it.Continuation)
		}
		pages, err := workers.Results[page](it.Continuation)
		var dead *workers.ChildError
		if !errors.As(err, &dead) || !strings.Contains(err.Error(), "torn") || len(pages) != 2 || pages[0].Lines != 3 {
			t.Errorf("results %+v, %v", pages, err)
		}
		if it.Waited == nil {
			return workers.WaitAll("go", "never").For(time.Millisecond), nil
		}
		if !it.Waited.TimedOut || len(it.Waited.Signals) != 1 || it.Waited.Signals[0].Name != "go" {
			t.Errorf("waited %+v", it.Waited)
		}
		return nil, nil
	})
	r.start(w)
	id := r.submit("book", `{}`, func(it *streamwright.Item) { it.Signal = &streamwright.Signal{Name: "go"} })
	if it := r.completed(id); it.Attempt != 1 || w.Stats().Waited != 1 {
		t.Errorf("got %+v, %+v", it, w.Stats())
	}
}

func TestProgressIsThrottledAndLatestWins(t *testing.T) {
	r := newRig(t)
	step := make(chan struct{})
	r.work(workers.Config{}, "slow", func(ctx context.Context, _ *workers.RawItem) (any, error) {
		for p := range 1000 {
			workers.Progress(ctx, p/20, "counting")
		}
		<-step
		workers.Progress(ctx, 250, "all") // cut to 100, which is told at once
		<-step
		workers.Progress(ctx, 30, "again") // held back: the end brings it along
		return nil, workers.Permanent(errors.New("broke"))
	})
	began := time.Now()
	id := r.submit("slow", `{}`)
	if rep := r.outcome(id, 1); rep.Event != wire.ReportProgress || rep.Percent != 0 {
		t.Errorf("the first is %+v", rep)
	}
	step <- struct{}{}
	last := func() wire.Report { reps := r.told(id); return reps[len(reps)-1] }
	need.Eventually(t, "100 percent", func() bool { return last().Percent == 100 })
	step <- struct{}{}
	r.ended(id, events.StateDead)
	reps := r.told(id)
	if before := reps[len(reps)-2]; before.Event != wire.ReportProgress || before.Percent != 30 {
		t.Errorf("before the end came %+v", before)
	}
	if most := 5 + int(time.Since(began)/workers.ProgressEvery); len(reps) > most {
		t.Errorf("%d reports: they were not throttled", len(reps))
	}
}

func TestProgressIsToldWhenItsTimeHasCome(t *testing.T) {
	need.Seconds(t)
	t.Parallel()
	r := newRig(t)
	b := newBlocker()
	r.work(workers.Config{}, "slow", func(ctx context.Context, it *workers.RawItem) (any, error) {
		workers.Progress(ctx, 1, "")
		workers.Progress(ctx, 2, "")
		workers.Progress(ctx, 3, "latest")
		workers.Progress(ctx, 3, "latest")
		return b.run(ctx, it)
	})
	id := r.submit("slow", `{}`)
	if rep := r.outcome(id, 2); rep.Percent != 3 || rep.Message != "latest" {
		t.Errorf("the second is %+v", rep)
	}
	close(b.release)
	r.completed(id)
	if got := eventsOf(r.told(id)); !slices.Equal(got, []string{wire.ReportProgress, wire.ReportProgress, wire.ReportComplete}) {
		t.Errorf("reports %v", got)
	}
}

// checkpoints counts the checkpoints that the engine has recorded of an item.
func (r *rig) checkpoints(id string) (n int) {
	r.t.Helper()
	r.get(id) // history is as new as that
	history, err := r.c.History(r.t.Context(), id)
	if err != nil {
		r.t.Error(err)
	}
	for _, e := range history {
		if e.Kind == events.KindCheckpointed {
			n++
		}
	}
	return n
}

// refuseOnce has the engine not be available for the first checkpoint of all.
func (r *rig) refuseOnce(heard chan<- struct{}) {
	r.refuse(func(rep *wire.Report) (no *wire.Reported) {
		if rep.Event == wire.ReportCheckpoint && heard != nil {
			no = refused(events.CodeUnavailable)
			close(heard)
			heard = nil
		}
		return no
	})
}

// A checkpoint waits out an engine that is away, and comes before the outcome.
func TestCheckpointIsDurableBeforeItReturns(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	heard := make(chan struct{})
	r.refuseOnce(heard)
	r.work(workers.Config{}, "steps", func(ctx context.Context, it *workers.RawItem) (any, error) {
		if err := workers.Checkpoint(ctx, map[string]int{"step": 7}); err != nil {
			return nil, err
		}
		return r.checkpoints(it.ID.String()), nil
	})
	it := r.completed(r.submit("steps", `{}`))
	if got := string(it.Result); got != "1" {
		t.Errorf("when Checkpoint returned the engine had %s of them", got)
	}
	recv(t, "the refusal", heard)
}

func TestCheckpointErrors(t *testing.T) {
	r := newRig(t)
	errs := make(chan error, 3)
	r.work(workers.Config{}, "steps", func(ctx context.Context, _ *workers.RawItem) (any, error) {
		errs <- workers.Checkpoint(ctx, strings.Repeat("x", events.MaxCheckpoint))
		errs <- workers.Checkpoint(ctx, func() {})
		gone, cancel := context.WithCancelCause(ctx)
		cancel(errors.New("enough"))
		errs <- workers.Checkpoint(gone, 1)
		return nil, nil
	})
	r.completed(r.submit("steps", `{}`))
	for _, says := range []string{"at most 65536", "can't be written as JSON", "enough"} {
		if err := recv(t, "an error", errs); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %q", err, says)
		}
	}
	if err := workers.Checkpoint(t.Context(), 1); !errors.Is(err, workers.ErrNoItem) {
		t.Errorf("outside a handler: %v", err)
	}
	workers.Progress(t.Context(), 1, "nobody hears") // must not panic
}

// A run whose report is refused because it does not count is ended, and its end
// is told, so that the engine can let go of its slot.
func TestARefusedReportEndsTheRun(t *testing.T) {
	t.Parallel()
	r := newRig(t, often) // what goes back before its start is not sent again until a heartbeat
	for _, tt := range []struct {
		code  events.Code
		state events.ItemState
		want  error
		lost  int
	}{
		{events.CodeStaleToken, events.StateNone, workers.ErrLeaseLost, 1},
		{events.CodeWrongState, events.StateNone, workers.ErrLeaseLost, 1},
		{events.CodeWrongState, events.StateCancelled, workers.ErrCancelled, 0},
	} {
		r.refuse(func(rep *wire.Report) (no *wire.Reported) {
			if rep.Event == wire.ReportCheckpoint {
				no = refused(tt.code)
				no.State = tt.state
			}
			return no
		})
		cause := make(chan error, 2)
		var runs atomic.Int32
		w := r.work(workers.Config{}, "steps", func(ctx context.Context, _ *workers.RawItem) (any, error) {
			if runs.Add(1) > 1 {
				return nil, nil
			}
			cause <- workers.Checkpoint(ctx, 1)
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return nil, ctx.Err()
		})
		id := r.submit("steps", `{}`)
		for range 2 {
			if err := recv(t, "the end of the run", cause); !errors.Is(err, tt.want) {
				t.Errorf("%s, %s: got %v", tt.code, tt.state, err)
			}
		}
		r.completed(id) // the engine has taken it back
		if got := eventsOf(r.told(id)); !slices.Equal(got, []string{wire.ReportCheckpoint, wire.ReportRelease, wire.ReportComplete}) {
			t.Errorf("%s: reports %v", tt.code, got)
		}
		if n := int(w.Stats().LeasesLost); n != tt.lost {
			t.Errorf("%s, %s: %d leases lost", tt.code, tt.state, n)
		}
		if err := w.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// Checkpoints of several goroutines keep their order, and a call that is given
// up does not overwrite a later one.
func TestCheckpointsOneAtATime(t *testing.T) {
	r := newRig(t)
	heard := make(chan struct{})
	r.refuseOnce(heard)
	r.work(workers.Config{}, "steps", func(ctx context.Context, it *workers.RawItem) (any, error) {
		if it.Checkpoint != nil {
			return it.Checkpoint, nil
		}
		short, cancel := context.WithCancel(ctx)
		gaveUp := make(chan error, 1)
		go func() { gaveUp <- workers.Checkpoint(short, "old") }()
		<-heard // it is asked again later
		cancel()
		<-gaveUp
		return workers.Snooze(time.Millisecond), workers.Checkpoint(ctx, "new")
	})
	it := r.completed(r.submit("steps", `{}`))
	if n := r.checkpoints(it.ID); n != 1 || string(it.Result) != `"new"` {
		t.Errorf("%d checkpoints, then %s", n, it.Result)
	}
}
