package dispatcher

import (
	"testing"
	"time"

	"github.com/streamwright/streamwright/wire"
)

// A worker that falls silent is shown as dead, and its id is free for another.
func TestASilentWorkerDies(t *testing.T) {
	shown := make(chan wire.WorkerStatus, 1000)
	h := newHarness(t, func(c *Config) {
		c.Gone = 300 * time.Millisecond
		c.Hooks.Workers = func(list []wire.WorkerInfo) {
			for _, w := range list {
				shown <- w.Status
			}
		}
	})
	first := h.register("w1", 1, "email")
	for status := wire.WorkerStatus(""); status != wire.WorkerDead; {
		select {
		case status = <-shown:
		case <-time.After(patience):
			t.Fatal("nobody is told of its death")
		}
	}
	if w := h.eng.Workers(); len(w) != 1 || w[0].Status != wire.WorkerDead || w[0].DiedAt.Sub(w[0].LastSeen) < 300*time.Millisecond {
		t.Fatalf("%+v", w)
	}
	delete(h.sessions, "w1")
	if second := h.register("w1", 1, "email"); second.Session == first.Session {
		t.Fatal("the same session")
	}
	if w := h.eng.Workers(); len(w) != 1 || w[0].Status == "" || w[0].Session == first.Session {
		t.Fatalf("%+v", w)
	}
}
