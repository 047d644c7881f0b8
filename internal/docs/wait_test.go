package docs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/workers"
	"github.com/streamwright/streamwright/workers/process"
)

// What docs/guides/WAITING.md and APPROVALS.md show is run.
func TestWaitExamples(t *testing.T) {
	scriptOf := func(doc string) string {
		m := script.FindStringSubmatch(read(t, doc))
		if m == nil {
			t.Fatal(doc + " has no script")
		}
		file := filepath.Join(t.TempDir(), "script.sh")
		if err := os.WriteFile(file, []byte(m[2]), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	file, asks := scriptOf("docs/guides/WAITING.md"), scriptOf("docs/guides/APPROVALS.md")
	r := newFlowRig(t, func(w *workers.Worker) {
		workers.HandleRaw(w, "order", order)
		workers.HandleRaw(w, "expense", expense)
		workers.HandleRaw(w, "charge", charge)
		workers.HandleRaw(w, "asks", process.Handler([]string{"sh", asks}))
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
	for want, a := range map[string]streamwright.Answer{
		`"paid 80, approved by bob"`:    {Choice: "approve", By: "bob"},
		`"paid 40, approved by bob"`:    {Choice: "edit", Value: cost{Sum: 40}, By: "bob"},
		`"rejected by bob: no receipt"`: {Choice: "reject", Comment: "no receipt", By: "bob"},
	} {
		id := r.submit("expense", nil)
		r.answer(id, a)
		r.wait(id, events.StateCompleted, want)
	}
	asked := r.submit("asks", nil)
	r.answer(asked, streamwright.Answer{Choice: "approve", By: "bob"})
	r.wait(asked, events.StateCompleted, `"approve"`)
}

// answer answers what an item asks, once it does.
func (r *flowRig) answer(id string, a streamwright.Answer) {
	r.t.Helper()
	need.Eventually(r.t, "the question to be asked", func() bool {
		_, err := r.c.Answer(r.ctx, id, a)
		if code := streamwright.CodeOf(err); err != nil && code != events.CodeNotFound && code != events.CodeWrongState {
			r.t.Fatal(err)
		}
		return err == nil
	})
}
