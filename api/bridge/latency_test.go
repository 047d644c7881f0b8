package bridge_test

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

// From the submission of an item to the return of a poll that waits for it. The
// bound is far beyond what it takes.
func TestLatencyOfAWaitingPoll(t *testing.T) {
	slow(t)
	e := startEngine(t, embedded.Options{})
	w := e.worker(t, wire.WorkerRegistration{Types: []string{"step"}, Slots: 1})
	const rounds = 100
	took := make([]time.Duration, 0, rounds)
	for range rounds {
		type arrival struct {
			out wire.Polled
			at  time.Time
			err error
		}
		got := make(chan arrival, 1)
		go func() {
			var a arrival
			_, _, a.err = e.ask(context.Background(), http.MethodPost, w.path("poll"), wire.Poll{Session: w.session}, &a.out)
			a.at = time.Now()
			got <- a
		}()
		need.Eventually(t, "the poll is open", func() bool { return e.waiting(t, "step") == 1 })
		began := time.Now()
		e.submit(t, "step", `{}`)
		a := <-got
		if a.err != nil || len(a.out.Items) != 1 {
			t.Fatalf("polled %+v %v", a.out, a.err)
		}
		took = append(took, a.at.Sub(began))
		w.ok(complete(a.out.Items[0], `1`))
	}
	slices.Sort(took)
	t.Logf("submit to a poll's return: p50 %s, p95 %s", took[rounds/2], took[rounds*95/100])
	if took[rounds/2] > 500*time.Millisecond {
		t.Errorf("half of the items took longer than %s", took[rounds/2])
	}
}
