package embedded

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server/ats"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

// idleCase names, in a process of its own, the case of TestIdleWorkersLive to run.
const idleCase = "STREAMWRIGHT_TEST_IDLE"

// TestIdleWorkersLive leaves many workers without work for ten minutes of a synctest bubble:
// none of them is taken for dead, and a burst then starts on every one of them. The NATS
// client keeps channels for reuse, which can't go from one bubble to another, nor out of it:
// so each case has a process.
func TestIdleWorkersLive(t *testing.T) {
	slow(t)
	if c := os.Getenv(idleCase); c != "" {
		n, err := strconv.Atoi(c)
		if err != nil {
			t.Fatal(err)
		}
		ats.Register() // the server's goroutine for access times, which must not belong to the bubble
		defer ats.Unregister()
		synctest.Test(t, func(t *testing.T) { idleWorkersLive(t, n) })
		return
	}
	t.Parallel()
	for _, n := range []int{50, 100, 500, 1000} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestIdleWorkersLive$")
			cmd.Env = append(os.Environ(), idleCase+"="+strconv.Itoa(n))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out[:min(len(out), 8<<10)])
			}
		})
	}
}

func idleWorkersLive(t *testing.T, n int) {
	const idle, perConn = 10 * time.Minute, 50
	defer time.Sleep(time.Second) // the NATS client looks each 100 ms whether a subscription is drained
	e, err := Start(t.Context(), secured(t, Options{Memory: true}))
	if err != nil {
		t.Fatal(err)
	}
	defer stopEngine(t, e)
	began, release := make(chan events.WorkerID, n), make(chan struct{})
	var stops []func()
	defer func() {
		for _, stop := range stops {
			stop()
		}
	}()
	for len(stops) < n {
		nc, err := e.Connect()
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		for range min(perConn, n-len(stops)) {
			w, err := workers.New(nc, workers.Config{ID: events.WorkerID(fmt.Sprintf("w%d", len(stops))), Names: e.clientNames(), Concurrency: 1, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			workers.HandleRaw(w, "email", func(context.Context, *workers.RawItem) (any, error) {
				began <- w.ID()
				<-release
				return nil, nil
			})
			if err := w.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			stops = append(stops, func() { _ = w.Stop(context.Background()) })
		}
	}

	died := map[string]bool{}
	for end := time.Now().Add(idle); time.Now().Before(end); time.Sleep(10 * time.Second) {
		for _, w := range e.decider.dispatcher.Workers() {
			if w.Status == wire.WorkerDead {
				died[w.Worker] = true
			}
		}
	}
	if len(died) > 0 {
		t.Errorf("%d of %d idle workers were taken for dead", len(died), n)
	}

	c, err := e.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	list := make([]streamwright.Item, n)
	for i := range list {
		list[i] = streamwright.Item{Type: "email", Params: i}
	}
	if _, err := c.SubmitMany(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	started, late := map[events.WorkerID]bool{}, time.After(250*time.Millisecond)
burst:
	for len(started) < n {
		select {
		case w := <-began:
			started[w] = true
		case <-late:
			break burst
		}
	}
	close(release)
	if len(started) < n {
		t.Errorf("%d of %d workers have started an item of the burst within 250 ms", len(started), n)
	}
}
