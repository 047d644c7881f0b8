package acceptance

import (
	"context"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/workers"
)

// Items that are due at moments close to each other all start, none before its
// time, also when the one that is due first was submitted last.
func TestDueItemsStartInTime(t *testing.T) {
	r := inMemory(t, "")
	const n = 300
	first := time.Now().Add(500 * time.Millisecond)
	items := make([]streamwright.Item, n)
	due := map[string]time.Time{}
	for i := range items {
		items[i] = streamwright.Item{Type: "job", AvailableAt: first.Add(time.Duration(n-i) * time.Millisecond)}
	}
	started := make(chan string, n)
	r.worker(workers.Config{Concurrency: 10}, "job", func(_ context.Context, it *workers.RawItem) (any, error) {
		started <- it.ID.String()
		return nil, nil
	})
	for i, s := range must(r.c.SubmitMany(r.ctx, items))(t) {
		due[s.ID] = items[i].AvailableAt
	}
	latest := time.Duration(0)
	for range n {
		late := time.Since(due[recv(t, "a start", started)])
		if late < 0 {
			t.Errorf("an item started %s before its time", -late)
		}
		latest = max(latest, late)
	}
	t.Logf("the latest start was %s after its time", latest)
}
