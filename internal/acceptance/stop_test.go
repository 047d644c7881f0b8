package acceptance

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/workers"
)

// `engine work` that is asked to stop finishes what runs and hands back the
// rest; what it can't finish in time is handed back too, with no attempt used.
func TestWorkStopsInGoodOrder(t *testing.T) {
	dir := t.TempDir()
	s := serve(t, "[types.job]\nlease = \"20s\"\n")
	script := fmt.Sprintf(`read n; n=$(echo $n | tr -d '"'); echo $$ > %[1]s/$n; while [ ! -e %[1]s/go-$n ]; do sleep 0.02; done; echo '"by first"'`, dir)
	first := begin(t, s.url(), "work", "job", "--id", "first", "--concurrency", "2", "--drain-timeout", "20s", "--", "sh", "-c", script)
	finishes := s.submit(streamwright.Item{Type: "job", Params: "a"})
	pidIn(t, filepath.Join(dir, "a"))
	also := s.submit(streamwright.Item{Type: "job", Params: "b"})
	pidIn(t, filepath.Join(dir, "b"))
	var rest []string
	for i := range 6 {
		rest = append(rest, s.submit(streamwright.Item{Type: "job", Params: fmt.Sprint("rest", i)}))
	}
	// An operator drains it: no more is taken.
	cli(t, s.url(), "workers", "drain", "first").wants(t, 0, "first is draining")
	eventually(t, "it is seen draining", func() bool {
		ws := must(s.c.Workers().List(s.ctx))(t)
		return len(ws) == 1 && ws[0].Status == "draining"
	})
	begin(t, s.url(), "work", "job", "--id", "second", "--", "echo", `"by second"`)
	for _, id := range rest {
		if it := s.wait(id, events.StateCompleted); it.Worker != "second" || it.Attempt != 1 {
			t.Errorf("got %+v", it)
		}
	}
	for _, n := range []string{"a", "b"} {
		touch(t, filepath.Join(dir, "go-"+n))
	}
	for _, id := range []string{finishes, also} {
		if it := s.wait(id, events.StateCompleted); it.Worker != "first" || it.Attempt != 1 || string(it.Result) != `"by first"` {
			t.Errorf("got %+v", it)
		}
	}
	if code := first.ended(); code != 0 { // by itself, once drained
		t.Errorf("exit code %d", code)
	}

	// One that may not wait hands back what runs.
	third := begin(t, s.url(), "work", "slow", "--id", "third", "--drain-timeout", "100ms", "--", "sleep", "1000")
	id := s.submit(streamwright.Item{Type: "slow"})
	s.until(id, events.StateRunning)
	if code := third.end(); code > 1 {
		t.Errorf("exit code %d", code)
	}
	begin(t, s.url(), "work", "slow", "--id", "fourth", "--", "cat")
	if it := s.wait(id, events.StateCompleted); it.Worker != "fourth" || it.Attempt != 1 {
		t.Errorf("got %+v: %v", it, s.kinds(id))
	}
	s.verify()
}

// `engine serve` that is asked to stop under load loses nothing, and neither
// workers nor submitters have to be told.
func TestServeStopsInGoodOrderUnderLoad(t *testing.T) {
	t.Parallel()
	s := serve(t, "[types.job]\nlease = \"2s\"\nmax_attempts = 100\nbackoff = {initial = \"10ms\", max = \"50ms\"}\n")
	w := must(workers.New(s.nc, workers.Config{ID: "w", Concurrency: 8, Logger: logTo(s.log)}))(t)
	workers.HandleRaw(w, "job", func(ctx context.Context, _ *workers.RawItem) (any, error) {
		select {
		case <-time.After(time.Millisecond):
			return "done", nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	})
	if err := w.Start(s.ctx); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Stop(s.ctx) }()
	l := s.load("job", 0)
	for range 3 {
		l.more(t, 200)
		if code := s.p.end(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		s.begin()
	}
	l.more(t, 200)
	ids := l.end(t)
	for _, id := range ids {
		s.wait(id, events.StateCompleted)
	}
	s.completedOnce(ids)
	s.verify()
	t.Logf("%d items over 3 stops", len(ids))
}
