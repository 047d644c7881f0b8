package docs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sync/atomic"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/workers"
	"github.com/streamwright/streamwright/workers/process"
)

// What the examples of docs/guides/FLOW.md call; each fails once, or is not ready once.
var (
	errBusy  = errors.New("busy")
	polled   atomic.Int32
	imported atomic.Int32
)

func poll(context.Context, string) (ready bool, err error) {
	switch polled.Add(1) {
	case 1:
		return false, errBusy
	case 2:
		return false, nil
	}
	return true, nil
}

func importPage(_ context.Context, page int) error {
	if imported.Add(1) == 3 {
		return fmt.Errorf("page %d is torn", page)
	}
	return nil
}

// flowRig is an engine with a client and a worker.
type flowRig struct {
	t   *testing.T
	ctx context.Context
	c   *streamwright.Client
}

func newFlowRig(t *testing.T, handle func(w *workers.Worker)) *flowRig {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	e, err := embedded.Start(ctx, embedded.Options{Memory: true})
	if err != nil {
		t.Fatal(err)
	}
	c, err := e.Client(ctx)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := e.Connect()
	if err != nil {
		t.Fatal(err)
	}
	w, err := workers.New(nc, workers.Config{})
	if err != nil {
		t.Fatal(err)
	}
	handle(w)
	if err := w.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := w.Stop(context.Background())
		c.Close()
		nc.Close()
		if err := errors.Join(err, e.Stop(context.Background())); err != nil {
			t.Error(err)
		}
	})
	return &flowRig{t, ctx, c}
}

func (r *flowRig) submit(typ string, params any) string {
	r.t.Helper()
	s, err := r.c.Submit(r.ctx, streamwright.Item{Type: typ, Params: params})
	if err != nil {
		r.t.Fatal(err)
	}
	return s.ID
}

// wait waits for an item, which must end so.
func (r *flowRig) wait(id string, state events.ItemState, result string) streamwright.WorkItem {
	r.t.Helper()
	it, err := r.c.Wait(r.ctx, id)
	if err != nil || it.State != state || string(it.Result) != result {
		r.t.Fatalf("item %s (%s) ended %s with %s: %+v, %v", id, it.Type, it.State, it.Result, it.Error, err)
	}
	return it
}

func TestFlowExamples(t *testing.T) {
	need.Seconds(t)
	r := newFlowRig(t, func(w *workers.Worker) {
		workers.Handle(w, "extract", func(_ context.Context, it *workers.Item[string]) (any, error) {
			if it.Params == "atlantis" {
				return nil, workers.Permanent(errors.New("no such region"))
			}
			return len(it.Params), nil
		})
		workers.HandleRaw(w, "load", func(context.Context, *workers.RawItem) (any, error) { return "loaded", nil })
		workers.Handle(w, "report", makeReport)
		workers.Handle(w, "import", importPages)
		workers.Handle(w, "collect", collect)
		workers.HandleRaw(w, "check", func(context.Context, *workers.RawItem) (any, error) { return "checked", nil })
	})
	id, err := afterAnother(r.ctx, r.c)
	if err != nil {
		t.Fatal(err)
	}
	r.wait(id, events.StateCompleted, `"loaded"`)
	if id, err = fanOut(r.ctx, r.c, []string{"north", "atlantis"}); err != nil {
		t.Fatal(err)
	}
	r.wait(id, events.StateCompleted, `"loaded"`)
	r.wait(r.submit("report", report{[]string{"north", "atlantis", "east"}}), events.StateCompleted, "9")
	if it := r.wait(r.submit("import", map[string]int{"Pages": 5}), events.StateCompleted, "5"); it.Attempt != 2 || imported.Load() != 6 {
		t.Errorf("%d pages were imported in %d attempts: the checkpoint was not used", imported.Load(), it.Attempt)
	}
	if it := r.wait(r.submit("collect", "x"), events.StateCompleted, `"collected"`); it.Attempt != 2 || polled.Load() != 3 {
		t.Errorf("%d polls in %d attempts", polled.Load(), it.Attempt)
	}
	if id, err = before(r.ctx, r.c, time.Now().Add(200*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if it := r.wait(id, events.StateCancelled, ""); it.Reason != "expired" {
		t.Errorf("its reason is %q", it.Reason)
	}
	first, err := onceAnHour(r.ctx, r.c, "p")
	if err != nil {
		t.Fatal(err)
	}
	r.wait(first.ID, events.StateCompleted, `"checked"`)
	if again, err := onceAnHour(r.ctx, r.c, "p"); err != nil || again.MergedInto != first.ID {
		t.Errorf("a second check within the hour: %+v, %v", again, err)
	}
}

var script = regexp.MustCompile("(?s)<!-- script: (\\w+) -->\n```sh\n(.*?)\n```")

// What docs/guides/FLOW.md shows of shell is run.
func TestFlowScripts(t *testing.T) {
	need.Seconds(t)
	scripts := map[string]string{}
	for _, b := range script.FindAllStringSubmatch(read(t, "docs/guides/FLOW.md"), -1) {
		scripts[b[1]] = b[2]
	}
	dir := t.TempDir()
	t.Chdir(dir)
	r := newFlowRig(t, func(w *workers.Worker) {
		for typ, text := range scripts {
			file := filepath.Join(dir, typ+".sh")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			workers.HandleRaw(w, typ, process.Handler([]string{"sh", file}))
		}
		workers.HandleRaw(w, "extract", func(_ context.Context, it *workers.RawItem) (any, error) { return len(it.Raw), nil })
	})
	if len(scripts) != 3 {
		t.Fatalf("docs/guides/FLOW.md has the scripts %v", scripts)
	}
	it := r.wait(r.submit("report", nil), events.StateCompleted, "14")
	if it.Continuation != "join" || it.Children.Total != 2 {
		t.Errorf("got %+v", it.ItemFlow)
	}
	// The import fails at its third page once.
	r.program("import-page", `if [ "$1" = 2 ] && mkdir torn 2>/dev/null; then exit 1; fi`)
	if it := r.wait(r.submit("import", 5), events.StateCompleted, "5"); it.Attempt != 2 || it.Progress == nil {
		t.Errorf("got attempt %d, progress %v", it.Attempt, it.Progress)
	}
	r.program("fetch", "! mkdir busy 2>/dev/null")
	id := r.submit("collect", nil)
	for {
		it, err := r.c.Get(r.ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		if it.State == events.StateQueued && it.AvailableAt.After(time.Now()) {
			break // snoozed
		}
		if it.State.Terminal() {
			t.Fatalf("it ended %s: %+v", it.State, it.Error)
		}
	}
	if err := os.WriteFile("ready", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.c.Reschedule(r.ctx, id, streamwright.RescheduleOptions{Now: true}); err != nil {
		t.Fatal(err)
	}
	if it := r.wait(id, events.StateCompleted, `"collected"`); it.Attempt != 2 {
		t.Errorf("it took %d attempts: one fetch was to fail", it.Attempt)
	}
}

// program puts a shell script into the folder, which may be run.
func (r *flowRig) program(name, text string) {
	r.t.Helper()
	if err := os.WriteFile(name, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
		r.t.Fatal(err)
	}
}
