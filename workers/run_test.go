package workers_test

import (
	"slices"
	"testing"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/workers"
)

// Goroutines run one handler after the other. No more wait than are allowed, and none that is
// needed does; with Stop they end, which TestMain checks.
func TestGoroutinesAreUsedAgain(t *testing.T) {
	const more = 10
	r := newRig(t)
	b := newBlocker()
	w := r.work(workers.Config{Concurrency: workers.MaxIdle + more}, "wait", b.run)
	for _, n := range []int{workers.MaxIdle + more, more, 1} {
		idle := w.Idle()
		if _, err := r.c.SubmitMany(t.Context(), slices.Repeat([]streamwright.Item{{Type: "wait"}}, n)); err != nil {
			t.Fatal(err)
		}
		for range n {
			recv(t, "a run", b.begun)
		}
		if got := w.Idle(); idle > 0 && got >= idle {
			t.Errorf("%d goroutines wait beside %d runs, of %d", got, n, idle)
		}
		for range n {
			b.release <- struct{}{}
		}
		need.Eventually(t, "the goroutines that wait", func() bool { return w.Idle() == workers.MaxIdle })
	}
}
