package pagetest

import (
	"context"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/workers"
)

// Bounds of what a page may hold and how long it may not answer, however much
// happens. The gap is generous: browser, engine and workers share the machine.
const (
	maxNodes = 4000
	maxGap   = 1500 // ms between two frames
)

func TestThePageStaysQuickUnderLoad(t *testing.T) {
	w := start(t)
	w.worker("w-1", 32, map[string]workers.Handler{"tick": func(_ context.Context, it *workers.RawItem) (any, error) { return nil, nil }})
	const all = 4000
	for _, hash := range []string{"#/", "#/work?type=tick"} {
		t.Run(hash, func(t *testing.T) {
			p := open(t, desktop, w.url+hash)
			p.see(".connection", "live")
			p.eval(`(() => { window.gap = 0; let last = performance.now(); const f = (now) => { window.gap = Math.max(window.gap, now - last); last = now; requestAnimationFrame(f); }; requestAnimationFrame(f); })()`, nil)
			began := time.Now()
			items := make([]streamwright.Item, all)
			for i := range items {
				items[i] = itemOf("tick")
			}
			subs, err := w.client.SubmitMany(w.ctx, items)
			if err != nil {
				t.Fatal(err)
			}
			w.await(subs[all-1].ID, events.StateCompleted)
			took := time.Since(began)
			var seen struct{ Nodes, Gap float64 }
			p.eval(`({ Nodes: document.querySelectorAll('*').length, Gap: Math.round(window.gap) })`, &seen)
			t.Logf("%d events in %v: %.0f elements, the longest gap between two frames was %.0f ms", all*5, took.Round(time.Millisecond), seen.Nodes, seen.Gap)
			if seen.Nodes > maxNodes || seen.Gap > maxGap {
				t.Errorf("at most %d elements and %d ms are allowed", maxNodes, maxGap)
			}
			p.press("g", "o")
			p.see("h1", "Overview")
			p.see(`[data-tile="queued"] .tile-value`, "0")
		})
	}
}
