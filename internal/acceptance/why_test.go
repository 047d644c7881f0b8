package acceptance

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/workers"
)

// reasons are the codes of why an item is not running.
func (r *rig) reasons(id string) (codes []string) {
	r.t.Helper()
	for _, o := range must(r.c.Why(r.ctx, id))(r.t).Reasons {
		codes = append(codes, o.Code)
	}
	return codes
}

// because waits until these are the reasons: what the dispatcher knows follows
// a moment later.
func (r *rig) because(id string, want ...string) streamwright.Explanation {
	r.t.Helper()
	var got []string
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if got = r.reasons(id); slices.Equal(got, want) {
			return must(r.c.Why(r.ctx, id))(r.t)
		}
	}
	r.t.Fatalf("why: %q, want %q", got, want)
	panic("unreachable")
}

func TestWhy(t *testing.T) {
	r := inMemory(t, "[types.job]\ncapacity = 2\nbackoff = { initial = \"1h\", max = \"2h\" }\n")
	first := r.submit(streamwright.Item{Type: "job"})
	r.because(first, events.WhyNoWorker)
	second := r.submit(streamwright.Item{Type: "job"})
	if w := r.because(second, events.WhyNoWorker, events.WhyBehind); w.Reasons[1].Ahead != 1 {
		t.Errorf("%+v", w)
	}
	third := r.submit(streamwright.Item{Type: "job", Priority: 9})
	r.because(third, events.WhyNoWorker)
	later := r.submit(streamwright.Item{Type: "job", Delay: time.Hour})
	if w := r.because(later, events.WhyNotDue, events.WhyNoWorker); time.Until(w.Reasons[0].Until) < 50*time.Minute {
		t.Errorf("%+v", w)
	}

	started, finish := make(chan string, 10), make(chan error)
	end := sync.OnceFunc(func() { close(finish) })
	defer end()
	w := r.worker(workers.Config{Concurrency: 3}, "job", func(ctx context.Context, it *workers.RawItem) (any, error) {
		started <- it.ID.String()
		return nil, <-finish
	})
	if running := []string{recv(t, "a start", started), recv(t, "a second start", started)}; !slices.Contains(running, first) || !slices.Contains(running, third) {
		t.Errorf("%q have started", running)
	}
	r.because(third, events.WhyRunning)
	r.because(second, events.WhyTypeFull)
	gpu := r.submit(streamwright.Item{Type: "job", Capabilities: []string{"gpu"}})
	r.because(gpu, events.WhyNoCapable, events.WhyTypeFull)

	finish <- errors.New("no such luck")
	failed := ""
	eventually(t, "one has failed", func() bool {
		for _, id := range []string{first, third} {
			if it := r.get(id); it.Error != nil {
				failed = id
			}
		}
		return failed != ""
	})
	if why := must(r.c.Why(r.ctx, failed))(t); why.Reasons[0].Code != events.WhyBackingOff || why.Reasons[0].Until.IsZero() {
		t.Errorf("%+v", why)
	}
	end()
	if err := w.Stop(r.ctx); err != nil {
		t.Fatal(err)
	}
	r.because(gpu, events.WhyNoWorker)
	done := r.submit(streamwright.Item{Type: "other", Delay: time.Hour})
	if _, _, err := r.c.Cancel(r.ctx, done, "enough"); err != nil {
		t.Fatal(err)
	}
	r.because(done, events.WhyEnded)
	if _, err := r.c.Why(r.ctx, "01JD3V6YB2M4C9W8ZK5T7QXRNE"); !errors.Is(err, &events.Error{Code: events.CodeNotFound}) {
		t.Errorf("of an unknown item: %v", err)
	}
}

// Of a type that is held back as a whole, why says by what.
func TestWhyHeldBack(t *testing.T) {
	r := inMemory(t, "[types.job]\nmax_attempts = 9\nbackoff = { initial = \"0s\" }\ncircuit = { consecutive = 2, cooldown = \"1h\", max_cooldown = \"2h\" }\n")
	if _, err := r.c.Types().Pause(r.ctx, "job", streamwright.PauseOptions{Reason: "rest"}); err != nil {
		t.Fatal(err)
	}
	id := r.submit(streamwright.Item{Type: "job"})
	r.because(id, events.WhyPaused, events.WhyNoWorker)
	r.worker(workers.Config{}, "job", func(context.Context, *workers.RawItem) (any, error) { return nil, errors.New("no such luck") })
	r.because(id, events.WhyPaused)
	if _, err := r.c.Types().Resume(r.ctx, "job"); err != nil {
		t.Fatal(err)
	}
	if w := r.because(id, events.WhyCircuit); time.Until(w.Reasons[0].Until) < 50*time.Minute {
		t.Errorf("%+v", w)
	}
	r.verify()
}
