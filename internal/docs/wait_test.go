package docs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/workers"
	"github.com/streamwright/streamwright/workers/process"
)

// What docs/guides/WAITING.md and APPROVALS.md show is run.
func TestWaitExamples(t *testing.T) {
	m := script.FindStringSubmatch(read(t, "docs/guides/WAITING.md"))
	if m == nil {
		t.Fatal("docs/guides/WAITING.md has no script")
	}
	file := filepath.Join(t.TempDir(), "order.sh")
	if err := os.WriteFile(file, []byte(m[2]), 0o600); err != nil {
		t.Fatal(err)
	}
	r := newFlowRig(t, func(w *workers.Worker) {
		workers.HandleRaw(w, "order", order)
		workers.HandleRaw(w, "expense", expense)
		workers.HandleRaw(w, "charge", charge)
		workers.HandleRaw(w, "script", process.Handler([]string{"sh", file}))
	})
	early := r.submit("order", nil)
	for range 2 { // the message id makes it one signal
		if err := pay(r.ctx, r.c, early); err != nil {
			t.Fatal(err)
		}
	}
	r.wait(early, events.StateCompleted, "3")
	id := r.submit("script", nil)
	if err := pay(r.ctx, r.c, id); err != nil {
		t.Fatal(err)
	}
	r.wait(id, events.StateCompleted, "3")
	charged := r.submit("charge", nil)
	if err := r.c.PresentToken(r.ctx, <-asked, streamwright.TokenResult{Result: payment{Sum: 4}}); err != nil {
		t.Fatal(err)
	}
	r.wait(charged, events.StateCompleted, "4")
	for name, want := range map[string]string{"approved": `"paid out"`, "rejected": `"rejected by ada"`} {
		id := r.submit("expense", nil)
		if _, err := r.c.Signal(r.ctx, id, streamwright.Signal{Name: name, Payload: answer{By: "ada"}}); err != nil {
			t.Fatal(err)
		}
		r.wait(id, events.StateCompleted, want)
	}
}
