package workertest_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/workers"
	"github.com/streamwright/streamwright/workers/process"
	"github.com/streamwright/streamwright/workers/workertest"
)

type greeting struct{ Name string }

func greet(ctx context.Context, it *workers.Item[greeting]) (any, error) {
	it.Log(workers.LevelInfo, "greeting "+it.Params.Name)
	_, _ = it.Output().WriteString("hello ")
	_, _ = it.Output().WriteString(it.Params.Name)
	switch it.Params.Name {
	case "":
		return nil, workers.Permanent(workers.WithCode(errors.New("no name"), "no_name"))
	case "busy":
		return nil, workers.RetryAfter(errors.New("busy"), time.Minute)
	case "slow":
		<-ctx.Done()
		return nil, ctx.Err()
	case "panic":
		panic("oh")
	}
	return map[string]any{"text": "hello " + it.Params.Name, "attempt": it.Attempt, "k": it.Labels["k"]}, nil
}

func TestRun(t *testing.T) {
	got := workertest.Run(t, greet, greeting{"Ada"}, workertest.Attempt(3), workertest.Labels(map[string]string{"k": "v"}))
	var result struct {
		Text, K string
		Attempt int
	}
	got.Decode(t, &result)
	if result.Text != "hello Ada" || result.Attempt != 3 || result.K != "v" {
		t.Errorf("result %+v", result)
	}
	if len(got.Logs) != 1 || got.Logs[0].Message != "greeting Ada" || got.Logs[0].Level != "info" {
		t.Errorf("logs %+v", got.Logs)
	}
	if string(got.Output) != "hello Ada" {
		t.Errorf("output %q", got.Output)
	}
}

func TestRunFailures(t *testing.T) {
	for _, c := range []struct {
		params    any
		code      string
		retryable bool
		after     time.Duration
	}{
		{greeting{}, "no_name", false, 0},
		{greeting{"busy"}, events.FailError, true, time.Minute},
		{greeting{"slow"}, events.FailTimeout, true, 0},
		{greeting{"panic"}, events.FailPanic, true, 0},
		{json.RawMessage(`[]`), "bad_params", false, 0},
	} {
		timeout := time.Minute
		if c.code == events.FailTimeout {
			timeout = 10 * time.Millisecond
		}
		got := workertest.Run(t, greet, c.params, workertest.Timeout(timeout))
		if got.Err == nil || got.Code != c.code || got.Retryable != c.retryable || got.RetryAfter != c.after {
			t.Errorf("%v: %+v", c.params, got)
		}
	}
}

func TestRunUnderCancelledContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(workers.ErrCancelled)
	got := workertest.Run(t, func(ctx context.Context, _ *workers.Item[greeting]) (any, error) {
		return nil, context.Cause(ctx)
	}, greeting{}, workertest.Context(ctx))
	if !errors.Is(got.Err, workers.ErrCancelled) {
		t.Errorf("%+v", got)
	}
}

func TestRunRawChildProcess(t *testing.T) {
	got := workertest.RunRaw(t, process.Handler([]string{"cat"}), map[string]int{"n": 1})
	if string(got.Result) != `{"n":1}` {
		t.Errorf("%+v", got)
	}
}
