package workertest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/streamwright/streamwright/workers"
	"github.com/streamwright/streamwright/workers/workertest"
)

type book struct{ Pages int }

type place struct{ Page int }

// bind prints a book page by page, then has it bound by others.
func bind(ctx context.Context, it *workers.Item[book]) (any, error) {
	if c := it.Continuation; c != nil {
		sizes, err := workers.Results[int](c)
		return fmt.Sprint(c.Name, sizes), err
	}
	var at place
	if _, err := it.LoadCheckpoint(&at); err != nil {
		return nil, err
	}
	if it.Params.Pages == 0 {
		return workers.Snooze(time.Minute).Because("nothing written yet"), nil
	}
	for ; at.Page < it.Params.Pages; at.Page++ {
		workers.Progress(ctx, 100*at.Page/it.Params.Pages, "printing")
		if err := workers.Checkpoint(ctx, place{at.Page + 1}); err != nil {
			return nil, err
		}
	}
	return workers.Spawn(workers.Child{Type: "glue", Params: at}).Then("cover").OnFailure(workers.ChildContinue), nil
}

func TestFlowOfAHandler(t *testing.T) {
	got := workertest.Run(t, bind, book{Pages: 4}, workertest.Checkpoint(place{Page: 2}))
	if got.Err != nil || got.Result != nil || got.Spawn == nil || got.Spawn.Continuation != "cover" || got.Spawn.Children[0].Params != (place{4}) {
		t.Errorf("got %+v", got)
	}
	if fmt.Sprintf("%v %s", got.Progress, got.Checkpoints) != `[{50 printing} {75 printing}] [{"Page":3} {"Page":4}]` {
		t.Errorf("progress %v, checkpoints %s", got.Progress, got.Checkpoints)
	}
	if got := workertest.Run(t, bind, book{}); got.Snooze == nil || got.Snooze.Delay != time.Minute || got.Err != nil {
		t.Errorf("got %+v", got)
	}
	got = workertest.Run(t, bind, book{}, workertest.Continuation("cover", workertest.Child("glue", 3), workertest.Child("glue", 4)))
	if got.Err != nil || string(got.Result) != `"cover[3 4]"` {
		t.Errorf("got %s, %v", got.Result, got.Err)
	}
	got = workertest.Run(t, bind, book{}, workertest.Continuation("cover", workertest.DeadChild("glue", "dry", "the glue is dry")))
	var dead *workers.ChildError
	if !errors.As(got.Err, &dead) || dead.Outcome.Code != "dry" {
		t.Errorf("got %v", got.Err)
	}
	got = workertest.Run(t, bind, book{Pages: 1}, workertest.CheckpointFails(workers.ErrLeaseLost))
	if !errors.Is(got.Err, workers.ErrLeaseLost) || len(got.Checkpoints) != 0 {
		t.Errorf("got %+v", got)
	}
}

func TestAnswered(t *testing.T) {
	pay := func(_ context.Context, it *workers.Item[book]) (any, error) {
		a, ok, err := workers.AnswerOf[book](it.RawItem, "ok")
		return fmt.Sprintf("%v %v %q %v %q %q", ok, a.Approved(), a.Choice, a.Value, a.By, a.Comment), err
	}
	got := workertest.Run(t, pay, book{}, workertest.Answered("ok", workers.Answer[any]{Choice: workers.ChoiceEdit, Value: book{3}, By: "ada", Comment: "less"}))
	if got.Err != nil || string(got.Result) != `"true true \"edit\" {3} \"ada\" \"less\""` {
		t.Errorf("got %s, %v", got.Result, got.Err)
	}
	got = workertest.Run(t, pay, book{}, workertest.Answered("another", workers.Answer[any]{Choice: workers.ChoiceReject}))
	if got.Err != nil || string(got.Result) != `"false false \"\" {0} \"\" \"\""` {
		t.Errorf("got %s, %v", got.Result, got.Err)
	}
}
