package acceptance

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/workers"
	"github.com/streamwright/streamwright/workers/workertest"
)

func TestFiveEnginesInOneProcess(t *testing.T) {
	var rigs []*rig
	for i := range 5 {
		begin := time.Now()
		r := inMemory(t, "")
		t.Logf("engine %d started in %v", i, time.Since(begin))
		r.worker(workers.Config{ID: "same-id"}, "job", func(context.Context, *workers.RawItem) (any, error) { return i, nil })
		rigs = append(rigs, r)
	}
	var ids []string
	for _, r := range rigs {
		ids = append(ids, r.submit(streamwright.Item{Type: "job"}))
	}
	for i, r := range rigs {
		if it := r.wait(ids[i], events.StateCompleted); string(it.Result) != strconv.Itoa(i) {
			t.Errorf("engine %d's item was run as %s", i, it.Result)
		}
		if n := must(r.c.Engine().Stats(r.ctx))(t).Types[0].States["completed"]; n != 1 {
			t.Errorf("engine %d has %d completed items", i, n)
		}
		r.verify()
	}
}

// The time is reported, not asserted.
func TestStartInMemory(t *testing.T) {
	for range 3 {
		begin := time.Now()
		e, err := embedded.Start(testContext(t), embedded.Options{Memory: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("started in %v", time.Since(begin))
		for range 2 {
			if err := e.Stop(testContext(t)); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestHandlerWithoutAServer(t *testing.T) {
	type sum struct{ A, B int }
	res := workertest.Run(t, func(_ context.Context, it *workers.Item[sum]) (any, error) {
		it.Log("info", "adding")
		return it.Params.A + it.Params.B, nil
	}, sum{2, 3})
	var got int
	if res.Decode(t, &got); got != 5 {
		t.Errorf("got %d", got)
	}
}
